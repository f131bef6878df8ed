"""What is run: models, numbers of clients, and how many tokens each client asks for."""

import dataclasses
import pathlib
import subprocess

from bench import gguf_file, shape

CLIENTS = (1, 2, 4, 8, 16, 30, 64)
FORMAT_CLIENTS = (1, 30, 64)  # where other number formats are measured too
PROMPT_TOKENS = 32
FILE_FORMATS = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 15: "q4_k_m", 32: "bf16"}


@dataclasses.dataclass(frozen=True)
class Model:
    """`key` is what --models takes. Tokens of a client: a share of `round_tokens`, within bounds
    so that a round of a slow server takes some seconds."""

    key: str
    title: str
    round_tokens: int
    most_tokens: int
    least_tokens: int
    file: str = ""  # below models/; empty: random weights, made when they are needed
    luna_formats: tuple[str, ...] = ()  # measured besides the default
    peer_formats: tuple[str, ...] = ()  # made by the peer's own tool

    def tokens(self, clients: int) -> int:
        return max(self.least_tokens, min(self.most_tokens, self.round_tokens // clients))

    def with_tokens(self, tokens: int) -> "Model":
        """The same with so many for each client, however many there are."""
        return dataclasses.replace(self, most_tokens=tokens, least_tokens=tokens)


MODELS = (
    Model("luna", "Random weights in Luna's shape", round_tokens=6000, most_tokens=200,
          least_tokens=64, luna_formats=("f32", "bf16"),
          peer_formats=("bf16", "f16", "q8_0", "q4_0")),
    Model("smollm2", "SmolLM2-135M-Instruct, Q4_1", round_tokens=1200, most_tokens=60,
          least_tokens=16, file="smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf"),
    Model("gemma3", "Gemma 3 270M, Q4_K_M", round_tokens=600, most_tokens=40, least_tokens=10,
          file="gemma3-270m/gemma-3-270m-q4_k_m.gguf"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Found:
    """A model that is here."""

    model: Model
    path: pathlib.Path
    shape: shape.Shape
    format: str  # of the file


def file_format(path: pathlib.Path) -> str:
    number = gguf_file.read_header(path).fields.get("general.file_type")
    return FILE_FORMATS.get(number, f"type {number}")


def find(model: Model, models: pathlib.Path, made: pathlib.Path) -> Found | None:
    """None where the file is not there. Random weights are made below `made`."""
    path = models / model.file if model.file else made / f"{model.key}-f32.gguf"
    if not path.exists() and not model.file:
        from bench import random_gguf  # numpy is wanted for this alone

        random_gguf.make(path)
    if not path.exists():
        return None
    return Found(model, path, shape.of_file(path), file_format(path))


def quantizer_of(peer: str) -> pathlib.Path | None:
    """The peer's tool beside it, links followed."""
    path = pathlib.Path(peer).resolve().parent / "llama-quantize"
    return path if path.exists() else None


def quantized(found: Found, format_name: str, quantizer: pathlib.Path,
              made: pathlib.Path) -> pathlib.Path | None:  # fmt: skip
    """The model's file in another format; None where the peer's tool refuses."""
    path = made / f"{found.model.key}-{format_name}.gguf"
    if path.exists() and path.stat().st_mtime >= found.path.stat().st_mtime:
        return path
    unfinished = path.with_suffix(".unfinished")
    command = [str(quantizer), str(found.path), str(unfinished), format_name.upper()]
    if subprocess.run(command, capture_output=True).returncode != 0:
        return None
    unfinished.replace(path)
    return path


def needed_context(found: Found, clients: int) -> int:
    """Tokens a client's cache must hold, in the peer's steps of 256."""
    tokens = PROMPT_TOKENS + found.model.tokens(clients) + 8
    return min(found.shape.context, (tokens + 255) // 256 * 256)


def mean_cached(found: Found, clients: int) -> float:
    """Tokens cached for each client, on average over the steps of its answer."""
    return PROMPT_TOKENS + found.model.tokens(clients) / 2

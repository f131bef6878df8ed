"""What all sections share: where things are, what runs them, which models there are."""

import argparse
import dataclasses
import json
import os
import pathlib

from gpu_check.commands import Commands
from gpu_check.sections import Deadline, Failure, Unavailable

FORMATS = ("f32", "bf16", "int8")
SERIAL = {"LUNA_CUDA_SERIAL": "1"}  # kernels do not overlap: see runtime/cuda_device.cc
# Keys and values beside weights, as they are measured.
KV = {"f32": "f32", "bf16": "bf16", "int8": "bf16"}
SMOLLM2 = "models/smollm2-135m"


@dataclasses.dataclass(frozen=True)
class Model:
    key: str
    path: str  # as programs take it

    @property
    def title(self) -> str:
        return {"luna": "Luna's shape", "smollm2": "SmolLM2-135M"}.get(self.key, self.key)


class House:
    def __init__(self, options: argparse.Namespace, root: pathlib.Path):
        self.options = options
        self.root = root
        self.binaries: pathlib.Path = options.binaries
        self.commands = Commands(root, options.out / "log.txt")
        self.scratch: pathlib.Path = options.scratch  # for files that nobody wants afterwards
        # For programs that are not ours: use_packed adds to it.
        self.system_libraries = os.environ.get("LD_LIBRARY_PATH", "")
        self.built = True  # false: what is in `binaries` is older than the sources
        self.device: dict = {}
        self.versions: dict = {}

    def program(self, name: str) -> pathlib.Path:
        path = self.binaries / name
        if not self.built or not path.exists():
            raise Unavailable(f"{name} was not built")
        return path

    def run_json(self, name: str, arguments: list[str], deadline: Deadline,
                 env: dict[str, str] | None = None) -> dict:  # fmt: skip
        """Of a program that writes --json."""
        out = self.scratch / f"{name}.json"
        out.unlink(missing_ok=True)
        self.commands.must([str(self.program(name)), *arguments, "--json", str(out)],
                           deadline.left(), env)  # fmt: skip
        try:
            return json.loads(out.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Failure(f"{name} left no figures: {error}") from error

    def smollm2(self) -> Model:
        """The real file, or random weights in its shape."""
        there = any((self.root / SMOLLM2).glob("*.gguf"))
        return Model("smollm2", SMOLLM2 if there else "dummy:smollm2-135m")

    def shapes(self) -> list[Model]:
        """Those whose speed is measured."""
        return [Model("luna", "dummy:luna"), self.smollm2()]

    def texts(self) -> list[Model]:
        """Those whose words are compared."""
        models = [Model("luna-tiny", "models/luna-tiny"), Model("luna", "dummy:luna")]
        smollm2 = self.smollm2()
        return models + ([smollm2] if smollm2.path == SMOLLM2 else [])


def cores() -> int:
    return len(os.sched_getaffinity(0))

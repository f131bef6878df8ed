"""A GGUF file of random weights in Luna's shape, for any server that reads GPT-2 models.

GPT-2, 8 layers, width 512, 8 heads, context 512, vocabulary 4096, f32: the shape of `dummy:luna`.
The weights are other random numbers, the same ones every time.

    tools/bench/random_gguf.py OUT.gguf
"""

import pathlib
import sys
from collections.abc import Iterator

import numpy

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bench import gguf_file

LAYERS, WIDTH, HEADS, CONTEXT, VOCAB = 8, 512, 8, 512, 4096
INNER = 4 * WIDTH
LETTERS = "abcdefghijklmnopqrstuvwxyz"
NORMAL, CONTROL = 1, 3
# Layers outweigh the embedding in the residual stream, or the tied head would only repeat its
# input.
EMBEDDING_DEVIATION = 0.08
BIAS_DEVIATION = 0.02


def byte_spellings() -> list[str]:
    """How byte-level BPE spells each byte: printable ones as they are, the others from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {byte: chr(byte) for byte in printable}
    spelled.update({byte: chr(256 + i) for i, byte in enumerate(others)})
    return [spelled[byte] for byte in range(256)]


def vocabulary() -> tuple[list[str], list[str]]:
    """(tokens, merges): bytes, pairs of letters, those behind a space, pairs of pairs, the end."""
    spellings = byte_spellings()
    space = spellings[ord(" ")]
    pairs = [a + b for a in LETTERS for b in LETTERS]
    merges = [f"{pair[0]} {pair[1]}" for pair in pairs]
    merges += [f"{space} {pair}" for pair in pairs]
    merges += [f"{a} {b}" for a in pairs for b in pairs[:4]]
    merges = merges[: VOCAB - 1 - len(spellings)]
    words = [merge.replace(" ", "") for merge in merges]
    return [*spellings, *words, "<|endoftext|>"], merges


def fields() -> dict[str, object]:
    tokens, merges = vocabulary()
    return {
        "general.architecture": "gpt2",
        "general.name": "random weights in Luna's shape",
        "general.file_type": 0,
        "gpt2.context_length": CONTEXT,
        "gpt2.embedding_length": WIDTH,
        "gpt2.feed_forward_length": INNER,
        "gpt2.block_count": LAYERS,
        "gpt2.attention.head_count": HEADS,
        "gpt2.attention.layer_norm_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [NORMAL] * (VOCAB - 1) + [CONTROL],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": VOCAB - 1,
        "tokenizer.ggml.eos_token_id": VOCAB - 1,
    }


def tensors() -> Iterator[tuple[str, numpy.ndarray]]:
    random = numpy.random.default_rng(1)

    def matrix(rows: int, columns: int, deviation: float) -> numpy.ndarray:
        return random.standard_normal((rows, columns), numpy.float32) * numpy.float32(deviation)

    def linear(name: str, rows: int, columns: int):
        yield f"{name}.weight", matrix(rows, columns, columns**-0.5)
        yield f"{name}.bias", matrix(1, rows, BIAS_DEVIATION)[0]

    def norm(name: str):
        yield f"{name}.weight", 1 + matrix(1, WIDTH, 0.05)[0]
        yield f"{name}.bias", matrix(1, WIDTH, BIAS_DEVIATION)[0]

    embedding = matrix(VOCAB, WIDTH, EMBEDDING_DEVIATION)
    # A greedy answer never holds a part of a character, which servers hold back, nor the end: the
    # head is tied, and with rows of zeros these tokens are never the likeliest.
    embedding[128:256] = 0
    embedding[VOCAB - 1] = 0
    yield "token_embd.weight", embedding
    yield "position_embd.weight", matrix(CONTEXT, WIDTH, EMBEDDING_DEVIATION)
    for layer in range(LAYERS):
        prefix = f"blk.{layer}."
        yield from norm(prefix + "attn_norm")
        yield from linear(prefix + "attn_qkv", 3 * WIDTH, WIDTH)
        yield from linear(prefix + "attn_output", WIDTH, WIDTH)
        yield from norm(prefix + "ffn_norm")
        yield from linear(prefix + "ffn_up", INNER, WIDTH)
        yield from linear(prefix + "ffn_down", WIDTH, INNER)
    yield from norm("output_norm")


def make(path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    encoded = ((name, data.shape[::-1], numpy.ascontiguousarray(data, "<f4").tobytes())
               for name, data in tensors())  # fmt: skip
    gguf_file.write(path, fields(), encoded)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    make(pathlib.Path(sys.argv[1]))

#!/usr/bin/env python3
"""Makes tests/model/golden/dequantize.bin: blocks of every tensor type Luna reads, with the f32 values
the `gguf` package gives for them. Needs the PyPI packages gguf and numpy.

    tools/make_gguf_golden.py

The file: for each type, its name (8 bytes, zero padded), the number of blocks (u32), of bytes (u32),
of values (u32), the blocks' bytes, the values as f32. Little-endian.
"""

import argparse
import pathlib
import struct

import gguf
import numpy as np
from gguf.quants import dequantize

SEED = 20240229
# Where a block holds its f16 scales and minimums.
HALF_OFFSETS = {
    "F16": (0,),
    "Q8_0": (0,),
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}
BLOCKS = {"F32": 256, "F16": 2048, "BF16": 1024, "Q4_K": 12, "Q5_K": 12, "Q6_K": 12}
# Zero, both signs, smallest and largest subnormal, smallest normal, one, largest: as f16 bits.
EDGE_HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]


def finite_halves(rng: np.random.Generator, count: int) -> np.ndarray:
    """f16 bit patterns over the whole finite range, the edges among them."""
    bits = rng.integers(0, 1 << 16, count, dtype=np.uint16)
    bits = np.where((bits & 0x7C00) == 0x7C00, bits & 0xBFFF, bits).astype(np.uint16)
    edges = np.array(EDGE_HALVES, dtype=np.uint16)[:count]
    bits[: len(edges)] = edges
    return rng.permutation(bits)


def random_blocks(rng: np.random.Generator, name: str, block_bytes: int) -> np.ndarray:
    count = BLOCKS.get(name, 24)
    blocks = rng.integers(0, 256, (count, block_bytes), dtype=np.uint8)
    if name == "F32":
        blocks = rng.standard_normal(count).astype("<f4").view(np.uint8).reshape(count, 4)
    if name == "BF16":
        bits = rng.integers(0, 1 << 16, count, dtype=np.uint16)
        bits = np.where((bits & 0x7F80) == 0x7F80, bits & 0xBFFF, bits).astype("<u2")
        blocks = bits.view(np.uint8).reshape(count, 2)
    for offset in HALF_OFFSETS.get(name, ()):
        halves = finite_halves(rng, count).astype("<u2")
        blocks[:, offset : offset + 2] = halves.view(np.uint8).reshape(count, 2)
    return np.ascontiguousarray(blocks)


def main() -> None:
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = root / "tests/model/golden/dequantize.bin"
    parser.add_argument("--out", type=pathlib.Path, default=default)
    arguments = parser.parse_args()
    rng = np.random.default_rng(SEED)
    with arguments.out.open("wb") as out:
        for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"):
            kind = gguf.GGMLQuantizationType[name]
            block_values, block_bytes = gguf.GGML_QUANT_SIZES[kind]
            blocks = random_blocks(rng, name, block_bytes)
            data = blocks.reshape(-1)
            if name in ("F32", "F16"):
                data = data.view("<f4" if name == "F32" else "<f2")
            values = dequantize(data, kind).astype("<f4").reshape(-1)
            assert values.size == blocks.shape[0] * block_values, name
            assert np.isfinite(values).all(), name
            out.write(struct.pack("<8sIII", name.encode(), blocks.shape[0], blocks.size, values.size))
            out.write(blocks.tobytes())
            out.write(values.tobytes())


if __name__ == "__main__":
    main()

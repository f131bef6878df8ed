"""GGUF files: what the header says, and writing one. Format version 3, little-endian.

The layout is documented with the ggml project ("GGUF", docs/gguf.md).
"""

import dataclasses
import math
import pathlib
import struct
from collections.abc import Iterable
from typing import BinaryIO

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = 32
F32 = 0  # the tensor type

# Scalar types by number: struct code and size.
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q",
           11: "<q", 12: "<d"}  # fmt: skip
U32, I32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9

# Values and bytes of a block of each tensor type that the benchmarked files hold.
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
          10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
          30: (1, 2)}  # fmt: skip


class GgufError(Exception):
    """A file that cannot be read, with its name."""


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    name: str
    shape: tuple[int, ...]  # the fastest dimension first
    type: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        if self.type not in BLOCKS:
            raise GgufError(f"{self.name}: tensor type {self.type} is unknown here")
        values, block_bytes = BLOCKS[self.type]
        return self.count // values * block_bytes


@dataclasses.dataclass(frozen=True)
class Header:
    fields: dict[str, object]
    tensors: tuple[TensorInfo, ...]


class _Reader:
    def __init__(self, file: BinaryIO):
        self._file = file

    def take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) != count:
            raise GgufError("the file ends within its header")
        return data

    def scalar(self, code: str):
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def string(self) -> str:
        return self.take(self.scalar("<Q")).decode("utf-8", "replace")

    def value(self, kind: int):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            item, count = self.scalar("<I"), self.scalar("<Q")
            return [self.value(item) for _ in range(count)]
        if kind not in SCALARS:
            raise GgufError(f"value type {kind} is unknown")
        return self.scalar(SCALARS[kind])

    def tensor(self) -> TensorInfo:
        name = self.string()
        shape = tuple(self.scalar("<Q") for _ in range(self.scalar("<I")))
        kind = self.scalar("<I")
        self.scalar("<Q")  # where its data begins
        return TensorInfo(name, shape, kind)


def read_header(path: pathlib.Path) -> Header:
    try:
        with path.open("rb") as file:
            reader = _Reader(file)
            if reader.take(4) != MAGIC or reader.scalar("<I") not in (2, 3):
                raise GgufError("not a GGUF file of version 2 or 3")
            tensors, fields = reader.scalar("<Q"), reader.scalar("<Q")
            found = {}
            for _ in range(fields):
                key = reader.string()
                found[key] = reader.value(reader.scalar("<I"))
            return Header(found, tuple(reader.tensor() for _ in range(tensors)))
    except (OSError, struct.error, GgufError) as error:
        raise GgufError(f"{path}: {error}") from error


def _string(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _field(key: str, kind: int, value: object) -> bytes:
    return _string(key) + struct.pack("<I", kind) + _value(kind, value)


def _value(kind: int, value) -> bytes:
    if kind == STRING:
        return _string(value)
    return struct.pack(SCALARS[kind], value)


def _array(key: str, kind: int, values: list) -> bytes:
    head = _string(key) + struct.pack("<IIQ", ARRAY, kind, len(values))
    return head + b"".join(_value(kind, value) for value in values)


def encode_field(key: str, value: object) -> bytes:
    """int as u32, float as f32, str, or a list of str or int."""
    if isinstance(value, str):
        return _field(key, STRING, value)
    if isinstance(value, float):
        return _field(key, FLOAT32, value)
    if isinstance(value, int):
        return _field(key, U32, value)
    if isinstance(value, list):
        return _array(key, STRING if value and isinstance(value[0], str) else I32, value)
    raise TypeError(f"{key}: {type(value).__name__}")


def _padding(size: int) -> bytes:
    return b"\0" * (-size % ALIGNMENT)


def write(path: pathlib.Path, fields: dict[str, object],
          tensors: Iterable[tuple[str, tuple[int, ...], bytes]]) -> None:  # fmt: skip
    """`tensors`: name, shape with the fastest dimension first, and the values as f32."""
    tensors = list(tensors)
    head = MAGIC + struct.pack("<IQQ", VERSION, len(tensors), len(fields))
    head += b"".join(encode_field(key, value) for key, value in fields.items())
    at = 0
    for name, shape, data in tensors:
        if len(data) != 4 * math.prod(shape):
            raise ValueError(f"{name}: {len(data)} bytes for {shape}")
        head += _string(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", size) for size in shape)
        head += struct.pack("<IQ", F32, at)
        at += len(data) + len(_padding(len(data)))
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(head + _padding(len(head)))
        for _, _, data in tensors:
            file.write(data + _padding(len(data)))
    unfinished.replace(path)  # a name never stands for half a file

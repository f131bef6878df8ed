"""Vocabularies of GPT-2, tiktoken and SentencePiece as Hugging Face's tokenizer.json. Standard library only.

The last two give every token a rank and merge whatever pair of neighbours joins to a token, the lowest
rank first. A tokenizer.json lists the pairs.
"""

import base64
import dataclasses
import json
import struct
from collections.abc import Iterable, Iterator, Sequence

CASE_INSENSITIVE_SUFFIXES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
PUNCTUATION_AND_SPACES = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = CASE_INSENSITIVE_SUFFIXES + r"\p{N}{1,3}" + PUNCTUATION_AND_SPACES
QWEN2_PATTERN = CASE_INSENSITIVE_SUFFIXES + r"\p{N}" + PUNCTUATION_AND_SPACES


def byte_alphabet() -> list[str]:
    """GPT-2's printable character for each byte."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte if byte in printable else 256 + others.index(byte)) for byte in range(256)]


ALPHABET = byte_alphabet()


def spell(token: bytes) -> str:
    return "".join(ALPHABET[byte] for byte in token)


def read_tiktoken(source: bytes) -> dict[bytes, int]:
    ranks = {}
    for line in source.splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    return ranks


def splits(token: Sequence, ranks: dict) -> list[tuple]:
    """The ways to make `token` of two tokens, those of low rank first."""
    pairs = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
    known = [(left, right) for left, right in pairs if left in ranks and right in ranks]
    return sorted(known, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))


def last_split(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """The two tokens that training made `token` of: what merging leaves just before it."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        joined = [parts[i] + parts[i + 1] for i in range(len(parts) - 1)]
        best = min(range(len(joined)), key=lambda i: ranks.get(joined[i], len(ranks)))
        if ranks.get(joined[best], len(ranks)) >= ranks[token]:
            raise ValueError(f"token {token!r} is not made by merging two others")
        parts[best : best + 2] = [joined[best]]
    return parts[0], parts[1]


def all_merges(ranks: dict) -> Iterator[tuple]:
    for token in sorted(ranks, key=ranks.get):
        yield from splits(token, ranks)


def trained_merges(ranks: dict[bytes, int]) -> Iterator[tuple[bytes, bytes]]:
    for token in sorted(ranks, key=ranks.get):
        ways = splits(token, ranks)
        if len(ways) == 1:
            yield ways[0]
        elif ways:
            yield last_split(token, ranks)


def added_token(token_id: int, content: str) -> dict:
    return {
        "id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
        "normalized": False, "special": True,
    }  # fmt: skip


def byte_level(use_regex: bool) -> dict:
    return {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
        "use_regex": use_regex,
    }  # fmt: skip


def split_then_bytes(pattern: str) -> dict:
    split = {
        "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False,
    }  # fmt: skip
    return {"type": "Sequence", "pretokenizers": [split, byte_level(use_regex=False)]}


def byte_level_json(
    vocab: dict[str, int],
    merges: Sequence[str],
    added_tokens: Sequence[dict],
    pre_tokenizer: dict,
    **parts,
) -> dict:
    return {
        "version": "1.0",
        "added_tokens": added_tokens,
        "normalizer": parts.get("normalizer"),
        "pre_tokenizer": pre_tokenizer,
        "post_processor": parts.get("post_processor"),
        "decoder": byte_level(use_regex=True),
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": parts.get("ignore_merges", False),
            "vocab": vocab, "merges": merges,
        },
    }  # fmt: skip


def ranked_json(
    ranks: dict[bytes, int],
    merges: Iterable[tuple[bytes, bytes]],
    specials: Sequence[str],
    pattern: str,
    **parts,
) -> dict:
    """From tiktoken's ranks; special tokens take the ids behind them."""
    return byte_level_json(
        {spell(token): rank for token, rank in ranks.items()},
        [f"{spell(left)} {spell(right)}" for left, right in merges],
        [added_token(len(ranks) + i, name) for i, name in enumerate(specials)],
        split_then_bytes(pattern),
        **parts,
    )


def gpt2_json(encoder: bytes, vocab_bpe: bytes) -> dict:
    """From GPT-2's own two files: ids by spelling, and merges under a line with the version."""
    vocab = json.loads(encoder)
    merges = vocab_bpe.decode("utf-8").rstrip("\n").split("\n")[1:]
    end = "<|endoftext|>"
    return byte_level_json(vocab, merges, [added_token(vocab[end], end)], byte_level(use_regex=True))


def bos_template(bos: str, bos_id: int) -> dict:
    special = {"SpecialToken": {"id": bos, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [special, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [special, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {bos: {"id": bos, "ids": [bos_id], "tokens": [bos]}},
    }  # fmt: skip


def llama3_json(source: bytes, specials: Sequence[str]) -> dict:
    ranks = read_tiktoken(source)
    return ranked_json(
        ranks, all_merges(ranks), specials, LLAMA3_PATTERN,
        post_processor=bos_template(specials[0], len(ranks)), ignore_merges=True,
    )  # fmt: skip


def qwen2_json(source: bytes, specials: Sequence[str]) -> dict:
    ranks = read_tiktoken(source)
    return ranked_json(
        ranks, trained_merges(ranks), specials, QWEN2_PATTERN, normalizer={"type": "NFC"}
    )


# --- SentencePiece ------------------------------------------------------------------------------


@dataclasses.dataclass
class Piece:
    text: str = ""
    score: float = 0.0
    type: int = 1  # 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, object]]:
    """(number, value) of a protobuf message's fields: int, 4 or 8 bytes, or the bytes of a length."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            if wire == 2:
                size, at = varint(data, at)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
            else:
                raise ValueError(f"wire type {wire} at byte {at}")
            value, at = data[at : at + size], at + size
        yield number, value


def read_sentencepiece(source: bytes) -> list[Piece]:
    """The pieces of a SentencePiece model (sentencepiece_model.proto: ModelProto.pieces = 1)."""
    pieces = []
    for number, value in fields(source):
        if number != 1:
            continue
        piece = Piece()
        for inner, content in fields(value):
            if inner == 1:
                piece.text = content.decode("utf-8")
            elif inner == 2:
                piece.score = struct.unpack("<f", content)[0]
            elif inner == 3:
                piece.type = content
        pieces.append(piece)
    return pieces


def sentencepiece_json(pieces: Sequence[Piece]) -> dict:
    """A Llama-2-like tokenizer.json: a space in front, byte fallback, <s> before the text."""
    vocab = {piece.text: token_id for token_id, piece in enumerate(pieces)}
    mergeable = [piece for piece in pieces if piece.type == 1]
    # The best score first; the sort is stable, so that ids decide between equals.
    order = sorted(mergeable, key=lambda piece: -piece.score)
    ranks = {piece.text: vocab[piece.text] for piece in mergeable}
    merges = [pair for piece in order for pair in splits(piece.text, ranks)]
    unknown = next(piece.text for piece in pieces if piece.type == 2)
    return {
        "version": "1.0",
        "added_tokens": [
            added_token(vocab[piece.text], piece.text) for piece in pieces if piece.type in (2, 3)
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": bos_template("<s>", vocab["<s>"]),
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE", "dropout": None, "unk_token": unknown,
            "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
            "byte_fallback": True, "vocab": vocab, "merges": [list(pair) for pair in merges],
        },
    }  # fmt: skip

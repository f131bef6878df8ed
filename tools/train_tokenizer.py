"""Trains a byte-level BPE tokenizer (GPT-2 splitting) on stories: tokenizer.json."""

import argparse
import itertools
import json
import pathlib

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

import stories

END_TOKEN = "<|endoftext|>"


def train_tokenizer(vocab_size: int, num_stories: int, seed: int) -> tokenizers.Tokenizer:
    """A tokenizer with exactly `vocab_size` ids; END_TOKEN has id 0, the 256 bytes follow."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[END_TOKEN], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    texts = (story.text for story in itertools.islice(stories.stories(seed), num_stories))
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != vocab_size:
        raise ValueError(f"{num_stories} stories give only {tokenizer.get_vocab_size()} tokens; "
                         f"{vocab_size} were asked for")
    return tokenizer


def save_tokenizer(tokenizer: tokenizers.Tokenizer, directory: pathlib.Path, context: int):
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "add_prefix_space": False,
        "bos_token": END_TOKEN,
        "clean_up_tokenization_spaces": False,
        "eos_token": END_TOKEN,
        "model_max_length": context,
        "tokenizer_class": "GPT2Tokenizer",
        "unk_token": END_TOKEN,
    }
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (directory / "tokenizer_config.json").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--stories", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    tokenizer = train_tokenizer(args.vocab, args.stories, args.seed)
    save_tokenizer(tokenizer, args.out, args.context)
    print(f"{args.out}/tokenizer.json: {tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()

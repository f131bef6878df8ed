"""Prints stories of a trained model: greedy and sampled, in both languages.

    python tools/sample_gpt.py models/luna-tiny --count 2 --temperature 0.8
"""

import argparse
import pathlib

import torch
import transformers
from tokenizers import Tokenizer

PROMPTS = ("옛날 옛적에 작은 마을에", "어느 날 아침,", "Once upon a time", "On a rainy day,")


@torch.no_grad()
def continue_text(model, tokenizer, prompt: str, temperature: float, max_tokens: int):
    """(text, ended): the prompt and what follows, until the end token or the limit."""
    ids = torch.tensor([tokenizer.encode(prompt).ids])
    limit = min(max_tokens, model.config.n_positions - ids.size(1))
    end, cache, step = model.config.eos_token_id, None, ids
    for _ in range(limit):
        out = model(step, past_key_values=cache, use_cache=True)
        cache, logits = out.past_key_values, out.logits[0, -1].float()
        if temperature > 0:
            step = torch.multinomial((logits / temperature).softmax(-1), 1)[None]
        else:
            step = logits.argmax()[None, None]
        if step.item() == end:
            return tokenizer.decode(ids[0].tolist()), True
        ids = torch.cat((ids, step), dim=1)
    return tokenizer.decode(ids[0].tolist()), False


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--prompt", action="append", help="may be given more than once")
    parser.add_argument("--count", type=int, default=2, help="sampled stories for each prompt")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    model = transformers.GPT2LMHeadModel.from_pretrained(args.model, dtype=torch.float32).eval()
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    for prompt in args.prompt or PROMPTS:
        for temperature in [0.0] + [args.temperature] * args.count:
            text, ended = continue_text(model, tokenizer, prompt, temperature, args.max_tokens)
            print(f"[temperature {temperature}{'' if ended else ', not ended'}]\n{text}\n")


if __name__ == "__main__":
    main()

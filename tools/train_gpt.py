"""Trains a GPT-2-architecture story model and writes it as a Hugging Face directory.

    python tools/train_gpt.py --size tiny --out models/luna-tiny
    python tools/train_gpt.py --size luna --out models/luna

`tiny` takes well under an hour on two CPU cores; `luna` (8 layers x 512) wants many hours there, or
a GPU. The data comes from the story grammar in tools/stories, so nothing is downloaded.
"""

import argparse
import copy
import dataclasses
import json
import math
import pathlib
import random
import time

import safetensors.torch
import torch
import torch.nn.functional as F
import transformers

import stories
from muon import Muon
from parallel_step import ParallelStep
from story_data import PackedStories
from train_tokenizer import END_TOKEN, save_tokenizer, train_tokenizer

_SHORT_SHARE = 0.7  # of the training, with rows of half the context


@dataclasses.dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    vocab: int
    context: int
    steps: int
    rows: int  # per step, each `context` tokens
    lr: float


SIZES = {
    "tiny": Size(layers=4, width=160, heads=5, vocab=2048, context=512, steps=3300, rows=4,
                 lr=5e-3),
    "luna": Size(layers=8, width=512, heads=8, vocab=4096, context=512, steps=6000, rows=32,
                 lr=2e-3),
}


def make_model(size: Size, end_id: int) -> transformers.GPT2LMHeadModel:
    config = transformers.GPT2Config(
        vocab_size=size.vocab, n_positions=size.context, n_embd=size.width, n_layer=size.layers,
        n_head=size.heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        # The same function as gelu_new in one kernel; saved under its usual name.
        activation_function="gelu_pytorch_tanh",
        bos_token_id=end_id, eos_token_id=end_id, tie_word_embeddings=True)
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        model.transformer.wte.weight.normal_(std=0.05)
        model.transformer.wpe.weight.copy_(0.1 * waves(size.context, size.width))
    return model


def waves(positions: int, width: int) -> torch.Tensor:
    """[positions, width] sines and cosines, wavelengths from 6 to 600 tokens.

    Learned positions that start from these let a head look at the token before from early on, and
    that is what carries a name through a story; from random ones it took millions of tokens."""
    frequencies = 100.0 ** -(torch.arange(0, width, 2) / width)
    angles = torch.arange(positions)[:, None] * frequencies[None]
    return torch.cat((angles.sin(), angles.cos()), dim=1)


def read_weights(model, directory: pathlib.Path):
    """Puts the weights of a directory that `save_model` wrote into the model."""
    weights = safetensors.torch.load_file(directory / "model.safetensors")
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue  # Tied to wte.
        if name not in weights or weights[name].shape != tensor.shape:
            found = list(weights[name].shape) if name in weights else "missing"
            raise ValueError(f"{directory}: tensor {name} is {found}; expected "
                             f"{list(tensor.shape)}")
        tensor.copy_(weights[name])


def make_optimizers(model, size: Size) -> list:
    """Muon for the matrices of the blocks, AdamW for embeddings, biases and norms."""
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and ".h." in n]
    for name, weight in model.named_parameters():
        if name.endswith("c_attn.weight"):
            weight.fused = 3
    vectors = [p for p in model.parameters() if p.dim() == 1]
    # Positions learn slowly, or the noise of the first steps would wash their waves out.
    adam = torch.optim.AdamW(
        [{"params": [model.transformer.wte.weight] + vectors},
         {"params": [model.transformer.wpe.weight], "lr": 0.01 * size.lr}],
        lr=size.lr, betas=(0.9, 0.95), weight_decay=0.0)
    optimizers = [Muon(matrices, lr=size.lr, weight_decay=0.1), adam]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers


def rate(done: float) -> float:
    """Share of the peak learning rate after the share `done` of the training: warm-up, cosine."""
    warm = 0.02
    if done < warm:
        return done / warm
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (done - warm) / (1 - warm)))


def loss_of(model, ids: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of the next token; ids [rows, length], at most context + 1 long.

    Rows shorter than the context stand at a random place of it, so that all positions are trained.
    """
    length = ids.size(1) - 1
    first = random.randint(0, model.config.n_positions - length)
    positions = torch.arange(first, first + length, device=ids.device)[None]
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=ids.device.type == "cuda"):
        logits = model(ids[:, :-1], position_ids=positions, use_cache=False).logits.float()
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1))


@torch.no_grad()
def held_out_loss(model, tokenizer, end_id: int, context: int, rows: int) -> float:
    """Mean loss in nats a token on stories from a seed that training never uses."""
    data = PackedStories(tokenizer, end_id, context + 1, stories.HELD_OUT_SEED)
    device = next(model.parameters()).device
    losses = [loss_of(model, torch.from_numpy(data.batch(8)).to(device)).item()
              for _ in range(rows // 8)]
    return sum(losses) / len(losses)


def train(model, tokenizer, end_id: int, size: Size, args) -> int:
    """Trains until the steps are done or the time is up; the schedule follows what is ahead.

    Returns the number of steps."""
    device = next(model.parameters()).device
    # Most of the training sees one story at a time, which is cheaper and easier to learn from.
    short = PackedStories(tokenizer, end_id, size.context // 2 + 1, args.seed)
    full = PackedStories(tokenizer, end_id, size.context + 1, args.seed + 1)
    optimizers = make_optimizers(model, size)
    workers = ParallelStep(model, loss_of, args.threads if device.type == "cpu" else 1)
    micro_rows = 1 if device.type == "cpu" else size.rows
    start = saved = time.monotonic()
    done, step, mean = 0.0, 0, None
    while done < 1.0:
        if done < _SHORT_SHARE:
            ids, pieces = short.batch(2 * size.rows), 2 * micro_rows
        else:
            ids, pieces = full.batch(size.rows), micro_rows
        loss = workers.run(torch.from_numpy(ids).to(device), pieces)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * rate(done)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        mean = loss if mean is None else 0.95 * mean + 0.05 * loss
        step += 1
        seconds = time.monotonic() - start
        done = max(step / size.steps, seconds / (60 * args.minutes) if args.minutes else 0.0)
        if args.save_minutes and time.monotonic() - saved > 60 * args.save_minutes:
            saved = time.monotonic()
            save_model(copy.deepcopy(model), args.out, getattr(torch, args.dtype))
        if step % 50 == 0 or done >= 1.0:
            tokens = step * size.rows * size.context
            print(f"step {step} ({100 * done:.0f} %) loss {mean:.4f} {tokens / 1e6:.2f} M tokens "
                  f"{tokens / seconds:.0f} tokens/s {seconds / 60:.1f} min", flush=True)
    return step


def save_model(model, directory: pathlib.Path, dtype: torch.dtype):
    """config.json, generation_config.json and model.safetensors, as transformers writes them."""
    directory.mkdir(parents=True, exist_ok=True)
    stored = model.to("cpu", dtype)
    stored.config.activation_function = "gelu_new"
    stored.config.architectures = ["GPT2LMHeadModel"]
    stored.config.dtype = dtype
    stored.save_pretrained(directory)
    # save_pretrained may split or name files by its own rules; one plain file is what we promise.
    weights = {name: tensor.contiguous() for name, tensor in stored.state_dict().items()
               if name != "lm_head.weight"}
    safetensors.torch.save_file(weights, directory / "model.safetensors", {"format": "pt"})


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=0, help="stop after this time; 0: never")
    parser.add_argument("--go-on-from", type=pathlib.Path, help="start from this directory's "
                        "weights instead of random ones; its tokenizer must be the same")
    parser.add_argument("--save-minutes", type=float, default=0,
                        help="write what there is every so often; 0: only at the end")
    parser.add_argument("--steps", type=int, help="instead of the size's own number")
    parser.add_argument("--seed", type=int, default=1, help="below 1000000: the rest is held out")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), default="float16")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    if args.seed >= stories.HELD_OUT_SEED:
        parser.error(f"--seed is {args.seed}; seeds from {stories.HELD_OUT_SEED} on are held out")
    return args


def main():
    args = parse_args()
    # The threads are ours (parallel_step.py): PyTorch's own would spin while they wait for a core.
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    size = SIZES[args.size]
    if args.steps:
        size = dataclasses.replace(size, steps=args.steps)
    tokenizer = train_tokenizer(size.vocab, num_stories=20000, seed=0)
    save_tokenizer(tokenizer, args.out, size.context)
    end_id = tokenizer.token_to_id(END_TOKEN)
    model = make_model(size, end_id).to(args.device)
    if args.go_on_from:
        read_weights(model, args.go_on_from)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{args.size}: {parameters} parameters, {size.layers} layers x {size.width}", flush=True)
    start = time.monotonic()
    steps = train(model, tokenizer, end_id, size, args)
    minutes = (time.monotonic() - start) / 60
    save_model(model, args.out, getattr(torch, args.dtype))
    # Measured on the weights as stored: they are what is served.
    loss = held_out_loss(model.float(), tokenizer, end_id, size.context, rows=128)
    result = {"parameters": parameters, "held_out_loss": round(loss, 4),
              "minutes": round(minutes, 1), "steps": steps, "seed": args.seed}
    print(json.dumps(result))


if __name__ == "__main__":
    main()

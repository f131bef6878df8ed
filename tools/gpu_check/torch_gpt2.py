"""PyTorch as one writes it at first: a GPT-2 in Luna's shape, eager, greedy, its keys and values grown by
concatenation or, without a cache, the whole text computed anew for each token.

Weights are random: only time is looked at. Prints one JSON object a line. Needs nothing but PyTorch;
exits with 3 where that, or a GPU for it, is missing.
"""

import argparse
import json
import sys
import time

NO_TORCH = 3
try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as error:
    print(error)
    sys.exit(NO_TORCH)

WIDTH, HEADS, LAYERS, CONTEXT, VOCAB = 512, 8, 8, 512, 4096
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
WARM_UP_TOKENS = 20
ROUNDS = 2  # the quickest counts


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache):
        """`cache`: keys and values before x, or None; returns those up to its end as well."""
        rows, length, _ = x.shape
        q, k, v = (part.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in self.qkv(self.ln_1(x)).split(WIDTH, dim=2))  # fmt: skip
        if cache is not None:
            k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.proj(y.transpose(1, 2).reshape(rows, length, WIDTH))
        x = x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))
        return x, (k, v)


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, ids, caches):
        """Logits behind the last token, and the caches up to it; `caches` is None at first."""
        start = 0 if caches is None else caches[0][0].size(2)
        x = self.wte(ids) + self.wpe(torch.arange(start, start + ids.size(1), device=ids.device))
        grown = []
        for i, block in enumerate(self.blocks):
            x, cache = block(x, None if caches is None else caches[i])
            grown.append(cache)
        return F.linear(self.ln_f(x[:, -1]), self.wte.weight), grown


@torch.inference_mode()
def generate(model, prompt, tokens, kv_cache):
    """[rows, prompt + tokens]"""
    ids, caches, feed = prompt, None, prompt
    for _ in range(tokens):
        logits, grown = model(feed, caches)
        chosen = logits.argmax(dim=-1, keepdim=True)
        ids = torch.cat((ids, chosen), dim=1)
        caches, feed = (grown, chosen) if kv_cache else (None, ids)
    return ids


def seconds(model, prompt, tokens, kv_cache, synchronize):
    synchronize()
    start = time.perf_counter()
    generate(model, prompt, tokens, kv_cache)
    synchronize()
    return time.perf_counter() - start


def measure(device, dtype, batches, prompt_tokens, tokens):
    torch.manual_seed(1)
    model = Gpt2().to(device, DTYPES[dtype]).eval()
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    for batch in batches:
        prompt = torch.randint(VOCAB, (batch, prompt_tokens), device=device)
        for kv_cache in (True, False):
            generate(model, prompt, min(tokens, WARM_UP_TOKENS), kv_cache)
            taken = min(seconds(model, prompt, tokens, kv_cache, synchronize)
                        for _ in range(ROUNDS if kv_cache else 1))  # fmt: skip
            print(json.dumps({
                "weights": dtype, "kv_cache": kv_cache, "batch": batch, "tokens": tokens,
                "total_s": taken, "step_ms": 1e3 * taken / tokens}), flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtypes", default="bf16,f32")
    parser.add_argument("--batches", default="1,64")
    parser.add_argument("--prompt", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=500)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} sees no GPU")
        sys.exit(NO_TORCH)
    print(json.dumps({"versions": {"torch": torch.__version__, "torch_cuda": torch.version.cuda}}),
          flush=True)  # fmt: skip
    batches = [int(batch) for batch in options.batches.split(",")]
    for dtype in options.dtypes.split(","):
        measure(options.device, dtype, batches, options.prompt, options.tokens)


if __name__ == "__main__":
    main()

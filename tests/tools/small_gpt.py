"""A small GPT as training scripts write it, to compare an imported model with."""

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, HEADS, LAYERS, CONTEXT, VOCAB = 24, 3, 2, 32, 300
PADDED_VOCAB = 320


class Block(nn.Module):
    """One block as small GPT training scripts write it: linear layers, fused c_attn."""

    def __init__(self, bias):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH, bias=bias)
        self.ln_2 = nn.LayerNorm(WIDTH, bias=bias)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(WIDTH, 3 * WIDTH, bias=bias),
                                   "c_proj": nn.Linear(WIDTH, WIDTH, bias=bias)})
        # The causal mask that older scripts keep in the checkpoint.
        mask = torch.tril(torch.ones(CONTEXT, CONTEXT)).view(1, 1, CONTEXT, CONTEXT)
        self.attn.register_buffer("bias", mask)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(WIDTH, 4 * WIDTH, bias=bias),
                                  "c_proj": nn.Linear(4 * WIDTH, WIDTH, bias=bias)})

    def forward(self, x):
        rows, length, _ = x.shape
        q, k, v = (part.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                   for part in self.attn["c_attn"](self.ln_1(x)).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](y.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class SmallGpt(nn.Module):
    def __init__(self, bias=True, tied=True):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(PADDED_VOCAB, WIDTH), "wpe": nn.Embedding(CONTEXT, WIDTH),
            "h": nn.ModuleList([Block(bias) for _ in range(LAYERS)]),
            "ln_f": nn.LayerNorm(WIDTH, bias=bias)})
        self.lm_head = nn.Linear(WIDTH, PADDED_VOCAB, bias=False)
        if tied:
            self.lm_head.weight = self.transformer["wte"].weight
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.3)

    def forward(self, ids):
        x = self.transformer["wte"](ids) + self.transformer["wpe"](torch.arange(ids.size(1)))
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))

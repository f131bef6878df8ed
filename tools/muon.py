"""Muon: momentum whose update for a weight matrix is made nearly orthogonal.

Method: K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024). It needs
about half the tokens that AdamW needs here, which is what makes training on a CPU short.
"""

import torch

# Coefficients of the quintic iteration from the description of the method: they drive all singular
# values to about 1 in five steps without needing to settle there.
_NS = (3.4445, -4.7750, 2.0315)


def orthogonalize(matrices: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Nearest (roughly) semi-orthogonal matrices; matrices [..., rows, columns]."""
    a, b, c = _NS
    tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """For 2-D weights only. A weight [in, k * in] with attribute `fused = k` is k matrices."""

    def __init__(self, params, lr: float, momentum: float = 0.95, weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, group)

    def _update(self, weight: torch.Tensor, group: dict):
        state = self.state[weight]
        if not state:
            state["velocity"] = torch.zeros_like(weight)
        velocity = state["velocity"].lerp_(weight.grad, 1 - group["momentum"])
        direction = weight.grad.lerp(velocity, group["momentum"])
        pieces = torch.stack(direction.chunk(getattr(weight, "fused", 1), dim=1))
        update = torch.cat(tuple(orthogonalize(pieces)), dim=1)
        # Keeps the root mean square of an update near 0.2, as AdamW's is, so one rate suits all.
        scale = 0.2 * max(pieces.shape[-2:]) ** 0.5
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(update, alpha=-group["lr"] * scale)

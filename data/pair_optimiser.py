"""Muon for the hidden matrices, AdamW for the rest, both in float32.

`torch.optim.Muon` orthogonalises in bfloat16, which a processor without such hardware emulates, many times slower
than float32; it also takes the matrices one by one, where the equal shapes of a transformer can go together.
"""

import math
import re
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

# Coefficients of the quintic iteration: Jordan et al., "Muon: an optimizer for hidden layers", 2024.
QUINTIC = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """Momentum, then the nearest semi-orthogonal matrix as the update. For matrices only."""

    def __init__(self, params: list[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Update every matrix; those of one shape in one batch."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                shapes.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in shapes.items():
                updates = orthogonal(torch.stack([self._momentum(p, group["momentum"]) for p in parameters]))
                scale = group["lr"] * math.sqrt(max(1.0, shape[0] / shape[1]))
                torch._foreach_add_(parameters, list(updates.unbind()), alpha=-scale)

    def _momentum(self, parameter: Tensor, momentum: float) -> Tensor:
        average = self.state[parameter].setdefault("average", torch.zeros_like(parameter))
        average.lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(average, momentum)


def orthogonal(matrices: Tensor, iterations: int = 5) -> Tensor:
    """Roughly U V^T of each matrix U S V^T (float [matrices, rows, columns]) by Newton-Schulz."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = QUINTIC
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


def optimisers(model: nn.Module, muon_lr: float, adam_lr: float) -> list[torch.optim.Optimizer]:
    """Muon twice, each for every other matrix of the layers, so that they can step side by side; AdamW for the rest."""
    hidden = re.compile(r"\.(layers|layer)\.(?!.*relative_attention_bias)")  # a bias by distance is an embedding
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and hidden.search(name)]
    chosen = set(matrices)
    others = [p for p in model.parameters() if p not in chosen]
    return [
        Muon(matrices[::2], lr=muon_lr),
        Muon(matrices[1::2], lr=muon_lr),
        torch.optim.AdamW(others, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def linear_to_zero(optimiser: torch.optim.Optimizer, steps: int, warmup: float = 0.04) -> LambdaLR:
    """A linear rise over the share `warmup` of the steps, then a linear fall to zero."""
    rise = max(1, int(warmup * steps))
    return LambdaLR(optimiser, lambda step: min((step + 1) / rise, (steps - step) / max(1, steps - rise)))

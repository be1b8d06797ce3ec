"""What is read from a next-token distribution, and the one check that its numbers are numbers."""

from __future__ import annotations

import numpy as np
import torch


def best(logits: torch.Tensor) -> dict[str, torch.Tensor]:
    """The most likely token and its lead over the second in logits; float [..., V] -> [...] each."""
    first, second = logits.float().topk(2, dim=-1).values.unbind(-1)
    return {"tokens": logits.argmax(-1), "lead": first - second}


def distribution(logits: torch.Tensor, top: int = 0) -> dict[str, torch.Tensor]:
    """The most likely token, its probability, the entropy (nats) and the margin; float [..., V] -> [...] each.

    With ``top`` also that many of the largest probabilities, largest first, [..., top]: see `largest`.
    """
    tokens = logits.argmax(-1)
    likelihood = logits.float().log_softmax(-1)
    probability = likelihood.exp()
    # Clamped so that an impossible token (log 0) adds 0 x a number rather than 0 x infinity.  In place where nothing
    # needs the old values: temporary copies of a large vocabulary cost more than the arithmetic.
    entropy = -(probability * likelihood.clamp_(min=torch.finfo(torch.float32).min)).sum(-1)
    most = {"top": _largest(probability, top)} if top else {}
    first = probability.gather(-1, tokens[..., None])[..., 0]
    second = probability.scatter_(-1, tokens[..., None], 0).amax(-1)
    return {"tokens": tokens, "confidence": first, "entropy": entropy, "margin": first - second} | most


def largest(logits: torch.Tensor, top: int) -> torch.Tensor:
    """The ``top`` largest probabilities, largest first, 0 beyond the vocabulary; float [..., V] -> [..., top]."""
    return _largest(logits.float().log_softmax(-1).exp(), top)


def _largest(probability: torch.Tensor, top: int) -> torch.Tensor:
    found = probability.topk(min(top, probability.shape[-1]), dim=-1).values
    return torch.nn.functional.pad(found, (0, top - found.shape[-1]))


def check_numbers(values: np.ndarray | torch.Tensor, role: str) -> None:
    """Raise RuntimeError, naming the model, unless what was read from its logits is finite.

    Leads, confidences or whole logits: one NaN or infinity in a row of logits makes all of them, or their highest, so.
    """
    if not bool(torch.as_tensor(values).isfinite().all()):
        raise RuntimeError(
            f"the {role} model's logits are not numbers (NaN or infinity): its text would mean nothing; try another "
            "dtype, float32 for example, and if that does not help get the checkpoint again"
        )


def check_pass(logits: torch.Tensor | None, role: str) -> None:
    """``check_numbers`` of the logits of one pass, float [..., V]; None (no pass was made) has nothing wrong.

    The last pass of a run speaks for the passes before it: what is no number in one of them stays in the cache, and so
    in every later one.  So a run is checked after its end, at no cost while it is timed.
    """
    if logits is not None:
        check_numbers(logits.amax(-1), role)  # the highest: a token that a model rules out may well be at -infinity

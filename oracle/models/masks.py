"""Attention masks for several texts that go on in one row of a cache: who sees which column."""

from __future__ import annotations

import torch


def additive(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Attention mask [R, 1, M, columns]: 0 where ``visible`` (bool [R, M, columns]), else the lowest number."""
    blocked = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=visible.device)
    return torch.where(visible, torch.zeros_like(blocked), blocked)[:, None]


def seeing_itself(visible: torch.Tensor) -> torch.Tensor:
    """``visible`` (bool [R, M, columns]) with M columns more: each branch's newest token, seen by that branch alone."""
    newest = torch.eye(visible.shape[1], dtype=torch.bool, device=visible.device)
    return torch.cat([visible, newest.expand(len(visible), -1, -1)], dim=-1)

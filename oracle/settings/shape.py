"""What the settings of a policy are in one engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """A policy in one engine."""

    engine: str  # transformers, vllm, llama.cpp or sglang
    version: str  # what its flags were checked against
    text: str | None  # lines to paste; None where nothing there does this
    note: str  # what to know of it: what is only near to the policy, or why there is nothing

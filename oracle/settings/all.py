"""Every engine's settings for a policy."""

from __future__ import annotations

from oracle.policies.names import as_policy
from oracle.settings import llama_cpp, sglang, transformers, vllm
from oracle.settings.shape import Settings

ENGINES = (transformers, vllm, llama_cpp, sglang)


def settings(policy: str) -> tuple[Settings, ...]:
    """What to paste for ``policy``, one entry an engine.  Raises ValueError for an unknown policy."""
    rule = as_policy(policy)
    return tuple(engine.settings(rule) for engine in ENGINES)

"""Every engine's settings for a policy."""

from __future__ import annotations

from oracle.policies.names import as_policy
from oracle.settings import llama_cpp, transformers
from oracle.settings.shape import Settings

ENGINES = (transformers, llama_cpp)


def settings(policy: str) -> tuple[Settings, ...]:
    """What to paste for ``policy``, one entry an engine.  Raises ValueError for an unknown policy."""
    rule = as_policy(policy)
    return tuple(engine.settings(rule) for engine in ENGINES)

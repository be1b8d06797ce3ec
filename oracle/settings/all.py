"""Every engine's settings for a policy."""

from __future__ import annotations

from collections.abc import Mapping

from oracle.policies.names import as_policy
from oracle.settings import llama_cpp, sglang, transformers, vllm
from oracle.settings.shape import Settings

ENGINES = (transformers, vllm, llama_cpp, sglang)


def settings(policy: str, draft: object = None) -> tuple[Settings, ...]:
    """What to paste for ``policy``, one entry an engine.  Raises ValueError for an unknown policy.

    ``draft`` is what a trace's meta says of it.  Of one that only transformers has there are its settings alone: an
    encoder-decoder, the target's own layers, a lookup.
    """
    rule = as_policy(policy)
    told = draft if isinstance(draft, Mapping) else {}
    if transformers.alone_has(told):
        return (transformers.settings(rule, told),)
    return tuple(engine.settings(rule) for engine in ENGINES)


def nearest(
    policy: str, constant: str, alike: str | None = None, draft: object = None
) -> tuple[tuple[Settings, str], ...]:
    """What to paste in each engine, and what to know of it.

    Where an engine lacks the rule of ``policy``: that of ``alike``, which the data do not tell from it, else
    ``constant``, the best constant.
    """
    instead = {f"The tuned constant, {constant}:": settings(constant, draft)}
    if alike is not None and alike not in (policy, constant):
        instead = {f"Not distinguishable from {policy}, {alike}:": settings(alike, draft)} | instead
    return tuple(_nearest(found, number, instead) for number, found in enumerate(settings(policy, draft)))


def _nearest(found: Settings, number: int, instead: dict[str, tuple[Settings, ...]]) -> tuple[Settings, str]:
    """``found``, or the first of ``instead`` that the engine of that ``number`` has, with why."""
    if found.text is not None:
        return found, found.note
    words, fallback = next((words, each[number]) for words, each in instead.items() if each[number].text is not None)
    return fallback, f"{found.note} {words}"

"""Every engine's settings for a policy."""

from __future__ import annotations

from oracle.policies.names import as_policy
from oracle.settings import llama_cpp, sglang, transformers, vllm
from oracle.settings.shape import Settings

ENGINES = (transformers, vllm, llama_cpp, sglang)


def settings(policy: str, encoder_decoder: bool = False) -> tuple[Settings, ...]:
    """What to paste for ``policy``, one entry an engine.  Raises ValueError for an unknown policy.

    For an ``encoder_decoder`` pair there is one, transformers: the others have no draft models of that kind.
    """
    rule = as_policy(policy)
    if encoder_decoder:
        return (transformers.settings(rule, encoder_decoder),)
    return tuple(engine.settings(rule) for engine in ENGINES)


def nearest(
    policy: str, constant: str, alike: str | None = None, encoder_decoder: bool = False
) -> tuple[tuple[Settings, str], ...]:
    """What to paste in each engine, and what to know of it.

    Where an engine lacks the rule of ``policy``: that of ``alike``, which the data do not tell from it, else
    ``constant``, the best constant.
    """
    instead = {f"The tuned constant, {constant}:": settings(constant, encoder_decoder)}
    if alike is not None and alike not in (policy, constant):
        instead = {f"Not distinguishable from {policy}, {alike}:": settings(alike, encoder_decoder)} | instead
    found = settings(policy, encoder_decoder)
    return tuple(_nearest(each, number, instead) for number, each in enumerate(found))


def _nearest(found: Settings, number: int, instead: dict[str, tuple[Settings, ...]]) -> tuple[Settings, str]:
    """``found``, or the first of ``instead`` that the engine of that ``number`` has, with why."""
    if found.text is not None:
        return found, found.note
    words, fallback = next((words, each[number]) for words, each in instead.items() if each[number].text is not None)
    return fallback, f"{found.note} {words}"

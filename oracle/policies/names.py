"""The policies by name, for people."""

from __future__ import annotations

from oracle.policies.rules import POLICIES


def list_policies() -> dict[str, str]:
    """Every policy with its defaults as text, and what it does in a sentence."""
    return {str(kind()): _sentence(kind) for kind in POLICIES.values()}


def _sentence(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())

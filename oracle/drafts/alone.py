"""Pairs whose draft is no model of its own."""

from __future__ import annotations

from dataclasses import replace

from oracle.drafts.kinds import lookup
from oracle.models.checks import remarks
from oracle.models.pair import Pair


def without_draft_model(pair: Pair, draft: str | None, layers: int | None) -> Pair:
    """The target of ``pair`` that drafts for itself: by the lookup that ``draft`` names, else by its first ``layers``.

    Raises ValueError for a lookup that will not do, or a number of layers that the target cannot be left after.
    """
    if draft is not None:
        found = replace(pair, draft=pair.target, drafting=lookup(draft))
    else:
        from oracle.drafts.layers import with_first_layers

        found = with_first_layers(pair, 0 if layers is None else layers)
    remarks(found)
    return replace(found, name=f"{pair.name} + {found.drafting.label}")

"""Where measured texts leave the text of plain decoding, and whether rounding explains it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oracle.records.runs import Call

# Passes over one token and over several at once differ by rounding; a lead below this may turn either way.  In half
# precision that is four units in the last place of a logit between 16 and 32; float32 gets room for longer sums.
TIE_LOGIT = {"float32": 1e-3, "float16": 4 * 2.0**-6, "bfloat16": 4 * 2.0**-3}


def is_near_tie(lead: float, dtype: str) -> bool:
    """Whether rounding in passes of this dtype can turn a lead of so many logits; unknown dtypes count as float32."""
    return lead < TIE_LOGIT.get(dtype, TIE_LOGIT["float32"])


@dataclass(frozen=True)
class Divergence:
    """Where a measured text leaves the text of plain decoding that was measured beside it."""

    prompt: str
    token: int  # first index that differs
    margin: float  # the target's lead of its first over its second choice there, in logits
    near_tie: bool  # rounding can turn such a lead; anything larger is a fault


def divergences(calls: Iterable[Call], dtype: str) -> list[Divergence]:
    """Those of calls under one policy, the first one of each prompt.

    Raises ValueError where the runs say that a text differs, and not where.
    """
    found: dict[int, Divergence] = {}
    for call in calls:
        if not call.equal and call.prompt not in found:
            if call.first_difference is None or call.difference_margin is None:
                raise ValueError(f"prompt {call.id!r}: the runs do not say where its text differs; measure it again")
            margin = float(call.difference_margin)
            found[call.prompt] = Divergence(call.id, int(call.first_difference), margin, is_near_tie(margin, dtype))
    return list(found.values())

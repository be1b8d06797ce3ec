"""Which policies the rung "best policy" chooses from: every listed one, and a few values of what matters most in it."""

from __future__ import annotations

from analysis.replay.sweep import library_policies
from oracle.policies import POLICIES

# Plain decoding is a rung of its own, a random length is a tool for measuring prices, and these two without a file from
# `oracle train` are rules on the confidence that stand here under another name.
_LEFT_OUT = ("none", "random", "disco", "specdec++")
_VARIED = (
    *(f"survival:threshold={threshold},tokens=20" for threshold in (0.05, 0.1, 0.3, 0.5, 0.7)),
    *(f"svip:threshold={threshold},tokens=20" for threshold in (0.2, 0.3, 0.4, 0.5, 0.6)),
    *(f"p-min:p_min={threshold}" for threshold in (0.3, 0.5, 0.9)),
)


def candidates() -> list[str]:
    """The policies as text: the library's settings, every other one with its published defaults, and some values."""
    return [*library_policies(), *(name for name in POLICIES if name not in _LEFT_OUT), *_VARIED]

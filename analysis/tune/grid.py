"""Which settings of a policy are tried: for each of its numbers, a few values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from analysis.replay.sweep import LENGTHS
from oracle.policies import POLICIES, parse
from oracle.policies.contract import value_text
from oracle.policies.names import as_policy

Values = Sequence[float | int | str]

THRESHOLDS = tuple(round(0.02 * step, 2) for step in range(1, 51))
_COARSE = tuple(round(0.05 * step, 2) for step in range(1, 20))
# A cap of one token is `constant:tokens=1` whatever the threshold: that is tried once.
_CAPS = LENGTHS[1:]
_FEW_CAPS = (4, 8, 12, 20)
_STARTS = (1, 3, 5, 8, 12, 20)

# What `tune` varies, family by family; a family that is not listed is tried as it stands.
GRIDS: Mapping[str, Mapping[str, Values]] = {
    "constant": {"tokens": LENGTHS},
    "heuristic": {"tokens": _STARTS},
    "heuristic_transient": {"tokens": _STARTS},
    "heuristic-4.46": {"tokens": _STARTS},
    "heuristic_transient-4.46": {"tokens": _STARTS},
    "dynamic": {"threshold": THRESHOLDS, "tokens": _CAPS},
    "max-confidence": {"threshold": THRESHOLDS, "tokens": _CAPS},
    "kangaroo": {"threshold": THRESHOLDS, "tokens": _CAPS},
    "svip": {"threshold": _COARSE, "tokens": _CAPS},
    "p-min": {"p_min": _COARSE, "n_max": _CAPS},
    "survival": {"threshold": _COARSE, "tokens": _FEW_CAPS},
    "specdec++": {"threshold": _COARSE, "tokens": _FEW_CAPS, "least": (1, 2)},
    "disco": {"threshold": _COARSE, "tokens": _FEW_CAPS},
    "adaedl": {"threshold": (0.2, 0.3, 0.4, 0.5, 0.6), "tokens": (8, 16)},
    "roc": {"tokens": (5, 10, 20)},
    "roc-4.49": {"tokens": (5, 10, 20)},
    "roc-4.57": {"tokens": (5, 10, 20)},
    "expected-gain": {"tokens": _FEW_CAPS},
    "margin": {"tokens": (4, 7, 12)},
    "ema": {"rate": (0.1, 0.2, 0.4)},
}
CONSTANT = "constant"
DEFAULT = (CONSTANT, "heuristic", "heuristic_transient", "dynamic")  # what transformers itself can be set to
ALL = "all"
_NO_TUNING = ("none", "random", "disco")  # plain decoding, what chance draws, and what needs a file: not in `ALL`


def beside_default(policies: Sequence[str]) -> list[str]:
    """`DEFAULT` and ``policies``: one of its families that they hold to some numbers is tried with these alone."""
    held = {family for family, colon, _ in (text.strip().partition(":") for text in policies) if colon}
    return [*(family for family in DEFAULT if family not in held), *policies]


def settings_of(families: Sequence[str]) -> dict[str, str]:
    """Every setting to try, as its text, and the name of its family.

    A family is a policy's name, a policy with some keys, which these hold fast (``dynamic:tokens=10``), a rule of a
    user's own file, or `ALL`.  The constants are always among them: they are what everything is compared with.  Raises
    ValueError for an unknown policy, and for one that has to be trained first.
    """
    found: dict[str, str] = {}
    for text in (CONSTANT, *_named(families)):
        family = text.partition(":")[0]
        for setting in _varied(text):
            found.setdefault(setting, family)
    return found


def _named(families: Sequence[str]) -> list[str]:
    every = [name for name in POLICIES if name not in _NO_TUNING]
    return [each for text in families for each in (every if text.strip() == ALL else [text.strip()])]


def _varied(text: str) -> list[str]:
    """The settings of one family."""
    family, _, keys = text.partition(":")
    if family == "none":
        return []
    if family not in GRIDS:
        as_policy(text)
        return [text]
    parse(text)
    _expect_trained(text)
    held = dict(_pair(each) for each in keys.split(",") if each.strip())
    free = {key: values for key, values in GRIDS[family].items() if key not in held}
    rows = itertools.product(*free.values())
    return [_text(family, {**held, **dict(zip(free, row, strict=True))}) for row in rows]


def _pair(text: str) -> tuple[str, str]:
    """Key and value of "key=value"."""
    key, _, value = text.partition("=")
    return key.strip(), value.strip()


def _text(family: str, values: Mapping[str, float | int | str]) -> str:
    keys = ",".join(f"{key}={value_text(value)}" for key, value in values.items())
    return f"{family}:{keys}" if keys else family


def _expect_trained(text: str) -> None:
    if text.partition(":")[0] == "disco" and "file=" not in text:
        raise ValueError(
            "policy 'disco' is a trained one: `oracle train disco OTHER-TRACE -o disco.json` makes its file, then "
            "--policy disco:file=disco.json"
        )

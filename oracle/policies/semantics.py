"""What differs between releases of transformers in assisted generation, as one table, and each policy under a release.

The installed release decides, where none is named.  Every row says how it is known: "run" (executed beside a replay) or
"read" (its source).  What lies between two rows that were looked at is not claimed by either.
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Iterable
from dataclasses import dataclass

from oracle.policies.contract import Policy
from oracle.policies.counting import Heuristic, HeuristicTransient, HeuristicTransientWhole, HeuristicWhole
from oracle.policies.learning import Roc, RocFallback, RocNextCall
from oracle.policies.thresholds import Dynamic

WHOLE, BUDGET = "as many as drafted", "as many as allowed"
NO_REFIT, NEVER, SAME = "there is none", "never", "at once"
NEXT, FALLBACK = "in the next call", "at once in a call that began with 0.4, else in the next call"


@dataclass(frozen=True)
class Release:
    """The rules of the releases from ``first`` to ``last``, both of which were looked at."""

    first: str
    last: str
    evidence: str  # "run" or "read", with the release where that is not all of them
    tokens: int = 20  # num_assistant_tokens where nothing is set
    schedule: str = "constant"  # num_assistant_tokens_schedule where nothing is set
    threshold: float = 0.4  # assistant_confidence_threshold where nothing is set; 0: there is none
    grows: str = WHOLE  # the heuristic schedules grow when so many tokens were accepted
    refit: str = NO_REFIT  # with scikit-learn, when a refitted threshold acts
    persists: bool = False  # whether a refitted threshold is the next call's first
    falls_back: bool = False  # a draft's own settings (do_sample too) replace what equals the library's default
    workaround: bool = False  # T5 and BART drafts need a decoder_attention_mask, else their cache is corrupted

    @property
    def default(self) -> str:
        """The policy of a call that sets nothing, where scikit-learn is not installed."""
        return "heuristic" if self.schedule == "heuristic" else "dynamic"  # whose keys have these very defaults

    def __str__(self) -> str:
        return self.first if self.first == self.last else f"{self.first} to {self.last}"


RELEASES = (
    Release("4.44.2", "4.44.2", "read", 5, "heuristic", 0.0, BUDGET),
    Release("4.45.0", "4.46.3", "4.46.3 run, else read", grows=BUDGET),
    Release("4.47.0", "4.49.0", "read", refit=NEXT, persists=True),
    Release("4.50.0", "4.57.1", "4.57.1 run, else read", refit=FALLBACK, persists=True, falls_back=True),
    Release("5.0.0", "5.2.0", "read", refit=NEVER),
    Release("5.6.0", "5.12.0", "read", refit=NEVER, workaround=True),
    Release("5.20.0", "5.24.0", "5.24.0 run, else read", refit=SAME, workaround=True),
)


def release(version: str) -> Release:
    """The rules of that release of transformers, such as "4.45" or "5.24.0".

    One that is later than all that were looked at has the rules of the last.  Raises ValueError for one between rows.
    """
    asked = _numbers(version)
    for row in RELEASES:
        if _numbers(row.first)[:2] <= asked[:2] <= _numbers(row.last)[:2]:
            return row
    if asked > _numbers(RELEASES[-1].last):
        return RELEASES[-1]
    raise ValueError(
        f"semantics {version!r}: the rules of that release are not known; known are {', '.join(map(str, RELEASES))}"
    )


_WITH_THRESHOLD = (Dynamic, Heuristic, HeuristicTransient, Roc)


@functools.cache
def installed() -> str:
    """The version of transformers that is installed; of the last release known where none is."""
    try:
        return importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        return RELEASES[-1].last


def in_force(version: str | None = None) -> Release:
    """The rules of that release; None: of the installed one, or of the last known one before it."""
    if version is not None:
        return release(version)
    asked = _numbers(installed())
    return max((row for row in RELEASES if _numbers(row.first) <= asked), key=lambda row: _numbers(row.first))


def under(policy: Policy, version: str | None = None) -> Policy:
    """The policy as that release of transformers follows it (None: the installed one).

    A policy that the library lacks, or that names a release's rule itself (``heuristic-4.46``), is as it is everywhere.
    """
    rules = in_force(version)
    if type(policy) is Heuristic and rules.grows == BUDGET:
        return HeuristicWhole(policy.tokens, policy.threshold)
    if type(policy) is HeuristicTransient and rules.grows == BUDGET:
        return HeuristicTransientWhole(policy.tokens, policy.threshold)
    if type(policy) is Roc:
        kind = {NO_REFIT: Dynamic, NEVER: Dynamic, NEXT: RocNextCall, FALLBACK: RocFallback, SAME: Roc}[rules.refit]
        return kind(policy.tokens, policy.threshold)
    return policy


def caveats(policies: Iterable[Policy], version: str) -> list[str]:
    """What that release, named by the user, leaves open: one after all that were looked at, or without a threshold."""
    rules, said = in_force(version), []
    if _numbers(version) > _numbers(RELEASES[-1].last) and rules is RELEASES[-1]:
        said.append(
            f"{version} is later than all releases that were looked at; the last known rules are those of {rules}"
        )
    if not rules.threshold:
        stopping = [each for each in policies if type(each) in _WITH_THRESHOLD and getattr(each, "threshold", 0)]
        without = f"transformers {rules} has no threshold, with which"
        said += [f"{without} {each} is replayed all the same" for each in stopping]
    return said


def default_policy(scikit_learn: bool, version: str | None = None) -> str:
    """The policy of a call that sets nothing, as text: what is installed beside the release decides too."""
    rules = in_force(version)
    refits = scikit_learn and rules.refit not in (NO_REFIT, NEVER)
    return "roc" if refits else rules.default


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version.strip())
    if found is None:
        raise ValueError(f"semantics {version!r}: give a release of transformers such as 4.45 or 5.24.0")
    return tuple(int(one or 0) for one in found.groups())

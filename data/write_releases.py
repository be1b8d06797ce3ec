"""Write data/RELEASES.md: what differs between releases of transformers in assisted generation.

python data/write_releases.py
"""

from __future__ import annotations

from pathlib import Path

from documents import deliver

from oracle.policies.semantics import RELEASES, Release, default_policy

TEXT = """# What differs between releases of transformers

Written by `python data/write_releases.py` from `oracle/policies/semantics.py`; do not edit.

The toolkit runs with transformers 4.57.1 to 5.24.0. Measured runs follow the release that is installed, and replays
follow its rules; `oracle simulate --semantics 4.45` replays those of another one. A column is a range of releases whose
first and last were looked at; a rule is known because it was run beside its replay, or because its source was read.

{table}

- *Library's default* is the policy of a call that sets nothing. Without scikit-learn, `roc` is `dynamic` everywhere.
- *Schedules grow*: `heuristic` and `heuristic_transient` add 2 when so many of a draft's tokens were accepted, else
  they take 1 off. Up to 4.46 a draft that a threshold cut short counts as refused.
- *Refitted threshold*: with scikit-learn, when the threshold that the library refits after each iteration acts.
- *Draft's own settings*: with a draft whose config is of 4.50 or later, what it sets replaces what equals the library's
  default in each draft. A draft that sets `do_sample` then samples under a greedy target; the toolkit switches it off.
- *Encoder-decoder mask*: T5 and BART drafts get a corrupted cache unless `decoder_attention_mask` is given.
- Named for themselves, whatever is installed: `heuristic-4.46`, `heuristic_transient-4.46`, `roc-4.49`, `roc-4.57`.
"""


def _default(row: Release) -> str:
    plain, beside = (default_policy(there, row.first) for there in (False, True))
    numbers = f"{row.tokens} tokens, threshold {row.threshold:g}"
    return f"`{plain}` ({numbers})" + ("" if beside == plain else f"; `{beside}` with scikit-learn")


ROWS = {
    "known by": lambda row: row.evidence,
    "library's default": _default,
    "schedules grow": lambda row: row.grows,
    "refitted threshold acts": lambda row: row.refit,
    "it is the next call's first": lambda row: "yes" if row.persists else "no",
    "draft's own settings win": lambda row: "yes" if row.falls_back else "no",
    "encoder-decoder mask needed": lambda row: "yes" if row.workaround else "no",
}


def main() -> None:
    lines = [["transformers", *map(str, RELEASES)]]
    lines += [[name, *(text(row) for row in RELEASES)] for name, text in ROWS.items()]
    table = [f"| {' | '.join(line)} |" for line in lines]
    table.insert(1, "|" + "---|" * (len(RELEASES) + 1))
    deliver(TEXT.format(table="\n".join(table)), Path(__file__).parent / "RELEASES.md")


if __name__ == "__main__":
    main()

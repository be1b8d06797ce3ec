"""Write data/POLICIES.md: every policy with its keys and defaults, what it reads, where it exists, where it is from.

python data/write_policies.py
"""

from __future__ import annotations

from pathlib import Path

from documents import deliver

from analysis.replay.oracles import ORACLES
from oracle.policies import POLICIES
from oracle.policies.facts import Facts, facts

TEXT = '''# Policies

Written by `python data/write_policies.py` from the policies themselves; do not edit. `oracle policies NAME` says all of
one.

A policy is written `name` or `name:key=value,key=value`, everywhere alike; a key that is left out has the default
below. *Outcomes* are what earlier iterations accepted, *prices* those of the cost model.

{table}

These exist in simulation only, because they read what no draft can know:

{oracles}

## One of your own

A small class of `oracle.policies.Policy`, or a plain function `stop(signals)`: hand an object of it to
`oracle.simulate`, `measure`, `validate` or `report`, or write `--policy path/to/file.py:Name:key=value`, which runs
that file. A rule answers for many drafts at once, one a row:

```python
from dataclasses import dataclass
import numpy as np
from oracle.policies import Policy

@dataclass(frozen=True)
class Unsure(Policy):
    """Stop once any token of the draft so far was unlikely."""
    tokens: int = 8
    least: float = 0.3
    def budget(self, state): return self.tokens
    def stop(self, signals, state): return np.minimum.accumulate(signals.confidence, axis=1) < self.least

oracle.simulate(trace, Unsure(least=0.2)).speedup
```

To add one to the toolkit, put it beside its like in `oracle/policies/` and list it in `POLICIES` of `names.py`.
'''


RULES = {
    "oracle:detect": "draft until the draft disagrees; the pass that disagrees is paid (the published analysis)",
    "oracle:clairvoyant": "draft exactly what will be accepted",
    "oracle:optimal": "the cheapest way to produce this text under the cost model, steps without a draft included",
}


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def _row(found: Facts) -> str:
    reads = ", ".join(found.reads) or "nothing"
    memory = "; remembers over prompts" if found.carries_over else ""
    cells = (f"`{found.usage}`", found.rule, reads + memory, ", ".join(found.found_in) or "-", found.source or "-")
    return f"| {' | '.join(map(_cell, cells))} |"


def _table(columns: tuple[str, ...], rows: list[str]) -> str:
    return "\n".join([f"| {' | '.join(columns)} |", "|" + "---|" * len(columns), *rows])


def main() -> None:
    table = _table(("policy", "rule", "reads", "in", "from"), [_row(facts(name)) for name in POLICIES])
    oracles = [f"| `{name}` | {RULES[name]} |" for name in ORACLES]
    text = TEXT.format(table=table, oracles=_table(("policy", "rule"), oracles))
    deliver(text, Path(__file__).parent / "POLICIES.md")


if __name__ == "__main__":
    main()

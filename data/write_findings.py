"""Write data/results/FINDINGS.md from what `measure_findings.py` stored.

python data/write_findings.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from documents import deliver

from analysis.intervals import Estimate
from oracle.commands.numbers import interval_text

RESULTS = Path(__file__).parent / "results"
SETS = {"mbpp": "MBPP", "alpaca": "Alpaca"}
PUBLISHED = {"mbpp": "18.0 ± 46.2", "alpaca": "2.4 ± 2.1"}  # Mamou et al., arXiv 2405.04304; other pairs, longer texts

TEXT = """# Findings on a real pair

Written by `python data/write_findings.py` from `data/results/findings/`; do not edit. Qwen2.5-Coder-1.5B-Instruct with
a 0.5B draft, both expanded from 4-bit files, greedy, {dtype}, at most {length} new tokens, 60 prompts of each data set.
Intervals are 95 % ones over prompts.

Traces, and what is below, anew:

```bash
PAIR=(--target TARGET --draft DRAFT --dtype bfloat16 --chat --seed 0 --limit 60 --max-new-tokens 64)
oracle collect mbpp-trace "${{PAIR[@]}}" --dataset mbpp.jsonl --max-overrun 20 --top-k 10 --reference assisted
oracle calibrate cost.json --target TARGET --draft DRAFT --dtype bfloat16 --chat --dataset mbpp.jsonl
python data/measure_findings.py mbpp mbpp-trace cost.json && python data/write_findings.py
```

Measured prices are those that `oracle diagnose` fitted on 8 (MBPP) and 6 (Alpaca) of the prompts, on two CPU cores with
bfloat16 arithmetic, in texts of 32 tokens; beyond contexts of 61 to 147 tokens they are extrapolated.

![From no draft to perfect foresight, at a draft step of 0.1](headroom.png)

*`oracle plot mbpp-trace alpaca-trace headroom`*

![Speedup by threshold and cap on MBPP at the measured prices](surface.png)

*`oracle tune mbpp-trace --cost cost.json --plot surface.png`*

## How long the draft could have gone on

| data | prompts | tokens | agreement | oracle SL: mean ± SD | cut short by the end | published: mean ± SD |
|---|---|---|---|---|---|---|
{collected}

*Agreement*: how often the draft's next token is the target's own. *Oracle SL*: draft tokens in a row that were right,
plus the one that was wrong. *Published*: Mamou et al., arXiv 2405.04304, other pairs and longer texts.

## The recording that comes along

The same pair on the demo prompts, 80 of them: `oracle plot variance`, `oracle plot position`,
`oracle plot iterations --prompt 38`, `oracle plot time --draft-cost 0.3`.

![Oracle SL beside published values](variance.png)

![Oracle SL along the text](position.png)

![One prompt, iteration by iteration](iterations.png)

![Where the time of a token goes](time.png)
{sections}"""

SECTION = """
## {name}, {prices}

{steps}| rung | policy | speedup [95 %] | over the best constant | the same, tokens shuffled | share of the headroom |
|---|---|---|---|---|---|
{rungs}

{headroom}

{tuned}

{verdict}
"""


def main() -> None:
    found = {name: json.loads((RESULTS / "findings" / f"{name}.json").read_text(encoding="utf-8")) for name in SETS}
    one = found["mbpp"]
    text = TEXT.format(
        dtype=one["dtype"],
        length=one["max_new_tokens"],
        collected="\n".join(_collected(name, each["collected"]) for name, each in found.items()),
        sections="".join(
            _section(SETS[name], prices, priced)
            for name, each in found.items()
            for prices, priced in each["prices"].items()
        ),
    )
    deliver(text, RESULTS / "FINDINGS.md")


def _collected(name: str, s: dict[str, Any]) -> str:
    spread = f"{s['detect_mean']:.1f} ± {s['detect_sd']:.1f}"
    cells = (SETS[name], s["prompts"], f"{s['tokens']:,}", f"{s['agreement']:.1%}", spread, f"{s['censored']:.1%}")
    return f"| {' | '.join(map(str, cells))} | {PUBLISHED[name]} |"


def _section(name: str, prices: str, found: dict[str, Any]) -> str:
    return SECTION.format(
        name=name,
        prices=f"at {prices}",
        steps="" if "measured" not in prices else _steps(found["steps"]),
        rungs="\n".join(_rung(each) for each in found["ladder"]["rungs"]),
        headroom=_plain(found["headroom"]),
        tuned=_list("`oracle tune`", found["tuned"]["sentences"]),
        verdict=_list("`oracle stats`", found["verdict"]),
    )


def _steps(found: dict[str, dict[str, float]]) -> str:
    """A sentence on what passes cost."""
    drafting, verifying = (
        ", ".join(f"{count} tokens {value:.2f}" for count, value in found[kind].items())
        for kind in ("drafting", "verifying")
    )
    return f"In steps of the target alone: drafting {drafting}; verifying {verifying}.\n\n"


def _rung(found: dict[str, Any]) -> str:
    policy = "" if found["policy"] in (None, found["name"]) else f"`{found['policy']}`"
    null = found["null"]
    shuffled = "-" if null is None else f"{null['mean'] - 1:+.1%}"
    cells = (found["name"], policy, _interval(found["speedup"]), _gain(found["over_constant"]), shuffled)
    return f"| {' | '.join(cells)} | {_gain(found['share'], sign='')} |"


def _gain(found: dict[str, Any] | None, sign: str = "+") -> str:
    """With a sign a ratio as what it is above 1, else a share; with its interval where it has one."""
    if found is None or found["value"] is None:
        return "-"
    value, low, high = (found[key] and found[key] - bool(sign) for key in ("value", "low", "high"))
    return f"{value:{sign}.0%}" + ("" if low is None else f" [{low:{sign}.0%}, {high:{sign}.0%}]")


def _interval(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    return interval_text(Estimate(*(float("nan") if found[key] is None else found[key] for key in found)))


def _list(title: str, sentences: list[str]) -> str:
    return f"What {title} says:\n\n" + "\n".join(f"- {_plain(each)}" for each in sentences)


def _plain(text: str) -> str:
    return text.replace("*", "\\*")


if __name__ == "__main__":
    main()

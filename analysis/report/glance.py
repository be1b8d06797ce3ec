"""The section of the most important numbers, and of what they say of the trace."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.describe.signals import accepted_first
from analysis.examine import Examined
from analysis.intervals import Estimate
from analysis.replay.oracles import OPTIMAL
from analysis.report.markup import Markup, join, number, percent, range_words, tag
from analysis.report.traces import per_trace


def glance(subjects: Sequence[Examined]) -> Markup:
    """The most important numbers, and the sentences of the verdict that the answer does not hold already."""
    return per_trace(subjects, lambda subject: join([_tiles(subject), _verdict(subject)]))


def _verdict(subject: Examined) -> Markup:
    said = set(subject.tuned.sentences)
    return tag("ul", *(tag("li", text) for text in subject.verdict.grounds if text not in said), class_="verdict")


def _tiles(subject: Examined) -> Markup:
    held, found = subject.findings.evidence.held_out, subject.findings.evidence.gains
    summary = subject.description.everything.detect
    tiles = [
        (percent(float(accepted_first(subject.trace).mean())), "of the target's tokens are the draft's choice too"),
        (f"{number(summary.mean.value)} ± {number(summary.sd.value)}", "oracle SL (detect), mean ± SD"),
        (f"{number(held.constant_speedup.value)}×", _held_out_words("best constant lookahead", held.constant_speedup)),
        (
            f"{number(held.policy_speedup.value)}×",
            _held_out_words(f"best of {held.tried} settings", held.policy_speedup),
        ),
    ]
    if found is not None:
        oracle = found.of_kind(OPTIMAL)
        tiles.append(
            (
                f"+{percent(oracle.gain.value)}",
                f"oracle:optimal over the best constant, with the text known; coin flips of the same agreement give"
                f" +{percent(oracle.whole.mean)}",
            )
        )
    return tag("ul", *(tag("li", tag("b", value), tag("span", words)) for value, words in tiles), class_="tiles")


def _held_out_words(what: str, speedup: Estimate) -> str:
    chosen = "" if math.isnan(speedup.low) else ", judged on prompts that did not choose it"
    return f"{what}, simulated{chosen}; {range_words(speedup)}"

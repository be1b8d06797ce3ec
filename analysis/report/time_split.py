"""Where the time of a token goes, as one bar a policy beside that of no draft."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from analysis.examine import Examined, canonical
from analysis.gains.loss import Iteration, iteration
from analysis.plots.time import PARTS, split
from analysis.report.markup import Markup, join, tag
from analysis.verdict import time_words

_KINDS = ("kept", "refused", "checking", "overhead")  # of `PARTS`, as the style sheet calls them
_ALONE = "alone"  # the bar of no draft
_PLAIN = 1.0  # step of the target alone: what a token takes without a draft
_DEFAULT = "dynamic"


def time_split(subject: Examined) -> Markup:
    """The bars: the advised setting (or the best that was tried), the library's default, no draft; and in words."""
    first = iteration(subject.trace, subject.best)
    bars = [(first.policy, split(first)), *_default(subject)]
    longest = max(_PLAIN, *(sum(parts) for _, parts in bars))
    rows = [tag("li", *_row(name, dict(zip(_KINDS, parts, strict=True)), longest)) for name, parts in bars]
    rows.append(tag("li", *_row("no draft", {_ALONE: _PLAIN}, longest)))
    shares = split(first) / sum(split(first))
    legend = [
        tag("li", tag("span", "", class_=f"key {kind}"), f" {name} {share:.0%}")
        for kind, name, share in zip(_KINDS, PARTS, shares, strict=True)
    ]
    return join(
        [
            tag(
                "p",
                "Time of one token, in steps of the target alone: shorter is faster. Shares are of the first bar.",
                class_="note",
            ),
            tag("ul", *rows, class_="bars"),
            tag("ul", *legend, class_="legend"),
            tag("p", sentence(first)),
        ]
    )


def sentence(each: Iteration) -> str:
    """The same in numbers."""
    text = time_words(each).removeprefix("Why: ")
    return f"{text[0].upper()}{text[1:]}"


def _default(subject: Examined) -> list[tuple[str, np.ndarray]]:
    """What the library does by itself, where it is another policy and was replayed."""
    found = subject.source.diagnosis
    if found is not None:
        same = canonical(found.default) == canonical(subject.best.policy)
        return [] if same else [(f"{found.default} (nothing set)", split(found.causes.iteration))]
    others = (
        each for each in subject.results if each is not subject.best and canonical(each.policy) == canonical(_DEFAULT)
    )
    return [(f"{each.policy} (nothing set)", split(iteration(subject.trace, each))) for each in others]


def _row(name: str, parts: Mapping[str, float], longest: float) -> tuple[Markup, ...]:
    pieces, at = [], 0.0
    for kind, part in parts.items():
        width = 100 * max(part, 0) / longest
        if width > 0:
            pieces.append(f'<rect class="{kind}" x="{at:.2f}" y="0" width="{width:.2f}" height="10"/>')
        at += width
    step = 100 * _PLAIN / longest
    line = f'<line class="one" x1="{step:.2f}" x2="{step:.2f}" y1="0" y2="10"/>'
    bar = Markup(
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{"".join(pieces)}{line}'
        "</svg>"
    )
    return tag("code", name), tag("b", f"{sum(parts.values()):.2f}"), bar

"""The section about what an oracle's gain is made of: its parts as a bar and a table, and each gain beside its null."""

from __future__ import annotations

from analysis.examine import Examined
from analysis.gains.split import Gains, Null
from analysis.intervals import Estimate
from analysis.replay.oracles import OPTIMAL
from analysis.report.markup import Markup, join, number, table, tag, with_interval

_WIDTH = 640  # of the bar


def gains_section(subject: Examined) -> Markup:
    """The gains of one trace, or why there are none."""
    found, held = subject.findings.evidence.gains, subject.findings.evidence.held_out
    if found is None:
        return tag("p", "The tokens of this trace cannot be shuffled, so no gain can be set beside that of coin flips.")
    rows = [
        (name, _points(part), what)
        for name, part, what in (
            (
                "Coin flips of this agreement",
                found.split.coin,
                "what it gains where tokens are shuffled over all texts",
            ),
            ("Between prompts", found.split.between, "what is added where they are shuffled within each text only"),
            ("Within prompts", found.split.within, "what their order within the texts adds"),
            (f"{OPTIMAL} in all", found.of_kind(OPTIMAL).gain, "the sum of these three"),
            (
                "Foreseeable, held out",
                held.gain.map(lambda end: end - 1),
                f"what the best of {held.tried} settings gains on prompts that did not choose it",
            ),
        )
    ]
    split = table(
        ("Part", "Points (95 %)", "What it is"),
        rows,
        caption=f"Gain over the best constant lookahead ({held.constant}) on {subject.name}, in per cent of its speed",
        text_columns=(2,),
    )
    return join([tag("p", _words(found)), _bar(found, held.gain.value - 1), split, _beside(subject.name, found)])


def _words(found: Gains) -> str:
    some = (
        "" if found.prompts == found.of else f" Replayed on {found.prompts:,} of {found.of:,} prompts, evenly spread."
    )
    return (
        "An oracle knows every outcome beforehand, so it gains over a constant even where outcomes are coin flips. Only"
        " what it gains beyond shuffled tokens lies in the text, and only what a policy gains on prompts that did not"
        f" choose it can be had without an oracle. The last token of a text stays in its place: it is the target's."
        f" {found.shuffles} shuffles of each kind; the best constant is chosen anew for each.{some}"
    )


def _beside(name: str, found: Gains) -> Markup:
    rows = [
        (each.what, with_interval(each.gain, _percent), _range(each.within), _range(each.whole)) for each in found.gains
    ]
    return table(
        ("Gain over a constant for all", "This trace (95 %)", "Shuffled within texts", "Shuffled over all texts"),
        rows,
        caption=(
            f"Each gain on {name} beside that of shuffled tokens (mean, and range over the shuffles). Held out: chosen"
            " on one half of each text and judged on the other, in both directions."
        ),
    )


def _bar(found: Gains, foreseeable: float) -> Markup:
    """The three parts one after the other, and below them what a policy gains; to one scale."""
    parts = {"coin": found.split.coin.value, "between": found.split.between.value, "within": found.split.within.value}
    largest = max(sum(max(part, 0) for part in parts.values()), foreseeable, 1e-9)
    pieces, at = [], 0.0
    for kind, part in parts.items():
        width = _WIDTH * max(part, 0) / largest
        pieces.append(f'<rect class="{kind}" x="{at:.1f}" y="0" width="{width:.1f}" height="18"/>')
        at += width
    below = _WIDTH * max(foreseeable, 0) / largest
    pieces.append(f'<rect class="foreseeable" x="0" y="24" width="{below:.1f}" height="18"/>')
    picture = Markup(f'<svg class="split" viewBox="0 0 {_WIDTH} 42" aria-hidden="true">{"".join(pieces)}</svg>')
    names = {
        "coin": "coin flips",
        "between": "between prompts",
        "within": "within prompts",
        "foreseeable": "foreseeable, held out",
    }
    legend = [tag("li", tag("span", "", class_=f"key {kind}"), f" {name}") for kind, name in names.items()]
    return join([picture, tag("ul", *legend, class_="legend")])


def _points(part: Estimate) -> str:
    return with_interval(part, lambda value: number(100 * value, 1))


def _percent(value: float) -> str:
    return f"{number(100 * value, 1)} %"


def _range(null: Null) -> str:
    return f"{_percent(null.mean)} ({number(100 * null.low, 1)} to {number(100 * null.high, 1)})"

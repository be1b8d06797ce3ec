"""The section that the page opens with: faster or slower, why, what to paste, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from analysis.diagnosis import words
from analysis.diagnosis.found import answer, outcome
from analysis.examine import Examined
from analysis.intervals import Estimate
from analysis.ladder.replays import LIBRARY
from analysis.report.markup import Markup, join, paste, tag
from analysis.report.prices import assumed, prices
from analysis.report.time_split import time_split
from analysis.report.traces import per_trace
from analysis.verdict import NO_DRAFT
from oracle.policies import parse
from oracle.settings import nearest
from oracle.settings.transformers import PLAIN, alone_has, argument, lines, told


def answers(subjects: Sequence[Examined]) -> Markup:
    """The answer of every trace; what is only assumed of prices is said before all else, once."""
    heading = "h3" if len(subjects) == 1 else "h4"
    first = dict.fromkeys(prices(subject) for subject in subjects if assumed(subject))
    return join(
        [
            *(tag("p", tag("b", "Prices are assumed, not measured."), f" {text}", class_="warning") for text in first),
            per_trace(subjects, lambda subject: _answer(subject, heading)),
        ]
    )


def _answer(subject: Examined, heading: str) -> Markup:
    why = [tag(heading, "Why"), time_split(subject), *(tag("p", text) for text in _why(subject))]
    sure = tag("ul", *(tag("li", text) for text in _sure(subject)))
    rest = [tag(heading, "What to paste"), *_paste(subject), tag(heading, "How sure"), sure]
    if change := _change(subject):
        rest += [tag(heading, "What would change it"), *(tag("p", text) for text in change)]
    return join([_headline(subject), tag("div", tag("div", join(why)), tag("div", join(rest)), class_="columns")])


# --- faster or slower -------------------------------------------------------------------------------------------------


def _headline(subject: Examined) -> Markup:
    """What is advised, in a word and a sentence, and below it what the library does by itself."""
    found = subject.source.diagnosis
    if found is None:
        word, advice, now = answer(_judged(subject)), subject.tuned.sentences[0], _untouched(subject)
    else:
        first, *more = words.headline(found)
        word, now = outcome(found), first.partition(". ")[2]
        advice = f"Advice: {' '.join(more).removeprefix('ADVICE: ')}"
    lead = tag("p", tag("strong", f"{word.capitalize()}.", class_=word), " ", tag("span", advice), class_="lead")
    return join([lead, *([tag("p", now)] if now else [])])


def _judged(subject: Examined) -> Estimate:
    """Speedup of what is advised, simulated and held out; where that is no draft, of the best that was tried."""
    tuned = subject.tuned
    return tuned.held.policy_speedup if tuned.held and subject.advice == NO_DRAFT else tuned.speedup


def _untouched(subject: Examined) -> str:
    """What transformers does where nothing is set, simulated; empty where the trace recorded too little for it."""
    found, roc = subject.ladder.of_name(LIBRARY), subject.ladder.roc
    if found.speedup is None:
        return ""
    other = "" if roc is None else f"; where scikit-learn is installed (roc) {words.gain(roc)}"
    return f"With nothing set (dynamic), decoding with this draft is {words.gain(found.speedup)}{other}."


# --- why, and what would change it ------------------------------------------------------------------------------------


def _why(subject: Examined) -> list[str]:
    """What a diagnosis says beside the bars: of the library's default."""
    found = subject.source.diagnosis
    if found is None:
        return []
    return [f"With nothing set ({found.default}): {text[0].lower()}{text[1:]}" for text in words.why(found)[1:]]


def _change(subject: Examined) -> list[str]:
    found = subject.source.diagnosis
    return [] if found is None else [" ".join(words.change(found)), *words.drafts(found)]


# --- what to paste ----------------------------------------------------------------------------------------------------


def _paste(subject: Examined) -> list[Markup]:
    advice, tuned = subject.advice, subject.tuned
    draft = told(subject.trace.meta)
    if advice == NO_DRAFT:
        words = f"Leave {argument(draft)} out."
        return [paste(PLAIN, "the call without a draft"), tag("p", words, class_="note")]
    found, note = nearest(advice, tuned.constant, tuned.simplest, draft)[0]
    if alone_has(draft):  # another call, or another place of the settings than a draft in memory; and no other engine
        return [paste(str(found.text), "the settings"), tag("p", note, class_="note")]
    return [
        paste(lines(parse(advice)), "the settings"),
        tag("p", note, " ", tag("a", "Other engines", href="#settings"), class_="note"),
    ]


# --- how sure ---------------------------------------------------------------------------------------------------------


def _sure(subject: Examined) -> list[str | Markup]:
    found = subject.source.diagnosis
    if found is not None:
        return [*words.surer(found), prices(subject)]
    return [_basis(subject), *subject.tuned.sentences[1:], *_measured(subject), *_undecided(subject)]


def _basis(subject: Examined) -> str:
    """What the numbers rest on."""
    trace = subject.trace
    over = "prompts and the errors of the prices" if subject.constant.prices_vary else "prompts"
    some = "" if assumed(subject) else f" {prices(subject)}"
    return f"Simulated on {trace.prompts:,} prompts ({trace.tokens:,} tokens); intervals are 95 %, over {over}.{some}"


def _measured(subject: Examined) -> list[str]:
    """What the clock says of the advised setting, else of the first policy that was measured."""
    if not subject.measured:
        return []
    policy = subject.best.policy if subject.best.policy in subject.measured else next(iter(subject.measured))
    each = subject.measured[policy]
    return [f"Measured on {each.prompts:,} prompts: with {policy} decoding is {words.gain(each.decoding)}."]


def _undecided(subject: Examined) -> list[str]:
    """What the trace cannot tell, in one sentence."""
    said, judged, held = [], _judged(subject), subject.tuned.held
    if answer(judged) == "undecided":
        policy = subject.best.policy
        alone = ", which one prompt cannot tell" if math.isnan(judged.low) and subject.trace.prompts == 1 else ""
        said.append(f"whether decoding with {policy} is faster than without a draft{alone}")
    if len(subject.tuned.group) > 1:
        said.append(f"which of {len(subject.tuned.group):,} settings is the best")
    if held is not None and subject.verdict.foreseeable is None:
        said.append("whether any of them beats the best constant by more than a little")
    cut = float(np.mean(subject.trace.finish == "length"))
    if cut >= words.CUT:
        longest = int(subject.trace.max_new_tokens.max())
        said.append(f"what comes after {longest:,} tokens, where {cut:.0%} of the texts were cut (--max-new-tokens)")
    if assumed(subject):
        said.append("what it is on your machine, whose prices were not measured (--cost)")
    if not subject.measured:
        said.append("how it does on the clock, for nothing was measured (--runs, or oracle diagnose)")
    return [f"Left undecided: {'; '.join(said)}."] if said else []

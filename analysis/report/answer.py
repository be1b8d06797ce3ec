"""The section that the page opens with: faster or slower, why, what to paste, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from analysis.diagnosis import words
from analysis.diagnosis.found import answer, outcome
from analysis.intervals import Estimate
from analysis.ladder.replays import LIBRARY
from analysis.report.markup import Markup, join, paste, tag
from analysis.report.prices import assumed, prices
from analysis.report.time_split import time_split
from analysis.report.traces import per_trace
from analysis.study import Study
from analysis.verdict import NO_DRAFT
from oracle.policies import parse
from oracle.settings import nearest
from oracle.settings.transformers import PLAIN, lines


def answers(studies: Sequence[Study]) -> Markup:
    """The answer of every trace; what is only assumed of prices is said before all else, once."""
    heading = "h3" if len(studies) == 1 else "h4"
    first = dict.fromkeys(prices(study) for study in studies if assumed(study))
    return join(
        [
            *(tag("p", tag("b", "Prices are assumed, not measured."), f" {text}", class_="warning") for text in first),
            per_trace(studies, lambda study: _answer(study, heading)),
        ]
    )


def _answer(study: Study, heading: str) -> Markup:
    why = [tag(heading, "Why"), time_split(study), *(tag("p", text) for text in _why(study))]
    sure = tag("ul", *(tag("li", text) for text in _sure(study)))
    rest = [tag(heading, "What to paste"), *_paste(study), tag(heading, "How sure"), sure]
    if change := _change(study):
        rest += [tag(heading, "What would change it"), *(tag("p", text) for text in change)]
    return join([_headline(study), tag("div", tag("div", join(why)), tag("div", join(rest)), class_="columns")])


# --- faster or slower -------------------------------------------------------------------------------------------------


def _headline(study: Study) -> Markup:
    """What is advised, in a word and a sentence, and below it what the library does by itself."""
    found = study.source.diagnosis
    if found is None:
        word, advice, now = answer(_judged(study)), study.tuned.sentences[0], _untouched(study)
    else:
        first, *more = words.headline(found)
        word, now = outcome(found), first.partition(". ")[2]
        advice = f"Advice: {' '.join(more).removeprefix('ADVICE: ')}"
    lead = tag("p", tag("strong", f"{word.capitalize()}.", class_=word), " ", tag("span", advice), class_="lead")
    return join([lead, *([tag("p", now)] if now else [])])


def _judged(study: Study) -> Estimate:
    """Speedup of what is advised, simulated and held out; where that is no draft, of the best that was tried."""
    tuned = study.tuned
    return tuned.held.policy_speedup if tuned.held and study.advice == NO_DRAFT else tuned.speedup


def _untouched(study: Study) -> str:
    """What transformers does where nothing is set, simulated; empty where the trace recorded too little for it."""
    found, roc = study.ladder.of_name(LIBRARY), study.ladder.roc
    if found.speedup is None:
        return ""
    other = "" if roc is None else f"; where scikit-learn is installed (roc) {words.gain(roc)}"
    return f"With nothing set (dynamic), decoding with this draft is {words.gain(found.speedup)}{other}."


# --- why, and what would change it ------------------------------------------------------------------------------------


def _why(study: Study) -> list[str]:
    """What a diagnosis says beside the bars: of the library's default."""
    found = study.source.diagnosis
    if found is None:
        return []
    return [f"With nothing set ({found.default}): {text[0].lower()}{text[1:]}" for text in words.why(found)[1:]]


def _change(study: Study) -> list[str]:
    found = study.source.diagnosis
    return [] if found is None else [" ".join(words.change(found)), *words.drafts(found)]


# --- what to paste ----------------------------------------------------------------------------------------------------


def _paste(study: Study) -> list[Markup]:
    advice, tuned = study.advice, study.tuned
    if advice == NO_DRAFT:
        return [paste(PLAIN, "the call without a draft"), tag("p", "Leave assistant_model out.", class_="note")]
    _, note = nearest(advice, tuned.constant, tuned.simplest)[0]
    return [
        paste(lines(parse(advice)), "the settings"),
        tag("p", note, " ", tag("a", "Other engines", href="#settings"), class_="note"),
    ]


# --- how sure ---------------------------------------------------------------------------------------------------------


def _sure(study: Study) -> list[str | Markup]:
    found = study.source.diagnosis
    if found is not None:
        return [*words.surer(found), prices(study)]
    return [_basis(study), *study.tuned.sentences[1:], *_measured(study), *_undecided(study)]


def _basis(study: Study) -> str:
    """What the numbers rest on."""
    trace = study.trace
    over = "prompts and the errors of the prices" if study.constant.prices_vary else "prompts"
    some = "" if assumed(study) else f" {prices(study)}"
    return f"Simulated on {trace.prompts:,} prompts ({trace.tokens:,} tokens); intervals are 95 %, over {over}.{some}"


def _measured(study: Study) -> list[str]:
    """What the clock says of the advised setting, else of the first policy that was measured."""
    if not study.measured:
        return []
    policy = study.best.policy if study.best.policy in study.measured else next(iter(study.measured))
    each = study.measured[policy]
    return [f"Measured on {each.prompts:,} prompts: with {policy} decoding is {words.gain(each.decoding)}."]


def _undecided(study: Study) -> list[str]:
    """What the trace cannot tell, in one sentence."""
    said, judged, held = [], _judged(study), study.tuned.held
    if answer(judged) == "undecided":
        policy = study.best.policy
        alone = ", which one prompt cannot tell" if math.isnan(judged.low) and study.trace.prompts == 1 else ""
        said.append(f"whether decoding with {policy} is faster than without a draft{alone}")
    if len(study.tuned.group) > 1:
        said.append(f"which of {len(study.tuned.group):,} settings is the best")
    if held is not None and study.verdict.foreseeable is None:
        said.append("whether any of them beats the best constant by more than a little")
    cut = float(np.mean(study.trace.finish == "length"))
    if cut >= words.CUT:
        longest = int(study.trace.max_new_tokens.max())
        said.append(f"what comes after {longest:,} tokens, where {cut:.0%} of the texts were cut (--max-new-tokens)")
    if assumed(study):
        said.append("what it is on your machine, whose prices were not measured (--cost)")
    if not study.measured:
        said.append("how it does on the clock, for nothing was measured (--runs, or oracle diagnose)")
    return [f"Left undecided: {'; '.join(said)}."] if said else []

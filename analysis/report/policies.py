"""The sections of the report about policies: simulated and measured speedups, and what to paste of the advised one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from analysis.examine import Examined
from analysis.intervals import Estimate
from analysis.measured.speedups import Measured
from analysis.replay.oracles import is_oracle
from analysis.replay.paired import paired
from analysis.replay.result import Totals
from analysis.replay.simulate import SimulationResult
from analysis.report.markup import Markup, join, number, paste, percent, range_words, table, tag
from analysis.verdict import NO_DRAFT
from oracle.settings import nearest
from oracle.settings.transformers import argument, told


def policies_section(subject: Examined) -> Markup:
    """The simulated policies of a trace, measured speedups beside them where there are any."""
    results = subject.shown
    speedups = [result.speedup_estimate() for result in results]
    some = subject.common.ids if subject.measured and subject.common is not None and subject.common.some else ()
    beside = {policy: each.speedup_estimate() for policy, each in subject.beside.items()} if some else {}
    drawn = [beside.get(result.policy, each) for result, each in zip(results, speedups, strict=True)]
    ends = (each.high for each in [*speedups, *drawn, *(each.decoding for each in subject.measured.values())])
    largest = max([1.2, *ends])
    again = (f"Simulated, the {len(some):,} measured prompts (95 %)",) if some else ()
    extra = (*again, "Measured speedup (95 %)") if subject.measured else ()
    baseline = subject.constant
    head = (
        "Policy",
        "Simulated speedup (95 %)" if extra else "Speedup (95 %)",
        *extra,
        "",
        "Gain, % (95 %)",
        "Target passes",
        "Drafted",
        "Accepted",
        "Wasted",
        "Accepted share",
        "Tokens per pass",
    )
    rows = [
        (
            _named(subject, result),
            _with_range(speedup),
            *((_with_range(dot) if result.policy in beside else "",) if some else ()),
            *_measured_cell(subject, result.policy),
            interval_picture(dot, subject.measured.get(result.policy), largest),
            _over(baseline, result),
            f"{result.iterations:,}",
            f"{result.draft_tokens:,}",
            f"{result.accepted_tokens:,}",
            f"{result.wasted:,}",
            percent(result.accepted_share),
            number(result.tokens_per_iteration),
        )
        for result, speedup, dot in zip(results, speedups, drawn, strict=True)
    ]
    fastest = max(range(len(results)), key=lambda row: -1 if is_oracle(results[row].policy) else results[row].speedup)
    caption = (
        f"Policies replayed on {subject.name}: {subject.trace.prompts:,} prompts, {subject.trace.tokens:,} tokens."
        " Speedups leave the reading of the prompt out. Bold: the fastest in simulation that is no oracle."
        f" Gain: how much faster than {baseline.policy}, the best constant lookahead on these prompts, compared prompt"
        " by prompt."
    )
    shown = table(head, rows, caption=caption, text_columns=(2 + len(extra),), best=fastest)
    return join([*(tag("p", text) for text in _measured_words(subject)), shown, *_cautions(subject, results)])


def _named(subject: Examined, result: SimulationResult) -> Markup:
    """A policy, and whether it is the one to use."""
    name = tag("code", result.policy)
    return join([name, tag("small", best_words(subject))], "") if result is subject.best else name


def best_words(subject: Examined) -> str:
    """What `Examined.best` is."""
    return "fastest that was tried" if subject.advice == NO_DRAFT else "advised"


def _with_range(speedup: Estimate) -> Markup:
    """A speedup, and its interval in small type below: it is never shown without."""
    interval = "no interval" if math.isnan(speedup.low) else f"{speedup.low:.2f} to {speedup.high:.2f}"
    return join([number(speedup.value), tag("small", interval)], "")


def _over(baseline: Totals, result: SimulationResult) -> Markup | str:
    """How much faster than the baseline, in per cent, paired by prompt."""
    if result.policy == baseline.policy:
        return "baseline"
    found = paired(baseline, result)
    value, low, high = (100 * (end - 1) for end in (found.value, found.low, found.high))
    interval = "no interval" if math.isnan(low) else f"{low:+.1f} to {high:+.1f}"
    return join([f"{value:+.1f}", tag("small", interval)], "")


def _measured_cell(subject: Examined, policy: str) -> tuple[object, ...]:
    if not subject.measured:
        return ()
    found = subject.measured.get(policy)
    return ("",) if found is None else (_with_range(found.decoding),)


def _measured_words(subject: Examined) -> list[str]:
    runs = subject.source.runs
    if runs is None or not subject.measured:
        return []
    common, prompts = subject.common, max(each.prompts for each in subject.measured.values())
    on, beside = f"Measured with the real generator on {prompts:,} prompts", ""
    if common is not None and common.some:
        on = f"{common.words} with the real generator"
        beside = " What stands beside them, in the table and in the pictures, is simulated on these prompts alone."
    repeats = max(each.repeats for each in subject.measured.values())
    different = max(each.different_texts for each in subject.measured.values())
    machine = runs.meta.get("machine") or {}
    where = ", ".join(
        str(part)
        for part in (machine.get("processor"), *(machine.get("accelerators") or ()), machine.get("dtype"))
        if part
    )
    texts = (
        f"; with some policy up to {different:,} texts differ from plain decoding's"
        if different
        else "; every text equals plain decoding's"
    )
    return [
        f"{on}, {repeats:,}"
        f" repeat{'s' * (repeats > 1)}{f' ({where})' if where else ''}{texts}.{beside} In the pictures the dot is"
        " simulated, the ring measured."
    ]


def _cautions(subject: Examined, results: Sequence[SimulationResult]) -> list[Markup]:
    unfinished = [
        each.unfinished for each in (subject.trace, subject.source.runs) if each is not None and each.unfinished
    ]
    found = [*unfinished, *(note for note in subject.notes if subject.common is None or note != subject.common.words)]
    found += [f"{named} {are} left out: {reason}" for named, are, reason in _alike(subject.left_out)]
    outside = {result.policy: _outside(subject, result) for result in results}
    found += [f"{named}: {far}" for named, _, far in _alike({name: far for name, far in outside.items() if far})]
    beyond = {result.policy: f"{result.unrecorded:,}" for result in results if result.unrecorded}
    found += [
        f"{named}: {count} drafts{' and fewer' if ',' in named else ''} went on beyond the recorded overrun; their"
        " length is exact unless the draft would have ended the text there"
        for named, _, count in _alike(beyond)
    ]
    return [tag("ul", *(tag("li", text) for text in found), class_="warning")] if found else []


def _outside(subject: Examined, result: SimulationResult) -> str | None:
    context = subject.trace.context[subject.trace.offsets[result.prompt] + result.position]
    return subject.cost.outside_range(result.drafted, context)


def _alike(said: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """What is said of policies, once for all of whom the same is said but for the numbers: names, is or are, words.

    The words are those with the largest numbers: what mends that case mends the others.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for policy, words in said.items():
        # Its name, or the whole of its text, which may say more.
        words = re.sub(rf"policy {re.escape(policy)}(?::[\w.=,/-]*\w)?", "this policy", words)
        groups.setdefault(re.sub(r"[\d.,]+", "#", words), []).append((policy, words))
    found = []
    for group in groups.values():
        worst = max((words for _, words in group), key=_numbers)
        told = worst if len({words for _, words in group}) == 1 else f"at most {worst}"
        found.append((", ".join(policy for policy, _ in group), "are" if len(group) > 1 else "is", told))
    return found


def _numbers(words: str) -> list[float]:
    return [float(each) for each in re.findall(r"\d+(?:\.\d+)?", words.replace(",", ""))]


def interval_picture(simulated: Estimate, measured: Measured | None, largest: float) -> Markup:
    """A dot with its interval on a scale from 0 to ``largest``; a ring for what was measured.

    The dashed line is at 1, plain decoding.
    """

    def x(speedup: float) -> str:
        return f"{4 + 136 * min(max(speedup, 0), largest) / largest:.1f}"

    def mark(speedup: Estimate, y: int, kind: str) -> str:
        ends = f'x1="{x(speedup.low)}" x2="{x(speedup.high)}" y1="{y}" y2="{y}"'
        bar = "" if math.isnan(speedup.low) else f'<line class="range {kind}" {ends}/>'
        return f'{bar}<circle class="{kind}" cx="{x(speedup.value)}" cy="{y}" r="4"/>'

    rows = [mark(simulated, 10 if measured is None else 6, "dot")]
    if measured is not None and not math.isnan(measured.decoding.value):
        rows.append(mark(measured.decoding, 15, "ring"))
    return Markup(
        '<svg class="interval" viewBox="0 0 144 20" aria-hidden="true"><line class="axis" x1="4" x2="140" y1="10"'
        f' y2="10"/><line class="one" x1="{x(1)}" x2="{x(1)}" y1="1" y2="19"/>{"".join(rows)}</svg>'
    )


# --- settings to paste ------------------------------------------------------------------------------------------------


def settings(subject: Examined) -> Markup:
    """What is advised, as lines to paste for each engine."""
    tuned, advice = subject.tuned, subject.advice
    held = subject.findings.evidence.held_out
    tried = f"Of {held.tried:,} settings of transformers' assisted generation that were replayed, "
    if advice == NO_DRAFT:
        return tag(
            "p",
            f"{tried}none is seen to beat plain decoding here (the best, judged on prompts that did not choose it, has"
            f" a speedup of {number(held.policy_speedup.value)}; {range_words(held.policy_speedup)}): leave"
            f" {argument(told(subject.trace.meta))} out.",
            class_="warning",
        )
    fastest = tuned.settings[0].policy
    parts = [
        tag(
            "p",
            tried,
            tag("code", fastest),
            " is the fastest on these prompts."
            if advice == fastest
            else join([" is the fastest on these prompts; advised is ", tag("code", advice), "."], ""),
            " Judged on prompts that had no part in the choice, the best constant reaches a speedup of"
            f" {number(held.constant_speedup.value)} ({range_words(held.constant_speedup)}), the best of all"
            f" {number(held.policy_speedup.value)} ({range_words(held.policy_speedup)}).",
        )
    ]
    for each, words in nearest(advice, tuned.constant, tuned.simplest, subject.trace.meta.get("draft")):
        parts.append(tag("p", tag("b", f"{each.engine} {each.version}."), f" {words}", class_="note"))
        parts.append(paste(str(each.text), f"settings for {each.engine}"))
    return join(parts)

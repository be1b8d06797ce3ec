"""The sections of the report about policies: simulated and measured speedups, and the settings to paste."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.intervals import Estimate
from analysis.measured.speedups import Measured
from analysis.replay.oracles import is_oracle
from analysis.replay.paired import paired
from analysis.replay.result import Totals
from analysis.replay.simulate import SimulationResult
from analysis.report.markup import Markup, join, number, percent, range_words, table, tag
from analysis.study import Study, canonical
from analysis.verdict import NO_DRAFT
from oracle.policies import parse
from oracle.policies.library import settings_of
from oracle.settings import nearest
from oracle.settings.transformers import ENGINE, drafts_for_itself, lines

_NAMED = 8  # settings that a sentence names


def policies_section(study: Study) -> Markup:
    """The simulated policies of a trace, measured speedups beside them where there are any."""
    results = [*study.results]
    if canonical(study.sweep.best.policy) not in map(canonical, (result.policy for result in results)):
        results.append(study.sweep.best)
    speedups = [result.speedup_estimate() for result in results]
    some = study.common.ids if study.measured and study.common is not None and study.common.some else ()
    beside = {policy: each.speedup_estimate() for policy, each in study.beside.items()} if some else {}
    drawn = [beside.get(result.policy, each) for result, each in zip(results, speedups, strict=True)]
    ends = (each.high for each in [*speedups, *drawn, *(each.decoding for each in study.measured.values())])
    largest = max([1.2, *ends])
    again = (f"Simulated, the {len(some):,} measured prompts (95 %)",) if some else ()
    extra = (*again, "Measured speedup (95 %)") if study.measured else ()
    baseline = next(iter(study.sweep.constants()), None)
    against = () if baseline is None else ("Gain, % (95 %)",)
    head = (
        "Policy",
        "Simulated speedup (95 %)" if extra else "Speedup (95 %)",
        *extra,
        "",
        *against,
        "Target passes",
        "Drafted",
        "Accepted",
        "Wasted",
        "Accepted share",
        "Tokens per pass",
    )
    rows = [
        (
            tag("code", result.policy),
            _with_range(speedup),
            *((_with_range(dot) if result.policy in beside else "",) if some else ()),
            *_measured_cell(study, result.policy),
            interval_picture(dot, study.measured.get(result.policy), largest),
            *(() if baseline is None else (_over(baseline, result),)),
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
        f"Policies replayed on {study.name}: {study.trace.prompts:,} prompts, {study.trace.tokens:,} tokens. Speedups"
        " leave the reading of the prompt out. Bold: the fastest in simulation that is no oracle."
    )
    if baseline is not None:
        caption += (
            f" Gain: how much faster than {baseline.policy}, the best constant lookahead on these prompts, compared"
            " prompt by prompt."
        )
    shown = table(head, rows, caption=caption, text_columns=(2 + len(extra),), best=fastest)
    words = [_cost_words(study), *_measured_words(study)]
    return join([*(tag("p", text) for text in words), shown, *_cautions(study, results)])


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


def _measured_cell(study: Study, policy: str) -> tuple[object, ...]:
    if not study.measured:
        return ()
    found = study.measured.get(policy)
    return ("",) if found is None else (_with_range(found.decoding),)


def _measured_words(study: Study) -> list[str]:
    runs = study.source.runs
    if runs is None or not study.measured:
        return []
    common, prompts = study.common, max(each.prompts for each in study.measured.values())
    on, beside = f"Measured with the real generator on {prompts:,} prompts", ""
    if common is not None and common.some:
        on = f"{common.words} with the real generator"
        beside = " What stands beside them, in the table and in the pictures, is simulated on these prompts alone."
    repeats = max(each.repeats for each in study.measured.values())
    different = max(each.different_texts for each in study.measured.values())
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


def _cost_words(study: Study) -> str:
    cost = study.cost
    if not cost.machine:
        flat = " and verification to cost one step however long the draft is" if len(cost.verify) == 1 else ""
        return (
            f"Prices not measured on a machine: a draft step is taken to cost {study.draft_cost:.3g} of a target"
            f" step{flat}. Speedups hold under this assumption only; the command oracle calibrate measures a machine's"
            " prices."
        )
    machine = ", ".join(f"{key} {value}" for key, value in cost.machine.items() if isinstance(value, (str, int, float)))
    return f"Prices measured on a machine ({machine}): a draft step costs {study.draft_cost:.3f} of a target step."


def _cautions(study: Study, results: Sequence[SimulationResult]) -> list[Markup]:
    unfinished = [each.unfinished for each in (study.trace, study.source.runs) if each is not None and each.unfinished]
    found = [*unfinished, *(note for note in study.notes if study.common is None or note != study.common.words)]
    found += [f"{policy} is left out: {reason}" for policy, reason in study.left_out.items()]
    for result in results:
        outside = study.cost.outside_range(
            result.drafted, study.trace.context[study.trace.offsets[result.prompt] + result.position]
        )
        if outside:
            found.append(f"{result.policy}: {outside}")
        if result.unrecorded:
            found.append(
                f"{result.policy}: {result.unrecorded:,} drafts went on beyond the recorded overrun; their length is"
                " exact unless the draft would have ended the text there"
            )
    return [tag("ul", *(tag("li", text) for text in found), class_="warning")] if found else []


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


def settings(study: Study) -> Markup:
    """What the verdict advises, as lines to paste for transformers' assisted generation."""
    held, advice = study.findings.evidence.held_out, study.verdict.advice
    tried = f"Of {held.tried} settings of transformers' assisted generation that were replayed, "
    if advice == NO_DRAFT:
        return tag(
            "p",
            f"{tried}none is seen to beat plain decoding here (the best, judged on prompts that did not choose it, has"
            f" a speedup of {number(held.policy_speedup.value)}; {range_words(held.policy_speedup)}): leave"
            " assistant_model out.",
            class_="warning",
        )
    policy, fastest = parse(advice), study.sweep.results[0].policy
    parts = [
        tag(
            "p",
            tried,
            tag("code", fastest),
            " is the fastest on these prompts."
            if advice == fastest
            else join(
                [" is the fastest on these prompts, but is not seen to beat ", tag("code", advice), " on others."], ""
            ),
            " Judged on prompts that had no part in the choice, the best constant reaches a speedup of"
            f" {number(held.constant_speedup.value)} ({range_words(held.constant_speedup)}), the best of all"
            f" {number(held.policy_speedup.value)} ({range_words(held.policy_speedup)}).",
        ),
        tag("p", _group_words(study), class_="note"),
    ]
    draft = study.source.trace.meta.get("draft")
    if isinstance(draft, Mapping) and drafts_for_itself(draft):
        return join([*parts, *_of_itself(advice, held.constant, draft), *_not_tried(study)])
    parts += [
        tag("pre", tag("code", lines(policy)), tabindex="0", role="region", aria_label="Settings to paste"),
        tag(
            "p",
            "Set them on the draft: given to ",
            tag("code", "generate"),
            " they are silently ignored.",
            class_="note",
        ),
    ]
    settings = settings_of(policy)
    if settings is not None and settings.threshold > 0:
        words = (
            "With scikit-learn installed, transformers from 5.20 on moves the threshold during each call; this is the"
            " value that it starts from."
        )
        parts.append(tag("p", words, class_="note"))
    parts.append(_other_engines(advice, held.constant))
    return join([*parts, *_not_tried(study)])


def _not_tried(study: Study) -> list[Markup]:
    if not study.sweep.left_out:
        return []
    words = f"Not tried, because the trace recorded too little for them: {', '.join(study.sweep.left_out)}."
    return [tag("p", words, class_="note")]


def _of_itself(advice: str, constant: str, draft: Mapping[str, Any]) -> list[Markup]:
    """The lines for a target that drafts for itself, by its first layers or by lookup."""
    (found, told), *_ = nearest(advice, constant, draft=draft)
    code = tag("code", found.text or "")
    return [
        tag("pre", code, tabindex="0", role="region", aria_label="Settings to paste"), tag("p", told, class_="note"),
    ]  # fmt: skip


def _other_engines(advice: str, constant: str) -> Markup:
    """The same in other engines, or the best constant where they lack the rule."""
    parts = []
    for each, told in nearest(advice, constant):
        if each.engine != ENGINE:
            code, label = tag("code", each.text), f"Settings to paste for {each.engine}"
            parts.append(tag("p", f"{each.engine} {each.version}. {told}", class_="note"))
            parts.append(tag("pre", code, tabindex="0", role="region", aria_label=label))
    return join(parts)


def _group_words(study: Study) -> str:
    """Which of the settings that were tried may be the best, as far as these prompts tell."""
    group = [each.policy for each in study.sweep.may_be_best]
    if len(group) == 1:
        return f"No other setting may be the best: {group[0]} is faster than each of them (95 %, all at once)."
    named = ", ".join(group[:_NAMED]) + (f" and {len(group) - _NAMED} more" if len(group) > _NAMED else "")
    return (
        f"Not distinguishable from the best on these prompts (95 %, all at once) are {len(group)} of"
        f" {len(study.sweep.results)}: {named}."
    )

"""The sections of the report that are words and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from analysis.distributions import Fit, best
from analysis.policies import parse
from analysis.published import ORACLE_ANALYSIS, TRANSFORMERS_BENCHMARKS, TRANSFORMERS_SOURCE, OracleAnalysis, published_for
from analysis.report_markup import Markup, escape, join, table, tag
from analysis.report_study import Study, canonical, data_set
from analysis.report_words import GLOSSARY
from analysis.settings import assistant_settings
from analysis.simulate import SimulationResult, simulate
from analysis.speedups import Measured
from oracle.trace import Trace


def number(value: float, digits: int = 2) -> str:
    """A number for people; what is not finite by name."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}f}"


def percent(value: float, digits: int = 1) -> str:
    return number(100 * value, digits) + " %"


def with_interval(estimate, show: Callable[[float], str] = number) -> str:
    """An estimate (value, low, high) with its interval, where it has one."""
    if not (math.isfinite(estimate.low) or math.isfinite(estimate.high)):
        return show(estimate.value)
    return f"{show(estimate.value)} ({show(estimate.low)} to {show(estimate.high)})"


def per_trace(studies: Sequence[Study], build: Callable[[Study], Markup]) -> Markup:
    """``build`` for every trace, under the trace's name where there are several."""
    if len(studies) == 1:
        return build(studies[0])
    return join(join([tag("h3", study.name), build(study)]) for study in studies)


# --- at a glance ------------------------------------------------------------------------------------------------------


def glance(studies: Sequence[Study]) -> Markup:
    """The most important numbers and the verdict."""
    return per_trace(studies, lambda study: join([_tiles(study), _verdict(study)]))


def _verdict(study: Study) -> Markup:
    return tag("ul", *(tag("li", sentence) for sentence in study.verdict.sentences), class_="verdict")


def _tiles(study: Study) -> Markup:
    winner = study.sweep.best
    low, high = winner.speedup_interval()
    summary = study.description.everything.detect
    oracle = next((r for r in study.results if r.policy == "oracle:optimal"), None)
    tiles = [
        (percent(float(study.trace.agrees.mean())), "of the target's tokens are the draft's choice too"),
        (f"{number(summary.mean.value)} ± {number(summary.sd.value)}", "oracle SL, mean ± SD (detect convention)"),
        (f"{number(winner.speedup)}×", Markup(f"best library setting simulated, <code>{escape(winner.policy)}</code>; 95 % {low:.2f} to {high:.2f}")),
    ]
    if oracle is not None:
        tiles.append((f"{number(oracle.speedup)}×", "the optimal oracle: nothing can beat it at these costs"))
    return tag("ul", *(tag("li", tag("b", value), tag("span", words)) for value, words in tiles), class_="tiles")


# --- what was collected -----------------------------------------------------------------------------------------------


def collected(studies: Sequence[Study]) -> Markup:
    facts = [_facts(study) for study in studies]
    names = list(dict.fromkeys(name for known in facts for name in known))
    rows = [(name, *(known.get(name, "–") for known in facts)) for name in names]
    head = ("", *(study.name for study in studies))
    columns = range(1, len(studies) + 1)
    skipped = join(filter(None, map(_skipped, studies)))
    return join([table(head, rows, caption="What the traces hold", text_columns=columns), skipped])


def _facts(study: Study) -> dict[str, str]:
    trace, meta = study.trace, study.trace.meta
    prompts = meta.get("prompts") or {}
    origin = {"split": prompts.get("split"), "revision": _short(prompts.get("revision")), "file": prompts.get("file"), "seed": prompts.get("seed")}
    ended = int((trace.finish == "eos").sum())
    facts = {
        "Target": _model(meta.get("target")),
        "Draft": _model(meta.get("draft")),
        "Data set": ", ".join([data_set(trace), *(f"{key} {value}" for key, value in origin.items() if value is not None)]),
        "Prompts": f"{trace.prompts:,}",
        "Skipped prompts": f"{len(meta.get('skipped') or ()):,}",
        "Tokens of the target": f"{trace.tokens:,}",
        "Texts that the target ended": f"{ended:,} of {trace.prompts:,}; the others met the length limit",
        "Texts that end in a loop": f"{len(study.description.loops):,}",
        "Decoding": ", ".join(str(part) for part in (meta.get("decoding"), meta.get("reference") and f"{meta['reference']} text") if part),
        "Limits": f"{int(trace.max_new_tokens.max()):,} new tokens; {trace.max_overrun:,} tokens of overrun recorded",
        "Number format, device": ", ".join(str(meta[key]) for key in ("dtype", "device") if meta.get(key)),
        "Versions": ", ".join(f"{name} {version}" for name, version in (meta.get("versions") or {}).items()),
        "Collected": str(meta.get("created") or ""),
    }
    return {name: value for name, value in facts.items() if value}


def pair_name(trace: Trace) -> str:
    """Names of the two models."""
    return " / ".join(_model(trace.meta.get(role), name_only=True) or f"unnamed {role}" for role in ("target", "draft"))


def _model(described: object, name_only: bool = False) -> str:
    if not isinstance(described, dict):
        return str(described or "")
    name = str(described.get("name") or described.get("model") or "")
    if name.startswith(("/", "~")) or "\\" in name:  # a local folder: where it lies says nothing to the reader of a page
        name = "/".join(name.replace("\\", "/").rstrip("/").split("/")[-2:])
    if name_only:
        return name
    size = described.get("parameters")
    extra = [_size(size) if size else "", _short(described.get("revision")) or ""]
    return ", ".join(filter(None, [name, *extra]))


def _size(parameters: int) -> str:
    return f"{parameters / 1e9:.2f} B parameters" if parameters >= 1e9 else f"{parameters / 1e6:.1f} M parameters"


def _short(revision: object) -> str | None:
    return str(revision)[:12] if revision else None


def _skipped(study: Study) -> Markup | None:
    skipped = study.trace.meta.get("skipped") or []
    if not skipped:
        return None
    reasons: dict[str, int] = {}
    for entry in skipped:
        reason = str(entry.get("reason", "no reason recorded")) if isinstance(entry, dict) else str(entry)
        reasons[reason] = reasons.get(reason, 0) + 1
    items = [tag("li", f"{count:,}: {reason}") for reason, count in sorted(reasons.items(), key=lambda pair: -pair[1])[:10]]
    return join([tag("p", f"Skipped in {study.name}:"), tag("ul", *items)])


# --- policies ---------------------------------------------------------------------------------------------------------


def policies(study: Study) -> Markup:
    """The simulated policies of a trace, measured speedups beside them where there are any."""
    results = [*study.results]
    if canonical(study.sweep.best.policy) not in map(canonical, (result.policy for result in results)):
        results.append(study.sweep.best)
    intervals = [result.speedup_interval() for result in results]
    largest = max([1.2, *(high for _, high in intervals), *(each.decoding.high for each in study.measured.values())])
    extra = ("Measured speedup", "95 % interval") if study.measured else ()
    head = (
        "Policy", "Simulated speedup" if extra else "Speedup", "95 % interval", *extra, "", "Target passes", "Drafted", "Accepted", "Wasted",
        "Accepted share", "Tokens per target pass",
    )  # fmt: skip
    rows = [
        (
            tag("code", result.policy), number(result.speedup), _range(low, high), *_measured_cells(study, result.policy),
            interval_picture((result.speedup, low, high), study.measured.get(result.policy), largest), f"{result.iterations:,}",
            f"{result.draft_tokens:,}", f"{result.accepted_tokens:,}", f"{result.wasted:,}", percent(result.accepted_share),
            number(result.tokens_per_iteration),
        )
        for result, (low, high) in zip(results, intervals, strict=True)
    ]  # fmt: skip
    fastest = max(range(len(results)), key=lambda row: -1 if results[row].policy.startswith("oracle") else results[row].speedup)
    caption = (
        f"Policies replayed on {study.name}: {study.trace.prompts:,} prompts, {study.trace.tokens:,} tokens. Speedups leave the reading of the "
        "prompt out. Bold: the fastest in simulation that is no oracle."
    )
    shown = table(head, rows, caption=caption, text_columns=(3 + len(extra),), best=fastest)
    words = [_cost_words(study), *_measured_words(study)]
    return join([*(tag("p", text) for text in words), shown, *_cautions(study, results)])


def _range(low: float, high: float) -> str:
    return "–" if math.isnan(low) else f"{low:.2f} to {high:.2f}"


def _measured_cells(study: Study, policy: str) -> tuple[str, ...]:
    if not study.measured:
        return ()
    found = study.measured.get(policy)
    return ("", "") if found is None else (number(found.decoding.value), _range(found.decoding.low, found.decoding.high))


def _measured_words(study: Study) -> list[str]:
    if not study.measured:
        return []
    prompts = max(each.prompts for each in study.measured.values())
    repeats = max(each.repeats for each in study.measured.values())
    different = max(each.different_texts for each in study.measured.values())
    machine = study.source.runs.meta.get("machine") or {}
    where = ", ".join(str(part) for part in (machine.get("processor"), *(machine.get("accelerators") or ()), machine.get("dtype")) if part)
    texts = f"; with some policy up to {different:,} texts differ from plain decoding's" if different else "; every text equals plain decoding's"
    return [
        f"Measured with the real generator on {prompts:,} prompts, {repeats:,} repeats{f' ({where})' if where else ''}{texts}. "
        "In the pictures the dot is simulated, the ring measured."
    ]


def _cost_words(study: Study) -> str:
    cost = study.cost
    if not cost.machine:
        flat = " and verification to cost one step however long the draft is" if len(cost.verify) == 1 else ""
        return (
            f"Prices not measured on a machine: a draft step is taken to cost {study.draft_cost:.3g} of a target step{flat}. "
            "Speedups hold under this assumption only; the command oracle calibrate measures a machine's prices."
        )
    machine = ", ".join(f"{key} {value}" for key, value in cost.machine.items() if isinstance(value, (str, int, float)))
    return f"Prices measured on a machine ({machine}): a draft step costs {study.draft_cost:.3f} of a target step."


def _cautions(study: Study, results: Sequence[SimulationResult]) -> list[Markup]:
    found = [f"{policy} is left out: {reason}" for policy, reason in study.left_out.items()]
    for result in results:
        outside = study.cost.outside_range(result.drafted, study.trace.context[study.trace.offsets[result.prompt] + result.position])
        if outside:
            found.append(f"{result.policy}: {outside}")
        if result.unrecorded:
            found.append(
                f"{result.policy}: {result.unrecorded:,} drafts went on beyond the recorded overrun; their length is exact unless the draft "
                "would have ended the text there"
            )
    return [tag("p", text, class_="warning") for text in found]


def interval_picture(simulated: tuple[float, float, float], measured: Measured | None, largest: float) -> Markup:
    """A dot with its interval, (value, low, high), on a scale from 0 to ``largest``, a dashed line at 1; a ring where measured."""

    def x(speedup: float) -> str:
        return f"{4 + 136 * min(max(speedup, 0), largest) / largest:.1f}"

    def mark(numbers: tuple[float, float, float], y: int, kind: str) -> str:
        value, low, high = numbers
        bar = "" if math.isnan(low) else f'<line class="range {kind}" x1="{x(low)}" x2="{x(high)}" y1="{y}" y2="{y}"/>'
        return f'{bar}<circle class="{kind}" cx="{x(value)}" cy="{y}" r="4"/>'

    rows = [mark(simulated, 10 if measured is None else 6, "dot")]
    if measured is not None and not math.isnan(measured.decoding.value):
        rows.append(mark((measured.decoding.value, measured.decoding.low, measured.decoding.high), 15, "ring"))
    return Markup(
        '<svg class="interval" viewBox="0 0 144 20" aria-hidden="true"><line class="axis" x1="4" x2="140" y1="10" y2="10"/>'
        f'<line class="one" x1="{x(1)}" x2="{x(1)}" y1="1" y2="19"/>{"".join(rows)}</svg>'
    )


# --- settings to paste ------------------------------------------------------------------------------------------------


def settings(studies: Sequence[Study]) -> Markup:
    return per_trace(studies, _settings)


def _settings(study: Study) -> Markup:
    tried = len(study.sweep.results)
    winner, constant = study.sweep.best, study.sweep.best_constant()
    low, high = winner.speedup_interval()
    if winner.speedup <= 1:
        return tag(
            "p",
            f"Of {tried} settings of transformers' assisted generation, none beats plain decoding here (the best is {winner.policy} with a "
            f"speedup of {winner.speedup:.2f}): leave assistant_model out.",
            class_="warning",
        )
    policy = parse(winner.policy)
    parts = [
        tag(
            "p",
            f"Of {tried} settings of transformers' assisted generation that were replayed, ",
            tag("code", winner.policy),
            f" is the fastest: {winner.speedup:.2f} times plain decoding (95 % {low:.2f} to {high:.2f}). The best constant lookahead, ",
            tag("code", constant.policy),
            f", reaches {constant.speedup:.2f}. The winner was picked on the prompts that it is judged on, so expect slightly less on others.",
        ),
        tag("pre", tag("code", assistant_settings(policy)), tabindex="0", role="region", aria_label="Settings to paste"),
        tag("p", "Set them on the draft: given to ", tag("code", "generate"), " they are silently ignored.", class_="note"),
    ]
    if policy.threshold > 0:
        words = "With scikit-learn installed, transformers from 5.20 on moves the threshold during each call; this is the value that it starts from."
        parts.append(tag("p", words, class_="note"))
    if study.sweep.left_out:
        words = f"Not tried, because the trace recorded too little overrun for them: {', '.join(study.sweep.left_out)}."
        parts.append(tag("p", words, class_="note"))
    return join(parts)


# --- the distribution -------------------------------------------------------------------------------------------------


def statistics(studies: Sequence[Study]) -> Markup:
    """Oracle SL in numbers, one column a trace and one more without its looping texts."""
    columns = []
    for study in studies:
        columns.append((study.name, study.description.everything))
        if study.description.without_loops is not None:
            columns.append((f"{study.name}, without {len(study.description.loops)} looping texts", study.description.without_loops))
    share = lambda value: percent(value)  # noqa: E731
    lines = {
        "Iterations": lambda s: number(s.detect.iterations),
        "Mean (detect)": lambda s: with_interval(s.detect.mean),
        "SD": lambda s: with_interval(s.detect.sd),
        "Median (detect)": lambda s: with_interval(s.detect.median, lambda v: number(v, 0)),
        "Trimmed mean (detect; 10 % off either end)": lambda s: with_interval(s.detect.trimmed_mean),
        "5 %, 95 % and 99 % quantile (detect)": lambda s: ", ".join(number(_quantile(s.detect, q), 0) for q in (0.05, 0.95, 0.99)),
        "Largest (detect)": lambda s: number(s.detect.largest),
        "Mean (accepted) over iterations": lambda s: with_interval(s.averages.over_iterations),
        "Mean (accepted) over all positions": lambda s: with_interval(s.averages.over_positions),
        "Variance over that of a geometric": lambda s: with_interval(s.accepted.dispersion),
        "The same, over what i.i.d. acceptance gives on these texts": lambda s: with_interval(s.excess_dispersion),
        "Iterations cut short by the end of a text": lambda s: with_interval(s.censoring.iterations, share),
        "Accepted tokens in the longest 1 % of iterations": lambda s: with_interval(s.longest_share, share),
        "Acceptance per token, censoring corrected": lambda s: with_interval(s.acceptance_rate, lambda v: number(v, 3)),
        "Share of variance between prompts (ICC)": lambda s: with_interval(s.heterogeneity.icc, lambda v: number(v, 3)),
        "Correlation of neighbouring iterations": lambda s: with_interval(s.heterogeneity.lag1, lambda v: number(v, 3)),
    }
    rows = [(name, *(line(values) for _, values in columns)) for name, line in lines.items()]
    return table(("", *(name for name, _ in columns)), rows, caption="Oracle SL, with 95 % intervals from a bootstrap over prompts")


def _quantile(summary, share: float) -> float:
    return next(value for key, value in summary.quantiles.items() if math.isclose(float(key), share))


def fits(study: Study) -> Markup:
    """Every family that was fitted to a trace's accepted lengths."""
    if not study.fits:
        return tag("p", "No run to fit: every iteration was cut off before it began.", class_="warning")
    winner = best(study.fits)
    head = ("Family", "Parameters (95 % interval)", "Mean", "SD", "log-likelihood", "Δ AIC", "Goodness of fit, p", "Status")
    rows = [
        (
            each.family, _parameters(each), number(each.mean), number(each.sd), number(each.log_likelihood, 1), number(each.delta_aic, 1),
            number(study.goodness[each.family].p, 3) if each.family in study.goodness else "not tested", "; ".join(filter(None, [each.status, each.note])),
        )
        for each in study.fits
    ]  # fmt: skip
    caption = (
        f"Distributions fitted to the accepted lengths (from 0) of {study.name}: {study.fits[0].n:,} iterations, {study.fits[0].censored:,} censored. "
        "The geometric row is the i.i.d. model, on which every closed-form speedup rests."
    )
    return table(head, rows, caption=caption, text_columns=(1, 7), best=None if winner is None else study.fits.index(winner))


def _parameters(fit: Fit) -> Markup:
    words = [
        tag("span", f"{name} = {with_interval(estimate, lambda value: f'{value:.3g}')}", title=fit.meanings[name])
        for name, estimate in fit.parameters.items()
    ]
    return join(words, "<br>")


# --- beside published numbers -----------------------------------------------------------------------------------------


def published(studies: Sequence[Study]) -> Markup:
    """The oracle SL and the oracle's speedup beside the published ones, and the published speedups of the library."""
    head = ("", "Models", "Oracle SL, mean ± SD", "Acceptance", "Draft cost", "Constant 5", "Best constant", "Oracle (detect)")
    rows = [_own_row(study) for study in studies]
    known = [published_for(study.name) or published_for(data_set(study.trace)) for study in studies]
    # Without a data set in common, all of them are shown: the reader chooses.
    shown = [each for each in dict.fromkeys(each.data for each in known if each)] or list(ORACLE_ANALYSIS)
    rows += [_published_row(ORACLE_ANALYSIS[name]) for name in shown]
    source = next(iter(ORACLE_ANALYSIS.values())).source
    first = table(
        head, rows, text_columns=(1,),
        caption=f"This report's traces, simulated, and the published ones, measured ({source}). Other models on other machines: compare shapes, not digits.",
    )  # fmt: skip
    library = table(
        ("Target", "Draft", "Task", "Heuristic", "Dynamic"),
        [(each.target, each.draft, each.task, number(each.heuristic), number(each.dynamic)) for each in TRANSFORMERS_BENCHMARKS],
        caption=f"Published speedups of the library's own policies ({TRANSFORMERS_SOURCE})",
        text_columns=(1, 2),
    )
    return join([first, tag("details", tag("summary", "Published speedups of heuristic and dynamic speculation, seven pairs and tasks"), library)])


def _own_row(study: Study) -> tuple:
    everything, ratio = study.description.everything, study.draft_cost
    five, detect = (simulate(study.trace, policy, study.cost).speedup for policy in ("constant:tokens=5", "oracle:detect"))
    constant = study.sweep.best_constant()
    return (
        f"{study.name} (this report)", pair_name(study.trace), f"{number(everything.detect.mean.value)} ± {number(everything.detect.sd.value)}",
        number(everything.acceptance_rate.value), number(ratio, 3), number(five), f"{number(constant.speedup)} ({parse(constant.policy).tokens})", number(detect),
    )  # fmt: skip


def _published_row(each: OracleAnalysis) -> tuple:
    speedups = each.speedups
    return (
        f"{each.data} (published)", f"{each.target} / {each.draft}", f"{each.mean:g} ± {each.sd:g}", number(each.acceptance), number(each.draft_cost, 3),
        number(speedups["static 5"]), number(speedups["static tuned"]), number(speedups["oracle"]),
    )  # fmt: skip


# --- signals ----------------------------------------------------------------------------------------------------------


def signals(studies: Sequence[Study]) -> Markup:
    head = ("Signal", "Trace", "Positions", "AUC", "Rank correlation", "Calibration error", "Brier score")
    rows = [
        (
            each.signal, study.name, f"{each.count:,}, {each.positions}", with_interval(each.auc, lambda v: number(v, 3)), number(each.spearman, 3),
            with_interval(each.calibration_error, lambda v: number(v, 3)), with_interval(each.brier, lambda v: number(v, 3)),
        )
        for study in studies
        for each in study.signals
    ]  # fmt: skip
    return table(head, rows, caption="How well each signal of the draft foretells that the target accepts its token", text_columns=(1, 2))


def glossary() -> Markup:
    return tag("dl", *(part for word, meaning in GLOSSARY.items() for part in (tag("dt", word), tag("dd", meaning))), class_="glossary")

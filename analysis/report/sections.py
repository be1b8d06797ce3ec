"""The sections of the report that say in words and tables what the traces hold and how the oracle SL is distributed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from analysis.fit.distributions import Fit, best
from analysis.published import (
    ORACLE_ANALYSIS,
    TRANSFORMERS_BENCHMARKS,
    TRANSFORMERS_SOURCE,
    OracleAnalysis,
    published_for,
)
from analysis.replay.simulate import simulate
from analysis.report.glossary import GLOSSARY
from analysis.report.markup import Markup, escape, join, number, percent, range_words, table, tag, with_interval
from analysis.study import Study
from oracle.policies.rules import parse
from oracle.records.trace import Trace


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
    interval = range_words(winner.speedup_estimate())
    summary = study.description.everything.detect
    oracle = next((r for r in study.results if r.policy == "oracle:optimal"), None)
    tiles = [
        (percent(float(study.trace.agrees.mean())), "of the target's tokens are the draft's choice too"),
        (f"{number(summary.mean.value)} ± {number(summary.sd.value)}", "oracle SL, mean ± SD (detect convention)"),
        (
            f"{number(winner.speedup)}×",
            Markup(f"best library setting simulated, <code>{escape(winner.policy)}</code>; {interval}"),
        ),
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
    origin = {
        "split": prompts.get("split"),
        "revision": _short(prompts.get("revision")),
        "file": prompts.get("file"),
        "seed": prompts.get("seed"),
    }
    ended = int((trace.finish == "eos").sum())
    facts = {
        "Target": _model(meta.get("target")),
        "Draft": _model(meta.get("draft")),
        "Data set": ", ".join(
            [trace.dataset, *(f"{key} {value}" for key, value in origin.items() if value is not None)]
        ),
        "Prompts": f"{trace.prompts:,}",
        "Skipped prompts": f"{len(meta.get('skipped') or ()):,}",
        "Tokens of the target": f"{trace.tokens:,}",
        "Texts that the target ended": f"{ended:,} of {trace.prompts:,}; the others met the length limit",
        "Texts that repeat themselves to the end": f"{len(study.description.loops):,}",
        "Decoding": ", ".join(str(part) for part in _decoding(meta) if part),
        "Limits": f"{int(trace.max_new_tokens.max()):,} new tokens; {trace.max_overrun:,} tokens of overrun recorded",
        "Number format, device": ", ".join(str(meta[key]) for key in ("dtype", "device") if meta.get(key)),
        "Versions": ", ".join(f"{name} {version}" for name, version in (meta.get("versions") or {}).items()),
        "Collected": str(meta.get("created") or ""),
    }
    return {name: value for name, value in facts.items() if value}


def pair_name(trace: Trace) -> str:
    """Names of the two models."""
    return " / ".join(_model(trace.meta.get(role), name_only=True) or f"unnamed {role}" for role in ("target", "draft"))


def _decoding(meta: dict) -> tuple:
    reference = meta.get("reference")
    return (
        meta.get("decoding"),
        reference and f"text of a {reference} run",
        meta.get("chat") and "chat template applied",
    )


def _model(described: object, name_only: bool = False) -> str:
    if not isinstance(described, dict):
        return str(described or "")
    name = str(described.get("name") or described.get("model") or "")
    # Where a local folder lies says nothing to the reader of a page.
    if name.startswith(("/", "~")) or "\\" in name:
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
    items = [
        tag("li", f"{count:,}: {reason}") for reason, count in sorted(reasons.items(), key=lambda pair: -pair[1])[:10]
    ]
    return join([tag("p", f"Skipped in {study.name}:"), tag("ul", *items)])


# --- the distribution -------------------------------------------------------------------------------------------------


def statistics(studies: Sequence[Study]) -> Markup:
    """Oracle SL in numbers, one column a trace and one more without its repeating texts."""
    columns = []
    for study in studies:
        columns.append((study.name, study.description.everything))
        if study.description.without_loops is not None:
            columns.append(
                (
                    f"{study.name}, without {len(study.description.loops)} repeating texts",
                    study.description.without_loops,
                )
            )
    share = lambda value: percent(value)  # noqa: E731
    lines = {
        "Iterations": lambda s: number(s.detect.iterations),
        "Mean (detect)": lambda s: with_interval(s.detect.mean),
        "SD": lambda s: with_interval(s.detect.sd),
        "Median (detect)": lambda s: with_interval(s.detect.median, lambda v: number(v, 0)),
        "Trimmed mean (detect; 10 % off either end)": lambda s: with_interval(s.detect.trimmed_mean),
        "5 %, 95 % and 99 % quantile (detect)": lambda s: ", ".join(
            number(_quantile(s.detect, q), 0) for q in (0.05, 0.95, 0.99)
        ),
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
    return table(
        ("", *(name for name, _ in columns)),
        rows,
        caption="Oracle SL, with 95 % intervals from a bootstrap over prompts",
    )


def _quantile(summary, share: float) -> float:
    return next(value for key, value in summary.quantiles.items() if math.isclose(float(key), share))


def fits(study: Study) -> Markup:
    """Every family that was fitted to a trace's accepted lengths."""
    if not study.fits:
        return tag("p", "No run to fit: every iteration was cut off before it began.", class_="warning")
    winner = best(study.fits)
    head = (
        "Family",
        "Parameters (95 % interval)",
        "Mean",
        "SD",
        "log-likelihood",
        "Δ AIC",
        "Goodness of fit, p",
        "Status",
    )
    rows = [
        (
            each.family,
            _parameters(each),
            number(each.mean),
            number(each.sd),
            number(each.log_likelihood, 1),
            number(each.delta_aic, 1),
            number(study.goodness[each.family].p, 3) if each.family in study.goodness else "not tested",
            "; ".join(filter(None, [each.status, each.note])),
        )
        for each in study.fits
    ]
    caption = (
        f"Distributions fitted to the accepted lengths (from 0) of {study.name}: {study.fits[0].n:,} iterations,"
        f" {study.fits[0].censored:,} censored. The geometric row is the i.i.d. model, on which every closed-form"
        " speedup rests."
    )
    return table(
        head, rows, caption=caption, text_columns=(1, 7), best=None if winner is None else study.fits.index(winner)
    )


def _parameters(fit: Fit) -> Markup:
    words = [
        tag("span", f"{name} = {with_interval(estimate, lambda value: f'{value:.3g}')}", title=fit.meanings[name])
        for name, estimate in fit.parameters.items()
    ]
    return join(words, "<br>")


# --- beside published numbers -----------------------------------------------------------------------------------------


def published(studies: Sequence[Study]) -> Markup:
    """The oracle SL and the oracle's speedup beside the published ones, and the published speedups of the library."""
    head = (
        "",
        "Models",
        "Oracle SL, mean ± SD",
        "Acceptance",
        "Draft cost",
        "Constant 5",
        "Best constant",
        "Oracle (detect)",
    )
    rows = [_own_row(study) for study in studies]
    known = [published_for(study.name) or published_for(study.trace.dataset) for study in studies]
    # Without a data set in common, all of them are shown: the reader chooses.
    shown = [each for each in dict.fromkeys(each.data for each in known if each)] or list(ORACLE_ANALYSIS)
    rows += [_published_row(ORACLE_ANALYSIS[name]) for name in shown]
    source = next(iter(ORACLE_ANALYSIS.values())).source
    first = table(
        head,
        rows,
        text_columns=(1,),
        caption=(
            f"This report's traces, simulated, and the published ones, measured ({source}). Other models on other"
            " machines: compare shapes, not digits."
        ),
    )
    library = table(
        ("Target", "Draft", "Task", "Heuristic", "Dynamic"),
        [
            (each.target, each.draft, each.task, number(each.heuristic), number(each.dynamic))
            for each in TRANSFORMERS_BENCHMARKS
        ],
        caption=f"Published speedups of the library's own policies ({TRANSFORMERS_SOURCE})",
        text_columns=(1, 2),
    )
    return join(
        [
            first,
            tag(
                "details",
                tag("summary", "Published speedups of heuristic and dynamic speculation, seven pairs and tasks"),
                library,
            ),
        ]
    )


def _own_row(study: Study) -> tuple:
    everything, ratio = study.description.everything, study.draft_cost
    five, detect = (
        simulate(study.trace, policy, study.cost).speedup for policy in ("constant:tokens=5", "oracle:detect")
    )
    constant = study.sweep.best_constant()
    return (
        f"{study.name} (this report)",
        pair_name(study.trace),
        f"{number(everything.detect.mean.value)} ± {number(everything.detect.sd.value)}",
        number(everything.acceptance_rate.value),
        number(ratio, 3),
        number(five),
        f"{number(constant.speedup)} ({parse(constant.policy).tokens})",
        number(detect),
    )


def _published_row(each: OracleAnalysis) -> tuple:
    speedups = each.speedups
    return (
        f"{each.data} (published)",
        f"{each.target} / {each.draft}",
        f"{each.mean:g} ± {each.sd:g}",
        number(each.acceptance),
        number(each.draft_cost, 3),
        number(speedups["static 5"]),
        number(speedups["static tuned"]),
        number(speedups["oracle"]),
    )


# --- signals ----------------------------------------------------------------------------------------------------------


def signals(studies: Sequence[Study]) -> Markup:
    head = ("Signal", "Trace", "Positions", "AUC", "Rank correlation", "Calibration error", "Brier score")
    rows = [
        (
            each.signal,
            study.name,
            f"{each.count:,}, {each.positions}",
            with_interval(each.auc, lambda v: number(v, 3)),
            number(each.spearman, 3),
            with_interval(each.calibration_error, lambda v: number(v, 3)),
            with_interval(each.brier, lambda v: number(v, 3)),
        )
        for study in studies
        for each in study.signals
    ]
    return table(
        head,
        rows,
        caption="How well each signal of the draft foretells that the target accepts its token",
        text_columns=(1, 2),
    )


def glossary() -> Markup:
    return tag(
        "dl",
        *(part for word, meaning in GLOSSARY.items() for part in (tag("dt", word), tag("dd", meaning))),
        class_="glossary",
    )

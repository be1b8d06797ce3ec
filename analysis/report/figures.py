"""The figures of the report, as pictures inside the page."""

from __future__ import annotations

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.describe.signals import recorded
from analysis.examine import Examined
from analysis.fit.distributions import Fit
from analysis.plots.calibration import plot_calibration
from analysis.plots.canvas import figure_of, write_figure
from analysis.plots.hazard import plot_hazard
from analysis.plots.headroom import plot_headroom
from analysis.plots.histogram import plot_histogram
from analysis.plots.iterations import plot_iterations
from analysis.plots.position import plot_position
from analysis.plots.roc import plot_roc
from analysis.plots.survival import plot_survival
from analysis.plots.validation import Comparison, plot_simulated_vs_measured
from analysis.plots.variance import plot_variance
from analysis.replay.oracles import is_oracle
from analysis.report.markup import Markup, figure, join, tag
from analysis.report.traces import prompt_address

SHOWN_FITS = 3  # families laid over a histogram; more lines cannot be told apart


def svg(drawing: Figure) -> bytes:
    """``drawing`` as SVG, the same bytes each time."""
    buffer = io.BytesIO()
    write_figure(drawing, buffer, "svg")
    return buffer.getvalue()


def lookahead_figures(subject: Examined) -> Markup:
    """How the oracle SL is distributed, and along the text."""
    name, shown = subject.name, _shown_fits(subject)
    summary = subject.description.everything.accepted
    numbers = f"mean {summary.mean.value:.2f}, SD {summary.sd.value:.2f}"
    return _grid(
        [
            _picture(
                plot_histogram(subject.trace, fits=shown),
                f"Histogram of the accepted lengths of {name}: {numbers}.",
                "How many draft tokens would be accepted in each iteration of the oracle, with fitted distributions"
                " over it.",
            ),
            _picture(
                plot_position(subject.trace),
                f"Mean oracle SL (accepted) along the texts of {name}.",
                "Oracle SL (accepted) from the beginning (0) to the end (1) of each text.",
            ),
        ]
    )


def fit_figures(subject: Examined) -> Markup:
    """Hazard and survival: where a family fits and where it does not."""
    name, shown = subject.name, _shown_fits(subject)
    return _grid(
        [
            _picture(
                plot_survival(subject.trace, fits=shown),
                f"Share of runs of {name} that reach each length, on a log scale, with fitted distributions.",
                "Share of runs that reach at least this length. A straight line means independent acceptance; a tail"
                " above it, easy stretches.",
            ),
            _picture(
                plot_hazard(subject.trace, fits=shown),
                f"Chance that the next token of {name} is accepted, by the number accepted before it.",
                "Chance that the next token is accepted after so many were. Flat means that a long run foretells"
                " nothing.",
            ),
        ]
    )


def signal_figures(subject: Examined) -> Markup:
    """Calibration and ROC curves of the draft's signals, or a sentence where the trace lacks them."""
    found = recorded(subject.trace)
    if not found:
        return tag("p", f"{subject.name} holds no signals of the draft: nothing to show here.", class_="note")
    return _grid(
        [
            _picture(
                plot_calibration(subject.trace, signal=found[0]),
                f"Share of tokens of {subject.name} accepted by the draft's {found[0]}.",
                f"Share of tokens accepted by {found[0]}. On the diagonal {found[0]} is the probability of acceptance.",
            ),
            _picture(
                plot_roc(subject.trace),
                f"ROC curves of the draft's signals on {subject.name}.",
                "How well each signal tells accepted from rejected tokens: further to the upper left is better.",
            ),
        ]
    )


def variance_figure(subjects: Sequence[Examined]) -> Markup:
    """Mean and SD of the oracle SL of every trace beside the published ones."""
    return _picture(
        plot_variance({subject.name: subject.trace for subject in subjects}),
        "Oracle SL (detect) of these traces, and of the published data sets.",
        "Oracle SL (detect) of these traces beside the published data sets.",
    )


def headroom_figure(subject: Examined) -> Markup:
    """The ladder from no draft to the best that there could be."""
    return _picture(
        plot_headroom(subject.ladder),
        f"Speedup of each rung on {subject.name}, from no draft to the best that there could be.",
        "Speedup of each rung with its 95 % interval; the band is the headroom between the best constant and the oracle"
        " that knows the text; rings are the same rungs on shuffled tokens.",
    )


def iterations_figure(subject: Examined, prompt: int = 0) -> Markup:
    """One prompt's lookahead by iteration under the simulated policies that are no oracles."""
    real = [result for result in subject.shown if not is_oracle(result.policy)]
    return _picture(
        plot_iterations(subject.trace, results=real[:3], prompt=prompt),
        f"Iterations of prompt {subject.trace.ids[prompt]} of {subject.name} along its text, by the oracle and by"
        " policies.",
        join(
            [
                tag("a", f"Prompt {subject.trace.ids[prompt]}", href=prompt_address(subject, prompt)),
                ": a row a policy, a bar an iteration. Thick bars are accepted tokens, thin ones what was drafted and"
                " refused; the first row is the oracle (detect).",
            ],
            "",
        ),
    )


def measured_figure(subject: Examined) -> Markup | None:
    """Simulated against measured speedups; None without measured runs."""
    points = [
        Comparison(
            result.policy,
            subject.beside[result.policy].speedup_estimate(),
            subject.measured[result.policy].decoding,
        )
        for result in subject.results
        if result.policy in subject.measured and result.policy in subject.beside
    ]
    if not points:
        return None
    prompts = f" ({subject.common.words})" if subject.common is not None and subject.common.some else ""
    return _picture(
        plot_simulated_vs_measured(points),
        f"Simulated against measured speedups on {subject.name}{prompts}, one point a policy.",
        f"Simulated against measured speedup{prompts} with 95 % intervals; on the diagonal they agree.",
    )


def _shown_fits(subject: Examined) -> list[Fit]:
    """The i.i.d. model first, then the families with the least AIC."""
    others = sorted((each for each in subject.fits[1:] if each.status == "ok"), key=lambda each: each.aic)
    return [*subject.fits[:1], *others[: SHOWN_FITS - 1]]


def _picture(axes: Axes, alt: str, caption: str) -> Markup:
    return figure(svg(figure_of(axes)), "image/svg+xml", alt, caption)


def _grid(pictures: Sequence[Markup]) -> Markup:
    return tag("div", join(pictures), class_="figures")

"""Questions to a trace or to measured runs, each as one call: paths, numbers and objects in, a typed answer out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.cost import CostModel
from analysis.describe import statistics
from analysis.examine import Source
from analysis.fit import distributions
from analysis.fit.distributions import Counts, Fit, GoodnessOfFit
from analysis.independence import IidTest, iid_test
from analysis.ladder.ladder import Ladder
from analysis.ladder.ladder import ladder as climb
from analysis.measured import calibrate as calibration
from analysis.measured.calibrate import Calibration
from analysis.replay import simulate as replay
from analysis.replay.simulate import USUAL, SimulationResult
from analysis.report import page
from analysis.versus import Versus, versus
from oracle.policies import Policy
from oracle.records.runs import Runs
from oracle.records.shown import Shown
from oracle.records.trace import Trace
from oracle.workflows.inputs import as_cost, as_runs, as_trace, several

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Fitted(Shown):
    """Distributions of the accepted lengths of one trace; ``fits`` is empty where ``nothing`` says why."""

    iterations: int  # of the oracle
    censored: int  # of them, cut short by the end of a text
    fits: tuple[Fit, ...]
    goodness: tuple[GoodnessOfFit, ...]  # one a fit
    iid: IidTest  # whether acceptance may be i.i.d. at all
    nothing: str | None = None

    def in_short(self) -> str:
        best = min(self.fits, key=lambda each: each.aic, default=None)
        closest = self.nothing if best is None else f"least AIC: {best.family}"
        return f"{len(self.fits)} families on {self.iterations:,} oracle iterations, {closest}"

    def to_frame(self) -> pd.DataFrame:
        """One row a family: its parameters in words, what it says, how far its AIC is from the least, p of the test."""
        import pandas as pd

        rows = [
            {
                "family": each.family,
                "parameters": ", ".join(f"{name} {value}" for name, value in each.parameters.items()),
                "log_likelihood": each.log_likelihood,
                "delta_aic": each.delta_aic,
                "mean": each.mean,
                "sd": each.sd,
                "p": test.p,
                "status": each.status,
            }
            for each, test in zip(self.fits, self.goodness, strict=True)
        ]
        return pd.DataFrame(rows)


def simulate(
    trace: Trace | str | Path, policy: str | Policy | Callable, cost: CostModel | float | str | Path | None = None
) -> SimulationResult:
    """Replay ``policy`` over a trace, exactly, and price it: ``oracle.simulate("traces/demo", "dynamic", 0.1)``.

    ``cost`` is a cost model, its file, or the time of a draft step over that of a target step (default: 0.1).  Raises
    ValueError for a policy or a file that will not do and for prices of another pair (``CostModel.for_any_pair`` takes
    them all the same), TypeError for arguments of another type.
    """
    return replay.simulate(as_trace(trace), policy, as_cost(cost))


def ladder(trace: Trace | str | Path, cost: CostModel | float | str | Path | None = None) -> Ladder:
    """Nine rungs from no draft to the best that there could be, each choice held out, and the headroom between them.

    ``cost`` as for `simulate`.  ``oracle.ladder("traces/demo", 0.1).headroom`` is the gain that is left above the best
    constant lookahead.
    """
    return climb(as_trace(trace), as_cost(cost))


def compare_traces(
    first: Trace | str | Path,
    second: Trace | str | Path,
    policies: Sequence[str | Policy | Callable] = USUAL,
    cost: CostModel | float | str | Path | Sequence[CostModel | float | str | Path] | None = None,
) -> Versus:
    """Compare two traces of the same prompts, paired by prompt: another draft, another number format, ...

    ``cost`` is for both, or a pair of them in order.  Raises ValueError for policies or files that will not do, for
    prices of another pair, and for traces without a common prompt.  (`oracle.compare` compares a trace with runs.)
    """
    prices = [as_cost(each) for each in (several(cost) if cost is not None else [None])]
    if len(prices) not in (1, 2):
        raise ValueError(f"{len(prices)} costs given; give one for both traces, or one for each")
    return versus(as_trace(first), as_trace(second), policies, (prices[0], prices[-1]))


def stats(trace: Trace | str | Path) -> statistics.Description:
    """How much the oracle SL of a trace varies, and where from."""
    return statistics.describe(as_trace(trace))


def fit(trace: Trace | str | Path, draws: int = 200) -> Fitted:
    """Fit distributions to the accepted lengths of a trace, and test each with ``draws`` samples of its own."""
    loaded = as_trace(trace)
    found = loaded.outcomes
    at = found.starts
    counts = Counts.from_samples(found.accepted[at], found.censored[at], found.prompt_of[at])
    fits = tuple(distributions.fit_all(counts))
    tests = tuple(distributions.goodness_of_fit(counts, each, draws) for each in fits)
    cut = int(counts.censored.sum())
    nothing = None
    if not fits:
        nothing = (
            f"nothing to fit: the ends of the texts cut all {counts.n:,} oracle iterations short before a token was "
            "accepted or refused; collect longer texts (--max-new-tokens)"
        )
    return Fitted(counts.n, cut, fits, tests, iid_test(loaded), nothing)


def calibrate(
    runs: Runs | str | Path | Sequence[Runs | str | Path], policies: Sequence[str] | None = None
) -> Calibration:
    """Fit what a draft step, a verification and an iteration cost to measured runs, one or several."""
    return calibration.calibrate([as_runs(each) for each in several(runs)], policies)


def report(
    traces: Trace | str | Path | Source | Sequence[Trace | str | Path | Source],
    out: str | Path,
    *,
    policies: Sequence[str] = USUAL,
    cost: CostModel | float | str | Path | None = None,
    runs: Runs | str | Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Write one self-contained page about one or several traces to ``out``; its path.

    ``runs`` belong to a single trace.  A ``Source`` says for one of several traces what belongs to it.  ``tell`` is
    given a word on each step (``analysis.report.page.steps`` of them) as it begins.
    """
    given = several(traces)
    if runs is not None and len(given) > 1:
        raise ValueError(f"runs belong to one trace, {len(given)} are given; write a report for each")
    prices, measured = as_cost(cost), None if runs is None else as_runs(runs)
    sources = [
        each if isinstance(each, Source) else Source(as_trace(each), cost=prices, runs=measured) for each in given
    ]
    return page.report(sources, out, policies=policies, tell=tell)

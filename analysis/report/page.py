"""One self-contained HTML page about one or several traces: no network, opens from disk, text escaped everywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from analysis.examine import STEPS, Examined, Source, examine, unique_names
from analysis.report import figures
from analysis.report.answer import answers
from analysis.report.collected import collected
from analysis.report.distributions import fits
from analysis.report.gains import gains_section
from analysis.report.glance import glance
from analysis.report.glossary import glossary
from analysis.report.ladder import ladder_section
from analysis.report.lookahead import statistics
from analysis.report.markup import Markup, join, page, section
from analysis.report.policies import policies_section, settings
from analysis.report.published import published
from analysis.report.signals import signals
from analysis.report.traces import pair_name, per_trace
from analysis.report.viewer import prompt_data, viewer
from oracle.policies import USUAL, Policy
from oracle.records.whole import writable, write_whole

__all__ = ["Source", "report"]


def steps(sources: int) -> int:
    """How many steps `report` tells of."""
    return len(STEPS) * sources + 1


def report(
    sources: Sequence[Source],
    out: str | Path,
    *,
    policies: Sequence[str | Policy | Callable] = USUAL,
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Write the report of ``sources`` to the file ``out`` and return its path.

    ``policies`` are simulated on every trace and shown in the tables and in the view of single prompts; one that needs
    more overrun than a trace recorded is left out there, and the page says so.  ``tell`` is given a word on each of
    `steps` as it begins.  Raises ValueError for an unknown policy, for no source, for runs or prices of another pair,
    or where no policy is left, and RuntimeError where the file cannot be written.
    """
    if not sources:
        raise ValueError("a report needs at least one trace")
    if not policies:
        raise ValueError(f"a report needs at least one policy; the usual ones are {', '.join(USUAL)}")
    out = Path(out)
    with _named(out):  # an unwritable place must not cost the work
        writable(out)
    for each in sources:  # before anything is computed of the first
        each.together()
    names = unique_names(sources)
    subjects = [examine(source, name, policies, tell) for source, name in zip(sources, names, strict=True)]
    for each in subjects:
        if not each.results:
            raise ValueError(f"{each.name}: none of the policies can be replayed: {'; '.join(each.left_out.values())}")
    if tell is not None:
        tell("drawing")
    _write(out, render(subjects))
    return out


def render(subjects: Sequence[Examined]) -> str:
    """The page's HTML."""
    view, shown = prompt_data(subjects)
    bodies = [
        ("answer", "The answer", answers(subjects)),
        ("glance", "What the numbers say", glance(subjects)),
        ("collected", "What was collected", collected(subjects)),
        ("policies", "Policies", per_trace(subjects, _policies)),
        ("ladder", "Headroom", per_trace(subjects, ladder_section)),
        ("gains", "What the oracle's gain is made of", per_trace(subjects, gains_section)),
        ("settings", "Settings to paste", per_trace(subjects, settings)),
        ("prompts", "Single prompts", join([viewer(subjects, shown), per_trace(subjects, figures.iterations_figure)])),
        ("lookahead", "The oracle's lookahead", _lookahead(subjects)),
        ("distributions", "Fitted distributions", per_trace(subjects, _distributions)),
        ("signals", "Signals of the draft", _signals(subjects)),
        ("published", "Beside published numbers", join([figures.variance_figure(subjects), published(subjects)])),
        ("glossary", "Words", glossary()),
    ]
    return page(
        title="Speculation lookahead: " + ", ".join(each.name for each in subjects),
        subtitle=_subtitle(subjects),
        sections=[(identifier, title, section(identifier, title, body)) for identifier, title, body in bodies],
        footer=f"Made by oracle-lookahead {_version()} from recorded traces. Nothing here is loaded from elsewhere.",
        view=view,
    )


def _policies(each: Examined) -> Markup:
    return join(filter(None, [policies_section(each), figures.measured_figure(each)]))


def _lookahead(subjects: Sequence[Examined]) -> Markup:
    return join([per_trace(subjects, figures.lookahead_figures), statistics(subjects)])


def _distributions(each: Examined) -> Markup:
    return join([figures.fit_figures(each), fits(each)])


def _signals(subjects: Sequence[Examined]) -> Markup:
    return join(filter(None, [per_trace(subjects, figures.signal_figures), signals(subjects)]))


def _subtitle(subjects: Sequence[Examined]) -> str:
    prompts = sum(each.trace.prompts for each in subjects)
    tokens = sum(each.trace.tokens for each in subjects)
    pairs = dict.fromkeys(pair_name(each.trace) for each in subjects)
    return f"{'; '.join(pairs)}. {prompts:,} prompts, {tokens:,} tokens."


def _version() -> str:
    try:
        return metadata.version("oracle-lookahead")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "(checkout)"


def _write(out: Path, text: str) -> None:
    # A lone surrogate from a damaged data set becomes a character reference instead of an error.
    page = text.encode("utf-8", errors="xmlcharrefreplace")
    with _named(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, lambda temporary: temporary.write_bytes(page))


@contextlib.contextmanager
def _named(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise RuntimeError(f"{out}: the report cannot be written there ({reason}); give another file") from error

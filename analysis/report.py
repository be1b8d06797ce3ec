"""One self-contained HTML page about one or several traces: no network, opens from disk, text escaped everywhere."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from analysis import report_figures as figures
from analysis import report_sections as sections
from analysis.prompt_view import MAX_PROMPTS, share_out, view_prompts
from analysis.report_markup import Markup, join, page, section, tag
from analysis.report_sections import per_trace
from analysis.report_study import Source, Study, study, unique_names

__all__ = ["POLICIES", "Source", "report"]

POLICIES = ("constant:tokens=5", "heuristic", "dynamic", "oracle:detect", "oracle:clairvoyant", "oracle:optimal")


def report(sources: Sequence[Source], out: str | Path, *, policies: Sequence[str] = POLICIES) -> Path:
    """Write the report of ``sources`` to the file ``out`` and return its path.

    ``policies`` are simulated on every trace and shown in the tables and in the view of single prompts.  Raises ValueError
    for an unknown policy or no source, RuntimeError where the file cannot be written.
    """
    if not sources:
        raise ValueError("a report needs at least one trace")
    if not policies:
        raise ValueError(f"a report needs at least one policy; the usual ones are {', '.join(POLICIES)}")
    out = Path(out)
    _write(out, "")  # an unwritable place must not cost the work
    names = unique_names(sources)
    studies = [study(source, name, policies) for source, name in zip(sources, names, strict=True)]
    for each in studies:
        if not each.results:
            raise ValueError(f"{each.name}: none of the policies can be replayed: {'; '.join(each.left_out.values())}")
    _write(out, render(studies))
    return out


def render(studies: Sequence[Study]) -> str:
    """The page's HTML."""
    view, shown = prompt_data(studies)
    total = sum(each.trace.prompts for each in studies)
    parts = [
        ("glance", "In short", sections.glance(studies)),
        ("collected", "What was collected", sections.collected(studies)),
        ("policies", "Policies", per_trace(studies, lambda each: join(filter(None, [sections.policies(each), figures.measured_figure(each)])))),
        ("settings", "Settings to paste", sections.settings(studies)),
        ("prompts", "Single prompts", join([_viewer(shown, total), per_trace(studies, lambda each: figures.iterations_figure(each, 0))])),
        ("lookahead", "The oracle's lookahead", join([per_trace(studies, figures.lookahead_figures), sections.statistics(studies)])),
        ("distributions", "Fitted distributions", per_trace(studies, lambda each: join([figures.fit_figures(each), sections.fits(each)]))),
        ("signals", "Signals of the draft", join([per_trace(studies, figures.signal_figures), sections.signals(studies)])),
        ("published", "Beside published numbers", join([figures.variance_figure(studies), sections.published(studies)])),
        ("glossary", "Words", sections.glossary()),
    ]
    return page(
        title="Speculation lookahead: " + ", ".join(each.name for each in studies),
        subtitle=_subtitle(studies),
        sections=[(identifier, title, section(identifier, title, body)) for identifier, title, body in parts],
        footer=f"Made by oracle-lookahead {_version()}. Every number comes from replaying recorded traces; nothing on this page is loaded from elsewhere.",
        view=view,
    )


def prompt_data(studies: Sequence[Study]) -> tuple[dict, int]:
    """JSON of the view of single prompts, and how many prompts are in it."""
    table: dict[str, int] = {}
    prompts: list[dict] = []
    chosen = share_out([each.trace.prompts for each in studies])
    for number, (each, some) in enumerate(zip(studies, chosen, strict=True)):
        prompts += view_prompts(number, each.trace, each.results, some, each.source.decode, table)
    named = [{"name": each.name, "policies": [result.policy for result in each.results]} for each in studies]
    return {"words": list(table), "sources": named, "prompts": prompts}, len(prompts)


def _viewer(shown: int, total: int) -> Markup:
    which = f"All {total:,} prompts" if shown == total else f"{shown:,} of {total:,} prompts, evenly spaced (a page shows at most {MAX_PROMPTS})"
    words = (
        f"{which}. Brackets enclose an iteration: what the draft proposed and the target's own token at its end. "
        "The text itself is what is left when rejected and wasted tokens are hidden; it is the same whatever the policy does."
    )
    keys = ("In the text, the left and right arrow keys go from token to token, up and down from iteration to iteration.")
    legend = [("accepted", "accepted"), ("rejected", "rejected"), ("overrun", "overrun (wasted)"), ("own", "the target's own")]
    head = ("Policy", "Target passes", "Drafted", "Accepted", "Wasted", "Speedup here")
    header = [tag("th", name, scope="col", class_="number" if column else None) for column, name in enumerate(head)]
    rows = tag(
        "table",
        tag("caption", tag("span", "Choose a policy; the numbers are of this prompt alone")),
        tag("thead", tag("tr", *header)),
        Markup('<tbody id="policy-rows"></tbody>'),
        class_="policies",
    )
    return join([
        tag("p", words),
        Markup('<noscript><p class="warning">This part needs JavaScript; everything else on the page works without it.</p></noscript>'),
        Markup('<div id="viewer" hidden>'),
        Markup('<div class="controls"><button type="button" id="previous">Previous</button><label>Prompt <select id="prompt-choice"></select></label>'
               '<button type="button" id="next">Next</button></div>'),
        tag("div", rows, class_="scroll", role="region", aria_label="Policies on this prompt", tabindex="0"),
        Markup('<details><summary>The prompt</summary><pre class="wrapped" id="question" tabindex="0"></pre></details>'),
        tag("ul", *(tag("li", tag("span", words, class_=f"token {kind}")) for kind, words in legend), class_="legend"),
        Markup('<div class="controls"><label><input type="checkbox" id="hide-unkept"> Hide rejected and wasted tokens</label>'
               '<span id="view-summary" role="status"></span></div>'),
        Markup('<div class="text" id="view-text" role="listbox" aria-describedby="view-keys"></div>'),
        tag("p", keys, id="view-keys", class_="note"),
        Markup('<div id="tip" role="tooltip" hidden></div></div>'),
    ])  # fmt: skip


def _subtitle(studies: Sequence[Study]) -> str:
    prompts = sum(each.trace.prompts for each in studies)
    tokens = sum(each.trace.tokens for each in studies)
    pairs = dict.fromkeys(sections.pair_name(each.trace) for each in studies)
    return f"{'; '.join(pairs)}. {prompts:,} prompts, {tokens:,} tokens."


def _version() -> str:
    try:
        return metadata.version("oracle-lookahead")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "(checkout)"


def _write(out: Path, text: str) -> None:
    """Write to a temporary name and rename; "" only tries whether that would work."""
    temporary = out.with_name(f".{out.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # A lone surrogate from a damaged data set becomes a character reference instead of an error.
        temporary.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
        if text:
            temporary.replace(out)
    except OSError as error:
        raise RuntimeError(f"{out}: the report cannot be written there ({error}); give another file") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()

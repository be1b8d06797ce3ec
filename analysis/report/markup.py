"""Small builders of HTML.  Whatever is not ``Markup`` is text and is escaped; nothing else decides that."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from string import Template

# Control characters have no place in HTML, and those that turn the direction of text would move what is around them.
_UNSHOWN = dict.fromkeys(
    [*(set(range(32)) - {9, 10, 13}), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)],
    "\N{REPLACEMENT CHARACTER}",
)


_SCRIPTS = ("copy.js", "page.js")


class Markup(str):
    """A string that is HTML already."""


def escape(value: object) -> Markup:
    """``value`` as HTML text that is also safe in a quoted attribute; Markup stays as it is."""
    return value if isinstance(value, Markup) else Markup(_safe(value))


def _safe(value: object) -> str:
    return html.escape(str(value).translate(_UNSHOWN), quote=True)


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """An element; attributes that are None are left out, and ``class_`` stands for ``class``."""
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    start = "".join(f' {key}="{_safe(value)}"' for key, value in given.items())
    return Markup(f"<{name}{start}>{''.join(escape(item) for item in content)}</{name}>")


def join(parts: Iterable[object], between: str = "\n") -> Markup:
    """The parts one after the other, each escaped unless it is Markup."""
    return Markup(between.join(escape(part) for part in parts))


def table(
    head: Sequence[object],
    rows: Sequence[Sequence[object]],
    *,
    caption: str,
    text_columns: Sequence[int] = (),
    best: int | None = None,
) -> Markup:
    """A table that scrolls sideways by itself.

    The first column names the rows; the others are right-aligned numbers but for ``text_columns``.  ``best`` is the row
    to set in bold.
    """

    def kind(column: int) -> str | None:
        return None if column == 0 or column in text_columns else "number"

    header = [tag("th", name, scope="col", class_=kind(column)) for column, name in enumerate(head)]
    body = []
    for number, row in enumerate(rows):
        cells = [tag("td", value, class_=kind(column)) for column, value in enumerate(row) if column > 0]
        body.append(tag("tr", tag("th", row[0], scope="row"), *cells, class_="best" if number == best else None))
    inner = tag(
        "table", tag("caption", tag("span", caption)), tag("thead", tag("tr", *header)), tag("tbody", join(body))
    )
    # A region that scrolls must be reachable by keyboard, and then needs a name.
    return tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex="0")


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


def range_words(estimate) -> str:
    """The interval of an estimate (value, low, high) in words."""
    if math.isnan(estimate.low):
        return "no interval: so few prompts say nothing about others"
    return f"95 % {estimate.low:.2f} to {estimate.high:.2f}"


def section(identifier: str, title: str, *content: object) -> Markup:
    heading = tag("h2", title, id=f"{identifier}-title")
    return tag("section", heading, "\n", join(content), id=identifier, aria_labelledby=f"{identifier}-title")


def figure(image: bytes, kind: str, alt: str, caption: object) -> Markup:
    """A picture inside the page; ``kind`` is its media type, such as ``image/svg+xml``.

    An SVG shown as an image runs no script and loads nothing, whatever it holds.
    """
    address = f"data:{kind};base64,{base64.b64encode(image).decode('ascii')}"
    picture = Markup(f'<img class="plot" alt="{_safe(alt)}" src="{address}">')
    return tag("figure", picture, tag("figcaption", caption))


def paste(text: str, what: str) -> Markup:
    """Lines to paste; the page's script puts a button beside them that copies them. ``what`` they are, for its name."""
    code = tag("pre", tag("code", text), tabindex="0", role="region", aria_label=f"To paste: {what}")
    return tag("div", code, class_="paste", data_what=what)


def json_block(value: object) -> Markup:
    """``value`` as JSON that may stand inside a script element: no character of it can end or open anything there."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def page(
    *, title: str, subtitle: object, sections: Sequence[tuple[str, str, Markup]], footer: object, view: dict
) -> str:
    """The whole page from its (identifier, title, markup) sections.

    Style and script are the files of ``assets``; the page's content policy admits just those two, by their hash.
    """
    style, script = _packaged("page.css"), "\n".join(map(_packaged, _SCRIPTS))
    links = [tag("li", tag("a", name, href=f"#{identifier}")) for identifier, name, _ in sections]
    return fill(
        "template.html",
        title=title,
        heading=title,
        subtitle=subtitle,
        contents=join(links),
        sections=join(body for _, _, body in sections),
        footer=footer,
        view=json_block(view),
        style=Markup(style),
        script=Markup(script),
        style_hash=Markup(_hash(style)),
        script_hash=Markup(_hash(script)),
    )


def fill(name: str, **values: object) -> Markup:
    """The packaged file ``name`` with its $placeholders filled in, escaped unless they are Markup."""
    return Markup(Template(_packaged(name)).substitute({key: escape(value) for key, value in values.items()}))


def _packaged(name: str) -> str:
    return (resources.files("analysis.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")

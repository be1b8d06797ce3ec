"""From rows to prompts: the published form of each schema, recognised by the fields of a row.

The forms are those of the published analysis of dynamic lookahead (arXiv 2405.04304): MBPP is the task and its first
test between triple quotes, Alpaca the instruction template of its authors, CNN-DM an article between "Summarize:" and
"Summary:", HumanEval its own prompt field. All others are a question, as it stands, in a text or in turns of a chat.
A field exists where it has content: null, NaN, blank text and an empty list are what tables hold where there is
nothing. A row with nothing in it to ask becomes an empty text, not an empty form. What a row holds and its prompt does
not is named, never dropped without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oracle.prompts.cut import Span
from oracle.prompts.fields import Turn, Written, context_of, encodable, has_content, question_of, shown, text_of
from oracle.words import did_you_mean

_ANSWER = "\n\n### Response:"
ALPACA = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Response:"
)
ALPACA_WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
)


@dataclass(frozen=True)
class Prompt:
    """One prompt. `id` is the same whatever else is selected; `instruction` is what the user of a chat would type."""

    id: str
    text: str
    instruction: str | None = None  # None where the text itself is what the user would type
    before: tuple[Turn, ...] = ()  # turns that a chat begins with: a system message, earlier questions and answers
    chat_only: bool = False  # these turns are part of the question, so it cannot be asked without a chat template
    most_tokens: int | None = None  # cut to so many (see `oracle.prompts.cut`), where it is not None
    span: Span | None = None  # the part of the text that may be shortened, where not all of it may

    @property
    def user_turn(self) -> str:
        """The text for the user's turn of a chat template."""
        return self.text if self.instruction is None else self.instruction


@dataclass(frozen=True)
class Form:
    """How rows of one schema become prompts. A row is of the form if it names one field of each of the `groups`."""

    groups: tuple[tuple[str, ...], ...]
    write: Callable[[dict, str], Written]  # (row, place for messages) -> what it asks

    def names(self, row: dict) -> bool:
        """Whether the row has these fields, filled or not."""
        return all(any(field in row for field in group) for group in self.groups)

    def touches(self, row: dict) -> bool:
        """Whether the row has one of the fields: it may leave out what it has no content for."""
        return any(field in row for group in self.groups for field in group)

    def fills(self, row: dict) -> bool:
        """Whether the row has content in a field of each group."""
        return all(any(has_content(row.get(field)) for field in group) for group in self.groups)

    def __str__(self) -> str:
        return " + ".join("/".join(group) for group in self.groups)


@dataclass(frozen=True)
class Batch:
    """Prompts of one form, and what the rows hold beyond them."""

    form: str
    prompts: tuple[Prompt, ...]
    left_out: dict[str, int]  # column, or part of one in words -> rows in which it has content


def _mbpp(row: dict, place: str) -> Written:
    field = next((field for field in ("text", "prompt") if has_content(row.get(field))), "text")  # one a configuration
    task = text_of(row, field, place)
    tests = row.get("test_list") if has_content(row.get("test_list")) else []
    if not isinstance(tests, list) or not all(isinstance(test, str) for test in tests[:1]):
        raise ValueError(f"{place}: test_list must be a list of assert lines, got {tests!r:.80}.")
    if not task.strip():
        return Written("", used=(field,))
    lines = [task, *(encodable(test, "test_list", place) for test in tests[:1])]
    dropped = ("test_list after the first test",) if has_content(tests[1:]) else ()
    text = "\n".join(['"""', *lines, '"""', ""])
    return Written(text, used=(field, "test_list"), dropped=dropped, span=_span(text, '"""\n', task))


def _alpaca(row: dict, place: str) -> Written:
    instruction, context, field = text_of(row, "instruction", place), text_of(row, "input", place), "input"
    if not context.strip() and isinstance(row.get("context"), str):  # Dolly's name of it
        context, field = text_of(row, "context", place), "context"
    if context.strip():
        filled = ALPACA_WITH_INPUT.format(instruction=instruction, input=context)
        asked = f"{instruction}\n\n{context}" if instruction.strip() else context
        before = filled.removesuffix(f"{context}{_ANSWER}")
        return Written(filled, asked, used=("instruction", field), span=_span(filled, before, context))
    text = ALPACA.format(instruction=instruction) if instruction.strip() else ""
    before = text.removesuffix(f"{instruction}{_ANSWER}")
    return Written(text, instruction, used=("instruction",), span=_span(text, before, instruction))


def _cnn_dailymail(row: dict, place: str) -> Written:
    article = text_of(row, "article", place)
    text = f"Summarize:\n{article}\nSummary:\n" if article.strip() else ""
    return Written(text, used=("article",), span=_span(text, "Summarize:\n", article))


def _span(text: str, before: str, part: str) -> Span | None:
    """Where a part stands after the words before it; None in an empty text."""
    return (len(before), len(before) + len(part)) if text else None


def _question(*fields: str) -> Form:
    """The form of rows that ask in one of these fields, without anything around it."""

    def write(row: dict, place: str) -> Written:
        return question_of(row, next((field for field in fields if has_content(row.get(field))), fields[0]), place)

    return Form((fields,), write)


_PLAIN = _question("prompt")
FORMS = {  # the first form that some row fills is that of all rows
    "mbpp": Form((("test_list",), ("text", "prompt")), _mbpp),
    "humaneval": Form((("prompt",), ("canonical_solution", "entry_point", "declaration")), _PLAIN.write),
    "alpaca": Form((("instruction",),), _alpaca),
    "cnn_dailymail": Form((("article",),), _cnn_dailymail),
    "plain": _PLAIN,
    "messages": _question("messages"),
    "conversations": _question("conversations", "conversation"),
    "turns": _question("turns"),
    "question": _question("question", "problem"),
}
_MOST_NAMES = 40  # columns that are named; a file may have a million


def write_prompts(
    rows: Sequence[dict], ids: Sequence, places: Sequence[str], field: str | None = None, id_field: str | None = None
) -> Batch:
    """Every row as a prompt: in the form of these rows, or what the column `field` asks, as it stands.

    `places` says for messages where each row stands; `id_field` is the column that `ids` are from. Raises ValueError
    for a row of no form or of another one, and for rows without that column.
    """
    name = _form_of(rows) if field is None else "field"
    if name is None:
        raise ValueError(f"{places[0]}: {_unrecognised(rows[0])}")
    form = FORMS[name] if field is None else _question(field)
    if field is not None and not any(map(form.touches, rows)):
        raise ValueError(f"{places[0]}: {_no_column(field, rows[0])}")
    prompts, left_out = [], Counter[str]()
    for row, identity, place in zip(rows, ids, places, strict=True):
        if not form.touches(row):
            raise ValueError(f"{place}: expected the fields {form} as in {places[0]}, got {_names(row)}.")
        found = form.write(row, place)
        before, used = ((), ()) if _begins_with_system(found) else context_of(row)
        made_of = {*found.used, *used, id_field}
        left_out.update([*found.dropped, *(shown(key) for key in row if key not in made_of and has_content(row[key]))])
        turns = (*before, *found.before)
        prompts.append(
            Prompt(
                encodable(str(identity), "the id", place),
                found.text,
                found.instruction,
                turns,
                found.chat_only,
                span=found.span,
            )
        )
    return Batch(name, tuple(prompts), _named(left_out))


def _named(left_out: Counter[str]) -> dict[str, int]:
    """The names, the first ones where there are many."""
    first = dict(list(left_out.items())[:_MOST_NAMES])
    more = len(left_out) - len(first)
    return first | ({f"and {more} more": max(left_out.values())} if more else {})


def _begins_with_system(found: Written) -> bool:
    return bool(found.before) and found.before[0].role == "system"


def _form_of(rows: Sequence[dict]) -> str | None:
    """The first form that a row fills; where no row fills any, the first one whose fields the first row names."""
    filled = (name for name, form in FORMS.items() if any(form.fills(row) for row in rows))
    named = (name for name, form in FORMS.items() if form.names(rows[0]))
    return next(filled, next(named, None))


def _unrecognised(row: dict) -> str:
    known = dict.fromkeys(field for form in FORMS.values() for group in form.groups for field in group)
    hint = next((hint for field in row if field not in known and (hint := did_you_mean(str(field), known))), "")
    legal = "; ".join(f"{form} ({name})" for name, form in FORMS.items())
    return (
        f"no form of prompts has the fields {_names(row)}; name the column to take (--prompt-field). "
        f"Legal fields: {legal}.{hint}"
    )


def _no_column(field: str, row: dict) -> str:
    return f"there is no column {shown(field)!r}. Columns: {_names(row)}.{did_you_mean(field, map(str, row))}"


def _names(row: dict) -> str:
    some = ", ".join(map(shown, list(row)[:20])) or "(none)"
    return f"{some}, and {len(row) - 20} more" if len(row) > 20 else some

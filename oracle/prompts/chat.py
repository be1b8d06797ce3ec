"""A prompt in the tokenizer's chat template, which is a small program of somebody else's: rendered within bounds."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from oracle.prompts.bounds import TooLong, bounded_memory, bounded_time, raises_to_a_power
from oracle.prompts.fields import Turn, shown
from oracle.records.typed import is_deep
from oracle.words import did_you_mean

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SECONDS = 5.0  # a template takes milliseconds
_MOST_MEMORY = 2**29  # bytes that rendering may add to the process, where the system can bound that (Linux)
_MOST_ADDED, _MOST_TIMES = 2**20, 16  # characters: a template adds at most so many, and repeats a text so often
_ADVICE = "Leave --chat out, or take a model that was tuned for chat."
QUESTION, SYSTEM, HISTORY = "question", "system", "history"  # the last turn, a system message, all others
_CLOCK = "strftime_now"  # how a template asks for today's date (transformers 5.24, utils/chat_template_utils.py)
_OURS = (  # what `apply_chat_template` takes itself, and the library hands to every template
    "conversation", "messages", "chat_template", "add_generation_prompt", "continue_final_message", "tokenize",
    "sanitize_control_tokens", "padding", "truncation", "max_length", "return_tensors", "return_dict",
    "return_assistant_tokens_mask", "tokenizer_kwargs", _CLOCK,
)  # fmt: skip


@dataclass(frozen=True)
class Chat:
    """How texts go through the tokenizer's chat template.

    ``system`` is a system message for every prompt that has none of its own; ``arguments`` are values of the template's
    own names, such as ``{"enable_thinking": False}``; ``date`` ("2026-12-01", or with a time of day) is what a template
    that writes today's date takes for today, None for now.  Raises ValueError for what is none of these.
    """

    system: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    date: str | None = None

    def __post_init__(self) -> None:
        if self.system is not None and not (isinstance(self.system, str) and self.system.strip()):
            raise ValueError(f"the system message is {self.system!r:.80}; give a text, or leave it out")
        for name in self.arguments:
            if not str(name).isidentifier() or name in _OURS:
                raise ValueError(
                    f"the template argument {shown(name)!r} is no name that a template can be given; "
                    "give one that it reads, such as enable_thinking"
                )
        try:
            if is_deep(dict(self.arguments)):
                raise ValueError("nested too deeply")
            json.dumps(dict(self.arguments), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the template arguments are no values of JSON ({str(error)[:100]})") from None
        try:
            self.today()
        except (TypeError, ValueError):
            raise ValueError(f"the date is {self.date!r:.60}; give one such as 2026-12-01") from None

    def today(self) -> datetime.datetime:
        """What a template takes for now."""
        return datetime.datetime.now() if self.date is None else datetime.datetime.fromisoformat(self.date)

    def settled(self, before: Mapping[str, Any] | None) -> Chat:
        """The same with its date fixed: the given one, that of the run which ``before`` is the meta of, or now."""
        kept = (before or {}).get("template_date")
        now = datetime.datetime.now().isoformat(timespec="seconds")
        return self if self.date is not None else replace(self, date=now if kept is None else kept)

    def to_meta(self) -> dict[str, Any]:
        """What a trace says of it, without the date, which matters only where a template has asked for it."""
        system = {} if self.system is None else {"system": self.system}
        return system | ({"template_args": dict(self.arguments)} if self.arguments else {})


@dataclass(frozen=True)
class Rendered:
    """A chat as the models will see it."""

    tokens: list[int]
    dated: bool  # the template asked for the date
    lost: frozenset[str]  # of QUESTION, SYSTEM and HISTORY, what the template leaves out


def as_chat(given: bool | Chat | None) -> Chat | None:
    """How to use the template, None for not at all."""
    return given if isinstance(given, Chat) else Chat() if given else None


def expect_template(tokenizer: PreTrainedTokenizerBase, chat: Chat) -> None:
    """Raise ValueError where there is no chat template, or where it reads no argument of that name."""
    name = _name(tokenizer)
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError(
            f"The tokenizer {name!r} has no chat template. "
            'It would be in its chat_template.jinja, or under "chat_template" in its tokenizer_config.json. ' + _ADVICE
        )
    if not chat.arguments:
        return
    from jinja2 import TemplateError

    try:
        read = _names_in(tokenizer.get_chat_template())
    except TemplateError as error:
        raise ValueError(_unusable(name, " ".join(str(error).split())[:300])) from error
    for argument in chat.arguments:
        if argument not in read:
            raise ValueError(
                f"The chat template of the tokenizer {name!r} reads nothing called {argument!r}, so it would change "
                f"nothing. Leave it out, or correct its name.{did_you_mean(argument, read)}"
            )


def render_chat(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], chat: Chat | None = None) -> Rendered:
    """The token ids of a chat of these turns, the last one the user's, with the assistant's turn opened.

    Ids, not text: the template already writes the special tokens, and encoding its text again would add a second BOS.
    Raises ValueError if the tokenizer has no chat template, or one that fails, takes longer than `SECONDS` or makes far
    more of the text than a chat: the library renders it in a sandbox, which lets it reach nothing but the turns, and
    here its time and memory are bounded too.
    """
    chat, name = chat or Chat(), _name(tokenizer)
    expect_template(tokenizer, chat)
    rendered, dated = _render(tokenizer, name, turns, chat)
    size = sum(len(turn.content) for turn in turns)
    most = _MOST_ADDED + _MOST_TIMES * size
    if len(rendered) > most:
        raise ValueError(_unusable(name, f"it makes {len(rendered)} characters of {size}, at most {most} are read"))
    plain: dict[str, Any] = {"add_special_tokens": False, "padding": False, "truncation": False, "verbose": False}
    missing = {_part(turns, at): at for at, turn in enumerate(turns) if turn.content.strip() not in rendered}
    lost = frozenset(part for part, at in missing.items() if _is_lost(tokenizer, turns, at, rendered, chat))
    return Rendered(tokenizer(rendered, **plain)["input_ids"], dated, lost)


def _part(turns: Sequence[Turn], at: int) -> str:
    return QUESTION if at == len(turns) - 1 else SYSTEM if turns[at].role == "system" else HISTORY


def _is_lost(tokenizer: PreTrainedTokenizerBase, turns: Sequence[Turn], at: int, rendered: str, chat: Chat) -> bool:
    """Whether the template writes the same whatever that turn says: then nothing of it is in there.

    A template may trim or quote a text, so one that is not found as it stands may still be in there.
    """
    others = [replace(turn, content="something else") if n == at else turn for n, turn in enumerate(turns)]
    try:
        return _render(tokenizer, _name(tokenizer), others, chat)[0] == rendered
    except ValueError:  # it minds what the turn says
        return False


def _render(tokenizer: PreTrainedTokenizerBase, name: str, turns: Sequence[Turn], chat: Chat) -> tuple[str, bool]:
    """The text of a chat, and whether the template asked for the date."""
    messages: Any = [{"role": turn.role, "content": turn.content} for turn in turns]
    size = sum(len(turn.content) for turn in turns)
    try:
        template = tokenizer.get_chat_template()
        if raises_to_a_power(template):
            raise ValueError("it computes a power, which no bound of time can interrupt")
        with (
            _clock_at(template, chat.today()) as asked,
            bounded_memory(_MOST_MEMORY + 64 * size),
            bounded_time(SECONDS),
        ):
            options: dict[str, Any] = {"add_generation_prompt": True, "tokenize": False, **chat.arguments}
            return str(tokenizer.apply_chat_template(messages, **options)), bool(asked)
    except TooLong:
        raise ValueError(_unusable(name, f"it was not done after {SECONDS:g} s")) from None
    except MemoryError:
        raise ValueError(_unusable(name, "it needs more memory than any chat")) from None
    except Exception as error:  # a program can fail in any way
        problem = " ".join(str(error).split())[:300] or type(error).__name__
        raise ValueError(_unusable(name, problem)) from error


@contextlib.contextmanager
def _clock_at(template: str, now: datetime.datetime) -> Iterator[set[str]]:
    """Let a template that asks for the date be told ``now``; whether it did is in the set.

    The library compiles a template once and keeps it; a compiled template has globals of its own, which come before
    those of its environment.
    """
    from transformers.utils import chat_template_utils

    compiled = chat_template_utils._compile_jinja_template(template)
    if chat_template_utils._compile_jinja_template(template) is not compiled:
        raise RuntimeError("this version of transformers compiles a template anew each time; its date cannot be kept")
    asked: set[str] = set()

    def strftime_now(format: str) -> str:
        asked.add(_CLOCK)
        return now.strftime(format)

    compiled.globals[_CLOCK] = strftime_now
    try:
        yield asked
    finally:
        del compiled.globals[_CLOCK]


@functools.lru_cache(maxsize=8)
def _names_in(template: str) -> frozenset[str]:
    """Every name in a template.  Raises jinja2's TemplateError."""
    from jinja2 import Environment

    return frozenset(word for _, kind, word in Environment().lex(template) if kind == "name")


def _name(tokenizer: PreTrainedTokenizerBase) -> str:
    return getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__


def _unusable(name: str, problem: str) -> str:
    return f"The chat template of the tokenizer {name!r} cannot be used ({problem}). {_ADVICE}"

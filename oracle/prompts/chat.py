"""A prompt in the tokenizer's chat template, which is a small program of somebody else's: rendered within bounds."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SECONDS = 5.0  # a template takes milliseconds
_MOST_MEMORY = 2**29  # bytes that rendering may add to the process, where the system can bound that (Linux)
_MOST_ADDED, _MOST_TIMES = 2**20, 16  # characters: a template adds at most so many, and repeats a text so often
_ADVICE = "Leave --chat out, or take a model that was tuned for chat."


class _TooLong(Exception):
    """A template was still at work after its time."""


def render_chat(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the token ids of a chat with `text` as its one user turn and the assistant's turn opened.

    Ids, not text: the template already writes the special tokens, and encoding its text again would add a second BOS.
    `text` is a prompt's `user_turn`. Raises ValueError if the tokenizer has no chat template, or one that fails, takes
    longer than `SECONDS` or makes far more of the text than a chat: the library renders it in a sandbox, which lets it
    reach nothing but the turns, and here its time and memory are bounded too.
    """
    name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError(
            f"The tokenizer {name!r} has no chat template. "
            'It would be in its chat_template.jinja, or under "chat_template" in its tokenizer_config.json. ' + _ADVICE
        )
    rendered = _render(tokenizer, name, text)
    most = _MOST_ADDED + _MOST_TIMES * len(text)
    if len(rendered) > most:
        raise ValueError(
            _unusable(name, f"it makes {len(rendered)} characters of {len(text)}, at most {most} are read")
        )
    return tokenizer(rendered, add_special_tokens=False, padding=False, truncation=False, verbose=False)["input_ids"]


def _render(tokenizer: PreTrainedTokenizerBase, name: str, text: str) -> str:
    turns = [{"role": "user", "content": text}]
    try:
        if _raises_to_a_power(tokenizer.get_chat_template()):
            raise ValueError("it computes a power, which no bound of time can interrupt")
        with _bounded_memory(_MOST_MEMORY + 64 * len(text)), _bounded_time(SECONDS):
            return str(tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))
    except _TooLong:
        raise ValueError(_unusable(name, f"it was not done after {SECONDS:g} s")) from None
    except MemoryError:
        raise ValueError(_unusable(name, "it needs more memory than any chat")) from None
    except Exception as error:  # a program can fail in any way
        problem = " ".join(str(error).split())[:300] or type(error).__name__
        raise ValueError(_unusable(name, problem)) from error


def _unusable(name: str, problem: str) -> str:
    return f"The chat template of the tokenizer {name!r} cannot be used ({problem}). {_ADVICE}"


def _raises_to_a_power(template: str) -> bool:
    """Whether a template uses the operator ``**`` other than to hand on named arguments."""
    from jinja2 import Environment

    before = ""
    for _, kind, value in Environment().lex(template):
        if kind == "operator" and value == "**" and before not in ("(", ","):
            return True
        before = before if kind == "whitespace" else value
    return False


@contextlib.contextmanager
def _bounded_time(seconds: float) -> Iterator[None]:
    """Raise _TooLong in whatever Python code still runs in this thread after so many seconds, at its next line."""
    end = time.monotonic() + seconds

    def check(frame: FrameType, event: str, argument: Any) -> Any:
        if time.monotonic() > end:
            raise _TooLong
        return check

    before = sys.gettrace()
    sys.settrace(check)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def _bounded_memory(most: int) -> Iterator[None]:
    """Let the process grow by at most so many bytes meanwhile (MemoryError), on systems that tell how large it is."""
    size = Path("/proc/self/statm")
    if not size.is_file():
        yield
        return
    import resource

    pages = int(size.read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * resource.getpagesize() + most
    soft = wanted if limits[0] == resource.RLIM_INFINITY else min(wanted, limits[0])
    resource.setrlimit(resource.RLIMIT_AS, (soft, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)

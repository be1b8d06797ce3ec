"""What the models really read: facts of the encoded prompts, and what is odd about them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.models.configs import eos_token_ids, known_rows, whole
from oracle.models.pair import Pair
from oracle.prompts.chat import Chat, as_chat
from oracle.prompts.encode import CUT, DATED, NO_HISTORY, NO_SYSTEM, Encoded
from oracle.prompts.fields import shown
from oracle.records.folder import Kind

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from oracle.records.trace import Trace

_WARNED = {
    "begins": "prompts, first token",
    "ends": "prompts, last token",
    "turns": "prompts, turns left out",
    "ended": "texts",
}
_NAMED = 4  # columns that an error names
_TOKENS = 12  # of each end of the first prompt


@dataclass(frozen=True)
class PromptFacts:
    """What the models read, in JSON's types.

    ``odd`` says in a sentence what is hardly meant: of the first token (``"begins"``), the last one (``"ends"``), the
    tokens that end a text (``"eos"``), earlier turns (``"turns"``), prompts that are left out (``"skipped"``) and the
    recorded texts (``"ended"``).
    """

    prompts: int
    lengths: tuple[int, float, int]  # tokens of the shortest prompt, the median, tokens of the longest
    first: str  # the first tokens of prompt 0 as text; their ids where there is no tokenizer
    last: str
    bos: str | None  # the token that begins a text, None where the tokenizer knows none
    with_bos: int  # prompts that begin with it
    twice_bos: int  # of them, those that begin with two
    eos: tuple[tuple[int, str], ...]  # tokens that end a text: id and text
    ends_in_eos: int  # prompts whose last token is one of them
    chat: bool
    form: str | None  # how rows became prompts; None for prompts given in memory
    left_out: dict[str, int]  # column, or part of one -> rows with content there that no prompt holds
    without_system: int  # prompts whose own system message is not in the tokens
    without_history: int  # prompts whose own earlier turns are not
    skipped: dict[str, int]  # kind of reason -> prompts
    cut: int = 0  # prompts that were longer than the most tokens that they may have
    date: str | None = None  # what the chat template took for today; None where it did not ask
    ended: int | None = None  # texts that an end token ended; None where nothing is recorded yet
    odd: dict[str, str] = field(default_factory=dict)

    def to_meta(self) -> dict[str, Any]:
        """What a trace keeps of it, in JSON's types: in memory it is what is read back."""
        names = ("first", "last", "bos", "with_bos", "twice_bos", "ends_in_eos", "without_system", "without_history")
        return {name: getattr(self, name) for name in (*names, "odd")} | {"eos": [list(each) for each in self.eos]}


def look(
    pair: Pair,
    encoded: Sequence[Encoded],
    skipped: Sequence[Mapping[str, Any]],
    source: Mapping[str, Any],
    chat: Chat | None,
) -> PromptFacts:
    """Look at the encoded prompts (at least one); ``source`` is the ``PromptSet``'s, empty for prompts in memory."""
    tokenizer, known = pair.tokenizer, known_rows(pair)
    eos = tuple(token for token in eos_token_ids(pair) if token < known)  # no text can hold others
    sizes = [len(item.tokens) for item in encoded]
    bos = whole(getattr(tokenizer, "bos_token_id", None))
    begin = [int(item.tokens[0]) == bos for item in encoded]
    remarks = Counter(remark for item in encoded for remark in item.remarks)
    # An encoder is meant to read an end token, which says nothing of the text: a decoder begins that by itself.
    encoders = pair.target.config.is_encoder_decoder
    last = set() if encoders else {*eos, whole(getattr(tokenizer, "eos_token_id", None))}
    found = PromptFacts(
        prompts=len(encoded),
        lengths=(min(sizes), float(median(sizes)), max(sizes)),
        first=_text(tokenizer, encoded[0].tokens[:_TOKENS].tolist()),
        last=_text(tokenizer, encoded[0].tokens[-_TOKENS:].tolist()),
        bos=None if bos is None else _text(tokenizer, [bos]),
        with_bos=sum(begin),
        twice_bos=sum(one and item.tokens[1:2].tolist() == [bos] for one, item in zip(begin, encoded, strict=True)),
        eos=tuple((token, _text(tokenizer, [token])) for token in eos),
        ends_in_eos=sum(int(item.tokens[-1]) in last for item in encoded),
        chat=chat is not None,
        form=source.get("format"),
        left_out=dict(source.get("left_out") or {}),
        without_system=remarks[NO_SYSTEM],
        without_history=remarks[NO_HISTORY],
        skipped=dict(Counter(str(each["kind"]) for each in skipped)),
        cut=remarks[CUT],
        date=chat.date if chat is not None and remarks[DATED] else None,
    )
    return replace(found, odd=dict(_odd(found, tokenizer)))


def expect_some(
    encoded: Sequence[Encoded], skipped: Sequence[Mapping[str, Any]], source: Mapping[str, Any], what: str
) -> None:
    """Raise ValueError where no prompt is left, saying why the first one is not, and what rows hold that none is."""
    if encoded:
        return
    why = f" ({len(skipped)} left out, the first one for: {skipped[0]['reason']})" if skipped else ""
    columns = list(source.get("left_out") or {})[:_NAMED]
    held = f"; what the rows hold beyond that: {', '.join(columns)}" if columns else ""
    raise ValueError(f"there is no prompt {what}{why}{held}")


def settled_chat(given: bool | Chat, kind: Kind, out: str | Path | None, *, resume: bool) -> Chat | None:
    """How to use the chat template, its date fixed: that of the run in ``out`` which is to be gone on with, or now."""
    chat = as_chat(given)
    if chat is None:
        return None
    return chat.settled(
        kind.read_meta(out) if resume and out is not None and (Path(out) / "meta.json").exists() else None
    )


def of_texts(facts: PromptFacts, trace: Trace, contradicting: frozenset[int]) -> PromptFacts:
    """The same with what the recorded texts say: how many an end token ended, how many hold what the draft reads else.

    A draft is given the target's ids, here as in a real run, so that a text is exact with such a token in it, too; but
    the draft then goes on from another token than the target meant.
    """
    ended = int((trace.finish == "eos").sum())
    found = replace(facts, ended=ended)
    held = np.isin(trace.target_tokens, sorted(contradicting))
    texts = len(np.unique(np.searchsorted(trace.offsets, np.flatnonzero(held), side="right")))
    if not texts:
        return found
    said = f"{ended} of {facts.prompts} by themselves; {texts} hold a token that is another one to the draft"
    return replace(found, odd=facts.odd | {"ended": said})


def form_meta(chat: Chat | None, facts: PromptFacts) -> dict[str, Any]:
    """What a trace or runs say of the form of their prompts, and of what was found in them."""
    how = {} if chat is None else chat.to_meta()
    date = {} if facts.date is None else {"template_date": facts.date}
    return {"chat": chat is not None, **how, **date, "encoded": facts.to_meta()}


def warn_of(facts: PromptFacts, names: Sequence[str] = ("begins", "ends", "turns")) -> None:
    """One warning for each thing of ``names`` that is odd: what prompts hold before a long run, not after it."""
    for name in names:
        if name in facts.odd:  # others are said elsewhere: prompts left out one by one, ends where models are checked
            warnings.warn(f"{_WARNED[name]}: {facts.odd[name]}", stacklevel=3)


def _text(tokenizer: PreTrainedTokenizerBase | None, ids: list[int]) -> str:
    if tokenizer is None:
        return " ".join(map(str, ids))
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _odd(found: PromptFacts, tokenizer: PreTrainedTokenizerBase | None) -> list[tuple[str, str]]:
    """What is hardly meant, each in a sentence without a full stop that is safe to show."""
    begin, end = (None, None) if tokenizer is None else _ends(tokenizer)
    says = []
    if found.twice_bos:
        both = "the template and the text" if found.chat else "the text and the tokenizer"
        says.append(("begins", f"{_of(found.twice_bos, found)} begin with {_name(found.bos)} twice: {both} have it"))
    elif found.chat and found.bos is not None and not found.with_bos and begin == found.bos:
        says.append(("begins", f"the chat template writes no {_name(found.bos)}, as begins other texts"))
    if found.ends_in_eos:
        known = [text for _, text in found.eos] + ([] if tokenizer is None else [str(tokenizer.eos_token)])
        adds = not found.chat and end in known
        name = _name(end if adds else known[0]) if adds or len(set(known)) == 1 else "an end token"
        why = "the tokenizer adds it" if adds else "the template writes it" if found.chat else "their text has it"
        says.append(("ends", f"{_of(found.ends_in_eos, found)} end in {name}: {why}"))
    if not found.eos:
        says.append(("eos", "no token ends a text, so every text goes on to its limit"))
    lost = {"system message": found.without_system, "earlier turns": found.without_history}
    if any(lost.values()):
        named = ", ".join(f"{what} of {count}" for what, count in lost.items() if count)
        says.append(("turns", f"{named} ({'the template has no place' if found.chat else '--chat takes them'})"))
    if found.skipped:
        says.append(("skipped", ", ".join(f"{count} {kind}" for kind, count in found.skipped.items())))
    return says


def _of(count: int, found: PromptFacts) -> str:
    return f"{'all' if count == found.prompts else count} of {found.prompts}"


def _ends(tokenizer: PreTrainedTokenizerBase) -> tuple[str, str]:
    """The first and the last token of a short text, special ones included."""
    ids = tokenizer("a", padding=False, truncation=False, verbose=False)["input_ids"]
    return _text(tokenizer, ids[:1]), _text(tokenizer, ids[-1:])


def _name(token: str | None) -> str:
    """A token as a message may show it: nothing in it acts on a terminal."""
    return repr(shown(token))[1:-1]

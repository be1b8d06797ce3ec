"""What the columns of one file must say together: each check names the first row where they do not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oracle.records.flat import Flat
from oracle.records.parquet import Refused

Columns = Mapping[str, Flat]


def _expect(good: np.ndarray, words: str, **shown: np.ndarray) -> None:
    """Raise for the first row where ``good`` (bool [rows]) fails; ``shown`` fills the words with that row's values."""
    if not good.all():
        row = int(np.argmin(good))
        raise Refused(f"row {row}: " + words.format(**{name: values[row] for name, values in shown.items()}))


def _expect_each(flat: Flat, good: np.ndarray, words: str, **shown: np.ndarray) -> None:
    """The same for the entries of a column of lists (bool, one a value of its outermost list)."""
    if not good.all():
        at = int(np.argmin(good))
        row = int(np.searchsorted(flat.offsets[0], at, side="right")) - 1
        raise Refused(f"row {row}: " + words.format(**{name: values[at] for name, values in shown.items()}))


# --- a trace ---------------------------------------------------------------------------------------------------------


def check_trace(columns: Columns, meta: Mapping) -> None:
    """Raise ``Refused`` where the columns of a part contradict each other or the trace's ``meta``."""
    _check_texts(columns, meta["eos_token_ids"])
    if meta.get("draft_kind", "chain") == "round":
        _check_rounds(columns, meta["round_limit"])
    else:
        _check_overruns(columns, meta.get("max_overrun", 0))
        _check_top(columns, meta.get("top_k", 0))


def _check_texts(columns: Columns, eos: list[int]) -> None:
    text, limit, finish = columns["target_tokens"], columns["max_new_tokens"].values, columns["finish"].values
    size = text.lengths()
    _expect(size >= 1, "a text without a single target token")
    _expect(size <= limit, "a text of {size} tokens is longer than its max_new_tokens {limit}", size=size, limit=limit)
    ended, last = finish == "eos", text.values[text.offsets[0][1:] - 1]
    known = ", ".join(map(str, eos[:10])) or "none"
    words = f"a text of finish eos ends with token {{last}}; the end tokens of this trace: {known}"
    _expect(~ended | np.isin(last, eos), words, last=last)
    words = "a text of finish length has {size} tokens, its max_new_tokens is {limit}"
    _expect(ended | (size == limit), words, size=size, limit=limit)


def _check_overruns(columns: Columns, most: int) -> None:
    text, draft, position = columns["target_tokens"], columns.get("draft_tokens"), columns.get("overrun_position")
    if position is None:
        if draft is None:
            raise Refused(
                "column draft_tokens and column overrun_position are missing: nothing says where the draft is right"
            )
        if any(name.startswith("overrun_") for name in columns):
            raise Refused("column overrun_position is missing, but overruns are there")
        return
    size = np.repeat(text.lengths(), position.lengths())
    words = "overrun_position {at} lies outside its text of {size} tokens"
    _expect_each(position, position.values < size, words, at=position.values, size=size)
    first = np.isin(np.arange(len(position.values)), position.offsets[0])  # of its row
    rising = first | (np.diff(position.values, prepend=-1) > 0)
    _expect_each(position, rising, "overrun_position {at} does not come after the one before it", at=position.values)
    if draft is not None:
        flat = position.values + np.repeat(text.offsets[0][:-1], position.lengths())
        marked = np.zeros(len(text.values), bool)
        marked[flat] = True
        words = "overruns and disagreements do not match: target {target}, draft {draft}, overrun there: {marked}"
        shown = {"target": text.values, "draft": draft.values, "marked": marked}
        _expect_each(text, marked == (draft.values != text.values), words, **shown)
    inner = next(
        (flat for name, flat in columns.items() if name.startswith("overrun_") and len(flat.offsets) == 2), None
    )
    if inner is not None:
        size = inner.lengths(1)
        _expect_each(inner, size <= most, f"an overrun of {{size}} tokens, max_overrun is {most}", size=size)


def _check_top(columns: Columns, most: int) -> None:
    text, after, said = (columns.get(name) for name in ("draft_top", "draft_top_after", "overrun_tokens"))
    if text is None and after is None:
        return
    if text is None or after is None or said is None or not most:
        raise Refused("draft_top goes with draft_top_after, overrun_tokens and a top_k above 0 in the trace's meta")
    size = text.lengths(1)
    _expect_each(text, size == most, f"{{size}} probabilities in draft_top where top_k is {most}", size=size)
    size, tokens = after.lengths(1), said.lengths(1)
    words = f"{{size}} probabilities in draft_top_after for {{tokens}} tokens; top_k is {most}"
    _expect_each(after, size == most * tokens, words, size=size, tokens=tokens)


def _check_rounds(columns: Columns, most: int) -> None:
    text, run = columns["target_tokens"], columns.get("run")
    if run is None:
        raise Refused("column run is missing: nothing says how much of a round is accepted")
    index = np.arange(len(text.values))
    left = np.repeat(text.offsets[0][1:], text.lengths()) - index  # tokens from each position to the end of its text
    words = f"a run of {{run}} tokens where {{left}} are left and round_limit is {most}"
    _expect_each(text, run.values <= np.minimum(left, most), words, run=run.values, left=left)
    inner = next((flat for name, flat in columns.items() if name.startswith("round_")), None)
    if inner is None:
        return
    size = inner.lengths(1)
    words = f"a round of {{size}} tokens with a run of {{run}}; round_limit is {most}"
    _expect_each(text, (size >= run.values) & (size <= most), words, size=size, run=run.values)
    if "round_tokens" in columns:
        _check_round_tokens(text, run.values, columns["round_tokens"], left)


def _check_round_tokens(text: Flat, run: np.ndarray, said: Flat, left: np.ndarray) -> None:
    size = said.lengths(1)
    start = np.repeat(np.arange(len(run)), size)
    step = np.arange(len(said.values)) - said.offsets[1][:-1][start]  # place of each token in its round
    inside = step < left[start]
    equal = np.zeros(len(step), bool)
    equal[inside] = said.values[inside] == text.values[(start + step)[inside]]
    wrong = inside & np.where(step < run[start], ~equal, (step == run[start]) & equal)
    good = np.bincount(start[wrong], minlength=len(run)) == 0
    _expect_each(text, good, "round_tokens and target_tokens do not agree on exactly {run} tokens", run=run)


# --- measured runs ---------------------------------------------------------------------------------------------------


def check_runs(columns: Columns, clipped: bool = True) -> None:
    """Raise ``Refused`` where the columns of a file of measured calls contradict each other.

    Drafts are ``clipped`` to the tokens that are left, unless they are looked up.
    """
    position, accepted, drafted = (columns[name] for name in ("position", "accepted", "drafted"))
    size = columns["tokens"].lengths()
    _expect(size >= 1, "a text without a single token")
    limit = columns["max_new_tokens"].values
    _expect(size <= limit, "a text of {size} tokens is longer than its max_new_tokens {limit}", size=size, limit=limit)
    _expect(position.lengths() >= 1, "a call without an iteration")
    words = "accepted {accepted} of {drafted} drafted tokens"
    _expect_each(accepted, accepted.values <= drafted.values, words, accepted=accepted.values, drafted=drafted.values)
    left = np.repeat(limit, position.lengths()) - position.values
    passes = columns["passes"].values
    words = "{passes} draft passes where {left} tokens are left up to max_new_tokens"
    _expect_each(drafted, (passes <= left) | (not clipped), words, passes=passes, left=left)
    words = "{drafted} drafted tokens in {passes} draft passes"
    _expect_each(drafted, drafted.values <= passes, words, drafted=drafted.values, passes=passes)
    after = position.values + accepted.values + 1
    expected = np.roll(after, 1)
    expected[position.offsets[0][:-1]] = 0
    words = "an iteration at position {at} where the one before it leads to {expected}"
    _expect_each(position, position.values == expected, words, at=position.values, expected=expected)
    end = after[position.offsets[0][1:] - 1]
    _expect(end == size, "its iterations emit {end} tokens, its text has {size}", end=end, size=size)
    equal, first = columns["equal"].values, columns["first_difference"].values
    known = np.array([value is not None for value in first], bool)
    _expect(equal != known, "equal is {equal}, first_difference {first}", equal=equal, first=first)

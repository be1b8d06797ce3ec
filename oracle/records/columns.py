"""Every column of a trace and of measured runs, declared once: writing, reading, memory and documentation follow.

A column lies along an *axis*: one value a prompt, or one list entry for each token of the prompt, token of the text,
disagreement, or iteration.  ``inner`` says that each entry is itself a list, and which columns share its lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

TOLERANCE = 1e-4  # of a probability: sums over a large vocabulary end a little beside 0 and 1
LARGEST = float(np.finfo(np.float64).max)  # with it as its end, a range holds finite numbers only
AXES = {
    "": "row",
    "prompt_token": "row [tokens of the prompt]",
    "token": "row [T]",
    "miss": "row [M]",
    "iteration": "row [I]",
}


@dataclass(frozen=True)
class Column:
    """One column on disk and in memory."""

    name: str
    scalar: pa.DataType  # type of the innermost value
    dtype: type  # the same in memory
    meaning: str  # one sentence, with unit and shape
    axis: str = ""  # one of AXES
    inner: str = ""  # columns of equal ``inner`` hold inner lists of equal lengths
    optional: bool = False  # the file may do without; in memory it is None then
    kind: str = ""  # the draft that it belongs to, "chain" or "round"; both if empty
    since: int = 1  # schema version that brought it
    least: float | None = None  # legal range, both ends included; text and flags have none
    most: float = LARGEST
    choices: tuple[str, ...] = ()  # legal texts; any but the empty one where there are none
    nullable: bool = False  # a value may be missing
    nan: bool = False  # not-a-number is a legal value
    on_request: bool = False  # recorded only where it was asked for: a trace without it lacks nothing

    @property
    def depth(self) -> int:
        """Levels of lists around a value: 0, 1 or 2."""
        return bool(self.axis) + bool(self.inner)

    @property
    def type(self) -> pa.DataType:
        """Type on disk."""
        kind = self.scalar
        for _ in range(self.depth):
            kind = pa.list_(kind)
        return kind

    def illegal(self, values: np.ndarray) -> int | None:
        """Index of the first value that the column may not hold; None where all are legal.

        The usual case looks at the extremes alone, so that checking a long column takes no memory.
        """
        if self.least is None:
            return self._illegal_text(values)
        if not len(values):
            return None
        if not self.nan:
            low, high = float(values.min()), float(values.max())  # nan where any value is
            if self.least <= low and high <= self.most:
                return None
        values = values.astype(np.float64, copy=False)
        bad = ~((values >= self.least) & (values <= self.most))
        found = np.flatnonzero(bad & ~np.isnan(values) if self.nan else bad)
        return int(found[0]) if len(found) else None

    def _illegal_text(self, values: np.ndarray) -> int | None:
        if values.dtype != object:
            return None
        legal = (lambda value: value in self.choices) if self.choices else bool
        return next((at for at, value in enumerate(values) if not legal(value)), None)

    @property
    def legal(self) -> str:
        """The legal values, in words."""
        if self.choices:
            return " or ".join(self.choices)
        if self.least is None:
            return "true or false" if pa.types.is_boolean(self.scalar) else "not empty"
        low = 0 if self.least == -TOLERANCE else self.least
        high = 1 if self.most == 1 + TOLERANCE else self.most
        if high == LARGEST:
            words = f"from {low:g}"
        else:
            words = f"{low:g} to {high:g}"
        return words + (", or nan" if self.nan else "")


def _tokens(name: str, meaning: str, axis: str, **options) -> Column:
    return Column(name, pa.int32(), np.int32, meaning, axis, least=0, **options)


def _probability(name: str, meaning: str, axis: str = "token", **options) -> Column:
    return Column(
        name, pa.float32(), np.float32, meaning, axis, least=-TOLERANCE, most=1 + TOLERANCE, optional=True, **options
    )


def _entropy(name: str, meaning: str, axis: str = "token", **options) -> Column:
    return Column(name, pa.float32(), np.float32, meaning, axis, least=-TOLERANCE, optional=True, **options)


def _count(name: str, meaning: str, axis: str = "", least: int = 0, **options) -> Column:
    return Column(name, pa.int32(), np.int64, meaning, axis, least=least, **options)


def _seconds(name: str, meaning: str, axis: str = "") -> Column:
    return Column(name, pa.float64(), np.float64, meaning, axis, least=0)


def _text(name: str, meaning: str, choices: tuple[str, ...] = ()) -> Column:
    return Column(name, pa.string(), object, meaning, choices=choices)


# T = tokens of the target's text, M = positions where the draft disagrees with it.
TRACE: tuple[Column, ...] = (
    _text("id", "Name of the prompt, different for each."),
    Column("index", pa.int64(), np.int64, "Row number of the prompt in its data set, from 0.", least=0),
    _text("finish", "What ended the text: an end token, or its length limit.", ("eos", "length")),
    _count("max_new_tokens", "The length limit of this prompt's text, in tokens.", least=1),
    _tokens("prompt_tokens", "Token ids of the prompt.", "prompt_token"),
    _tokens("target_tokens", "Token ids of the target's text.", "token"),
    _tokens(
        "draft_tokens", "The draft's choice at t given the target's text before t.", "token",
        optional=True, kind="chain",
    ),
    _probability("confidence", "Probability that the draft gave to its choice at t.", kind="chain"),
    _entropy("entropy", "Entropy (nats) of the draft's distribution at t.", kind="chain"),
    _probability("margin", "The draft's largest minus second largest probability at t.", kind="chain"),
    Column(
        "target_margin", pa.float32(), np.float32, "The target's largest minus second largest logit at t.", "token",
        optional=True, least=0, most=np.inf,
    ),
    _tokens(
        "overrun_position", "Positions of the text where draft and target disagree.", "miss",
        optional=True, kind="chain",
    ),
    _tokens(
        "overrun_tokens",
        "What the draft says after its wrong token, at most `max_overrun` tokens, up to an end token.", "miss",
        inner="overrun", optional=True, kind="chain",
    ),
    _probability("overrun_confidence", "Probability of each of them.", "miss", inner="overrun", kind="chain"),
    _entropy(
        "overrun_entropy", "Entropy (nats) of the draft's distribution at each.", "miss", inner="overrun", kind="chain",
    ),
    _probability(
        "overrun_margin", "Margin of the draft's distribution at each.", "miss", inner="overrun", kind="chain",
    ),
    _probability(
        "draft_top", "The draft's `top_k` largest probabilities at t, largest first.", inner="top", kind="chain",
        on_request=True,
    ),
    _probability(
        "draft_top_after", "The same for each token of the overrun, one after the other.", "miss", inner="top_after",
        kind="chain", on_request=True,
    ),
    Column(
        "run", pa.int32(), np.int64,
        "Tokens accepted if drafting from t never stopped, at most `round_limit`.", "token",
        optional=True, kind="round", least=0,
    ),
    _tokens(
        "round_tokens", "What the draft proposes from t, at most `round_limit` tokens.", "token",
        inner="round", optional=True, kind="round",
    ),
    _probability("round_confidence", "Probability of each of them.", inner="round", kind="round"),
    _entropy("round_entropy", "Entropy (nats) of the draft's distribution at each.", inner="round", kind="round"),
    _probability("round_margin", "Margin of the draft's distribution at each.", inner="round", kind="round"),
)  # fmt: skip

# One row a call of the generator; I = its iterations.
RUNS: tuple[Column, ...] = (
    _count("prompt", "Number of the prompt in the run, from 0."),
    _text("id", "Name of the prompt."),
    _text("policy", "The policy as it was given; `none` is plain decoding."),
    _count("repeat", "Number of the repeat, from 0."),
    _count("order", "Calls that this run had finished before."),
    _text("generator", "The library's generator, or the toolkit's own loop.", ("library", "loop")),
    _count("max_new_tokens", "The length limit of this call, in tokens.", least=1),
    _tokens("prompt_tokens", "Token ids of the prompt.", "prompt_token"),
    _tokens("tokens", "Token ids of the text.", "token"),
    _seconds("total_seconds", "Of the whole call, prompt included."),
    _seconds(
        "prefill_seconds", "Of it, up to the end of the first target pass; all of it where that was the only one.",
    ),
    Column("equal", pa.bool_(), np.bool_, "Whether the text is that of plain greedy decoding."),
    _count("first_difference", "First token where it is not; null where it is.", nullable=True),
    Column(
        "difference_margin", pa.float64(), np.float64,
        "The target's lead of its first over its second choice there, in logits.", least=0, most=np.inf, nullable=True,
    ),
    _count("position", "Tokens of the text before the iteration.", "iteration"),
    _count("drafted", "Tokens proposed in it.", "iteration"),
    _count("accepted", "Leading ones that the target kept.", "iteration"),
    _count(
        "passes", "Draft passes paid; more than drafted where a policy drops tokens before verification.", "iteration",
        optional=True,
    ),
    _count("budget", "Most tokens that the policy asked for, before the remaining length clips it.", "iteration"),
    Column(
        "threshold", pa.float64(), np.float64,
        "Confidence threshold in force; 0 is off, nan in the own loop (a policy object decides).", "iteration",
        least=0, most=np.inf, nan=True,
    ),
    _seconds("draft_seconds", "The drafting phase.", "iteration"),
    _seconds(
        "verify_seconds", "Target pass, choice of tokens and rollback; all of a step without a draft.", "iteration"
    ),
    _seconds("forward_seconds", "The target's forward pass alone.", "iteration"),
    _seconds(
        "rest_seconds",
        "Before the drafting phase, back to the last iteration; the call's start and end too.", "iteration",
    ),
)  # fmt: skip

SIGNALS = ("confidence", "entropy", "margin")  # of the draft's next-token distribution


def schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of these columns."""
    return pa.schema([(column.name, column.type) for column in columns])


def by_name(columns: Sequence[Column]) -> dict[str, Column]:
    return {column.name: column for column in columns}


def markdown(columns: Sequence[Column]) -> str:
    """The columns as a table in Markdown."""
    rows = [("column", "type", "shape", "legal", "kept", "since", "meaning"), ("---",) * 7]
    for column in columns:
        shape = AXES[column.axis] + ("[any]" if column.inner else "")
        kept = f"optional{f', {column.kind} drafts' if column.kind else ''}" if column.optional else "always"
        kept += ", on request" if column.on_request else ""
        legal = column.legal + (", or null" if column.nullable else "")
        rows.append((f"`{column.name}`", str(column.scalar), shape, legal, kept, str(column.since), column.meaning))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"

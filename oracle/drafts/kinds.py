"""The kinds of drafts: how the library is asked for each, what it then drafts with, and what it cannot do.

A pair holds one as ``Pair.drafting``; nothing else knows the library's names for them.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from oracle.drafts.depth import restored
from oracle.models.identity import describe, name_of
from oracle.policies.library import Settings

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

    from oracle.models.pair import Pair

LOOKUP = "prompt-lookup"
MOST_LOOKED_UP = 1000  # tokens of a round, and of an n-gram


@dataclass(frozen=True)
class Drafting:
    """What the kinds have in common; where one says nothing else, it is as for a model that drafts by itself."""

    generator: ClassVar[str] = "AssistedCandidateGenerator"  # class of the library
    length: ClassVar[str] = "num_assistant_tokens"  # its attribute that holds the next draft's length
    shares_ids: ClassVar[bool] = True  # the draft is given the target's token ids
    beside: ClassVar[bool] = True  # it is a model beside the target, with a generation config of its own

    def settings_of(self, pair: Pair) -> PreTrainedModel | None:
        """The model whose generation config the library reads the settings from; None where it reads none."""
        return pair.draft

    def asked(self, pair: Pair, config: GenerationConfig, settings: Settings) -> dict[str, Any]:
        """Arguments of ``generate`` for such a draft; ``config``, of the call alone, is told what belongs there."""
        return {"assistant_model": pair.draft}

    def around(self, pair: Pair) -> contextlib.AbstractContextManager[Any]:
        """What to hold while the library drafts."""
        return contextlib.nullcontext()

    def lacks(self, settings: Settings) -> str | None:
        """What the library would quietly leave out of these settings; None where it follows them."""
        return None

    def unrecordable(self) -> str | None:
        """Why no trace of such a draft can be replayed; None where it can be recorded."""
        return None

    @property
    def label(self) -> str:
        """The kind of draft in a word or two, for names."""
        return "draft"

    def name(self, pair: Pair) -> str:
        """What the draft is called."""
        return name_of(pair.draft)

    def facts(self, pair: Pair) -> dict[str, Any]:
        """What identifies the draft in a trace or in runs."""
        return describe(pair.draft)


@dataclass(frozen=True)
class OwnModel(Drafting):
    """A model of its own with the target's tokenizer."""


@dataclass(frozen=True)
class FirstLayers(Drafting):
    """The target's own first layers, its last norm and its head (early exit, transformers' ``assistant_early_exit``).

    Of such a pair ``draft`` is a model that shares the target's weights and stops after ``layers``.
    """

    generator: ClassVar[str] = "EarlyExitCandidateGenerator"
    beside: ClassVar[bool] = False

    layers: int

    @property
    def label(self) -> str:
        return f"first {self.layers} layer{'' if self.layers == 1 else 's'}"

    def settings_of(self, pair: Pair) -> PreTrainedModel | None:
        return pair.target

    def asked(self, pair: Pair, config: GenerationConfig, settings: Settings) -> dict[str, Any]:
        config.assistant_early_exit = self.layers
        return {}

    def around(self, pair: Pair) -> contextlib.AbstractContextManager[Any]:
        return restored(pair.target)

    def lacks(self, settings: Settings) -> str | None:
        return "refits no threshold for a draft of the target's own layers" if settings.adaptive else None

    def facts(self, pair: Pair) -> dict[str, Any]:
        found = describe(pair.draft)
        del found["parameters"]  # of all layers
        # The weights are the target's: what tells one number of layers from another is that number.
        weights = hashlib.sha256(f"{found['weights_sample_sha256']}, {self.layers} layers".encode()).hexdigest()
        return found | {"kind": "first-layers", "layers": self.layers, "weights_sample_sha256": weights}


@dataclass(frozen=True)
class PromptLookup(Drafting):
    """What followed the last tokens where they first stood before, in prompt or text (``prompt_lookup_num_tokens``).

    N-grams of ``ngram`` tokens are looked for, then shorter ones; ``tokens`` of what followed are recorded.  There is
    no model: of such a pair ``draft`` is the target.
    """

    generator: ClassVar[str] = "PromptLookupCandidateGenerator"
    beside: ClassVar[bool] = False
    length: ClassVar[str] = "num_output_tokens"

    tokens: int = 20
    ngram: int = 2

    def __post_init__(self) -> None:
        for name, value in (("tokens", self.tokens), ("ngram", self.ngram)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_LOOKED_UP:
                raise ValueError(f"{LOOKUP}: {name}={value!r} must be a whole number from 1 to {MOST_LOOKED_UP}")

    def __str__(self) -> str:
        return f"{LOOKUP}:tokens={self.tokens},ngram={self.ngram}"

    def settings_of(self, pair: Pair) -> PreTrainedModel | None:
        return None

    def asked(self, pair: Pair, config: GenerationConfig, settings: Settings) -> dict[str, Any]:
        config.prompt_lookup_num_tokens = settings.tokens
        config.max_matching_ngram_size = self.ngram
        return {}

    def lacks(self, settings: Settings) -> str | None:
        if settings.threshold or settings.adaptive:
            return "has no confidence to stop at where tokens are looked up"
        return None if settings.schedule == "constant" else "has no schedule where tokens are looked up"

    @property
    def label(self) -> str:
        return str(self)

    def name(self, pair: Pair) -> str:
        return str(self)

    def facts(self, pair: Pair) -> dict[str, Any]:
        # What tells drafts apart elsewhere is a hash of weights; of a rule it is one of the rule.
        rule = hashlib.sha256(f"{LOOKUP}:ngram={self.ngram}".encode()).hexdigest()
        return {"model": str(self), "kind": LOOKUP, "ngram": self.ngram, "weights_sample_sha256": rule}


@dataclass(frozen=True)
class OtherTokenizer(Drafting):
    """A model with a tokenizer of its own (universal assisted generation)."""

    generator: ClassVar[str] = "AssistedCandidateGeneratorDifferentTokenizers"
    shares_ids: ClassVar[bool] = False

    tokenizer: PreTrainedTokenizerBase

    def asked(self, pair: Pair, config: GenerationConfig, settings: Settings) -> dict[str, Any]:
        return {"assistant_model": pair.draft, "tokenizer": pair.tokenizer, "assistant_tokenizer": self.tokenizer}

    def around(self, pair: Pair) -> contextlib.AbstractContextManager[Any]:
        return _translation_errors(self.name(pair))

    def lacks(self, settings: Settings) -> str | None:
        return "refits no threshold for a draft with a tokenizer of its own" if settings.adaptive else None

    def unrecordable(self) -> str | None:
        return NOT_REPLAYED

    def facts(self, pair: Pair) -> dict[str, Any]:
        return describe(pair.draft) | {"kind": "other-tokenizer"}


@contextlib.contextmanager
def _translation_errors(draft: str) -> Iterator[None]:
    """Say whose they are: where two texts have nothing in common the library hands the draft ever longer ones."""
    try:
        yield
    except (IndexError, ValueError, RuntimeError) as error:
        problem = " ".join(str(error).split())[:200]
        raise RuntimeError(
            f"the library failed to translate between the tokenizers of the target and of {draft} "
            f"({type(error).__name__}: {problem}); choose a draft with the target's tokenizer"
        ) from error


NOT_REPLAYED = (
    "what a draft with a tokenizer of its own proposes depends on text that is tokenised anew in windows around each "
    "round (universal assisted generation), so no record of tokens replays it; `oracle measure --universal` clocks it"
)


def is_lookup(draft: object) -> bool:
    """Whether the text of a draft means a lookup rather than a model."""
    return isinstance(draft, str) and draft.partition(":")[0].strip() == LOOKUP


def lookup(text: str) -> PromptLookup:
    """``prompt-lookup`` or ``prompt-lookup:tokens=10,ngram=2``.  Raises ValueError with the legal keys."""
    values: dict[str, int] = {}
    for piece in filter(None, map(str.strip, text.partition(":")[2].split(","))):
        key, _, value = map(str.strip, piece.partition("="))
        if key not in ("tokens", "ngram") or key in values or not (value.isascii() and value.isdigit()):
            raise ValueError(f"draft {text!r:.100}: {piece!r:.50} will not do; write it like {PromptLookup()}")
        values[key] = int(value[:10])
    return PromptLookup(**values)

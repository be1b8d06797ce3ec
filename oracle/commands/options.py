"""The options of the commands, each written once, with its bounds; groups of those that belong together."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oracle.commands.bounds import Between, Once, expect_one_of
from oracle.commands.notes import note, warnings_as_notes

if TYPE_CHECKING:
    from analysis.cost import CostModel
    from oracle.models.pair import Pair
    from oracle.prompts.chat import Chat
    from oracle.prompts.sets import PromptSet
    from oracle.records.trace import Trace

PROCESSORS = os.cpu_count() or 1

Count = Between(1, 10_000_000)
Length = Between(1, 1_000_000)
Seed = Between(0, 2**63 - 1)
Share = Between(0.0, 1.0)
Error = Between(0.0, 100.0, above=True)
Price = Between(0.0, 1_000_000.0)

Traces = Annotated[
    list[Path] | None, typer.Argument(metavar="[TRACE]...", help="Trace folders; default: the sample trace.")
]
OneTrace = Annotated[Path | None, typer.Argument(metavar="[TRACE]", help="A trace folder; default: the sample trace.")]
Policies = Annotated[
    list[str] | None,
    typer.Option("--policy", "-p", help="name or name:key=value,...; give it several times.", show_default=False),
    Once(),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        help="Policy that every other one is compared with, paired by prompt; default: the best constant.",
        show_default=False,
    ),
]
Semantics = Annotated[
    str | None,
    typer.Option(
        "--semantics",
        metavar="RELEASE",
        help="Rules of another release of transformers, such as 4.45; default: of the installed one.",
        show_default=False,
    ),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="Its folder, or a model in the cache of Hugging Face; default: the trace's target, "
        "if it is in that cache.",
    ),
]
Overrun = Annotated[
    int, typer.Option("--max-overrun", help="Draft tokens to record after each disagreement."), Between(0, 100_000)
]
NewTokens = Annotated[int, typer.Option("--max-new-tokens", help="Length limit of each text."), Length]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Format = Annotated[str, typer.Option("--format", help="How the table is printed: terminal, markdown, latex or csv.")]
InSample = Annotated[
    bool, typer.Option("--allow-in-sample", help="Judge a trained policy on the prompts of its training too.")
]
AnyCost = Annotated[bool, typer.Option("--any-cost", help="Take the prices of --cost even if they are another pair's.")]


DRAFT = "Draft model: hub name or local directory; or prompt-lookup[:tokens=20,ngram=2] (n-gram lookup, no model)."


def check_any_cost(any_cost: bool, cost: Path | None) -> None:
    """Raise ValueError for --any-cost without prices that it could be about."""
    if any_cost and cost is None:
        raise ValueError("--any-cost takes the prices of --cost whichever pair they are of; give --cost FILE too")


def taken_for(draft: float) -> str:
    """What is assumed of a draft step where no price was measured, in words."""
    if not draft:
        return "that a lookup takes no time and that checking takes one target step however many tokens it gives"
    return f"a draft step of {draft:g} target steps"


def load_cost(path: Path, any_cost: bool) -> CostModel:
    """The cost model in a file; one that belongs to every pair with ``any_cost``."""
    from analysis.cost import CostModel

    found = CostModel.load(path)
    return found.for_any_pair() if any_cost else found


@dataclass(frozen=True)
class ModelOptions:
    """Which target, where the models run, and on how many processor threads; the draft is a subclass's."""

    pair: Annotated[
        str | None, typer.Option("--pair", help="A named pair: demo, opt, llama-3, ...; `oracle pairs` lists them.")
    ] = None
    target: Annotated[str | None, typer.Option("--target", help="Target model: hub name or local directory.")] = None
    dtype: Annotated[str, typer.Option("--dtype", help="auto (the checkpoint's), float32, bfloat16 or float16.")] = (
        "auto"
    )
    device: Annotated[
        str | None, typer.Option("--device", help="Where the models run; default: the GPU if there is one.")
    ] = None
    draft_device: Annotated[str | None, typer.Option("--draft-device", help="Where the draft runs, if elsewhere.")] = (
        None
    )
    allow_token_differences: Annotated[
        bool,
        typer.Option(
            "--allow-token-differences",
            help="Take a draft with other special tokens; prompts that hold one are left out.",
        ),
    ] = False
    draft_layers: Annotated[
        int | None,
        typer.Option(
            "--draft-layers", help="Draft with the target's own first so many layers (early exit), instead of --draft."
        ),
        Between(1, 10_000),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option("--threads", help="Processor threads; default: the number that is fastest when it is tried."),
        Between(1, 4 * PROCESSORS, because=f" (four times the processors here, {PROCESSORS})"),
    ] = None

    @property
    def named(self) -> str | None:
        """The name of the pair: the embedded one where nothing is named; None where target and draft are."""
        return "demo" if self.pair is None and self.target is None else self.pair

    def check(self, draft: str | None) -> None:
        """Raise ValueError for a dtype that there is not, and for models that are named twice or by half."""
        from oracle.drafts.kinds import is_lookup
        from oracle.models.pairs import DTYPES

        expect_one_of("--dtype", self.dtype, DTYPES)
        if self.draft_layers is not None and draft is not None:
            raise ValueError(
                f"--draft-layers {self.draft_layers} and --draft {draft} exclude each other: give one of them"
            )
        alone = self.draft_layers is not None or is_lookup(draft)  # the target, or that of a named pair, drafts itself
        if self.pair is not None and (self.target is not None or (draft is not None and not alone)):
            raise ValueError(f"--pair {self.pair} and --target or --draft exclude each other: give one of them")
        if not alone and (self.target is None) != (draft is None):
            given, missing = ("--target", "--draft") if draft is None else ("--draft", "--target")
            raise ValueError(f"{given} is given without {missing}: a pair needs both, or --pair NAME")

    def load_with(self, draft: str | None, universal: bool = False) -> Pair:
        """The target with this draft, or the pair that is named; ``universal``: a draft with a tokenizer of its own."""
        from oracle.models.named import SHIPPED, loads
        from oracle.models.pairs import load_pair

        if self.named in SHIPPED:
            note("Using the embedded pair: a toy that shows the mechanics, not anyone's speedup.")
        elif self.named is not None:
            note(f"Loading {loads(self.named)}.")
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)
        with warnings_as_notes():
            found = load_pair(
                self.named,
                target=self.target,
                draft=draft,
                dtype=self.dtype,
                device=self.device,
                draft_device=self.draft_device,
                allow_token_differences=self.allow_token_differences,
                draft_layers=self.draft_layers,
                universal=universal,
            )
        drafts = [("draft", found.draft)] if found.drafting.beside else []
        _say_switched_off(("target", found.target), *drafts)
        if self.threads is None:
            from oracle.models.threads import choose

            if (choice := choose(found)) is not None:
                note(f"Threads: {choice}.")
        return found


def _say_switched_off(*models: tuple[str, Any]) -> None:
    """Name the generation settings that a checkpoint brings along and that are not used."""
    from oracle.models.decoding import switched_off

    for role, model in models:
        if left_out := switched_off(model):
            settings = ", ".join(f"{key}={value}" for key, value in left_out.items())
            note(f"Note: decoding is greedy; the {role}'s own generation settings are switched off: {settings}.")


@dataclass(frozen=True)
class PairOptions(ModelOptions):
    """Which two models, where, and on how many processor threads."""

    draft: Annotated[str | None, typer.Option("--draft", help=DRAFT)] = None

    def __post_init__(self) -> None:
        self.check(self.draft)

    @property
    def looks_up(self) -> bool:
        """Whether the draft is an n-gram lookup, which has no probabilities to stop at."""
        from oracle.drafts.kinds import is_lookup

        return is_lookup(self.draft)

    def load(self, universal: bool = False) -> Pair:
        """The pair that is named; the embedded one where none is."""
        return self.load_with(self.draft, universal)


@dataclass(frozen=True)
class DraftsOptions(ModelOptions):
    """A target and one draft or several, where, and on how many processor threads."""

    draft: Annotated[
        list[str] | None,
        typer.Option("--draft", help=DRAFT),
        Once(),
    ] = None

    def __post_init__(self) -> None:
        self.check(self.draft[0] if self.draft else None)

    def load(self) -> list[Pair]:
        """A pair for each draft, all of one target; the embedded pair where none is named."""
        from oracle.models.pairs import with_draft

        first, *others = self.draft or [None]
        pair, device = self.load_with(first), self.draft_device or self.device
        allow = {"allow_token_differences": self.allow_token_differences}
        with warnings_as_notes():
            pairs = [pair, *(with_draft(pair, str(each), dtype=self.dtype, device=device, **allow) for each in others)]
        _say_switched_off(*(("draft", each.draft) for each in pairs[1:]))
        return pairs


def template_arguments(words: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE as names and values; a value that is JSON (false, 3, [1]) is what it says, any other a text."""
    found = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ValueError(f"--template-arg is {word!r:.80}; give NAME=VALUE, such as enable_thinking=false")
        if name in found:
            raise ValueError(f"--template-arg {name!r:.80} is given twice")
        try:
            found[name] = json.loads(text)
        except (ValueError, RecursionError):
            found[name] = text
    return found


@dataclass(frozen=True)
class ChoiceOptions:
    """Which prompts of a data set, and in what form."""

    split: Annotated[
        str | None,
        typer.Option("--split", help="Split of a hub data set; default: test, or train where there is none."),
    ] = None
    limit: Annotated[
        int | None, typer.Option("--limit", help="Use that many prompts; collect takes all by default."), Count
    ] = None
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Draw the prompts at random with this seed; default: the first ones."),
        Seed,
    ] = None
    prompt_field: Annotated[
        str | None,
        typer.Option(
            "--prompt-field",
            help="Column to take as it stands; default: the published form of the columns that are there.",
        ),
    ] = None
    prompt_tokens: Annotated[
        int | None,
        typer.Option(
            "--prompt-tokens",
            help="Cut longer prompts to that many tokens; default: what a task says (256), else no cut.",
        ),
        Length,
    ] = None
    use_chat: Annotated[bool, typer.Option("--chat", help="Apply the tokenizer's chat template (instruct models).")] = (
        False
    )
    system: Annotated[
        str | None, typer.Option("--system", help="With --chat: system message of prompts that have none of their own.")
    ] = None
    template_arg: Annotated[
        list[str] | None,
        typer.Option(
            "--template-arg",
            help="With --chat: NAME=VALUE for the template, such as enable_thinking=false; may be given several times.",
            show_default=False,
        ),
    ] = None
    date: Annotated[
        str | None,
        typer.Option(
            "--date", help="With --chat: what a template that writes the date takes for today, such as 2026-12-01."
        ),
    ] = None

    def __post_init__(self) -> None:
        given = {"--system": self.system, "--template-arg": self.template_arg, "--date": self.date}
        if not self.use_chat and (named := [flag for flag, value in given.items() if value]):
            raise ValueError(f"{named[0]} is about the chat template: give --chat too, or leave it out")
        self.chat  # noqa: B018 - raises for a value that will not do

    @property
    def chat(self) -> bool | Chat:
        """How texts go through the chat template; False for not at all."""
        from oracle.prompts.chat import Chat

        if not self.use_chat:
            return False
        return Chat(self.system, template_arguments(self.template_arg or ()), self.date)

    def load_set(self, dataset: str) -> PromptSet:
        """The chosen prompts of one data set."""
        from oracle.prompts.sets import load_prompts

        return load_prompts(
            dataset,
            split=self.split,
            limit=self.limit,
            seed=self.seed,
            prompt_field=self.prompt_field,
            prompt_tokens=self.prompt_tokens,
        )


@dataclass(frozen=True)
class PromptOptions(ChoiceOptions):
    """The prompts of one data set."""

    dataset: Annotated[
        str,
        typer.Option(
            "--dataset",
            "--task",
            help="A task (summarization, open-ended, code), a data set (`oracle datasets` lists them), "
            "org/name[:config] on the hub, or a .jsonl, .json, .parquet, .csv, .tsv or .txt (a prompt a line) file.",
        ),
    ] = "demo-code"

    def load(self) -> PromptSet:
        """The chosen prompts."""
        return self.load_set(self.dataset)


@dataclass(frozen=True)
class PromptSetsOptions(ChoiceOptions):
    """The prompts of several data sets; of both demo sets where none is named."""

    dataset: Annotated[
        list[str] | None,
        typer.Option("--dataset", "--task", help="As for collect; several may be given.", show_default=False),
        Once(),
    ] = None

    def load(self) -> list[PromptSet]:
        """The chosen prompts, one set for each data set."""
        return [self.load_set(name) for name in self.dataset or ("demo-code", "demo-text")]


@dataclass(frozen=True)
class RunOptions:
    """How often each call of the generator is made, and how long a text may get."""

    repeats: Annotated[int, typer.Option("--repeats", help="How often each call is made."), Between(1, 10_000)] = 3
    max_new_tokens: NewTokens = 128


@dataclass(frozen=True)
class OutputOptions:
    """What to do where something is there already, and whether to show how far the work is."""

    resume: Annotated[bool, typer.Option("--resume", help="Go on after what an interrupted run has finished.")] = False
    force: Force = False
    progress: Annotated[bool, typer.Option("--progress/--no-progress", help="Show a progress bar on a terminal.")] = (
        True
    )

    def __post_init__(self) -> None:
        if self.resume and self.force:
            raise ValueError("--resume goes on with what is there and --force replaces it: give one of them")


@dataclass(frozen=True)
class PriceOptions:
    """What the passes cost: a ratio, or a file that was measured."""

    draft_cost: Annotated[
        float | None,
        typer.Option("--draft-cost", help="Time of a draft step over time of a target step; default 0.1."),
        Price,
    ] = None
    cost: Annotated[Path | None, typer.Option("--cost", help="A cost model that `oracle calibrate` measured.")] = None
    any_cost: AnyCost = False

    def __post_init__(self) -> None:
        check_any_cost(self.any_cost, self.cost)
        if self.draft_cost is not None and self.cost is not None:
            raise ValueError("--draft-cost and --cost exclude each other: give one of them")

    @functools.cached_property
    def given(self) -> CostModel | None:
        """The cost model that is named, or of the ratio; None without either."""
        from analysis.cost import CostModel

        if self.cost is not None:
            return load_cost(self.cost, self.any_cost)
        return None if self.draft_cost is None else CostModel(draft=self.draft_cost)

    def load(self, trace: Trace | None = None) -> CostModel:
        """The cost model that is named; without any, what is assumed of such a trace (None: of models), and a note."""
        return self.each([trace])[0]

    def each(self, traces: Iterable[Trace | None]) -> list[CostModel]:
        """The same for each of several traces; what is assumed is said once."""
        from analysis.cost import DEFAULT_DRAFT, CostModel, assumed

        if (given := self.given) is not None:
            return [given for _ in traces]
        found = [CostModel(draft=DEFAULT_DRAFT) if trace is None else assumed(trace) for trace in traces]
        for draft in dict.fromkeys(cost.draft for cost in found):
            note(f"Assuming {taken_for(draft)} (--draft-cost, or --cost from `oracle calibrate`).")
        return found

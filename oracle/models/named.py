"""The pairs that have a name: what each one loads, under which licence, and what is known of it.

Plain data.  Names of models and of the tasks that they were published with are those of the sources.  Parameters are
counted from the models' configurations, and what a download takes from these and the type of the stored numbers;
where a checkpoint stores more, the number says so by hand.  What was not looked up is None, and said to be unknown.
No pair but ``demo`` has been run by the project: the hub's files may have changed since.
"""

from __future__ import annotations

from dataclasses import dataclass

from oracle.words import did_you_mean

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
DEMO = "demo"  # the embedded pair, which no hub holds


@dataclass(frozen=True)
class Checkpoint:
    """A model of the hub."""

    name: str
    licence: str
    parameters: int
    stored: str  # the type of the numbers in its files
    pickled: bool | None = None  # only pytorch_model*.bin in its main branch; None: not known
    gated: bool | None = False  # to be asked for at the hub, with an account; None: not known
    extra_gigabytes: float = 0.0  # stored beyond the parameters: masks, a tied head stored twice

    @property
    def gigabytes(self) -> float:
        """Size of the weights on the hub, 10^9 bytes."""
        return self.parameters * _BYTES[self.stored] / 1e9 + self.extra_gigabytes


@dataclass(frozen=True)
class NamedPair:
    """A target and a draft that were published, or are used, together."""

    target: Checkpoint
    draft: Checkpoint
    dtype: str  # to run both in, where the device has arithmetic of it
    tasks: tuple[str, ...] = ()  # tasks or data sets of the published numbers
    source: str = ""  # where this pair is from
    encoder_decoder: bool = False
    remarks: tuple[str, ...] = ()


_OPT = "OPT licence, for research that is not commercial"
_BENCHMARK = "the benchmark of dynamic speculation in transformers 4.45"
_ANALYSIS = "Mamou et al., arXiv 2405.04304"
_FAMILY = "sizes of one family that are used together; no published numbers"
_HALF_T5 = "float16 overflows in T5's larger sizes: bfloat16 or float32"
_LLAMA = "a licence of Meta's, to be accepted on the hub for each of the two models"

NAMED = {
    "opt": NamedPair(
        Checkpoint("facebook/opt-6.7b", _OPT, 6_658_473_984, "float16", pickled=True),
        Checkpoint("facebook/opt-125m", _OPT, 125_239_296, "float16", pickled=True),
        "float16",
        ("summarization", "open-ended"),
        _BENCHMARK,
    ),
    "codegen": NamedPair(
        Checkpoint("Salesforce/codegen-6B-mono", "BSD-3-Clause", 7_064_213_504, "float16", True, extra_gigabytes=0.14),
        Checkpoint("Salesforce/codegen-350M-mono", "BSD-3-Clause", 356_712_448, "float16", True, extra_gigabytes=0.08),
        "float16",
        ("code",),
        _BENCHMARK,
    ),
    "flan-t5": NamedPair(
        Checkpoint("google/flan-t5-xl", "Apache-2.0", 2_849_757_184, "float32", pickled=False),
        Checkpoint("google/flan-t5-small", "Apache-2.0", 76_961_152, "float32", pickled=False),
        "bfloat16",
        ("summarization",),
        _BENCHMARK,
        encoder_decoder=True,
        remarks=("stored in float32, so half of the memory with --dtype bfloat16", _HALF_T5),
    ),
    "llama-3": NamedPair(
        Checkpoint("meta-llama/Llama-3.1-8B", "Llama 3.1 Community", 8_030_261_248, "bfloat16", False, gated=True),
        Checkpoint("meta-llama/Llama-3.2-1B", "Llama 3.2 Community", 1_235_814_400, "bfloat16", False, gated=True),
        "bfloat16",
        ("summarization", "open-ended", "code"),
        _BENCHMARK,
        remarks=(_LLAMA,),
    ),
    "pythia": NamedPair(
        Checkpoint("EleutherAI/pythia-1.4b-deduped", "Apache-2.0", 1_414_647_808, "float16", False),
        Checkpoint("EleutherAI/pythia-160m-deduped", "Apache-2.0", 162_322_944, "float16", False),
        "float16",
        source="the example of dynamic speculation in transformers 4.45; no published numbers",
        remarks=("other sizes of Pythia have other numbers of embedding rows (2.8B and smaller against 6.9B and 12B)",),
    ),
    "starcoder": NamedPair(
        Checkpoint("bigcode/starcoder", "BigCode OpenRAIL-M", 15_517_456_384, "float32", gated=True),
        Checkpoint("bigcode/tiny_starcoder_py", "BigCode OpenRAIL-M", 164_144_128, "float32", gated=None),
        "bfloat16",
        ("mbpp", "humaneval"),
        _ANALYSIS,
        remarks=("stored in float32, so half of the memory with --dtype bfloat16",),
    ),
    "vicuna": NamedPair(
        Checkpoint("lmsys/vicuna-13b-v1.3", "that of LLaMA 1, not commercial", 13_015_864_320, "float16", pickled=True),
        Checkpoint("double7/vicuna-68m", "unknown: see its page", 68_030_208, "float32", gated=None),
        "float16",
        ("cnn_dailymail", "alpaca"),
        _ANALYSIS,
    ),
    "qwen2.5-coder": NamedPair(
        Checkpoint("Qwen/Qwen2.5-Coder-7B-Instruct", "Apache-2.0", 7_615_616_512, "bfloat16", False),
        Checkpoint("Qwen/Qwen2.5-Coder-0.5B-Instruct", "Apache-2.0", 494_032_768, "bfloat16", False),
        "bfloat16",
        source=_FAMILY,
        remarks=(
            "different embedding rows (152064 and 151936): recorded and replayed as it is, but measured only after "
            "the target was shrunk once with resize_token_embeddings(151936) and save_pretrained",
            "models for chat: --chat",
        ),
    ),
    "qwen3": NamedPair(
        Checkpoint("Qwen/Qwen3-8B", "Apache-2.0", 8_190_735_360, "bfloat16", False),
        Checkpoint("Qwen/Qwen3-0.6B", "Apache-2.0", 596_049_920, "bfloat16", False, extra_gigabytes=0.31),
        "bfloat16",
        source=_FAMILY,
        remarks=("models for chat: --chat, and --template-arg enable_thinking=false for answers without thoughts",),
    ),
    "gemma-3": NamedPair(
        Checkpoint("google/gemma-3-1b-it", "Gemma terms of use", 999_885_952, "bfloat16", False, gated=True),
        Checkpoint("google/gemma-3-270m-it", "Gemma terms of use", 268_098_176, "bfloat16", False, gated=True),
        "bfloat16",
        source=_FAMILY,
        remarks=(
            "the sizes from 4B on have other embedding rows (262208) than these (262144): measured only after a resize",
            "models for chat: --chat",
        ),
    ),
    "smollm2": NamedPair(
        Checkpoint("HuggingFaceTB/SmolLM2-1.7B-Instruct", "Apache-2.0", 1_711_376_384, "bfloat16", False),
        Checkpoint("HuggingFaceTB/SmolLM2-135M-Instruct", "Apache-2.0", 134_515_008, "bfloat16", False),
        "bfloat16",
        source=_FAMILY,
        remarks=("models for chat: --chat",),
    ),
}
SHIPPED = {DEMO: "pair", "demo-t5": "pair-t5"}  # name -> folder of data/
PAIRS = (*SHIPPED, *NAMED)


def named(name: str) -> NamedPair:
    """A pair of the hub by its name.  Raises ValueError for a name that none has."""
    if name not in NAMED:
        raise ValueError(
            f"no pair is called {name!r}; choose one of {', '.join(PAIRS)}, or give target and "
            f"draft.{did_you_mean(name, PAIRS)}"
        )
    return NAMED[name]


def loads(name: str) -> str:
    """What loading a pair of the hub by its name takes, in one line."""
    pair = named(name)
    both = (pair.target, pair.draft)
    licences = ", ".join(dict.fromkeys(each.licence for each in both))
    gated = "; gated: access is asked for on the hub" if any(each.gated for each in both) else ""
    return (
        f"{name}: target {pair.target.name} ({size_text(pair.target)}), draft {pair.draft.name} "
        f"({size_text(pair.draft)}); licence: {licences}{gated}"
    )


def size_text(model: Checkpoint) -> str:
    """1.24B parameters, 2.5 GB."""
    return f"{count_text(model.parameters)} parameters, {model.gigabytes:.2g} GB"


def count_text(parameters: int) -> str:
    """6.66B, 125M."""
    return f"{parameters / 1e9:.3g}B" if parameters >= 999.5e6 else f"{parameters / 1e6:.3g}M"

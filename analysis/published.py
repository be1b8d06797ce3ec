"""Published numbers, to set beside a user's own: data, each with its source."""

from __future__ import annotations

from dataclasses import dataclass

DISCO_SOURCE = "Mamou et al., Dynamic Speculation Lookahead, arXiv 2405.04304"
TRANSFORMERS_SOURCE = "Transformers 4.45.0, dynamic speculation, RTX 4090"
CODE_PAIR = ("bigcode/starcoder", "bigcode/tiny_starcoder_py")
TEXT_PAIR = ("lmsys/vicuna-13b-v1.3", "double7/vicuna-68m")


@dataclass(frozen=True)
class OracleAnalysis:
    """One data set of the published oracle analysis: one A100, Transformers, greedy decoding.

    ``mean`` and ``sd`` are of the oracle SL and behave like the ``detect`` convention (accepted + 1).  Speedups are
    over plain target decoding.  ``draft_cost`` (in target steps) and ``acceptance`` were published for the same pairs
    by Timor et al., arXiv 2405.14105.
    """

    data: str
    target: str
    draft: str
    mean: float
    sd: float
    target_ms: float  # per token
    speedups: dict[str, float]
    draft_cost: float
    acceptance: float
    source: str = DISCO_SOURCE


@dataclass(frozen=True)
class Benchmark:
    """Speedup over plain decoding of one pair on one task, greedy, 128 new tokens, prompts cut to 256 tokens."""

    target: str
    draft: str
    task: str
    heuristic: float
    dynamic: float
    source: str = TRANSFORMERS_SOURCE


def _speedups(heuristic: float, static_5: float, static_tuned: float, disco: float, oracle: float) -> dict[str, float]:
    return {
        "heuristic": heuristic,
        "static 5": static_5,
        "static tuned": static_tuned,
        "DISCO": disco,
        "oracle": oracle,
    }


ORACLE_ANALYSIS = {
    "MBPP": OracleAnalysis(
        "MBPP",
        *CODE_PAIR,
        18.0,
        46.2,
        23.21,
        _speedups(1.16, 1.46, 1.64, 1.84, 2.28),
        draft_cost=0.329,
        acceptance=0.90,
    ),
    "HumanEval": OracleAnalysis(
        "HumanEval",
        *CODE_PAIR,
        14.7,
        42.6,
        23.46,
        _speedups(1.04, 1.63, 1.63, 1.84, 2.22),
        draft_cost=0.323,
        acceptance=0.93,
    ),
    "CNN-DM": OracleAnalysis(
        "CNN-DM",
        *TEXT_PAIR,
        3.2,
        4.0,
        38.29,
        _speedups(1.81, 1.94, 1.85, 2.15, 2.48),
        draft_cost=0.065,
        acceptance=0.63,
    ),
    "Alpaca": OracleAnalysis(
        "Alpaca",
        *TEXT_PAIR,
        2.4,
        2.1,
        47.67,
        _speedups(1.50, 2.00, 2.02, 2.12, 2.38),
        draft_cost=0.074,
        acceptance=0.58,
    ),
}

# Passes of one MBPP example of the same analysis (figure 2): policy -> (target, draft).
EXAMPLE_PASSES = {"static 5": (38, 192), "oracle": (27, 129)}

_OPT = ("facebook/opt-6.7b", "facebook/opt-125m")
_LLAMA = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B")
_CODE = "code generation (Python)"

TRANSFORMERS_BENCHMARKS = (
    Benchmark(*_OPT, "summarisation", 1.82, 2.71),
    Benchmark(*_OPT, "open-ended generation", 1.23, 1.59),
    Benchmark("Salesforce/codegen-6B-mono", "Salesforce/codegen-350M-mono", _CODE, 0.89, 1.09),
    Benchmark("google/flan-t5-xl", "google/flan-t5-small", "summarisation", 1.18, 1.31),
    Benchmark(*_LLAMA, "summarisation", 1.00, 1.52),
    Benchmark(*_LLAMA, "open-ended generation", 1.00, 1.18),
    Benchmark(*_LLAMA, _CODE, 1.09, 1.15),
)


def published_for(name: str) -> OracleAnalysis | None:
    """The published analysis of the data set that ``name`` means (case, dashes and a leading path ignored), or None."""
    wanted = "".join(letter for letter in name.lower().split("/")[-1] if letter.isalnum())
    for data, numbers in ORACLE_ANALYSIS.items():
        key = "".join(letter for letter in data.lower() if letter.isalnum())
        if key in wanted or (key == "cnndm" and "cnndailymail" in wanted):
            return numbers
    return None

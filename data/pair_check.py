"""What the finished pair is like: how often the draft agrees, how answers end, what a draft step costs."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from pair_distil import Texts
from pair_training import EOS_ID
from transformers import LlamaForCausalLM


@dataclass(frozen=True)
class Figures:
    """Of one set of prompts, all shares between 0 and 1."""

    prompts: int
    tokens: int  # of all answers
    agreement: float  # share of tokens of the target's greedy text that are the draft's first choice too
    lowest_tenth: float  # agreement of single answers: a tenth is below this
    highest_tenth: float
    ended: float  # share of answers that end by EOS, the others by the limit
    repetitive: float  # share of answers in which less than half of the 4-grams are different from each other


@torch.inference_mode()
def figures(draft: LlamaForCausalLM, texts: Texts) -> Figures:
    """Compare the draft with greedy `texts` of the target."""
    agreements = [agreement(draft, ids, answered) for ids, answered in zip(texts.ids, texts.answered, strict=True)]
    answers = [ids[1:][answered[:-1]].tolist() for ids, answered in zip(texts.ids, texts.answered, strict=True)]
    single = [float(a.mean()) for a in agreements]
    return Figures(
        prompts=len(answers),
        tokens=int(texts.answered.sum()),
        agreement=float(np.concatenate(agreements).mean()),
        lowest_tenth=float(np.quantile(single, 0.1)),
        highest_tenth=float(np.quantile(single, 0.9)),
        ended=statistics.fmean(a[-1] == EOS_ID for a in answers),
        repetitive=statistics.fmean(map(is_repetitive, answers)),
    )


def agreement(draft: LlamaForCausalLM, ids: np.ndarray, answered: np.ndarray) -> np.ndarray:
    """bool [answer tokens]: is the token the draft's first choice, given the text before it?"""
    text = torch.from_numpy(ids[: np.flatnonzero(answered)[-1] + 2].astype(np.int64))
    choice = draft(input_ids=text[None]).logits[0].argmax(-1).numpy()
    asked = np.flatnonzero(answered)
    return choice[asked] == ids[asked + 1]


def is_repetitive(answer: list[int]) -> bool:
    """True if less than half of the answer's 4-grams are different from each other."""
    grams = [tuple(answer[n : n + 4]) for n in range(len(answer) - 3)]
    return len(grams) > 0 and len(set(grams)) < len(grams) / 2


@torch.inference_mode()
def step_ms(models: list[LlamaForCausalLM], context: int = 128, steps: int = 60) -> list[float]:
    """Median time of a cached one-token step of each model, taken in turns so that a busy machine hits all alike."""
    ids = torch.arange(context)[None] + 1
    caches = [model(input_ids=ids, use_cache=True).past_key_values for model in models]
    times: list[list[float]] = [[] for _ in models]
    for _ in range(steps):
        for model, cache, taken in zip(models, caches, times, strict=True):
            started = time.perf_counter()
            model(input_ids=ids[:, :1], past_key_values=cache, use_cache=True)
            taken.append(1e3 * (time.perf_counter() - started))
    return [statistics.median(taken[5:]) for taken in times]


def megabytes(directory: Path) -> float:
    """Size of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


def lines(by_form: dict[str, Figures]) -> Iterator[str]:
    """The figures as rows of a Markdown table."""
    names = list(asdict(next(iter(by_form.values()))))
    yield "| prompts of | " + " | ".join(name.replace("_", " ") for name in names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    for form, found in by_form.items():
        cells = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in asdict(found).values()]
        yield f"| {form} | " + " | ".join(cells) + " |"

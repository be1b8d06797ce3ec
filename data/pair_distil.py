"""The draft's training data: what the target itself says, with the probabilities it says it with.

A draft is asked about the text of the target and nothing else, so it learns from that: continuations of prompts by the
target, and at each of their tokens the most probable ones. What the target thinks of a given text costs much less than
a text of its own, so documents serve for variety.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pair_training import EOS_ID
from torch import Tensor
from torch.nn.functional import log_softmax
from tqdm import tqdm
from transformers import LlamaForCausalLM

TOP = 24  # of the target's probabilities kept at each token; renormalised, since the rest is thin
Best = tuple[np.ndarray, np.ndarray]  # int16 and float16 [tokens, TOP]: most probable tokens, their probabilities


@dataclass(frozen=True)
class Texts:
    """Texts of the target. `answered[n, t]` is true where token t + 1 of text n is the target's own."""

    ids: np.ndarray  # int16 [texts, tokens], EOS after the end
    answered: np.ndarray  # bool [texts, tokens]
    top_ids: np.ndarray  # int16 [answered tokens, TOP]
    top_probabilities: np.ndarray  # float16 [answered tokens, TOP]

    def save(self, path: Path) -> None:
        """Write one compressed file of arrays."""
        np.savez_compressed(path, **vars(self))

    @staticmethod
    def load(path: Path) -> "Texts":
        """Read what `save` wrote."""
        with np.load(path) as file:
            return Texts(**file)


@torch.inference_mode()
def say(
    target: LlamaForCausalLM, prompts: list[list[int]], new_tokens: int, greedy: bool = True, batch: int = 128
) -> Texts:
    """The target's continuations of `prompts` (token ids), in batches of prompts of similar length."""
    answers: list[list[int]] = [[]] * len(prompts)
    best: list[Best] = [(np.empty(0), np.empty(0))] * len(prompts)
    for chosen in _alike(prompts, batch, "say"):
        said = _generate(target, [prompts[n] for n in chosen], new_tokens, greedy)
        for n, answer, logits in zip(chosen, *said, strict=True):
            answers[n], best[n] = answer, _best(logits)
    return _texts(prompts, answers, best)


@torch.inference_mode()
def read(target: LlamaForCausalLM, prompts: list[list[int]], answers: list[list[int]], batch: int = 16) -> Texts:
    """Given `answers` to `prompts` (token ids), with what the target would have said at each of their tokens."""
    both = [prompt + answer for prompt, answer in zip(prompts, answers, strict=True)]
    best: list[Best] = [(np.empty(0), np.empty(0))] * len(prompts)
    for chosen in _alike(both, batch, "read"):
        width = max(len(both[n]) for n in chosen)
        logits = target(torch.tensor([both[n] + [EOS_ID] * (width - len(both[n])) for n in chosen])).logits
        for n, row in zip(chosen, logits, strict=True):
            best[n] = _best(row[len(prompts[n]) - 1 : len(both[n]) - 1])
    return _texts(prompts, answers, best)


def _alike(rows: list[list[int]], batch: int, what: str) -> Iterator[list[int]]:
    """Indices of `rows` in batches of similar length, behind a progress bar."""
    order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
    return iter(tqdm([order[n : n + batch] for n in range(0, len(order), batch)], mininterval=5, desc=what))


def _best(logits: Tensor) -> Best:
    best = logits.softmax(-1).topk(TOP)
    return best.indices.short().numpy(), best.values.half().numpy()


def _texts(prompts: list[list[int]], answers: list[list[int]], best: list[Best]) -> Texts:
    width = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
    ids, answered = np.full((len(prompts), width), EOS_ID, np.int16), np.zeros((len(prompts), width), bool)
    for n, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        end = len(prompt) + len(answer)
        ids[n, :end] = prompt + answer
        answered[n, len(prompt) - 1 : end - 1] = True
    return Texts(ids, answered, *(np.concatenate(each) for each in zip(*best, strict=True)))


def _generate(
    target: LlamaForCausalLM, prompts: list[list[int]], new_tokens: int, greedy: bool
) -> tuple[list[list[int]], list[Tensor]]:
    width = max(map(len, prompts))
    ids = torch.tensor([[EOS_ID] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    out = target.generate(
        ids,
        attention_mask=mask,
        max_new_tokens=new_tokens,
        do_sample=not greedy,
        output_logits=True,
        return_dict_in_generate=True,
    )
    logits = torch.stack(out.logits, 1)  # float [prompts, new tokens, vocabulary]
    answers = [row[: row.index(EOS_ID) + 1] if EOS_ID in row else row for row in out.sequences[:, width:].tolist()]
    return answers, [row[: len(answer)] for row, answer in zip(logits, answers, strict=True)]


def join(texts: list[Texts]) -> Texts:
    """All of them as one."""
    width = max(t.ids.shape[1] for t in texts)
    pad = [((0, 0), (0, width - t.ids.shape[1])) for t in texts]
    return Texts(
        np.concatenate([np.pad(t.ids, p, constant_values=EOS_ID) for t, p in zip(texts, pad, strict=True)]),
        np.concatenate([np.pad(t.answered, p) for t, p in zip(texts, pad, strict=True)]),
        np.concatenate([t.top_ids for t in texts]),
        np.concatenate([t.top_probabilities for t in texts]),
    )


def distillation_loss(draft: LlamaForCausalLM, texts: Texts, rows: np.ndarray) -> Tensor:
    """Cross-entropy (nats a token) of the draft against the target's probabilities, on the answers of `rows`."""
    answered = texts.answered[rows]
    longest = int(np.flatnonzero(answered.any(0)).max()) + 1
    ids = torch.from_numpy(texts.ids[rows, :longest].astype(np.int64))
    hidden = draft.model(input_ids=ids).last_hidden_state[torch.from_numpy(answered[:, :longest])]
    first = np.concatenate([[0], texts.answered.sum(1).cumsum()])
    places = np.concatenate([np.arange(first[n], first[n + 1]) for n in rows])
    probabilities = torch.from_numpy(texts.top_probabilities[places].astype(np.float32))
    logs = log_softmax(draft.lm_head(hidden), -1).gather(-1, torch.from_numpy(texts.top_ids[places].astype(np.int64)))
    return -(probabilities / probabilities.sum(-1, keepdim=True) * logs).sum(-1).mean()

"""The draft's training data: what the target itself says, with the probabilities it says it with.

A draft is asked about the target's own text and nothing else, so it learns from that: continuations of prompts by the
target, and at each of their tokens the target's most probable ones.
"""

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
def say(target: LlamaForCausalLM, prompts: list[list[int]], new_tokens: int, greedy: bool = True,
        batch: int = 64) -> Texts:
    """The target's continuations of `prompts` (token ids), in batches of prompts of similar length."""
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    width = len(prompts[order[-1]]) + new_tokens
    ids, answered = np.full((len(prompts), width), EOS_ID, np.int16), np.zeros((len(prompts), width), bool)
    top_ids, top_probabilities = [[np.empty((0, TOP))] * len(prompts) for _ in range(2)]
    for start in tqdm(range(0, len(order), batch), mininterval=5, desc="texts"):
        chosen = order[start:start + batch]
        said = _generate(target, [prompts[n] for n in chosen], new_tokens, greedy)
        for n, answer, logits in zip(chosen, *said, strict=True):
            begin, end = len(prompts[n]), len(prompts[n]) + len(answer)
            ids[n, :end] = [*prompts[n], *answer]
            answered[n, begin - 1:end - 1] = True
            best = logits.softmax(-1).topk(TOP)
            top_ids[n], top_probabilities[n] = best.indices.short().numpy(), best.values.half().numpy()
    return Texts(ids, answered, np.concatenate(top_ids), np.concatenate(top_probabilities))


def _generate(target: LlamaForCausalLM, prompts: list[list[int]], new_tokens: int,
              greedy: bool) -> tuple[list[list[int]], list[Tensor]]:
    width = max(map(len, prompts))
    ids = torch.tensor([[EOS_ID] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    out = target.generate(ids, attention_mask=mask, max_new_tokens=new_tokens, do_sample=not greedy,
                          output_logits=True, return_dict_in_generate=True)
    logits = torch.stack(out.logits, 1)  # float [prompts, new tokens, vocabulary]
    answers = [row[:row.index(EOS_ID) + 1] if EOS_ID in row else row for row in out.sequences[:, width:].tolist()]
    return answers, [row[:len(answer)] for row, answer in zip(logits, answers, strict=True)]


def join(texts: list[Texts]) -> Texts:
    """All of them as one."""
    width = max(t.ids.shape[1] for t in texts)
    pad = [((0, 0), (0, width - t.ids.shape[1])) for t in texts]
    return Texts(np.concatenate([np.pad(t.ids, p, constant_values=EOS_ID) for t, p in zip(texts, pad, strict=True)]),
                 np.concatenate([np.pad(t.answered, p) for t, p in zip(texts, pad, strict=True)]),
                 np.concatenate([t.top_ids for t in texts]), np.concatenate([t.top_probabilities for t in texts]))


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

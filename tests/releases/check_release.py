"""Run the installed transformers' own assisted generation beside the rules that the table of releases has for it.

For releases that the toolkit itself does not run with: this needs torch, transformers and numpy only.  A tiny random
target and a noised copy of it write some prompts; the rules are walked token by token, each prefix recomputed without
a cache, and must give every iteration's drafted and accepted tokens.  Exit 1 where one differs.

PYTHONPATH=. python tests/releases/check_release.py
"""

from __future__ import annotations

import copy
import sys

import numpy as np
import torch
import transformers

from oracle.policies import Policy, parse
from oracle.policies.contract import Signals, State, after_prompt, budget_of, stops_at
from oracle.policies.library import has_scikit_learn
from oracle.policies.semantics import in_force, under

POLICIES = (
    "constant:tokens=1",
    "constant:tokens=3",
    "constant:tokens=20",
    "dynamic:threshold=0.4",
    "dynamic:threshold=0.7,tokens=6",
    "heuristic:tokens=5",
    "heuristic:tokens=5,threshold=0.4",
    "heuristic:tokens=20,threshold=0.6",
    "heuristic_transient:tokens=5,threshold=0.4",
    "roc",
    "roc:threshold=0.6,tokens=6",
)
VOCABULARY, NEW, PROMPTS = 97, 32, 4


def models() -> tuple[torch.nn.Module, torch.nn.Module]:
    """A peaky random target, and a copy that agrees often, but not always."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, bos_token_id=1, eos_token_id=None, pad_token_id=0,
        tie_word_embeddings=False,
    )  # fmt: skip
    target = transformers.LlamaForCausalLM(config).eval()
    for weight in target.parameters():
        if weight.dim() > 1:
            weight.data.mul_(4)
    target.lm_head.weight.data.mul_(6)
    draft = copy.deepcopy(target)
    for weight in draft.parameters():
        if weight.dim() > 1:
            weight.data.add_(torch.randn_like(weight) * weight.std() * 0.06)
    for model in (target, draft):
        model.generation_config.eos_token_id = model.generation_config.pad_token_id = None
    return target, draft


class Recomputed:
    """The draft's choice after a text and its probability, each text read anew and once."""

    def __init__(self, draft: torch.nn.Module) -> None:
        self._draft, self._known = draft, {}

    def __call__(self, ids: tuple[int, ...]) -> tuple[int, float]:
        if ids not in self._known:
            likely = self._draft(torch.tensor([ids])).logits[0, -1].float().softmax(-1)
            self._known[ids] = int(likely.argmax()), float(likely.max())
        return self._known[ids]


def real(
    target: torch.nn.Module, draft: torch.nn.Module, prompt: list[int], policy: Policy
) -> tuple[list[int], list[tuple[int, int]]]:
    """Text, and (drafted, accepted) of each iteration, of the library's call as the draft's config stands now."""
    rows: list[list[int]] = []
    build = target._get_candidate_generator

    def watched(*args, **kwargs):
        generator = build(*args, **kwargs)
        if not policy_refits(policy):  # scikit-learn is no reason to move a threshold that is to be fixed
            hold(generator)
        get, update = generator.get_candidates, generator.update_candidate_strategy

        def get_candidates(ids, *more, **options):
            result = get(ids, *more, **options)
            rows.append([result[0].shape[1] - ids.shape[1], -1])
            return result

        def update_candidate_strategy(ids, scores, matches):
            rows[-1][1] = int(matches)
            return update(ids, scores, matches)

        generator.get_candidates, generator.update_candidate_strategy = get_candidates, update_candidate_strategy
        return generator

    target._get_candidate_generator = watched
    try:
        ids = torch.tensor([prompt])
        out = target.generate(
            ids, attention_mask=torch.ones_like(ids), assistant_model=draft, do_sample=False, max_new_tokens=NEW
        )
    finally:
        del target._get_candidate_generator
    return out[0, len(prompt) :].tolist(), [(drafted, accepted) for drafted, accepted in rows]


def policy_refits(policy: Policy) -> bool:
    return str(policy).startswith("roc")


def hold(generator: object) -> None:
    """Keep the threshold where it is, in releases whose library refits it."""
    if in_force().refit == "there is none":
        return
    from oracle.models.compat import hold_threshold

    hold_threshold(generator)


def walked(
    says: Recomputed, prompt: list[int], text: list[int], policy: Policy, state: State
) -> tuple[list[tuple[int, int]], State]:
    """The same of the rules, and the state after them."""
    rows, at = [], 0
    while at < len(text):
        room = min(int(budget_of(policy, state).max()), NEW - at - 1)
        drafted: list[int] = []
        likely: list[float] = []
        while len(drafted) < room:
            token, confidence = says((*prompt, *text[:at], *drafted))
            drafted.append(token)
            likely.append(confidence)
            stops = stops_at(policy, signals(likely), state)
            if stops is not None and stops[0, -1]:
                break
        accepted = 0
        while accepted < len(drafted) and drafted[accepted] == text[at + accepted]:
            accepted += 1
        rows.append((len(drafted), accepted))
        state = policy.update(state, np.array([len(drafted)]), np.array([accepted]), signals(likely))
        at += accepted + 1
    return rows, state


def signals(confidence: list[float]) -> Signals:
    values = np.array([confidence], np.float32)
    return Signals.of(values, values, values)


@torch.inference_mode()
def main() -> int:
    target, draft = models()
    says, wrong, iterations = Recomputed(draft), 0, 0
    prompts = [np.random.default_rng(size).integers(2, VOCABULARY, 4 + size).tolist() for size in range(PROMPTS)]
    plain = [
        target.generate(
            torch.tensor([one]), attention_mask=torch.ones(1, len(one)), do_sample=False, max_new_tokens=NEW
        )
        for one in prompts
    ]
    for text in POLICIES:
        policy = under(parse(text))
        if policy_refits(policy) and not has_scikit_learn():
            continue
        first = draft.generation_config
        draft.generation_config = copy.deepcopy(first)
        draft.generation_config.num_assistant_tokens = policy.tokens
        draft.generation_config.assistant_confidence_threshold = policy.threshold
        draft.generation_config.num_assistant_tokens_schedule = (
            text.partition(":")[0] if text.startswith("heuristic") else "constant"
        )
        state = policy.start(1)
        for prompt, alone in zip(prompts, plain, strict=True):
            if not policy_refits(policy):
                draft.generation_config.assistant_confidence_threshold = policy.threshold
            said, seen = real(target, draft, prompt, policy)
            expected, state = walked(says, prompt, said, policy, state)
            state = after_prompt(policy, state)
            iterations += len(seen)
            if seen != expected or said != alone[0, len(prompt) :].tolist():
                wrong += 1
                print(f"{text} ({policy}): the library {seen}, the rules {expected}")
        draft.generation_config = first
    print(f"transformers {transformers.__version__} ({in_force()}): {iterations} iterations, {wrong} calls differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

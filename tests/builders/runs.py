"""Measured runs whose every second is known: a trace replayed, and priced by a cost model."""

import numpy as np

from analysis.cost import CostModel
from analysis.replay.simulate import replay
from builders.traces import pattern, trace
from oracle.policies import as_policy
from oracle.policies.counting import Plain
from oracle.policies.names import name_of
from oracle.records.runs import Call, Runs

COST = CostModel(
    draft=0.002, draft_first=0.005, draft_context=1e-6, iteration=0.001,
    verify=((1, 0.02), (2, 0.03), (4, 0.032), (9, 0.04), (21, 0.06)), verify_context=1e-5,
    plain=0.018, plain_context=1e-5, draft_prefill=1e-4, target_prefill=3e-4, unit="s",
)  # fmt: skip


def some_trace(prompts=6, size=60, seed=0, hits=0.75):
    """Texts of ``size`` tokens (the last one shorter), hit or missed at random, prompts of different length."""
    random = np.random.default_rng(seed)
    flags = ["".join(random.choice(["+", "-"], size - 3 * n, p=[hits, 1 - hits])) for n in range(prompts)]
    rows = [
        pattern(text, index=n, prompt=range(5 + 7 * n), overruns=_overruns(text), confidence=random.random(len(text)))
        for n, text in enumerate(flags)
    ]
    return trace(*rows, max_overrun=64)


def _overruns(text):
    return {at: [(3, 0.7)] * min(len(text) - at - 2, 64) for at, flag in enumerate(text) if flag == "-"}


def fake_runs(source, policies, cost=COST, *, repeats=3, speed=None, dtype="float32", generator="library"):
    """Runs of ``policies`` and plain decoding over a trace; ``speed(repeat, prompt, policy)`` stretches a call."""
    calls = []
    for repeat in range(repeats):
        for policy in ["none", *policies]:
            name, rows = name_of(policy), _iterations(source, as_policy(policy), cost)
            for prompt in range(source.prompts):
                factor = speed(repeat, prompt, name) if speed else 1.0
                mine = {key: values[rows["prompt"] == prompt] for key, values in rows.items() if key != "prompt"}
                calls.append(_call(source, prompt, name, repeat, len(calls), generator, mine, factor))
    return Runs({"machine": {"dtype": dtype}, "prompts": {"dataset": "made up"}}, tuple(calls))


def _iterations(source, policy, cost):
    at, drafted, passes, _ = replay(source, policy)
    context, first = source.context[at], at == source.offsets[source.prompt_of[at]]
    plain = isinstance(policy, Plain)
    read = np.diff(source.prompt_offsets)[source.prompt_of[at]] * first
    verify = cost.step(context) if plain else cost.verification(drafted + 1) + cost.verify_context * context
    return {
        "prompt": source.prompt_of[at],
        "position": at - source.offsets[source.prompt_of[at]],
        "drafted": drafted,
        "accepted": np.minimum(drafted, source.accepted_run[at]),
        "passes": passes,
        "budget": np.full(len(at), 0 if plain else np.max(policy.budget(policy.start(1)))),
        "threshold": np.zeros(len(at)),
        "draft_seconds": 0 * context if plain else cost.drafting(passes, context) + cost.draft_prefill * read,
        "verify_seconds": verify + cost.target_prefill * read,
        "forward_seconds": 0.9 * verify,
        "rest_seconds": np.full(len(at), 0 if plain else cost.iteration),
    }


def _call(source, prompt, name, repeat, order, generator, rows, factor):
    rows = {key: values * factor if key.endswith("seconds") else values for key, values in rows.items()}
    seconds = rows["draft_seconds"] + rows["verify_seconds"] + rows["rest_seconds"]
    return Call(
        prompt=prompt,
        id=source.ids[prompt],
        policy=name,
        repeat=repeat,
        order=order,
        generator="library" if name == "none" else generator,
        max_new_tokens=int(source.max_new_tokens[prompt]),
        prompt_tokens=source.prompt_tokens[source.prompt_offsets[prompt] : source.prompt_offsets[prompt + 1]],
        tokens=source.target_tokens[source.offsets[prompt] : source.offsets[prompt + 1]],
        total_seconds=float(seconds.sum()),
        prefill_seconds=float(seconds[0]),
        equal=True,
        first_difference=None,
        difference_margin=None,
        **rows,
    )

"""What observing a run costs: the same calls with and without the observer, side by side.

``python tests/benchmarks/bench_observation.py [--rounds 20] [--tokens 64] [--tiny]`` prints what the observer takes by
itself, on models that do nothing, as a share of a real iteration; and, for plain decoding and three kinds of assisted
generation, the ratio of observed to unobserved seconds and of processor seconds: median over the rounds and the
interval that half of them fall in (on a shared machine this is wider than what is looked for).  ``--tiny`` takes a
random pair whose passes are as short as passes get, the worst case.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from oracle.generate import Settings, _Watch, _watched_forward, assisted, plain  # noqa: E402
from oracle.models.decoding import greedy_config, neutral  # noqa: E402
from oracle.models.pair import Pair  # noqa: E402
from oracle.models.pairs import load_pair  # noqa: E402
from oracle.timing import Clock, clock_for  # noqa: E402

# None is plain decoding.  With scikit-learn a fixed threshold needs the observer, so `adaptive` stands for it.
ARMS = {
    "plain": None,
    "constant:tokens=1": Settings(1),
    "constant:tokens=5": Settings(5),
    "roc": Settings(20, threshold=0.4, adaptive=True),
}


def unobserved(pair: Pair, prompt: np.ndarray, settings: Settings | None, tokens: int) -> None:
    """The library's own call under the same settings."""
    import torch

    ids = torch.from_numpy(prompt.astype(np.int64))[None].to(pair.target.device)
    with neutral(pair), torch.inference_mode():
        if settings is not None:
            config = pair.draft.generation_config
            config.num_assistant_tokens, config.num_assistant_tokens_schedule = settings.tokens, settings.schedule
            config.assistant_confidence_threshold = settings.threshold
        pair.target.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=greedy_config(pair, tokens),
            assistant_model=None if settings is None else pair.draft,
        )


def observed(pair: Pair, prompt: np.ndarray, settings: Settings | None, tokens: int) -> None:
    clock = clock_for(pair)
    if settings is None:
        plain(pair, prompt, max_new_tokens=tokens, clock=clock)
    else:
        assisted(pair, prompt, settings, max_new_tokens=tokens, clock=clock)


def timed(action: Callable[[], None]) -> np.ndarray:
    """(wall, processor) seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return np.array([time.perf_counter() - wall, time.process_time() - processor])


def ratios(pair: Pair, prompt: np.ndarray, settings: Settings | None, tokens: int, rounds: int) -> np.ndarray:
    """Observed over unobserved seconds, float [rounds, 2]; which of the two comes first alternates."""
    arms = [lambda: observed(pair, prompt, settings, tokens), lambda: unobserved(pair, prompt, settings, tokens)]
    for arm in arms:
        arm()
    found = []
    for number in range(rounds):
        order = [0, 1] if number % 2 == 0 else [1, 0]
        seconds = {arm: timed(arms[arm]) for arm in order}
        found.append(seconds[0] / seconds[1])
    return np.array(found)


class Idle:
    """A candidate generator that does nothing: what is left is the observer."""

    num_assistant_tokens = 5

    def __init__(self) -> None:
        self.generation_config = self.assistant_generation_config = SimpleNamespace(assistant_confidence_threshold=0.4)

    def get_candidates(self, ids):
        return ids, None

    def update_candidate_strategy(self, ids, scores, matches):
        pass


def observer_alone(rounds: int = 20_000) -> float:
    """Seconds that observing adds to an iteration: rounds of a generator and a target that do nothing, watched or not.

    The best of five, because everything else on the machine only ever adds.
    """
    import torch

    ids = torch.zeros(1, 20, dtype=torch.long)

    def once(watch: bool) -> float:
        target, generator, noted = torch.nn.Identity(), Idle(), _Watch(Clock(), 4)
        with _watched_forward(target, noted) if watch else contextlib.nullcontext():
            if watch:
                noted.attach(generator)
            start = time.perf_counter()
            for _ in range(rounds):
                generator.get_candidates(ids)
                target(ids)
                generator.update_candidate_strategy(ids, None, 0)
            return (time.perf_counter() - start) / rounds

    return min(once(True) for _ in range(5)) - min(once(False) for _ in range(5))


def iteration_seconds(pair: Pair, prompt: np.ndarray, settings: Settings, tokens: int) -> float:
    """Mean seconds of an iteration of a real run."""
    seen = assisted(pair, prompt, settings, max_new_tokens=tokens, clock=clock_for(pair))
    return seen.total_seconds / len(seen.iterations["drafted"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    if given.tiny:
        from builders.pairs import tiny_pair

        pair, prompt = tiny_pair(), np.arange(2, 12)
    else:
        pair = load_pair("demo")
        prompt = np.array(pair.tokenizer('"""\nReturn the sum of a list.\n"""\n')["input_ids"])
    alone, shortest = observer_alone(), iteration_seconds(pair, prompt, Settings(1), given.tokens)
    print(
        f"the observer alone: {alone * 1e6:.1f} microseconds an iteration, {alone / shortest:.2%} of one with a single "
        f"drafted token ({shortest * 1e3:.2f} ms)"
    )
    for name, settings in ARMS.items() if given.rounds else ():
        wall, processor = np.quantile(
            ratios(pair, prompt, settings, given.tokens, given.rounds), [0.25, 0.5, 0.75], axis=0
        ).T
        print(
            f"{name}: {wall[1]:.3f} x the wall time ({wall[0]:.3f} to {wall[2]:.3f}), "
            f"{processor[1]:.3f} x the processor time ({processor[0]:.3f} to {processor[2]:.3f})"
        )


if __name__ == "__main__":
    main()

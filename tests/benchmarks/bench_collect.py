"""What collecting costs, against generating the same texts, and against drafting and verifying prompt by prompt.

    python tests/benchmarks/bench_collect.py [--pair demo] [--prompts 32] [--batch 1 8 32] [--threads 1]

Each arm is run ``--repeats`` times in turn and its fastest run counts.  Ratios are of wall time and of processor time;
on a machine that is busy with other things the second one is the one to read.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable

import torch

from oracle.collect import collect
from oracle.models.batches import left_padded
from oracle.models.decoding import greedy_config, neutral
from oracle.models.pair import Pair
from oracle.models.pairs import load_pair
from oracle.prompts.encode import Encoded, encode
from oracle.prompts.sets import load_prompts

TOKENS = 128


@torch.inference_mode()
def generate(pair: Pair, prompts: list[Encoded], batch: int) -> None:
    """The target's own texts by the library, in batches padded on the left."""
    with neutral(pair):
        for at in range(0, len(prompts), batch):
            ids, mask = left_padded([prompt.tokens for prompt in prompts[at : at + batch]], pair.target.device)
            pair.target.generate(ids, attention_mask=mask.long(), generation_config=greedy_config(pair, TOKENS))


@torch.inference_mode()
def draft_and_verify(pair: Pair, prompts: list[Encoded]) -> None:
    """The library's assisted generation, which takes one prompt at a time: up to 20 tokens drafted, then verified."""
    with neutral(pair):
        pair.draft.generation_config.num_assistant_tokens = 20
        pair.draft.generation_config.num_assistant_tokens_schedule = "constant"
        pair.draft.generation_config.assistant_confidence_threshold = 0.0
        for prompt in prompts:
            ids = torch.from_numpy(prompt.tokens).long()[None].to(pair.target.device)
            pair.target.generate(ids, assistant_model=pair.draft, generation_config=greedy_config(pair, TOKENS))


def record(pair: Pair, prompts: list[Encoded], batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        collect(pair, [prompt.tokens for prompt in prompts], folder, max_new_tokens=TOKENS, batch_size=batch)


def seconds(run: Callable[[], None]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pair", default="demo")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pair = load_pair(options.pair)
    half = options.prompts // 2
    texts = [*load_prompts("demo-code", limit=half), *load_prompts("demo-text", limit=options.prompts - half)]
    prompts, _ = encode(pair, texts, TOKENS)
    arms: dict[tuple, Callable[[], None]] = {("verify", 1): lambda: draft_and_verify(pair, prompts)}
    for batch in options.batch:
        arms["generate", batch] = lambda batch=batch: generate(pair, prompts, batch)
        arms["collect", batch] = lambda batch=batch: record(pair, prompts, batch)
    generate(pair, prompts[:2], 2)  # warm-up
    took: dict[tuple, list[tuple[float, float]]] = {arm: [] for arm in arms}
    for _ in range(options.repeats):
        for arm, run in arms.items():
            took[arm].append(seconds(run))
    best = {arm: [min(values) for values in zip(*runs, strict=True)] for arm, runs in took.items()}
    wall, processor = best["verify", 1]
    print(f"draft and verify, prompt by prompt: {wall:.2f} s wall, {processor:.2f} s processor")
    print("batch  generate s  collect s  collect/generate (processor)  collect/verify (processor)")
    for batch in options.batch:
        ours, plain, verify = best["collect", batch], best["generate", batch], best["verify", 1]
        ratios = [f"{ours[0] / other[0]:.2f} ({ours[1] / other[1]:.2f})" for other in (plain, verify)]
        print(f"{batch:5d}  {plain[0]:10.2f}  {ours[0]:9.2f}  {ratios[0]:>28}  {ratios[1]:>26}")


if __name__ == "__main__":
    main()

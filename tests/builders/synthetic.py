"""A trace of any size, made without models: independent acceptance, random signals."""

import numpy as np

from oracle.records.trace import Overruns, Trace

EOS = 0


def synthetic(prompts: int, length: int = 128, acceptance: float = 0.75, max_overrun: int = 32, seed: int = 0) -> Trace:
    """``prompts`` texts of ``length`` tokens that end at the length limit."""
    generator = np.random.default_rng(seed)
    size = prompts * length
    target = generator.integers(1, 1000, size).astype(np.int32)
    draft = np.where(generator.random(size) < acceptance, target, 1000).astype(np.int32)
    missed = np.flatnonzero(draft != target)
    room = np.clip(length - missed % length - 2, 0, max_overrun)

    def signals(count: int) -> dict[str, np.ndarray]:
        confidence = generator.random(count, dtype=np.float32)
        return {"confidence": confidence, "entropy": 1 - confidence, "margin": confidence / 2}

    offsets = np.concatenate([[0], np.cumsum(room)])
    tokens = generator.integers(1, 1000, offsets[-1]).astype(np.int32)
    return Trace(
        meta={"eos_token_ids": [EOS], "max_overrun": max_overrun, "prompts": {"dataset": "synthetic"}},
        ids=tuple(map(str, range(prompts))),
        index=np.arange(prompts),
        finish=np.full(prompts, "length"),
        max_new_tokens=np.full(prompts, length),
        prompt_offsets=np.arange(prompts + 1) * 16,
        prompt_tokens=np.ones(prompts * 16, np.int32),
        offsets=np.arange(prompts + 1) * length,
        target_tokens=target,
        draft_tokens=draft,
        target_margin=np.ones(size, np.float32),
        overruns=Overruns(position=missed, offsets=offsets, tokens=tokens, **signals(int(offsets[-1]))),
        **signals(size),
    )

"""Training loop of both models of the embedded pair: optimisers, checkpoints, log, export."""

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch
from pair_optimiser import linear_to_zero, optimisers
from torch import Tensor
from tqdm import tqdm
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

VOCABULARY = 4096
EOS_ID = 0
WORKERS = 2
LossesOfStep = Callable[[int], list[Callable[[], Tensor]]]  # of step n, one for each worker


def llama(layers: int, width: int, heads: int) -> LlamaConfig:
    """Llama with tied embeddings, twice the width inside its blocks."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=EOS_ID,
        pad_token_id=EOS_ID,
    )


class Log:
    """Where a run keeps its checkpoint and its losses, and how it measures itself now and then."""

    def __init__(self, directory: Path, resume: bool, measure: Callable[[], float]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.checkpoint, self.losses = directory / "checkpoint.pt", directory / "losses.jsonl"
        self.resume, self.measure = resume, measure

    def write(self, **row: float) -> None:
        """Append one line of JSON."""
        with self.losses.open("a") as file:
            file.write(json.dumps(row) + "\n")


def train(
    model: LlamaForCausalLM, steps: int, losses_of_step: LossesOfStep, rates: tuple[float, float], log: Log
) -> None:
    """Minimise the mean of the losses of each step; `rates` are the peak learning rates of Muon and AdamW."""
    found = optimisers(model, *rates)
    schedules = [linear_to_zero(o, steps) for o in found]
    parts = [model, *found, *schedules]
    first = restore(parts, log.checkpoint) if log.resume else 0
    started = time.monotonic()
    bar = tqdm(range(first, steps), initial=first, total=steps, mininterval=5)
    with single_threaded_workers() as workers:
        for step in bar:
            loss = set_gradients(model, losses_of_step(step), workers)
            list(workers.map(lambda optimiser: optimiser.step(), found))
            for schedule in schedules:
                schedule.step()
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
            if (step + 1) % 50 == 0 or step + 1 == steps:
                save([p.state_dict() for p in parts], step + 1, log.checkpoint)
                with torch.inference_mode():
                    log.write(step=step + 1, loss=loss, held_out=log.measure(), seconds=time.monotonic() - started)


@contextmanager
def single_threaded_workers() -> Iterator[ThreadPoolExecutor]:
    """Workers that wait for each other once a step, where threads inside operations wait at every operation."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(WORKERS, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            yield workers
    finally:
        torch.set_num_threads(threads)


def set_gradients(model: LlamaForCausalLM, losses: list[Callable[[], Tensor]], workers: ThreadPoolExecutor) -> float:
    """Give every parameter the gradient of the mean loss, which is returned."""
    parameters = list(model.parameters())

    def gradient(loss_of: Callable[[], Tensor]) -> tuple[float, tuple[Tensor, ...]]:
        loss = loss_of()
        return loss.item(), torch.autograd.grad(loss, parameters)

    losses_found, gradients = zip(*workers.map(gradient, losses), strict=True)
    for parameter, *each in zip(parameters, *gradients, strict=True):
        parameter.grad = torch.stack(each).mean(0)
    return sum(losses_found) / len(losses_found)


def save(states: list[dict], step: int, path: Path) -> None:
    """Write beside, then rename: a killed run leaves a whole checkpoint."""
    beside = path.with_suffix(".new")
    torch.save({"states": states, "step": step}, beside)
    os.replace(beside, path)


def restore(parts: list, path: Path) -> int:
    """Load a checkpoint into model, optimisers and schedules; the step to go on with."""
    if not path.exists():
        raise RuntimeError(f"there is no checkpoint {path} to go on with: start without --resume")
    stored = torch.load(path, weights_only=True)
    for part, state in zip(parts, stored["states"], strict=True):
        part.load_state_dict(state)
    return stored["step"]


def export(model: LlamaForCausalLM, directory: Path) -> None:
    """Store the weights in half precision, with plain greedy decoding as the only default."""
    model.half()
    model.generation_config = GenerationConfig(do_sample=False, eos_token_id=EOS_ID, pad_token_id=EOS_ID)
    model.save_pretrained(directory)

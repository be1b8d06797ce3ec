"""What this machine has: versions, processors, devices, how fast each data type is, the hub, memory and disk.

Nothing here takes longer than a few seconds, and the hub is asked once, with a bounded time.
"""

from __future__ import annotations

import importlib.util
import os
import queue
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from oracle.versions import version_of

PACKAGES = ("oracle-lookahead", "torch", "transformers", "tokenizers", "safetensors", "datasets", "huggingface_hub",
            "numpy", "pandas", "scipy", "pyarrow", "scikit-learn")  # fmt: skip
HUB_SECONDS = 5.0
_SIZE, _REPEATS, _MOST_SECONDS = 256, 5, 2.0  # of the probe: one matrix product, how often, and when it is enough


@dataclass(frozen=True)
class Device:
    """Where models can run: name, and memory in bytes where it tells."""

    name: str
    what: str
    memory: int | None = None


@dataclass(frozen=True)
class Health:
    """What was found; ``todo`` says what to do about what is missing, in sentences."""

    versions: dict[str, str | None]  # None where a package is not installed
    cores: int
    threads: int  # of torch
    devices: list[Device]
    bfloat16_ratio: float  # time of a matrix product in bfloat16 over float32 on the default device
    hub: str | None  # why it is not reached; None where it is
    scikit_learn: bool  # whether transformers adapts the threshold of dynamic (policy roc)
    memory: int | None  # bytes that are free
    disk: int  # bytes that are free where models are kept
    pair: str | None  # folder of the shipped pair
    todo: list[str] = field(default_factory=list)


def examine() -> Health:
    """Look at this machine."""
    import torch

    devices = _devices()
    try:
        from oracle.shipped import data_path

        pair = str(data_path("pair"))
    except RuntimeError:
        pair = None
    found = Health(
        versions={name: version_of(name) for name in PACKAGES},
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        devices=devices,
        bfloat16_ratio=bfloat16_ratio(devices[0].name),
        hub=hub_problem(HUB_SECONDS),
        scikit_learn=importlib.util.find_spec("sklearn") is not None,
        memory=_memory(),
        disk=_disk(),
        pair=pair,
    )
    found.todo.extend(advice(found))
    return found


def advice(found: Health) -> list[str]:
    """What to do about what is missing or slow."""
    told = []
    if found.bfloat16_ratio > 1:
        told.append(
            f"bfloat16 is {found.bfloat16_ratio:.1f} times slower than float32 here: give --dtype float32 to models "
            "that are stored in bfloat16, if the memory allows it."
        )
    if found.hub is not None:
        told.append(
            f"The hub is not reached ({found.hub}): use models and data sets from folders, or what its cache holds."
        )
    if not found.scikit_learn:
        told.append(
            "scikit-learn is missing: transformers then keeps dynamic's threshold as it is.  Install it to measure "
            "policy roc, which adapts it."
        )
    if found.pair is None:
        told.append("The shipped pair is not found: install oracle-lookahead again, or work in a full checkout.")
    if found.disk < 20e9:
        told.append(f"Only {found.disk / 1e9:.1f} GB of disk are free where models are kept (HF_HOME moves them).")
    return told


def bfloat16_ratio(device: str) -> float:
    """Time of a matrix product in bfloat16 over that in float32."""
    import torch

    return _seconds(device, torch.bfloat16) / _seconds(device, torch.float32)


def hub_problem(seconds: float) -> str | None:
    """Why the hub is not reached; None where it is.  Asked in a thread: name servers obey no timeout."""
    answers: queue.Queue[str | None] = queue.Queue()

    def ask() -> None:
        from huggingface_hub import HfApi

        try:
            HfApi().model_info("openai-community/gpt2", timeout=seconds)
            answers.put(None)
        except Exception as error:  # whatever it is, the hub cannot be used now
            answers.put(type(error).__name__)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return f"no answer within {seconds:g} s"


def _seconds(device: str, dtype) -> float:
    """The fastest of a few products: what the machine can do, whatever else runs on it."""
    import torch

    left = torch.ones(_SIZE, _SIZE, dtype=dtype, device=device)
    begin, found = time.perf_counter(), []
    (left @ left).sum().item()  # the first one prepares
    while len(found) < _REPEATS and (not found or time.perf_counter() - begin < _MOST_SECONDS):
        start = time.perf_counter()
        (left @ left).sum().item()  # read back, so that a device has finished
        found.append(time.perf_counter() - start)
    return min(found)


def _devices() -> list[Device]:
    """Those that can be used, the default one first."""
    import torch

    found = [Device("cpu", "processor")]
    if torch.backends.mps.is_available():
        found.append(Device("mps", "Apple GPU"))
    for number in reversed(range(torch.cuda.device_count())):
        facts = torch.cuda.get_device_properties(number)
        found.insert(0, Device(f"cuda:{number}", facts.name, facts.total_memory))
    return found


def _memory() -> int | None:
    """Free memory in bytes, on systems that tell."""
    facts = Path("/proc/meminfo")
    if not facts.is_file():
        return None
    lines = dict(line.split(":", 1) for line in facts.read_text().splitlines() if ":" in line)
    return int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else None


def _disk() -> int:
    """Free bytes where the hub's cache is, or would be."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE)
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return shutil.disk_usage(there).free

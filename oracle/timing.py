"""Clocks that wait for the device, and a description of the machine that they ran on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from oracle.models.pair import Pair
from oracle.versions import version_of

_PACKAGES = ("torch", "transformers", "numpy")


def _nothing() -> None:
    """A CPU has finished when the call returns."""


@dataclass(frozen=True)
class Clock:
    """Reading it waits until every device in use has finished, then tells the time in seconds."""

    now: Callable[[], float] = time.perf_counter
    sync: Callable[[], None] = _nothing

    def __call__(self) -> float:
        self.sync()
        return self.now()


def clock_for(pair: Pair, now: Callable[[], float] = time.perf_counter) -> Clock:
    """A clock for runs of this pair: before each reading it waits for every device other than the CPU."""
    waits = [wait for device in _devices(pair) if (wait := _wait_for(device))]
    if not waits:
        return Clock(now)

    def sync() -> None:
        for wait in waits:
            wait()

    return Clock(now, sync)


def _devices(pair: Pair) -> list[torch.device]:
    """Every device that holds a weight of either model, each once."""
    found = {weight.device for model in (pair.target, pair.draft) for weight in model.parameters()}
    return sorted(found, key=str)


def _wait_for(device: torch.device) -> Callable[[], None] | None:
    if device.type == "cpu":
        return None
    if device.type == "mps":
        return torch.mps.synchronize
    backend = getattr(torch, device.type, None)  # cuda, xpu, ...
    if backend is None or not hasattr(backend, "synchronize"):
        raise ValueError(f"device {str(device)!r}: torch offers no way to wait for it, so nothing on it can be timed")
    return lambda: backend.synchronize(device)


def describe_machine(pair: Pair) -> dict[str, Any]:
    """Where a run took place: processor or accelerator, threads, load, versions, dtype."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": _load(),
        "accelerators": [_name(device) for device in _devices(pair) if device.type != "cpu"],
        "dtype": str(pair.target.dtype).removeprefix("torch."),
        "system": platform.platform(),
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES}
        | {"python": platform.python_version()},
        "scikit_learn": version_of("scikit-learn"),
    }


def _processor() -> str:
    """The processor's name; the system's own word for it where Linux does not say."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(errors="replace").split("\n") if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _load() -> float | None:
    """Processes that wanted to run, averaged over the last minute; None where the system does not tell."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)

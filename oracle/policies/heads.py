"""What was learned from a recorded trace: small arrays in a JSON file, and what they say of drafted tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Required

import numpy as np
from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from oracle.policies.contract import Signals
from oracle.records.typed import Count, Object, Text, check, read_json, says, short
from oracle.records.whole import write_whole

SCHEMA_VERSION = 1
KIND = "head of oracle-lookahead"  # stands in every such file, so that a command knows its own
INPUTS = ("log odds of the confidence", "entropy", "margin", "log of the place in the draft")
_BESIDE_TOP = 2  # inputs of `disco` that are no probabilities
_SURE = 1e-6  # a confidence is kept as far from 0 and 1 as this

_Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e9, le=1e9), says("a finite number, at most 1e9 in size")]
_Numbers = Annotated[list[_Number], Field(min_length=1, max_length=1000)]
_Digest = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{16}$"), says("16 digits from 0 to f")]


@with_config(ConfigDict(extra="forbid"))
class _Stored(TypedDict, total=False):
    kind: Required[Text]
    schema: Required[Count]
    policy: Required[Text]
    prompts: Required[list[_Digest]]
    trained: Object
    center: _Numbers
    spread: _Numbers
    hidden: list[_Numbers]
    out: _Numbers
    slope: _Numbers
    base: _Numbers


@dataclass(frozen=True)
class Acceptance:
    """A network of one hidden layer (or none): the chance that a drafted token is accepted.

    It reads `INPUTS` (`specdec++`), or the largest probabilities, the entropy and the place (`disco`).

    ``hidden`` has a row of weights, then a bias, for each hidden unit; ``out`` one weight for each of them, or for each
    input where there are none, then a bias.
    """

    center: np.ndarray  # float64 [inputs]
    spread: np.ndarray  # float64 [inputs], above 0
    hidden: np.ndarray  # float64 [units, inputs + 1]
    out: np.ndarray  # float64 [units + 1]

    def chance(self, signals: Signals) -> np.ndarray:
        """By `INPUTS`: of each token given that those before it were accepted, float64 [lanes, width]."""
        return self.of(inputs(signals.confidence, signals.entropy, signals.margin, np.arange(signals.shape[1])))

    def chance_by_top(self, signals: Signals) -> np.ndarray:
        """The same by `top_inputs`."""
        top = signals.top(len(self.center) - _BESIDE_TOP)
        return self.of(top_inputs(top, signals.entropy, np.arange(signals.shape[1])))

    def of(self, values: list[np.ndarray]) -> np.ndarray:
        """Of values of what it reads, arrays of one shape each."""
        # Unit by unit: sums in this order are the same for one draft and for thousands, which a matrix product's are
        # not.
        scaled = [(each - c) / s for each, c, s in zip(values, self.center, self.spread, strict=True)]
        if len(self.hidden):
            scaled = [np.tanh(_sum(scaled, unit)) for unit in self.hidden]
        return 1 / (1 + np.exp(-_sum(scaled, self.out)))


@dataclass(frozen=True)
class Lines:
    """sigma(slope_k * margin + base_k) as the chance that token k is accepted."""

    slope: np.ndarray  # float64 [positions]
    base: np.ndarray  # float64 [positions]


@dataclass(frozen=True)
class Head:
    """A file: what was learned for which policy, and from which prompts."""

    policy: str
    prompts: frozenset[str]  # `oracle.records.prompts.digests`
    learned: Acceptance | Lines
    trained: dict[str, Any]  # on what, and how well; for people

    def save(self, path: str | Path) -> None:
        """Write it as JSON, whole, making the folder.  Raises OSError that names the file."""
        arrays = {name: value.tolist() for name, value in vars(self.learned).items()}
        stored = {"kind": KIND, "schema": SCHEMA_VERSION, "policy": self.policy, "trained": self.trained, **arrays}
        text = json.dumps(stored | {"prompts": sorted(self.prompts)}, indent=1, allow_nan=False)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(Path(path), lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))


def load_head(path: str, policy: str) -> Head:
    """The head of ``policy`` in a file.  Raises ValueError that names the file and what is wrong with it."""
    if "," in path:
        raise ValueError(f"file={path}: a comma ends a key in a policy's text; name the file without one")
    again = f"`oracle train {policy} TRACE -o {path}` makes one"
    try:
        stored = read_json(Path(path))
    except (OSError, ValueError) as error:
        problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ValueError(f"{path}: not a readable head ({problem[:200]}); {again}") from None
    found = check(_Stored, stored, path)
    if found["kind"] != KIND or found["schema"] != SCHEMA_VERSION:
        raise ValueError(f"{path}: no head of this version (kind {short(found['kind'])}, schema {found['schema']})")
    if found["policy"] != policy:
        raise ValueError(f"{path}: trained for {short(found['policy'])}, not for {policy}; {again}")
    learned = _lines(found, path) if policy == "margin" else _acceptance(found, path, policy)
    return Head(policy, frozenset(found["prompts"]), learned, found.get("trained", {}))


def inputs(confidence: np.ndarray, entropy: np.ndarray, margin: np.ndarray, position: np.ndarray) -> list[np.ndarray]:
    """`INPUTS` of drafted tokens, float64 like the signals; ``position`` counts from 0 within the draft."""
    sure = np.clip(confidence.astype(np.float64), _SURE, 1 - _SURE)
    place = np.broadcast_to(np.log1p(position), sure.shape)
    return [np.log(sure / (1 - sure)), entropy.astype(np.float64), margin.astype(np.float64), place]


def top_inputs(top: np.ndarray, entropy: np.ndarray, position: np.ndarray) -> list[np.ndarray]:
    """What `disco` reads: each of the largest probabilities (``top``, [..., k]), the entropy and the log of the place.

    float64 like ``entropy``.
    """
    place = np.broadcast_to(np.log1p(position), entropy.shape)
    return [*np.moveaxis(top.astype(np.float64), -1, 0), entropy.astype(np.float64), place]


def _sum(values: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    total = np.full_like(values[0], weights[-1])
    for value, weight in zip(values, weights[:-1], strict=True):
        total += weight * value
    return total


def _acceptance(found: _Stored, path: str, policy: str) -> Acceptance:
    center, spread, out = (np.array(_present(found, name, path)) for name in ("center", "spread", "out"))
    rows = found.get("hidden", [])
    size = len(INPUTS) if policy == "specdec++" else max(len(center), _BESIDE_TOP + 1)
    units = len(rows) or size
    if len(center) != size or len(spread) != size or np.any(spread <= 0):
        raise ValueError(f"{path}: center and spread must hold {size} numbers each, those of spread above 0")
    if any(len(row) != size + 1 for row in rows) or len(out) != units + 1:
        raise ValueError(f"{path}: hidden must hold rows of {size + 1} numbers, and out {units + 1} numbers")
    return Acceptance(center, spread, np.array(rows).reshape(len(rows), size + 1), out)


def _lines(found: _Stored, path: str) -> Lines:
    slope, base = (np.array(_present(found, name, path)) for name in ("slope", "base"))
    if len(slope) != len(base):
        raise ValueError(f"{path}: slope holds {len(slope)} numbers and base {len(base)}; one of each a position")
    return Lines(slope, base)


def _present(found: _Stored, name: str, path: str) -> list[float]:
    if name not in found:
        raise ValueError(f"{path}: {name} is missing; train it again")
    return found[name]

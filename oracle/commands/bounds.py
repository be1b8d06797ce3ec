"""What an option's value may be, written beside the option and checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Between:
    """A number from ``low`` to ``high``, both included; NaN and infinities are outside.

    ``above``: ``low`` itself is not legal.  ``because`` says where the upper bound comes from.
    """

    low: float
    high: float
    above: bool = False
    because: str = ""

    def check(self, option: str, value: float) -> None:
        """Raise ValueError unless ``value`` is legal for ``option``."""
        if not (self.low <= value <= self.high) or (self.above and value == self.low):
            raise ValueError(f"{option} is {value}; legal: {self}")

    def __str__(self) -> str:
        if isinstance(self.low, float):
            start = f"above {self.low:g}" if self.above else "not negative" if self.low == 0 else f"from {self.low:g}"
            return f"a finite number, {start}, at most {self.high:,g}{self.because}"
        return f"a whole number from {self.low:,} to {self.high:,}{self.because}"


class Once:
    """A list that names nothing twice."""

    def check(self, option: str, value: list) -> None:
        """Raise ValueError where ``option`` was given the same ``value`` twice."""
        for number, each in enumerate(value):
            if each in value[:number]:
                raise ValueError(f"{option} {str(each)!r} is given twice; give it once")


def expect_one_of(option: str, value: str, words: Sequence[str]) -> None:
    """Raise ValueError unless ``value`` is one of ``words``."""
    if value not in words:
        raise ValueError(f"{option} is {value!r}; legal: {', '.join(words)}")

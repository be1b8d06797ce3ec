"""What the page says of its prices: assumed, or measured and where."""

from __future__ import annotations

from analysis.examine import Examined


def assumed(subject: Examined) -> bool:
    """Whether nobody measured the prices."""
    return not subject.cost.machine


def prices(subject: Examined) -> str:
    """One or two sentences on what a draft step and a verification cost."""
    cost = subject.cost
    if assumed(subject):
        flat = " and checking to cost one step however long the draft is" if len(cost.verify) == 1 else ""
        return (
            f"A draft step is taken to cost {subject.draft_cost:.3g} of a target step{flat}. Speedups hold under this"
            " assumption only; the command oracle calibrate measures a machine's prices."
        )
    machine = ", ".join(f"{key} {value}" for key, value in cost.machine.items() if isinstance(value, (str, int, float)))
    return f"Prices measured on a machine ({machine}): a draft step costs {subject.draft_cost:.3f} of a target step."

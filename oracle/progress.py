"""A progress bar on stderr, where that is a terminal, and in a notebook."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(label: str, unit: str, total: int, done: int, wanted: bool) -> Iterator[Callable[[int, str], None]]:
    """Yields a function of (how many have just finished, a remark to show); ``done`` of ``total`` were there before."""
    if not wanted or not (sys.stderr.isatty() or _in_notebook()):
        yield lambda count, remark: None
        return
    from tqdm.auto import tqdm  # a widget in a notebook that has them, else text

    # A step takes a while, so that each of them is drawn.
    often = {"mininterval": 0.0, "miniters": 1}
    with tqdm(
        desc=label, unit=f" {unit}", total=total, initial=done, leave=False, dynamic_ncols=True, **often
    ) as shown:

        def advance(count: int, remark: str) -> None:
            shown.set_postfix_str(remark, refresh=False)
            shown.update(count)

        yield advance


def _in_notebook() -> bool:
    """Whether a kernel runs this process: whatever only imports its package does not make one."""
    loaded = sys.modules.get("IPython")
    shell = loaded.get_ipython() if loaded is not None else None
    return shell is not None and "IPKernelApp" in shell.config

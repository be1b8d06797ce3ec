"""Says so where a file of the user's hides the toolkit's ``analysis``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def expect_own_analysis() -> None:
    """Raise ImportError, naming the file, where ``import analysis`` would load something else than the toolkit's.

    Python looks into the directory of a script or a notebook first, and `analysis` is a name that people like.
    """
    ours = Path(__file__).resolve().parent.parent / "analysis" / "__init__.py"
    loaded = sys.modules.get("analysis")
    if loaded is None:
        spec = importlib.util.find_spec("analysis")
        found = spec.origin or str(*(spec.submodule_search_locations or [""])[:1]) if spec else None
    else:
        found = getattr(loaded, "__file__", None) or "a module made in memory"
    if found is None:
        raise ImportError(
            f"{ours.parent} is missing: the installation is incomplete; install oracle-lookahead again", name="analysis"
        )
    if Path(found).resolve() != ours:
        raise ImportError(
            f"{found} hides the toolkit's own `analysis`: rename it, or start Python in another directory "
            "(and restart the notebook's kernel)",
            name="analysis",
        )

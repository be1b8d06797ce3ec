"""Where the files that come with the project are: the demo prompts, the demo pair and the sample trace."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oracle.records.trace import Trace

PACKAGE = "oracle_data"  # name of the checkout's data/ folder once installed


def data_path(name: str) -> Path:
    """Return the path of the shipped file or folder `name`, such as "demo-code.jsonl".

    A checkout or an editable install has it in data/ beside the oracle package, an installed wheel in the package
    `oracle_data`. Raises RuntimeError if neither holds it.
    """
    folders = [Path(__file__).resolve().parent.parent / "data", *_installed_folders()]
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    looked = ", ".join(str(folder) for folder in folders)
    raise RuntimeError(
        f"{name!r} is not among the files shipped with oracle-lookahead (looked in {looked}). "
        "The installation is incomplete: install oracle-lookahead again, or work in a full checkout."
    )


def sample() -> Trace:
    """The recording of a real pair that comes along: 80 demo prompts."""
    from oracle.records.trace import Trace

    return Trace.load(data_path("sample"))


def _installed_folders() -> list[Path]:
    spec = importlib.util.find_spec(PACKAGE)
    locations = spec.submodule_search_locations if spec else None
    return [Path(location) for location in locations or ()]

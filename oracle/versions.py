"""The version of an installed package."""

from __future__ import annotations

import importlib.metadata


def version_of(package: str) -> str | None:
    """None where it is not installed, or is a checkout of which no installation knows."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None

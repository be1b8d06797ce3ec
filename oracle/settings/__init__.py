"""A policy as settings to paste, one file an engine: each says the version that its flags were checked against."""

from oracle.settings.all import nearest, settings
from oracle.settings.shape import Settings

__all__ = ["Settings", "nearest", "settings"]

"""Pairs by tasks: recorded, clocked, priced, replayed and tuned, cell by cell, into one folder and one table."""

from oracle.workflows.study.recipe import Recipe, load_recipe
from oracle.workflows.study.run import Study, study

__all__ = ["Recipe", "Study", "load_recipe", "study"]

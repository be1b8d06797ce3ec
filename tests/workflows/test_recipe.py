"""Recipes: what counts before what, and what a mistake in one is told."""

from pathlib import Path

import pytest

from oracle.workflows.study.recipe import load_recipe, read_recipe

PAIR = "[[pairs]]\nname = 'demo'\n"
TASK = "[[tasks]]\nname = 'demo-code'\n"


def read(text, folder=Path("there"), **asked):
    return read_recipe(text.encode(), "r.toml", folder, **asked)


def test_every_pair_on_every_task_where_no_row_is_listed():
    found = read(f"{PAIR}[[pairs]]\nname = 'b'\ntarget = 'org/x'\ndraft = './y'\n{TASK}[[tasks]]\nname = 'demo-text'\n")
    assert [each.name for each in found.cells] == ["demo/demo-code", "demo/demo-text", "b/demo-code", "b/demo-text"]
    assert found.cells[2].models.target == "org/x" and found.cells[2].models.draft == str(Path("there/y"))
    assert found.cells[0].policies == ("heuristic", "dynamic") and found.cells[0].clocked == found.cells[0].task.limit


def test_what_is_nearer_counts_and_what_was_asked_for_before_all():
    rows = "[[rows]]\npair = 'demo'\ntask = 'demo-code'\nlimit = 9\n"
    defaults = "[defaults]\nlimit = 3\nrepeats = 4\nclocked = 50\ndtype = 'bfloat16'\n"
    text = f"{defaults}{PAIR}dtype = 'float16'\n{TASK}limit = 5\n"
    cell = read(text).cells[0]
    assert (cell.task.limit, cell.repeats, cell.clocked, cell.models.dtype) == (5, 4, 5, "float16")
    assert read(text + rows).cells[0].task.limit == 9
    cell = read(text + rows, limit=2, dtype="float32", repeats=None).cells[0]
    assert (cell.task.limit, cell.repeats, cell.clocked, cell.models.dtype) == (2, 4, 2, "float32")
    assert read(text, threads=2).threads == 2 and read(text).threads is None


def test_cells_are_picked_by_pair_by_task_and_by_both():
    recipe = load_recipe("published")
    names = [each.name for each in recipe.only(["opt", "*/code"]).cells]
    assert names == ["opt/summarization", "opt/open-ended", "codegen/code", "llama-3/code"]
    with pytest.raises(ValueError, match=r"--only 'opt/summary' names none.*Did you mean 'opt/summarization'"):
        recipe.only(["opt/summary"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "r.toml: not a recipe: Invalid value"),
        ("\xff", "r.toml: not a recipe"),
        (TASK, r"r.toml: \[\[pairs\]\] is missing"),
        (PAIR, r"r.toml: \[\[tasks\]\] is missing"),
        (
            "pair = 3\n" + PAIR + TASK,
            "key 'pair'; legal: title, defaults, pairs, tasks, rows. Did you mean 'pairs'",
        ),
        ("pairs = 3\n" + TASK, r"pairs is 3; it must be a list of tables"),
        (
            f"[defaults]\nrepeat = 2\n{PAIR}{TASK}",
            r"\[defaults\]: unknown key 'repeat'; .*Did you mean 'repeats'",
        ),
        (f"[defaults]\nrepeats = 0\n{PAIR}{TASK}", "repeats is 0; it must be a whole number from 1"),
        (f"[defaults]\nlimit = true\n{PAIR}{TASK}", "limit is True; it must be a number of prompts"),
        (f"[defaults]\ndtype = 'int8'\n{PAIR}{TASK}", "dtype is 'int8'; it must be one of auto, float32"),
        (f"[defaults]\npolicies = 'dynamic'\n{PAIR}{TASK}", "policies is 'dynamic'; it must be a list"),
        (f"[defaults]\npolicies = []\n{PAIR}{TASK}", "give one or several different ones"),
        (f"[defaults]\npolicies = ['dinamic']\n{PAIR}{TASK}", "unknown policy 'dinamic'.*legal: none, constant"),
        (f"[defaults]\npolicies = ['mine.py:Rule']\n{PAIR}{TASK}", "is in a file of its own"),
        (f"[defaults]\npolicies = ['random:tokens=20,seed=0']\n{PAIR}{TASK}", "prices are fitted on"),
        (f"[[pairs]]\ntarget = 'x'\n{TASK}", r"\[\[pairs\]\] 1: name is missing"),
        (f"[[pairs]]\nname = '../x'\n{TASK}", "name is '../x'; it must be a name"),
        (f"{PAIR}target = 'x'\n{TASK}", "pair 'demo' has only one of target and draft"),
        (PAIR + PAIR + TASK, r"\[\[pairs\]\] 2: name 'demo' is given twice"),
        (f"{PAIR}[[tasks]]\nname = 'demo-cod'\n", "task 'demo-cod' has no dataset.*Did you mean 'demo-code'"),
        (f"{PAIR}{TASK}[[rows]]\npair = 'dem'\ntask = 'demo-code'", r"\[\[rows\]\] 1: pair is 'dem'; legal: demo"),
        (f"{PAIR}{TASK}[[rows]]\npair = 'demo'", r"\[\[rows\]\] 1: task is missing; legal: demo-code"),
        (f"{PAIR}{TASK}" + "[[rows]]\npair = 'demo'\ntask = 'demo-code'\n" * 2, "has demo/demo-code twice"),
        (f"rows = []\n{PAIR}{TASK}", "is empty; leave it out"),
        (f"{PAIR}{TASK}chat = true\nmax_prompt_tokens = 9\n", "drop one"),
        (
            f"{PAIR}{TASK}[[rows]]\npair = 'demo'\ntask = 'demo-code'\npublished = {{svip = 1.5, source = 'a'}}",
            "published names 'svip', which is not among the policies",
        ),
        (
            f"{PAIR}{TASK}[[rows]]\npair = 'demo'\ntask = 'demo-code'\npublished = {{dynamic = 1.5}}",
            "published.source: it is None; it must be text",
        ),
        (
            f"{PAIR}{TASK}[[rows]]\npair = 'demo'\ntask = 'demo-code'\npublished = {{dynamic = 'x', source = 'a'}}",
            "published.dynamic: it is 'x'; it must be a finite number",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place_the_value_and_what_is_legal(text, message):
    with pytest.raises(ValueError, match=message):
        read_recipe(text.encode("latin-1"), "r.toml", Path())


def test_a_recipe_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(ValueError, match="cannot be read.*shipped recipe: published. Did you mean 'published'"):
        load_recipe("publishd")

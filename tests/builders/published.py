"""The shipped recipe of the published table on tiny models of the same architectures, with prompts of a local file."""

import json
import re

from builders.pairs import noisy, tiny
from builders.tokenizers import save, word_tokenizer
from oracle.workflows.study.recipe import load_recipe, shipped

ARCHITECTURES = {
    "opt": "opt",
    "codegen": "codegen",
    "llama-3": "llama",
}
ROWS = tuple(cell.name for cell in load_recipe("published").cells if cell.models.name in ARCHITECTURES)
SIZES = {"limit": 4, "clocked": 3, "repeats": 2, "max_prompt_tokens": 6, "max_new_tokens": 24, "dtype": '"float32"'}


def local_recipe(folder):
    """The file of the recipe in ``folder``, beside the models and the prompts that it points at; and which they are."""
    for name, kind in ARCHITECTURES.items():
        target = tiny(kind)
        save(folder / f"{name}-target", target, word_tokenizer())
        save(folder / f"{name}-draft", noisy(target), word_tokenizer())
    rows = [{"prompt": " ".join(f"w{3 + (7 * at + 5 * number) % 90}" for at in range(8))} for number in range(6)]
    (folder / "prompts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    file = folder / "published.toml"
    file.write_text(_pointed(shipped()["published"].read_text(encoding="utf-8")))
    return file


def _pointed(text):
    """The recipe's text with local folders, the local file and small sizes; all the rest as it is."""
    blocks = re.split(r"(?m)^(?=\[)", text)
    return "".join(_block(each) for each in blocks if "flan-t5" in ARCHITECTURES or '"flan-t5"' not in each)


def _block(block):
    name = re.search(r'(?m)^name = "(.*)"', block)
    for role in ("target", "draft"):
        block = re.sub(rf'(?m)^{role} = ".*"', f'{role} = "./{name and name[1]}-{role}"', block)
    block = re.sub(r'(?m)^dataset = ".*"', 'dataset = "./prompts.jsonl"', block)
    for key, value in SIZES.items():
        block = re.sub(rf"(?m)^{key} = \S*", f"{key} = {value}", block)
    return block

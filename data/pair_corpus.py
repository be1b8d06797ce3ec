"""Training text of the embedded pair: the standard library of the running Python, written as prompts and answers.

Two forms, those of the two data sets that speculative decoding is usually measured on: a task and a test line in a
docstring, answered by code; and an instruction with a response, answered by prose.
"""

import ast
import importlib
import inspect
import random
import re
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Tests and tables are repetitive, the vendored parsers are near copies of other modules.
LEFT_OUT = {
    "test",
    "tests",
    "idlelib",
    "encodings",
    "site-packages",
    "lib2to3",
    "ensurepip",
    "turtledemo",
    "pydoc_data",
    "idle_test",
    "__pycache__",
    "dist-packages",
    "msilib",
}
LEFT_OUT_BEGINNINGS = ("test_", "_sysconfigdata", "config-")
# Written in C: their documentation is in the running interpreter only.
C_MODULES = ("builtins", "math", "cmath", "itertools", "time", "array", "zlib", "select", "unicodedata")

PREAMBLE = "Below is an instruction that describes a task. Write a response that appropriately completes the request."
PREAMBLE_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request."
)

ABOUT_FUNCTION = (
    "Explain what `{name}` does.",
    "What does the function {name} do?",
    "Describe {name} in a few words.",
    "Write a short description of the function {name}.",
    "Tell me about {name}.",
    "Give a brief explanation of {short}.",
    "How do I use {short}?",
)
ABOUT_CLASS = (
    "Explain what the class `{name}` is for.",
    "What is {name}?",
    "Describe {short}.",
    "Write a summary of {name}.",
    "Tell me about the class {short}.",
    "When would you use {short}?",
)
ABOUT_MODULE = (
    "Describe the module {name}.",
    "What is {name} used for?",
    "Write an introduction to {name}.",
    "Give an overview of the {name} module.",
    "Explain {name} to a beginner.",
)
ABOUT_TOPIC = (
    "Explain {name}.",
    "Describe {name} in Python.",
    "Write a paragraph about {name}.",
    "What should I know about {name}?",
    "Tell me something about {name}.",
    "Give an explanation of {name}.",
    "Discuss {name} and give an example.",
)
ABOUT_INPUT = (
    "Explain what the following code does.",
    "Describe the function below.",
    "Summarise this code.",
    "Write documentation for the given function.",
)
TASKS = (
    "Write a function to {what}",
    "Write a python function to {what}",
    "Write a function that does this: {what}",
    "{What}",
)
LITERALS = (
    "1",
    "2",
    "3",
    "5",
    "10",
    "0",
    "-1",
    "7",
    "12",
    "[1, 2, 3]",
    "[4, 5, 6]",
    "'abc'",
    "'hello'",
    '"python"',
    "[]",
    "''",
    "(1, 2)",
    "(10, 4, 5, 6)",
    "{'a': 1}",
    "True",
    "None",
    "2.5",
    "['a', 'b']",
    '"a b c"',
    "100",
)


@dataclass(frozen=True)
class Document:
    """A prompt and its answer; `form` is `code` or `text`."""

    form: str
    prompt: str
    answer: str


def code_prompt(task: str, test: str) -> str:
    """A task and a test line in a docstring, as MBPP is given to a model that continues text."""
    return f'"""\n{task}\n{test}\n"""\n'


def text_prompt(instruction: str, given: str = "") -> str:
    """An instruction, with an input if it has one, in the form of Alpaca."""
    if given:
        return f"{PREAMBLE_INPUT}\n\n### Instruction:\n{instruction}\n\n### Input:\n{given}\n\n### Response:"
    return f"{PREAMBLE}\n\n### Instruction:\n{instruction}\n\n### Response:"


def text_document(instruction: str, answer: str, given: str = "") -> Document:
    """The prompt ends without a line break, as published; so the answer begins with one."""
    return Document("text", text_prompt(instruction, given), f"\n{answer}")


def build_corpus(seed: int) -> list[Document]:
    """Every document, shuffled by `seed`; the same on every machine with the same standard library."""
    draw = random.Random(seed)
    documents = [*_topic_documents(draw), *_c_documents(draw)]
    for name, path in standard_library():
        documents += module_documents(name, ast.parse(path.read_bytes()), draw)
    documents = list(dict.fromkeys(documents))
    draw.shuffle(documents)
    return documents


def standard_library() -> Iterator[tuple[str, Path]]:
    """Dotted name and file of every module of the standard library that is used, in order of the names."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in _sources(root):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


def _sources(folder: Path) -> Iterator[Path]:
    """Python files below a folder, without walking through what is left out: installed packages can be huge."""
    for path in sorted(folder.iterdir()):
        if path.stem in LEFT_OUT or path.name.startswith(LEFT_OUT_BEGINNINGS):
            continue
        if path.is_dir():
            yield from _sources(path)
        elif path.suffix == ".py":
            yield path


def module_documents(module: str, tree: ast.Module, draw: random.Random) -> Iterator[Document]:
    if doc := ast.get_docstring(tree):
        yield from _explained(module, doc, ABOUT_MODULE, draw)
    for owner, node in definitions(module, tree):
        name, doc = f"{owner}.{node.name}", ast.get_docstring(node)
        is_class = isinstance(node, ast.ClassDef)
        if doc:
            yield from _explained(name, doc, ABOUT_CLASS if is_class else ABOUT_FUNCTION, draw)
        source = source_without_docstring(node)
        if 100 <= len(source) <= 800 and (doc or "_" in node.name.strip("_")):
            yield _code_document(node, doc, source, draw)
            if doc and not is_class and len(source) < 400 and draw.random() < 0.5:
                yield text_document(draw.choice(ABOUT_INPUT), _shortened(doc), source)


def definitions(owner: str, tree: ast.AST) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield owner, node
        if isinstance(node, ast.ClassDef):
            yield from definitions(f"{owner}.{node.name}", node)
        elif isinstance(node, (ast.If, ast.Try)):
            yield from definitions(owner, node)


def source_without_docstring(node: ast.FunctionDef | ast.ClassDef) -> str:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    bare = type(node)(**{**dict(ast.iter_fields(node)), "body": body or [ast.Pass()], "decorator_list": []})
    return ast.unparse(ast.fix_missing_locations(bare))


def _code_document(node: ast.FunctionDef | ast.ClassDef, doc: str | None, source: str, draw: random.Random) -> Document:
    task = _first_paragraph(doc) if doc else node.name.strip("_").replace("_", " ")
    what = task[:1].lower() + task[1:]
    task = draw.choice(TASKS).format(what=what, What=task)
    task = task if task.endswith(".") else f"{task}."
    return Document("code", code_prompt(task, _test_line(node, doc, draw)), source)


def _test_line(node: ast.FunctionDef | ast.ClassDef, doc: str | None, draw: random.Random) -> str:
    """An assertion made from the docstring's first example, or one with invented values, since most have none."""
    example = re.search(r">>> (\w+\(.*\))\n\s*([^>\s].*)", doc or "")
    if example:
        return f"assert {example[1]} == {example[2]}"
    count = len(node.args.args) if isinstance(node, ast.FunctionDef) else draw.randrange(3)
    values = ", ".join(draw.choice(LITERALS) for _ in range(count))
    return f"assert {node.name}({values}) == {draw.choice(LITERALS)}"


def _explained(name: str, doc: str, phrasings: tuple[str, ...], draw: random.Random) -> Iterator[Document]:
    answer = _shortened(doc)
    # One-line answers are so many that the model would learn to say little else.
    if len(answer) >= 100 or (len(answer) >= 30 and draw.random() < 0.4):
        short = name.rsplit(".", 1)[-1]
        yield text_document(draw.choice(phrasings).format(name=name, short=short), answer)


def _c_documents(draw: random.Random) -> Iterator[Document]:
    for module in C_MODULES:
        for name, value in sorted(vars(importlib.import_module(module)).items()):
            members = sorted(vars(value).items()) if inspect.isclass(value) else []
            for label, item in [(name, value), *((f"{name}.{key}", member) for key, member in members)]:
                if callable(item) and inspect.getdoc(item) and not label.rsplit(".")[-1].startswith("_"):
                    phrasings = ABOUT_CLASS if inspect.isclass(item) else ABOUT_FUNCTION
                    yield from _explained(label, inspect.getdoc(item), phrasings, draw)


def _topic_documents(draw: random.Random) -> Iterator[Document]:
    """The language reference that `help()` shows, cut into pieces of some paragraphs."""
    topics = importlib.import_module("pydoc_data.topics").topics
    for name, text in sorted(topics.items()):
        title, *paragraphs = re.split(r"\n\s*\n", text.strip())
        paragraphs = [p for p in map(textwrap.dedent, paragraphs) if not re.fullmatch(r"[\W_]*|.*\n[*=~\-^]+", p)]
        title = re.sub(r"[\n*=~\-^\"]+", " ", title).strip().lower() if len(title) < 120 else name
        for piece in _pieces(paragraphs):
            yield text_document(draw.choice(ABOUT_TOPIC).format(name=title), piece)


def _pieces(paragraphs: list[str], longest: int = 900) -> Iterator[str]:
    piece = ""
    for paragraph in paragraphs:
        if piece and len(piece) + len(paragraph) > longest:
            yield piece
            piece = ""
        piece = f"{piece}\n\n{paragraph}".strip()
    if piece:
        yield piece[: 2 * longest]


def _first_paragraph(doc: str, longest: int = 240) -> str:
    paragraph = " ".join(re.split(r"\n\s*\n", doc.strip())[0].split())
    return paragraph if len(paragraph) <= longest else paragraph[:longest].rsplit(". ", 1)[0]


def _shortened(doc: str, longest: int = 900) -> str:
    return next(_pieces(re.split(r"\n\s*\n", doc.strip()), longest), "")

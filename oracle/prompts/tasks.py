"""The three tasks of the published benchmark of dynamic speculation: a data set, which rows of it, and two lengths.

The benchmark cut prompts to 256 tokens and had 128 new ones written (transformers 4.45).  What stands here is public,
free to download and plain files:

- ``summarization`` is its own data set, the split of its scripts, in the form of arXiv 2405.04304.
- ``open-ended``: the benchmark goes on with the beginnings of web pages (C4, hundreds of gigabytes in one
  configuration).  Here they are the open instructions of Dolly, written by people and not by a model, under a licence
  that allows every use: questions, ideas and creative writing, without the categories that bring a text along.
- ``code``: the benchmark goes on with Python files of The Stack, which is gated.  Here they are HumanEval's beginnings
  of functions, which arXiv 2405.04304 uses too.

So only the prompts of ``summarization`` are the benchmark's: the others are of the same kind, and so are their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """What a task takes unless a caller says otherwise; ``only`` names a column and the values of the rows it takes."""

    dataset: str
    split: str
    about: str
    only: tuple[str, tuple[str, ...]] | None = None
    prompt_tokens: int = 256
    max_new_tokens: int = 128


OPEN = ("brainstorming", "creative_writing", "general_qa", "open_qa")  # Dolly's categories that bring no text along

TASKS = {
    "summarization": Task("cnn_dailymail", "validation", "news to summarise; the article's end is cut"),
    "open-ended": Task("dolly", "train", "questions and things to write, without a text", ("category", OPEN)),
    "code": Task("humaneval", "test", "Python functions to go on with"),
}

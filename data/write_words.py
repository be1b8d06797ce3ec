"""Write data/WORDS.md: what the words of the toolkit mean, as the report explains them.

python data/write_words.py
"""

from __future__ import annotations

from pathlib import Path

from documents import deliver

from analysis.report.glossary import GLOSSARY

TEXT = """# Words

Written by `python data/write_words.py` from `analysis/report/glossary.py`; do not edit.

| word | meaning |
|---|---|
{rows}
"""


def main() -> None:
    rows = (f"| {word} | {meaning.replace('|', chr(92) + '|')} |" for word, meaning in GLOSSARY.items())
    deliver(TEXT.format(rows="\n".join(rows)), Path(__file__).parent / "WORDS.md")


if __name__ == "__main__":
    main()

"""``python -m oracle``."""

from oracle.cli import main

main()

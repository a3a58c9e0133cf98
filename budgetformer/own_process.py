"""The command line as a process of its own, which keeps out of the way of others."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""Where the process runs, so that it finds the library."""
LOWEST = 19


def command(*words: str, niceness: int = LOWEST) -> list[str]:
    """Return `python -m budgetformer` with these words, of low priority."""
    nice = ["nice", "-n", str(niceness)] if os.name == "posix" else []
    return [*nice, sys.executable, "-m", "budgetformer", *words]


def environment() -> dict[str, str]:
    """Return the environment of a process on one thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def last_words(errors: str, otherwise: str) -> str:
    """Return why it failed, in its own words, from what it wrote to standard error."""
    lines = errors.strip().splitlines() or [otherwise]
    return lines[-1].removeprefix("budgetformer: ")

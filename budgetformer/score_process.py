"""Scoring as a process of its own: others do not wait for it, and it ends with whoever asked.

The process is the command line's `score`, niced and on one thread.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from budgetformer.own_process import ROOT, command, environment, last_words
from budgetformer.records import ScoredSet, read_scored

FILE = "records.parquet"


@dataclass(frozen=True)
class Report:
    """How far it is."""

    done: int
    """Passes of the model that are done."""
    total: int
    """Passes in all."""


def score_in_process(
    model: Path, data: str, split: str, limit: int, folder: Path
) -> Generator[Report, None, None]:
    """Score a data set and yield reports; leaving the iteration ends the process.

    Args:
        model: folder of the checkpoint.
        data: what `score` takes as --data.
        split: what it takes as --split.
        limit: the most rows.
        folder: where the scored set goes, as FILE.

    Raises:
        ValueError: with what `score` said, if it failed.
    """
    words = command(
        "score", "--model", str(model.resolve()), "--data", data, "--split", split,
        "--limit", str(limit), "--out", str(folder / FILE), "--json",
    )  # fmt: skip
    with (
        (folder / "errors").open("w+", encoding="utf-8") as errors,
        _running(words, errors.fileno()) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if "done" in event:
                yield Report(int(event["done"]), int(event["total"]))
        if process.wait() != 0:
            errors.seek(0)
            reason = last_words(errors.read(), "no reason was given")
            raise ValueError(f"the scoring stopped: {reason}")


def read_result(folder: Path) -> ScoredSet:
    """Read what a finished scoring wrote."""
    return read_scored(folder / FILE)


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="budgetformer-score-") as folder:
        yield Path(folder)


@contextmanager
def _running(words: list[str], errors: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        words, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=errors,
        stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait()

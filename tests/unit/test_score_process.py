"""Scoring in a process of its own gives the command's file, its errors, and ends when left."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from budgetformer import Checkpoint, predict
from budgetformer.score_process import Report, read_result, score_in_process


def test_it_gives_the_commands_file(saved: Path, reviews: Path, tmp_path: Path) -> None:
    reports = list(score_in_process(saved, str(reviews), "all", 7, tmp_path))
    assert reports[-1] == Report(7, 7)
    scored = read_result(tmp_path)
    first = str((scored.texts or ())[0])
    assert f"{first}," in reviews.read_text().splitlines()[1]
    label = predict(Checkpoint.from_pretrained(saved), first).label
    assert scored.source.labels[scored.predicted[0]] == label


def test_leaving_ends_the_process(
    saved: Path, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []
    popen = subprocess.Popen

    def watched(*args: Any, **kwargs: Any) -> subprocess.Popen[str]:
        started.append(popen(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", watched)
    running = score_in_process(saved, str(reviews), "all", 160, tmp_path)
    next(running)
    running.close()
    (process,) = started
    assert process.returncode is not None


def test_what_went_wrong_is_said(saved: Path, reviews: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the scoring stopped: .*has no split 'dev'"):
        list(score_in_process(saved, str(reviews), "dev", 5, tmp_path))

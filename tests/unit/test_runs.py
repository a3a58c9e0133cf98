"""Run folders as data: repetitions, torn lines, reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from budgetformer.runs import failure, is_finished, read_history, read_settings
from budgetformer.training_state import EventLog

START = {"event": "start", "step": 0, "steps": 100, "steps_per_epoch": 50}


def write(folder: Path, *events: dict[str, Any], tail: str = "") -> None:
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (folder / "events.jsonl").write_text(lines + tail)


def step(number: int, loss: float, seconds: float = 0.0) -> dict[str, Any]:
    return {"event": "step", "step": number, "loss": loss, "seconds": seconds}


def test_nothing_yet(tmp_path: Path) -> None:
    history = read_history(tmp_path)
    assert history.last is None and history.step == history.n_steps == 0
    assert not is_finished(tmp_path) and read_settings(tmp_path) == {}


def test_a_resumed_training_takes_back_what_it_repeats(tmp_path: Path) -> None:
    write(
        tmp_path, START, step(20, 2.0), step(40, 1.8), {"event": "epoch", "step": 50, "epoch": 1},
        step(60, 1.7), {**START, "step": 40}, step(60, 1.5),
    )  # fmt: skip
    history = read_history(tmp_path)
    assert [(s["step"], s["loss"]) for s in history.steps] == [(20, 2.0), (40, 1.8), (60, 1.5)]
    # Its epoch ended after the state that it went on from: that comes again, too.
    assert history.epochs == ()
    assert history.step == 60 and history.n_steps == 100


def test_a_torn_last_line_is_left_out_and_then_mended(tmp_path: Path) -> None:
    write(tmp_path, START, step(20, 2.0), tail='{"event": "step", "st')
    assert [s["step"] for s in read_history(tmp_path).steps] == [20]
    with EventLog(tmp_path) as log:
        log.append(step(40, 1.0))
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 20, 40]


@pytest.mark.parametrize("junk", ["[1]", '"x"', "null", '{"event": "step"}', '{"step": "x"}'])
def test_lines_of_another_kind_are_left_out(tmp_path: Path, junk: str) -> None:
    write(tmp_path, START, tail=junk + "\n" + json.dumps(step(20, 2.0)) + "\n")
    assert [s["step"] for s in read_history(tmp_path).steps] == [20]


def test_one_process_at_a_time_writes(tmp_path: Path) -> None:
    with EventLog(tmp_path) as log:
        log.append(START)
        with pytest.raises(ValueError, match="another process is training"):
            EventLog(tmp_path)
    with EventLog(tmp_path):
        pass
    assert read_history(tmp_path).start == START


def test_what_is_left_follows_the_last_pace(tmp_path: Path) -> None:
    write(tmp_path, START, step(20, 1, 10.0))
    assert read_history(tmp_path).seconds_left is None
    write(tmp_path, START, step(20, 1, 10.0), step(40, 1, 14.0), step(60, 1, 18.0))
    # 0.2 s a step, 40 to go.
    assert read_history(tmp_path).seconds_left == pytest.approx(8.0)


def test_why_it_failed(tmp_path: Path) -> None:
    assert failure(tmp_path) == ("", "")
    (tmp_path / "stderr.log").write_text("UserWarning: something\nbudgetformer: no room left\n")
    assert failure(tmp_path)[0] == "no room left"
    trace = "Traceback (most recent call last):\n  File …\nKeyError: 'x'\n"
    (tmp_path / "stderr.log").write_text(trace)
    assert failure(tmp_path) == ("KeyError: 'x'", trace.strip())
    (tmp_path / "stderr.log").write_text("UserWarning: something\n")
    assert failure(tmp_path)[0] == ""

"""Processes that take turns."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from budgetformer.control import write_wishes
from budgetformer.job_queue import Job, born, has_turn, read_job, turn, waiting, write_job

FORK = multiprocessing.get_context("fork")
LONG_S = 30.0


def take_turn(folder: Path, most: int) -> None:
    with turn(folder, most) as mine:
        (folder / ("began" if mine else "left")).touch()
        while mine and not (folder / "enough").exists():
            time.sleep(0.01)


def queue_up(folder: Path, most: int = 1) -> multiprocessing.Process:
    folder.mkdir(parents=True, exist_ok=True)
    process = FORK.Process(target=take_turn, args=(folder, most))
    process.start()
    wait_for(lambda: read_job(folder) is not None)
    return process


def wait_for(condition) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def test_one_at_a_time_in_order(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("b", "a", "c")]
    first = queue_up(folders[0])
    wait_for(lambda: (folders[0] / "began").exists())
    others = [queue_up(folder) for folder in folders[1:]]
    # In the order of asking, not of their names.
    assert waiting(tmp_path) == folders[1:]
    assert [has_turn(folder) for folder in folders] == [True, False, False]
    (folders[0] / "enough").touch()
    wait_for(lambda: (folders[1] / "began").exists())
    assert not (folders[2] / "began").exists() and waiting(tmp_path) == folders[2:]
    # Whoever is killed gives its slot back all the same.
    others[0].kill()
    wait_for(lambda: (folders[2] / "began").exists())
    (folders[2] / "enough").touch()
    for process in (first, *others):
        process.join()
    assert waiting(tmp_path) == []


def test_two_at_a_time(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    processes = [queue_up(folder, 2) for folder in folders]
    wait_for(lambda: sum((folder / "began").exists() for folder in folders) == 2)
    assert len(waiting(tmp_path)) == 1
    for folder in folders:
        (folder / "enough").touch()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert all((folder / "began").exists() for folder in folders)


def test_who_is_told_to_stop_leaves_the_line(tmp_path: Path) -> None:
    first = queue_up(tmp_path / "a")
    wait_for(lambda: (tmp_path / "a" / "began").exists())
    second = queue_up(tmp_path / "b")
    write_wishes(tmp_path / "b", wish="stop")
    wait_for(lambda: (tmp_path / "b" / "left").exists())
    (tmp_path / "a" / "enough").touch()
    first.join()
    second.join()
    assert not (tmp_path / "b" / "began").exists()


def test_a_folder_has_one_process(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write_job(tmp_path / "run", Job(os.getppid(), born(os.getppid()), 0.0))
    with pytest.raises(ValueError, match="another process"), turn(tmp_path / "run", 1):
        pass


def test_a_number_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    me = os.getpid()
    assert Job(me, born(me), 0.0).alive
    assert not Job(me, "an earlier start", 0.0).alive
    assert not Job(me, "", 0.0).alive
    assert born(2**22 + 1) == ""
    child = FORK.Process(target=time.sleep, args=(0,))
    child.start()
    assert child.pid is not None
    # Until it is joined, an ended child is still listed: that is no life.
    wait_for(lambda: born(child.pid or 0) == "")
    child.join()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": "x"}'])
def test_a_damaged_job_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "job.json").write_text(content)
    assert read_job(tmp_path) is None

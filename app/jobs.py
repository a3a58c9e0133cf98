"""Trainings as processes of their own: start, watch, pause, stop, resume.

All that is known of a training lies in its folder, so every tab sees the same, and a training goes
on when the tab, the page or the app is closed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from budgetformer.card import train_options
from budgetformer.control import read_wishes, write_wishes
from budgetformer.job_queue import JOB, SLOTS, Job, born, has_turn, read_job, waiting, write_job
from budgetformer.library import RUNS_VARIABLE, valid_name
from budgetformer.own_process import ROOT, command, environment, last_words
from budgetformer.runs import EVENTS, RUN, STDERR, History, failure, is_finished, read_history

MOST_VARIABLE = "BUDGETFORMER_MAX_TRAININGS"
PAUSED = ("pause", "answer")
"""The last reports of a training that is paused; only then does it answer out of turn."""
ENDED = ("stop", "leave")
"""The last reports of a process that ends before the training does."""
LONGEST_END_S = 10.0

Status = Literal[
    "waiting", "starting", "running", "paused", "stopped", "failed", "interrupted", "finished"
]
WORDS: dict[Status, str] = {
    "waiting": "waits for its turn",
    "starting": "is starting",
    "running": "is running",
    "paused": "is paused",
    "stopped": "is stopped",
    "failed": "has failed",
    "interrupted": "was interrupted",
    "finished": "is finished",
}


@dataclass(frozen=True)
class State:
    """A training as it is now."""

    folder: Path
    status: Status
    history: History
    alive: bool
    """Whether its process is there: waiting, starting, running, or paused and ready to go on."""
    place: int = 0
    """Place in the line of those that wait, from 1."""
    reason: str = ""
    """Why it failed, in one line."""
    log: str = ""
    """All that its process wrote to standard error."""

    @property
    def name(self) -> str:
        return self.folder.name


def runs_folder() -> Path:
    """Return where trainings are kept; BUDGETFORMER_RUNS names another folder than runs/."""
    return Path(os.environ.get(RUNS_VARIABLE) or ROOT / "runs")


def most_at_once() -> int:
    """Return how many trainings may run at once; BUDGETFORMER_MAX_TRAININGS, or 1.

    Raises:
        ValueError: if the variable holds no such number.
    """
    text = os.environ.get(MOST_VARIABLE) or "1"
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{MOST_VARIABLE} must be a whole number of at least 1, got {text!r}")
    return int(text)


def names() -> list[str]:
    """List the trainings, the newest first."""
    folders = {path.parent for name in (JOB, RUN) for path in runs_folder().glob(f"*/{name}")}
    return [path.name for path in sorted(folders, key=_begun, reverse=True)]


def state(name: str, history: History | None = None) -> State:
    """Look at a training.

    Args:
        name: of its folder.
        history: its reports, where they have been read already.
    """
    folder = runs_folder() / name
    job = read_job(folder)
    alive = job is not None and job.alive
    history = read_history(folder) if history is None else history
    last = history.last["event"] if history.last else ""
    if is_finished(folder):
        return State(folder, "finished", history, alive=False)
    reported = _has_reported(folder, job)
    # Having said so, its process is about to end.
    alive = alive and not (reported and last in ENDED)
    if alive and not has_turn(folder):
        line = waiting(folder.parent)
        place = line.index(folder) + 1 if folder in line else 1
        return State(folder, "waiting", history, alive, place)
    if alive:
        begun: Status = "paused" if last in PAUSED else "running"
        status: Status = begun if reported else "starting"
        return State(folder, status, history, alive)
    reason, log = failure(folder)
    if reason:
        return State(folder, "failed", history, alive, reason=reason, log=log)
    stopped = last in ("stop", "leave") or read_wishes(folder).stops
    status = "paused" if last == "leave" else "stopped" if stopped else "interrupted"
    return State(folder, status, history, alive, log=log)


def start(name: str, training: dict[str, Any], upload: tuple[str, bytes] | None = None) -> Path:
    """Start a training, or put it in line; return its folder.

    Args:
        name: of its folder.
        training: what run.json holds: data, train, model and where to start from.
        upload: ending and content of a file of data, which is then kept in the folder.

    Raises:
        ValueError: if the name is no name, or taken.
    """
    folder = runs_folder() / valid_name(name)
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise ValueError(f"there is a training {folder.name} already: take another name") from error
    if upload is not None:
        (folder / f"data{upload[0]}").write_bytes(upload[1])
        training = {**training, "data": shown(folder / f"data{upload[0]}")}
    with _launching(folder.parent):
        _launch(folder, train_options(training))
    return folder


def command_line(name: str, training: dict[str, Any]) -> str:
    """Return the command that trains the same model without the app."""
    words = ["python", "-m", "budgetformer", "train", *train_options(training)]
    return shlex.join([*words, "--out", shown(runs_folder() / name)])


def shown(path: Path) -> str:
    """Return a path as seen from the project, where it lies in it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def resume(name: str) -> None:
    """Let a training go on: one that waits in memory at once, another in a new process.

    Raises:
        ValueError: if it was not started here.
    """
    folder = runs_folder() / name
    job = read_job(folder)
    if job is None or not job.command:
        raise ValueError(f"{name} was started from the command line: resume it there")
    write_wishes(folder, wish="run", pause_at=None)
    with _launching(folder.parent):
        _wait_for_the_end(folder)
        # Somebody in another tab may have been quicker.
        job = read_job(folder)
        if job is not None and not job.alive and not is_finished(folder):
            _launch(folder, list(job.command))


def pause(name: str) -> None:
    """Let a training save its state and wait."""
    write_wishes(runs_folder() / name, wish="pause", pause_at=None)


def advance(name: str, steps: int) -> None:
    """Let a training that is paused take some steps, and pause again."""
    folder = runs_folder() / name
    target = read_history(folder).step + steps
    job = read_job(folder)
    if job is not None and not job.alive:
        resume(name)
    write_wishes(folder, wish="run", pause_at=target)


def stop(name: str) -> None:
    """Let a training save its state and end; one that has not begun yet ends at once."""
    folder = runs_folder() / name
    before = state(name)
    write_wishes(folder, wish="stop", pause_at=None)
    job = read_job(folder)
    if before.status in ("waiting", "starting") and job is not None and job.alive:
        os.kill(job.pid, signal.SIGTERM)


def ask(name: str, texts: tuple[str, ...]) -> None:
    """Let the model answer a text, or the two of a pair, with each report."""
    if read_wishes(runs_folder() / name).texts != texts:
        write_wishes(runs_folder() / name, texts=texts)


@contextmanager
def _launching(runs: Path) -> Iterator[None]:
    """Let one visitor at a time start a process."""
    (runs / SLOTS).mkdir(parents=True, exist_ok=True)
    with (runs / f"{SLOTS}-lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _launch(folder: Path, options: list[str]) -> None:
    """Start the process: of low priority, on one thread, in a session that outlives the app."""
    words = ["train", *options, "--out", str(folder), "--resume", "--control"]
    queued = time.time()
    with (folder / STDERR).open("wb") as errors:
        process = subprocess.Popen(
            command(*words, "--at-most", str(most_at_once())),
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    write_job(folder, Job(process.pid, born(process.pid), queued, tuple(options)))


def _wait_for_the_end(folder: Path) -> None:
    """Wait for a process that has said that it stops."""
    last, job = read_history(folder).last, read_job(folder)
    if last is None or last["event"] not in ENDED or not _has_reported(folder, job):
        return
    until = time.monotonic() + LONGEST_END_S
    while job is not None and job.alive and time.monotonic() < until:
        time.sleep(0.05)


def _has_reported(folder: Path, job: Job | None) -> bool:
    """Whether the last report is of this process, not of one before it."""
    try:
        return job is not None and (folder / EVENTS).stat().st_mtime >= job.queued
    except OSError:
        return False


def _begun(folder: Path) -> float:
    """Return when a training was asked for, as well as its folder can tell."""
    job = read_job(folder)
    if job is not None:
        return job.queued
    try:
        return (folder / RUN).stat().st_mtime
    except OSError:
        return 0.0


def estimate(training: dict[str, Any]) -> dict[str, Any]:
    """Measure some steps of a training in a process of its own.

    Raises:
        ValueError: if it could not be started with these data and settings, with the reason.
    """
    options = [*train_options(training), "--out", "nowhere", "--estimate", "--json"]
    done = subprocess.run(
        command("train", *options),
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(last_words(done.stderr, "it ended without a word"))
    return dict(json.loads(done.stdout.splitlines()[-1]))


def controllable() -> set[str]:
    """Return the trainings that were started here, which can be told what to do."""
    return {path.parent.name for path in runs_folder().glob(f"*/{JOB}") if _command(path.parent)}


def _command(folder: Path) -> tuple[str, ...]:
    job = read_job(folder)
    return job.command if job else ()

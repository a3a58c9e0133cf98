"""Trainings that take turns: each is a process with a folder, and at most so many run at once.

A process that waits looks at the others' job.json files and goes when it is the first in line and a
slot is free. A slot is a file lock, which the system takes back when its process ends, however it
ends; so the queue moves without anybody watching, and after a crash as well.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from budgetformer.config import read_json, write_json
from budgetformer.control import read_wishes

JOB = "job.json"
SLOTS = ".slots"
LOOK_S = 0.2


@dataclass(frozen=True)
class Job:
    """The process of a training, as job.json keeps it."""

    pid: int
    born: str
    """When the process was started: a number that the system gives to another process later is not
    taken for this one."""
    queued: float
    """When the training asked for its turn, in seconds since 1970."""
    command: tuple[str, ...] = ()
    """The command line."""

    @property
    def alive(self) -> bool:
        """Whether this very process is there."""
        return self.born != "" and born(self.pid) == self.born


def born(pid: int) -> str:
    """Return when a process was started, in the system's own words; "" if there is none."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # The name, in brackets, may hold blanks and brackets itself.
            values = stat.read_text().rpartition(")")[2].split()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""
        # A process that has ended is listed as Z until its parent has heard of it.
        return "" if values[0] == "Z" else f"{boot} {values[19]}"
    said = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    return "" if not said or said[0].startswith("Z") else " ".join(said[1:])


def read_job(folder: Path) -> Job | None:
    """Read a training's process; None if it was not started as a job or the file is damaged."""
    try:
        values = read_json(folder / JOB)
        return Job(
            int(values["pid"]),
            str(values["born"]),
            float(values["queued"]),
            tuple(map(str, values["command"])),
        )
    except (ValueError, KeyError, TypeError):
        return None


def write_job(folder: Path, job: Job) -> None:
    """Write a training's process into its folder."""
    write_json(folder / JOB, asdict(job))


def has_turn(folder: Path) -> bool:
    """Whether a training's process holds a slot."""
    job = read_job(folder)
    return job is not None and job.alive and _mark(job) in _holders(folder.parent)


def waiting(runs: Path) -> list[Path]:
    """Return the folders whose trainings wait for their turn, first in line first."""
    holders, line = _holders(runs), []
    for path in runs.glob(f"*/{JOB}"):
        job = read_job(path.parent)
        if job is not None and job.alive and _mark(job) not in holders:
            line.append((job.queued, path.parent.name, path.parent))
    return [folder for _, _, folder in sorted(line)]


@contextmanager
def turn(folder: Path, most: int) -> Iterator[bool]:
    """Wait until fewer than `most` trainings beside this folder run; then hold a slot.

    Yields:
        True with a slot; False if the training was told to stop while it waited.

    Raises:
        ValueError: if another process waits or trains in this folder.
    """
    slots = folder.parent / SLOTS
    slots.mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    mine = read_job(folder)
    if mine is None or not mine.alive:
        # Whoever started this process has not written it down yet, or never will.
        mine = Job(os.getpid(), born(os.getpid()), time.time())
        write_job(folder, mine)
    elif mine.pid != os.getpid():
        raise ValueError(f"another process is training in {folder}")
    while not read_wishes(folder).stops:
        line = waiting(folder.parent)
        if not line or line[0] == folder:
            for number in range(most):
                with (slots / str(number)).open("a+b") as file:
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        continue
                    file.truncate(0)
                    file.write(_mark(mine).encode())
                    file.flush()
                    try:
                        yield True
                    finally:
                        file.truncate(0)
                    return
        time.sleep(LOOK_S)
    yield False


def _mark(job: Job) -> str:
    return f"{job.pid} {job.born}"


def _holders(runs: Path) -> set[str]:
    """Return the marks in the slots; of a process that was killed, the mark may still be there."""
    return {path.read_text() for path in (runs / SLOTS).glob("*")}

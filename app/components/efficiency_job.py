"""A measurement in a process of its own: started, watched, and never more than one at a time.

Two at once would disturb each other, so others wait. Reruns only look at a file, so nobody waits
for a page.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from budgetformer.own_process import ROOT, command, last_words

# Below the server's own priority, so that pages stay quick; a busy machine then shows in the load.
NICE = 10
LONGEST_S = 900.0
LOCK = threading.Lock()


class Job:
    """One command line, running or done; its output is a file of JSON lines."""

    def __init__(self, arguments: Sequence[str], files: dict[str, str]) -> None:
        """Start it.

        Args:
            arguments: of `python -m budgetformer`; "{folder}" in them is the job's own folder.
            files: what to write into that folder first.
        """
        self.folder = TemporaryDirectory(prefix="budgetformer-measure-")
        path = Path(self.folder.name)
        for name, text in files.items():
            (path / name).write_text(text, encoding="utf-8")
        words = [argument.replace("{folder}", self.folder.name) for argument in arguments]
        self.started = time.monotonic()
        with (path / "out").open("wb") as out, (path / "err").open("wb") as err:
            self.process = subprocess.Popen(
                command(*words, "--json", niceness=NICE),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        # When the session is gone nobody waits for it any more, and others may.
        weakref.finalize(self, self.process.kill)

    @property
    def running(self) -> bool:
        """Whether it is still at work; one that hangs is ended."""
        if self.process.poll() is not None:
            return False
        if time.monotonic() - self.started > LONGEST_S:
            self.stop()
            return False
        return True

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()

    @property
    def progress(self) -> float:
        """The share that is done, in [0, 1]."""
        last = self._last()
        return last["done"] / last["total"] if last and "done" in last else 0.0

    def result(self) -> dict[str, Any]:
        """Return the last object that it printed.

        Raises:
            ValueError: if it failed, in its own words.
        """
        last = self._last()
        if self.process.poll() != 0 or last is None:
            said = (Path(self.folder.name) / "err").read_text(encoding="utf-8", errors="replace")
            raise ValueError(last_words(said, "it was ended before it was done"))
        return last

    def _last(self) -> dict[str, Any] | None:
        lines = (Path(self.folder.name) / "out").read_text(encoding="utf-8").splitlines()
        for line in reversed(lines):
            try:
                found: dict[str, Any] = json.loads(line)
            except ValueError:  # half a line, still being written
                continue
            return found
        return None


_current: list[weakref.ref[Job]] = []


def start(arguments: Sequence[str], files: dict[str, str] | None = None) -> Job | None:
    """Start a measurement; None if there is one already, anyone's."""
    with LOCK:
        if any(job is not None and job.running for job in (held() for held in _current)):
            return None
        job = Job(arguments, files or {})
        _current[:] = [weakref.ref(job)]
        return job

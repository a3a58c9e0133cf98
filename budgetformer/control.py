"""What a running training is told from outside: go on, pause, stop, and which text to answer.

Whoever watches writes control.json into the training's folder; the training looks at it between two
steps. Nothing in it changes what is computed, so a training that was paused ends as any other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from budgetformer.config import read_json, write_json

CONTROL = "control.json"
LOOK_S = 0.1
# A paused training keeps its place among those that may run, and its memory. Then it leaves: its
# state is saved, and it comes back when it is told to go on.
PATIENCE_S = 600.0

Wish = Literal["run", "pause", "stop"]
Event = dict[str, Any]


@dataclass(frozen=True)
class Wishes:
    """What a training is told."""

    wish: Wish = "run"
    pause_at: int | None = None
    """Pause when this step is done, to look at one batch or one epoch."""
    texts: tuple[str, ...] = ()
    """A text, or the two of a pair, that the model answers with each report; none when empty."""

    @property
    def stops(self) -> bool:
        """Whether a training ends here, to be resumed later or never."""
        return self.wish == "stop"

    def halts(self, step: int) -> bool:
        """Whether a training at this step waits or stops."""
        return self.wish != "run" or (self.pause_at is not None and step >= self.pause_at)


def read_wishes(folder: Path) -> Wishes:
    """Read what a training is told; without a readable file it goes on."""
    try:
        values = read_json(folder / CONTROL)
        wishes = Wishes(values["wish"], values["pause_at"], tuple(map(str, values["texts"])))
    except (ValueError, KeyError, TypeError):
        return Wishes()
    known = wishes.wish in ("run", "pause", "stop")
    return wishes if known and isinstance(wishes.pause_at, int | None) else Wishes()


def write_wishes(folder: Path, **changes: Any) -> Wishes:
    """Change what a training is told; what is not named stays as it is."""
    wishes = replace(read_wishes(folder), **changes)
    write_json(folder / CONTROL, asdict(wishes))
    return wishes


class Control:
    """A training's view of the file; a look that finds it unchanged costs microseconds."""

    def __init__(self, folder: Path, patience_s: float = PATIENCE_S) -> None:
        """Watch the file in a folder; a pause ends the process after patience_s."""
        self.folder, self.patience_s = folder, patience_s
        self.stamp: tuple[int, int] | None = None
        self.wishes = Wishes()

    def look(self) -> Wishes:
        """Return what the training is told now."""
        try:
            stat = (self.folder / CONTROL).stat()
            # Each version is a new file, so two of the same moment still differ.
            stamp = (stat.st_ino, stat.st_mtime_ns)
        except OSError:
            stamp = None
        if stamp != self.stamp:
            self.stamp = stamp
            self.wishes = Wishes() if stamp is None else read_wishes(self.folder)
        return self.wishes

    def obey(
        self, step: int, prepare: Callable[[], Event | None], answer: Callable[[], Event]
    ) -> Generator[Event, None, bool]:
        """Wait or stop where that is told; yields events and returns whether to stop.

        Args:
            step: steps done.
            prepare: called before waiting or stopping: saves the state, and returns a report of the
                last step unless it has been reported.
            answer: makes the model answer the texts as they are now.
        """
        if not self.look().halts(step):
            return False
        report = prepare()
        if report is not None:
            yield report
        if self.wishes.stops:
            yield {"event": "stop", "step": step}
            return True
        yield {"event": "pause", "step": step}
        texts, leave = self.wishes.texts, time.monotonic() + self.patience_s
        while self.look().halts(step):
            stop = self.wishes.stops
            if stop or time.monotonic() >= leave:
                yield {"event": "stop" if stop else "leave", "step": step}
                return True
            if self.wishes.texts != texts:
                texts = self.wishes.texts
                yield {"event": "answer", "step": step, **answer()}
            time.sleep(LOOK_S)
        yield {"event": "go", "step": step}
        return False

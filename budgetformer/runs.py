"""Run folders as plain data: what a training was asked for, and what it has reported so far.

Nothing here needs torch, so a page can look every second.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgetformer.config import read_json

Event = dict[str, Any]
EVENTS, RUN, STATE, CONFIG, STDERR = (
    "events.jsonl",
    "run.json",
    "state.safetensors",
    "config.json",
    "stderr.log",
)


@dataclass(frozen=True)
class History:
    """A training's reports without repetitions, as if it had never been interrupted."""

    steps: tuple[Event, ...] = ()
    """Reports of training steps, ascending."""
    epochs: tuple[Event, ...] = ()
    """Reports of epochs, ascending."""
    answers: tuple[Event, ...] = ()
    """Steps, epochs and pauses at which the model answered a text, in the order of the file."""
    start: Event | None = None
    """The last "start": how many steps and rows there are."""
    last: Event | None = None
    """The last event of all: it says whether the training runs, pauses or has stopped."""

    @property
    def step(self) -> int:
        """Steps done, as far as reported."""
        return int(self.last["step"]) if self.last else 0

    @property
    def n_steps(self) -> int:
        """Steps of the whole training; 0 while that is not known."""
        return int(self.start["steps"]) if self.start else 0

    @property
    def seconds_left(self) -> float | None:
        """Estimate of what is left, at the pace of the last reports; None without two of them."""
        recent = [step for step in self.steps[-6:] if "seconds" in step]
        if len(recent) < 2 or recent[-1]["seconds"] <= recent[0]["seconds"]:
            return None
        pace = (recent[-1]["seconds"] - recent[0]["seconds"]) / (
            recent[-1]["step"] - recent[0]["step"]
        )
        return float(pace * (self.n_steps - self.step))


def read_history(folder: Path) -> History:
    """Read a training's reports.

    A training that was interrupted repeats the steps after its last saved state: a "start" takes
    back what was reported of later steps. A line that is not whole is left out.
    """
    try:
        lines = (folder / EVENTS).read_bytes().splitlines()
    except OSError:
        return History()
    events: list[Event] = []
    start: Event | None = None
    for line in lines:
        try:
            event = json.loads(line)
            step = int(event["step"])
            kind = event["event"]
        except (ValueError, KeyError, TypeError):
            continue
        if kind == "start":
            start = event
            events = [earlier for earlier in events if earlier["step"] <= step]
        events.append(event)
    return History(
        steps=_unique(events, "step"),
        epochs=_unique(events, "epoch"),
        answers=tuple(event for event in events if "answer" in event),
        start=start,
        last=events[-1] if events else None,
    )


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a trained model; its state goes when all else has been written."""
    return (folder / CONFIG).is_file() and not (folder / STATE).is_file()


def read_settings(folder: Path) -> dict[str, Any]:
    """Return what a training was asked for: data, train, model and starts; empty if unknown."""
    try:
        return read_json(folder / RUN)
    except ValueError:
        return {}


def failure(folder: Path) -> tuple[str, str]:
    """Return why a training failed, in a line and in full; empty if it did not say so."""
    try:
        full = (folder / STDERR).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "", ""
    lines = full.splitlines()
    for line in reversed(lines):
        if line.startswith("budgetformer: "):
            return line.removeprefix("budgetformer: "), full
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1], full
    return "", full


def _unique(events: list[Event], kind: str) -> tuple[Event, ...]:
    """Return the events of a kind by their step; of two reports of a step, the later."""
    found = {event["step"]: event for event in events if event["event"] == kind}
    return tuple(found[step] for step in sorted(found))

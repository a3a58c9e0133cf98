"""What a training keeps in its folder, so that no work is lost when it is interrupted.

    run.json           all that decides the outcome; written before the first step
    events.jsonl       what happened, a JSON object a line; a resumed training writes on
    state.safetensors  weights and optimiser at one step; replaced as a whole, gone at the end

The order of examples, dropout and noise follow from the seed and the step, so these need no saving.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from budgetformer.checkpoint import CONFIG, save_tensors
from budgetformer.config import json_ready, read_json
from budgetformer.model import BudgetFormer

EVENTS, STATE, RUN = "events.jsonl", "state.safetensors", "run.json"


def claim(out: Path, run: dict[str, Any], resume: bool) -> None:
    """Check that a folder is free, or holds this very training, unfinished.

    Raises:
        ValueError: if it holds something else.
    """
    record, wanted = out / RUN, json.loads(json.dumps(run))
    written = (out / CONFIG).is_file()
    if not record.is_file():
        if written:
            raise ValueError(f"{out} already holds a checkpoint; choose another folder")
        return
    if not resume:
        raise ValueError(f"{out} already holds a training; resume it or choose another folder")
    if read_json(record) != wanted:
        raise ValueError(f"{out} holds a training with other settings; see {record}")
    if written and not (out / STATE).is_file():
        raise ValueError(f"the training in {out} is finished; there is nothing to resume")


class EventLog:
    """The file of events, open for one training at a time.

    Raises:
        ValueError: if another process trains in this folder.
    """

    def __init__(self, out: Path) -> None:
        """Open the file, lock it and drop a last line that was not written to its end."""
        self.file = (out / EVENTS).open("a+b")
        try:
            # The system takes the lock back when the process ends, however it ends.
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.file.close()
            raise ValueError(f"another process is training in {out}") from error
        self.file.seek(0)
        content = self.file.read()
        self.file.truncate(content.rfind(b"\n") + 1)

    def __enter__(self) -> EventLog:
        """Return the log."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file, which gives the lock back."""
        self.file.close()

    def append(self, event: dict[str, Any]) -> None:
        """Write an event, so that readers see it at once."""
        self.file.write(json.dumps(json_ready(event)).encode() + b"\n")
        self.file.flush()


def save_state(out: Path, model: BudgetFormer, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Save model and optimiser; the state saved before stays until the new one is whole.

    Raises:
        OSError: if it cannot be written, saying that the state before it is still there.
    """
    tensors = {f"model.{name}": p for name, p in model.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in state.items():
            tensors[f"optimizer.{index}.{name}"] = value
    try:
        save_tensors(tensors, out / STATE, {"step": str(step)})
    except OSError as error:
        kept = (out / STATE).is_file()
        rest = f"the state of step {_step(out)} is still there" if kept else "there is none yet"
        raise OSError(f"the state of step {step} could not be saved, {rest}: {error}") from error


def load_state(out: Path, model: BudgetFormer, optimizer: torch.optim.Optimizer) -> int:
    """Restore model and optimiser; return the step.

    Raises:
        ValueError: if the file is damaged or of another shape.
    """
    try:
        with safe_open(out / STATE, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            step = int(file.metadata()["step"])
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(
            f"{out / STATE} is damaged ({error}); delete it to start this training over"
        ) from error
    model.load_state_dict(
        {name[len("model.") :]: t for name, t in tensors.items() if name.startswith("model.")}
    )
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, field = name.split(".")
            state.setdefault(int(index), {})[field] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    return step


def _step(out: Path) -> int:
    with safe_open(out / STATE, framework="pt") as file:
        return int(file.metadata()["step"])

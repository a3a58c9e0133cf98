"""What the app keeps in memory between reruns. The only cache decorators are here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from budgetformer.attribution import Attribution
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.trace import Trace

CHECKPOINTS = Path(__file__).resolve().parent.parent / "checkpoints"


def model_names() -> list[str]:
    """List the folders that say they hold a model, in alphabetical order."""
    return sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))


def checkpoint(name: str) -> Checkpoint:
    """Read a model, or take it from memory if its files have not changed.

    Raises:
        ValueError: if a file is missing or damaged.
    """
    return _checkpoint(CHECKPOINTS / name, _stamp(CHECKPOINTS / name))


def attribution(model: Checkpoint, trace: Trace) -> Attribution:
    """Attribute the predicted class's logit to the words, or take the result from memory."""
    assert model.path is not None  # it comes from checkpoint()
    return _attribution(model.path, _stamp(model.path), trace.texts, model, trace)


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of each file: they change when the content does.

    Reading the weights to hash them would take longer than the prediction.
    """
    files = [path for path in sorted(folder.glob("*")) if path.suffix in (".json", ".safetensors")]
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)


@st.cache_resource(max_entries=4, show_spinner=False)
def _checkpoint(folder: Path, stamp: tuple[tuple[str, int, int], ...]) -> Checkpoint:
    from budgetformer.checkpoint import Checkpoint

    return Checkpoint.from_pretrained(folder)


@st.cache_data(max_entries=256, show_spinner=False)
def _attribution(
    folder: Path,
    stamp: tuple[tuple[str, int, int], ...],
    texts: tuple[str, ...],
    _model: Checkpoint,
    _trace: Trace,
) -> Attribution:
    from budgetformer.attribution import integrated_gradients

    return integrated_gradients(_model, _trace)

"""What the app keeps in memory between reruns. The only cache decorators are here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from budgetformer.attribution import Attribution
    from budgetformer.attribution_heads import HeadAttribution
    from budgetformer.attribution_targets import Target
    from budgetformer.audit import Audit
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.comparison import PairTimes
    from budgetformer.stopwatch import Stopwatch
    from budgetformer.text_sweep import TextSweep
    from budgetformer.trace import Trace

Stamp = tuple[tuple[str, int, int], ...]
InputKey = tuple[Path, Stamp, tuple[str, ...], tuple[tuple[int, ...], ...]]

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


def attribution(
    model: Checkpoint, trace: Trace, target: Target | None = None, method: str = "integrated"
) -> Attribution:
    """Attribute a target to the words, or take the result from memory.

    Args:
        model: from checkpoint().
        trace: what to explain.
        target: the predicted class's logit when None.
        method: "integrated" or "gradient", the two that are quick.
    """
    return _attribution(input_key(model, trace), target, method, model, trace)


def head_attribution(model: Checkpoint, trace: Trace, target: Target) -> HeadAttribution:
    """Attribute a target to the heads that ran, or take the result from memory."""
    return _head_attribution(input_key(model, trace), target, model, trace)


def input_key(model: Checkpoint, trace: Trace) -> InputKey:
    """Return what tells one model's run on one input, with its heads, from another."""
    assert model.path is not None  # it comes from checkpoint()
    heads = tuple(layer.heads for layer in trace.layers)
    return model.path, _stamp(model.path), trace.texts, heads


def audit(model: Checkpoint, trace: Trace) -> Audit:
    """Check what a text's run computed, or take the result from memory."""
    return _audit(input_key(model, trace), model, trace)


def stopwatch(model: Checkpoint, trace: Trace) -> Stopwatch:
    """Time a text, or take the times from memory."""
    return _stopwatch(input_key(model, trace), model, trace)


def text_sweep(model: Checkpoint, trace: Trace) -> TextSweep:
    """Run a text at every number of heads, or take the result from memory."""
    return _text_sweep(input_key(model, trace), model, trace)


def times(
    model: Checkpoint, trace: Trace, other_model: Checkpoint, other_trace: Trace
) -> PairTimes:
    """Time two predictions in turns, or take the times from memory."""
    first, second = (model, trace), (other_model, other_trace)
    return _times((input_key(*first), input_key(*second)), first, second)


def _stamp(folder: Path) -> Stamp:
    """Name, size and time of each file: they change when the content does.

    Reading the weights to hash them would take longer than the prediction.
    """
    files = [path for path in sorted(folder.glob("*")) if path.suffix in (".json", ".safetensors")]
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)


@st.cache_resource(max_entries=4, show_spinner=False)
def _checkpoint(folder: Path, stamp: Stamp) -> Checkpoint:
    from budgetformer.checkpoint import Checkpoint

    return Checkpoint.from_pretrained(folder)


@st.cache_data(max_entries=256, show_spinner=False)
def _attribution(
    key: InputKey, target: Target | None, method: str, _model: Checkpoint, _trace: Trace
) -> Attribution:
    from budgetformer.attribution import gradient_x_input, integrated_gradients

    attribute = gradient_x_input if method == "gradient" else integrated_gradients
    return attribute(_model, _trace, target)


@st.cache_data(max_entries=256, show_spinner=False)
def _head_attribution(
    key: InputKey, target: Target, _model: Checkpoint, _trace: Trace
) -> HeadAttribution:
    from budgetformer.attribution_heads import head_contributions

    return head_contributions(_model, _trace, target)


@st.cache_data(max_entries=256, show_spinner="Measuring …")
def _stopwatch(key: InputKey, _model: Checkpoint, _trace: Trace) -> Stopwatch:
    from budgetformer.stopwatch import stopwatch

    return stopwatch(_model, _trace)


@st.cache_data(max_entries=256, show_spinner=False)
def _text_sweep(key: InputKey, _model: Checkpoint, _trace: Trace) -> TextSweep:
    from budgetformer.text_sweep import text_sweep

    return text_sweep(_model, _trace)


@st.cache_data(max_entries=256, show_spinner=False)
def _times(
    keys: tuple[InputKey, InputKey],
    _first: tuple[Checkpoint, Trace],
    _second: tuple[Checkpoint, Trace],
) -> PairTimes:
    from budgetformer.comparison import time_pair

    return time_pair(_first, _second)


@st.cache_data(max_entries=256, show_spinner=False)
def _audit(key: InputKey, _model: Checkpoint, _trace: Trace) -> Audit:
    from budgetformer.audit import audit

    text, pair = (*_trace.texts, None)[:2]
    assert text is not None
    return audit(_model, text, pair)

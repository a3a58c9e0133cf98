"""What the app has computed for a text and keeps in memory between reruns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from app import loaders

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

InputKey = tuple[Path, loaders.Stamp, tuple[str, ...], tuple[tuple[int, ...], ...]]


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


def input_key(model: Checkpoint, trace: Trace) -> InputKey:
    """Return what tells one model's run on one input, with its heads, from another."""
    heads = tuple(layer.heads for layer in trace.layers)
    return *loaders.model_key(model), trace.texts, heads


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
    from budgetformer.trace import held_heads

    text, pair = (*_trace.texts, None)[:2]
    assert text is not None
    return audit(_model, text, pair, held_heads(_trace))

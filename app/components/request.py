"""Slow things are done when somebody asks for them, and then stay until the question changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

from app import errors
from app.layout import slot
from budgetformer.progress import Progress

Result = TypeVar("Result")


@slot()
def on_request(
    key: str, question: object, label: str, compute: Callable[[Progress], Result], help: str
) -> Result | None:
    """Draw a button; once it is pressed, compute with a progress bar, and return the result.

    Args:
        key: of the button; the session keeps one result under it.
        question: what the result depends on. Where it is another one, the button comes back.
        label: of the button, without words of users: it is markdown.
        compute: is given a function to report progress to.
        help: what it does and how long that takes.
    """
    held = st.session_state.get(f"{key}_result")
    if held is not None and held[0] == question:
        return held[1]
    place = st.empty()
    if not place.button(label, key=key, icon=":material/play_arrow:", help=help):
        return None
    bar = place.progress(0.0, "Working …")
    with errors.panel("This could not be computed"):
        result = compute(lambda done, total: _show(bar, done, total))
        st.session_state[f"{key}_result"] = (question, result)
        place.empty()
        return result
    place.empty()
    return None


def _show(bar: st.delta_generator.DeltaGenerator, done: int, total: int) -> None:
    bar.progress(min(1.0, done / total), f"{done:,} of {total:,} runs of the model")

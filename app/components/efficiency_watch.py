"""The button that starts a measurement, and the bar that shows how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from app import errors
from app.components import efficiency_job
from app.components.efficiency_job import Job

EVERY_S = 1.0


def measuring(
    key: str,
    label: str,
    help: str,
    arguments: Sequence[str],
    use: Callable[[dict[str, Any]], None],
    files: dict[str, str] | None = None,
) -> None:
    """Draw the button; while its process runs, a bar; at the end, the page again with the result.

    Args:
        key: prefix of the keys; the session keeps the process under it.
        label: of the button.
        help: what it does and how long that takes.
        arguments: of `python -m budgetformer`.
        use: is given what the process found, and keeps it.
        files: what the process finds in its folder.
    """
    slot, failure = f"{key}_job", f"{key}_failure"

    def begin() -> None:
        st.session_state.pop(failure, None)
        job = efficiency_job.start(arguments, files)
        if job is None:
            st.session_state[failure] = (
                "Somebody else is measuring right now, and two at once would disturb each other. "
                "Try again in a minute."
            )
        else:
            st.session_state[slot] = job, use

    running = st.session_state.get(slot)
    if running is not None:
        st.fragment(_watch, run_every=EVERY_S)(slot, failure)
        return
    if failure in st.session_state:
        errors.show("That could not be measured", st.session_state[failure])
    st.button(label, key=f"{key}_start", icon=":material/timer:", on_click=begin, help=help)


def _watch(slot: str, failure: str) -> None:
    held: tuple[Job, Callable[[dict[str, Any]], None]] | None = st.session_state.get(slot)
    if held is None:
        return
    job, use = held
    if job.running:
        st.progress(job.progress, "Measuring in a process of its own; you can go on meanwhile.")
        if st.button("Stop", key=f"{slot}_stop", icon=":material/stop:"):
            job.stop()
            del st.session_state[slot]
            st.rerun()
        return
    del st.session_state[slot]
    try:
        use(job.result())
    except ValueError as error:
        st.session_state[failure] = str(error)
    st.rerun()

"""New models: an uploaded archive, or one of the Hub."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import errors, loaders
from app.components import model_actions, model_list
from budgetformer.archive import CARD, MOST_ARCHIVE, MOST_BYTES, MOST_FILES, MOST_UNPACKED, NEEDED
from budgetformer.library import free_name, suggested_name, valid_name

COUNTER = "models_uploads"
KEEP, REPLACE = "keep", "replace"


def upload() -> None:
    """Draw the upload; what is refused says why and leaves nothing behind."""
    st.subheader("Upload a model", help=_limits())
    # A new key is the only way to empty the widget after a model was taken in.
    number = st.session_state.setdefault(COUNTER, 0)
    file = st.file_uploader(
        "A model's folder as a zip archive, such as a download from this page",
        type="zip",
        key=f"models_upload_{number}",
    )
    if file is None:
        return
    suggested = suggested_name(file.name.removesuffix(".zip"))
    name = st.text_input("Name", suggested, key=f"models_name_{file.file_id}", max_chars=60)
    with errors.panel("That name cannot be used"):
        name = valid_name(name)
        name, replace = _on_collision(name, file.file_id)
        if st.button("Check and add", key="models_add", type="primary", icon=":material/add:"):
            _receive(file, name, replace)


def from_hub() -> None:
    """Draw the way to a model of the Hub."""
    st.subheader(
        "Open a model of the Hub",
        help="A public model on huggingface.co that was trained with this project. It is "
        "downloaded, checked like an upload and kept, so it works without a network afterwards. "
        "Fetching it again brings its newest version.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        hub_id = st.text_input(
            "Its name",
            key="models_hub_id",
            placeholder="user/name or user/name@revision",
            max_chars=200,
            persist_state="session",
        )
        pressed = st.button("Fetch", key="models_fetch", icon=":material/cloud_download:")
    if not pressed:
        return
    if not hub_id:
        st.info("Type the name of a model, such as user/name.", icon=":material/edit:")
        return
    with errors.panel("This model was not fetched"):
        with st.spinner("Downloading and checking …"):
            from budgetformer.hub import fetch

            name = fetch(loaders.library(), hub_id)
        _arrived(name, f"{name} is here now.")


def _on_collision(name: str, file_id: str) -> tuple[str, bool]:
    """Ask what to do where a model has the name already; return name and whether to replace."""
    library = loaders.library()
    if not library.is_taken(name):
        return name, False
    free = free_name(library.uploaded, name)
    words = {KEEP: "Keep both", REPLACE: "Replace the old one; this can be undone"}
    st.text(f"models/{name} is there already. If you keep both, the new one is models/{free}.")
    choice = st.radio(
        "What to do",
        list(words),
        format_func=words.__getitem__,
        key=f"models_collision_{file_id}",
        label_visibility="collapsed",
    )
    return (name, True) if choice == REPLACE else (free, False)


def _receive(file: Any, name: str, replace: bool) -> None:
    with errors.panel("This model was not added"):
        with st.spinner("Checking …"):
            from budgetformer.upload import receive

            added = receive(loaders.library(), file, name, replace)
        st.session_state[COUNTER] += 1
        if added.replaced is not None:
            model_actions.keep_undo(added.replaced)
        left_out = ", ".join(added.left_out)
        note = f" Left out, since no model needs it: {left_out}." if left_out else ""
        _arrived(added.name, f"{added.name} was checked and added.{note}")


def _arrived(name: str, notice: str) -> None:
    """Show a new model."""
    st.session_state[model_actions.NOTICE] = notice
    # The widget is drawn already; its value is set where the next run begins.
    st.session_state[model_list.ARRIVED] = name
    st.rerun()


def _limits() -> str:
    sizes = ", ".join(f"{most // 2**20} MB for {ending}" for ending, most in MOST_BYTES.items())
    return (
        f"At most {MOST_ARCHIVE // 2**20} MB, {MOST_UNPACKED // 2**20} MB unpacked ({sizes}) and "
        f"{MOST_FILES} files in one folder. It needs {', '.join(NEEDED)}; besides, .json files and "
        f"{CARD} may be in it. Everything is checked before it is used: shapes against weights, "
        "numbers, vocabulary, labels, and one text to classify."
    )

"""What can be done with a model: use, compare, download, rename, delete, and undo."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import errors, loaders, state
from app.layout import slot
from budgetformer.archive import FILES, pack
from budgetformer.library import Deleted
from budgetformer.model_facts import Facts

DELETED, NOTICE, PROBLEM = "models_deleted", "models_notice", "models_problem"


@slot()
def notices() -> None:
    """Draw what the last action did, why it failed, and the way back from a deletion."""
    problem = st.session_state.pop(PROBLEM, None)
    if problem:
        errors.show(*problem)
    notice = st.session_state.pop(NOTICE, None)
    if notice:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(":green[:material/check:]", width="content")
            st.text(notice)
    deleted: Deleted | None = st.session_state.get(DELETED)
    if deleted is None:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.text(f"{deleted.entry.name} is in the trash.")
        st.button(
            "Undo", key="models_undo", icon=":material/undo:", on_click=_undo,
            help="Brings it back. Possible until you delete another model or leave, for a day at "
            "most.",
        )  # fmt: skip


def section(facts: Facts, names: Sequence[str]) -> None:
    """Draw the buttons for one model."""
    entry = facts.entry
    is_current = entry.name == state.current_model(names)
    st.button(
        "The pages open with this model" if is_current else "Use on the other pages",
        key="models_use",
        icon=":material/check_circle:",
        type="primary",
        disabled=is_current or bool(facts.problem),
        help="Every page opens with it then: only for you, until you close the browser tab.",
        on_click=state.set_current_model,
        args=(entry.name,),
        width="stretch",
    )
    _compare(entry.name, names, bool(facts.problem))
    leaf = entry.folder.name
    st.download_button(
        "Download as zip",
        # Made when it is asked for, not each time the page is drawn.
        lambda: pack(entry.folder, leaf),
        file_name=f"{leaf}.zip",
        mime="application/zip",
        key="models_download",
        icon=":material/download:",
        on_click="ignore",
        help=f"Holds {', '.join(FILES)}, as far as they are there. It can be uploaded again.",
        width="stretch",
    )
    with st.container(horizontal=True):
        if entry.renamable:
            _rename(entry.name)
        if entry.own:
            st.button(
                "Delete", key="models_delete", icon=":material/delete:", on_click=_delete,
                args=(entry.name,), help="Moves it into the trash; the next thing you see is Undo.",
            )  # fmt: skip
    if not entry.own:
        st.html(
            '<p class="bf-small">A shipped model stays as it is: no other name, no deletion.</p>'
        )


def keep_undo(deleted: Deleted) -> None:
    """Offer to bring this one back; the one before it goes for good."""
    before: Deleted | None = st.session_state.get(DELETED)
    if before is not None:
        loaders.library().forget(before)
    st.session_state[DELETED] = deleted


def follow(old: str, new: str) -> None:
    """Let this visitor's pages stay with a model that has another name now."""
    for key, value in list(st.session_state.items()):
        # What was written into an address stays known as it was written.
        if value == old and "model" in str(key) and not str(key).endswith("_in_url"):
            st.session_state[key] = new


def _compare(name: str, names: Sequence[str], damaged: bool) -> None:
    others = [other for other in names if other != name]
    if not others:
        return
    # The likeliest wish is the twin that runs all heads, or whose twin this one is.
    twins = (f"{name}-dense", name.removesuffix("-dense"), state.current_model(names))
    wanted = next((twin for twin in twins if twin in others), others[0])
    # Another model, another choice; what is chosen for one stays with it.
    key = f"{state.MODELS_OTHER}_{name}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        other = st.selectbox(
            "Compare with", others, index=others.index(wanted), key=key, persist_state="session"
        )
        if st.button(
            "Compare", key="models_compare", icon=":material/compare_arrows:", disabled=damaged,
            on_click=_hand_over, args=(name, other),
            help="Opens the page Compare with one text under these two models.",
        ):  # fmt: skip
            st.switch_page("../pages/compare.py")


def _hand_over(name: str, other: str) -> None:
    st.session_state[state.COMPARE_BY] = "models"
    st.session_state[state.COMPARE_MODEL] = name
    st.session_state[state.COMPARE_MODEL_B] = other


def _rename(name: str) -> None:
    with st.popover("Rename", icon=":material/edit:", key="models_rename_box"):
        new = st.text_input(
            "New name", name.partition("/")[2], key=f"models_new_name_{name}", max_chars=60
        )
        st.button("Rename", key="models_rename", on_click=_renamed, args=(name, new))


def _renamed(name: str, new: str) -> None:
    try:
        renamed = loaders.library().rename(name, new)
    except ValueError as error:
        st.session_state[PROBLEM] = ("The model keeps its name", str(error))
        return
    follow(name, renamed)
    st.session_state[NOTICE] = f"{name} is called {renamed} now."


def _delete(name: str) -> None:
    try:
        keep_undo(loaders.library().delete(name))
    except ValueError as error:
        st.session_state[PROBLEM] = ("Nothing was deleted", str(error))
        return
    if st.session_state.get(state.CURRENT_MODEL) == name:
        del st.session_state[state.CURRENT_MODEL]
    st.session_state[state.MODELS_MODEL] = None


def _undo() -> None:
    deleted: Deleted = st.session_state.pop(DELETED)
    try:
        name = loaders.library().restore(deleted)
    except ValueError as error:
        st.session_state[PROBLEM] = ("The model is not back", str(error))
        return
    st.session_state[state.MODELS_MODEL] = name
    st.session_state[NOTICE] = f"{name} is back."

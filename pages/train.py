"""Train: start a training, watch its budget being learned, compare trainings."""

from __future__ import annotations

import streamlit as st

from app import errors, state
from app.components import train_compare, train_form, train_watch

PARTS = {
    "start": ("Start one", train_form.section),
    "watch": ("Watch", train_watch.section),
    "compare": ("Compare", train_compare.section),
}

st.markdown(
    "Train a model of your own and watch it learn **how many** heads each text needs. A training "
    "runs beside the app: it goes on when you close the page, and survives a crash."
)
train_form.show_started()
state.read_url(state.TRAIN_PART, "start")
if st.session_state[state.TRAIN_PART] not in PARTS:
    st.session_state[state.TRAIN_PART] = "start"
part = st.segmented_control(
    "Part of the page",
    list(PARTS),
    format_func=lambda name: PARTS[name][0],
    key=state.TRAIN_PART,
    required=True,
    label_visibility="collapsed",
    persist_state="session",
)
state.write_url(state.TRAIN_PART, "start")
with errors.panel("This part could not be drawn"):
    PARTS[part or "start"][1]()

"""Train: start a training, watch its budget being learned, compare trainings."""

from __future__ import annotations

import streamlit as st

from app import errors, state
from app.components import choice, train_compare, train_form, train_watch

PARTS = {
    "start": ("Start one", train_form.section),
    "watch": ("Watch", train_watch.section),
    "compare": ("Compare", train_compare.section),
}
NAMES = {part: name for part, (name, _) in PARTS.items()}

st.markdown(
    "Train a model of your own and watch it learn **how many** heads each text needs. A training "
    "runs beside the app: it goes on when you close the page, and survives a crash."
)
train_form.show_started()
part = choice.in_address("Part of the page", NAMES, state.TRAIN_PART, "collapsed")
with errors.panel("This part could not be drawn"):
    PARTS[part][1]()

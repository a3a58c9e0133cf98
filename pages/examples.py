"""Examples: a whole data set at once, and what the model spends on each of its texts."""

from __future__ import annotations

import dataclasses

import streamlit as st

from app import errors, state
from app.components import (
    examples_company,
    examples_filter,
    examples_map,
    examples_own,
    examples_slices,
    examples_table,
    examples_verdict,
    models,
    records,
)
from budgetformer.checkpoint import Checkpoint
from budgetformer.slices import mask_of

KEY = "examples"


# What is chosen here redraws this part alone.
@st.fragment
def look(model: Checkpoint, picked: records.Picked) -> None:
    # Picks first: all that follows shows them.
    examples_map.take_pick(picked, KEY)
    examples_slices.take_cell(picked, KEY)
    examples_table.take_row(picked, KEY)
    st.subheader(
        "The map",
        help="Each point is one text. Where the cloud rises to the right, the model gives more "
        "heads to what is harder for it.",
    )
    left, right = st.columns([2, 1], gap="medium")
    with right, errors.panel("These conditions cannot be used"):
        wanted = examples_filter.conditions(picked, KEY)
        # The map shows what fits everything but the pick on it.
        inside = mask_of(picked.scored, dataclasses.replace(wanted, picked=None))
        mask = mask_of(picked.scored, wanted)
        st.markdown(f"**{int(mask.sum()):,}** of {len(mask):,} examples are in the slice.")
    with left, errors.panel("The map could not be drawn"):
        examples_map.section(picked, inside, KEY)
    with errors.panel("The slices could not be compared"):
        examples_slices.section(picked, wanted, mask, KEY)
    with errors.panel("The examples could not be shown"):
        examples_table.section(model, picked, mask, KEY)
    others = dataclasses.replace(wanted, gold=None, predicted=None)
    below, beside = st.columns(2, gap="large")
    with below, errors.panel("The classes could not be counted"):
        examples_slices.classes(picked, mask_of(picked.scored, others), KEY)
    with beside, errors.panel("The check could not be run"):
        examples_company.section(model, picked, mask, KEY)


st.markdown(
    "Every example of a data set, scored once: how hard each text is for the model, how many heads "
    "it gets, and where the two do not fit. Draw, search or filter to make a **slice**, compare it "
    "with the rest, and read its texts."
)
model = models.pick_model(state.EXAMPLES_MODEL)
if model is None:
    st.stop()
picked = records.pick(model, state.EXAMPLES_SET)
examples_own.section(model, f"{KEY}_own")
if picked is None:
    st.stop()

with errors.panel("The verdict could not be computed"):
    examples_verdict.section(model, picked, KEY)
look(model, picked)

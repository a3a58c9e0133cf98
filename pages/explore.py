"""Explore: one text, and everything that the model decides about it."""

from __future__ import annotations

import streamlit as st

from app import errors, state
from app.components import (
    attention,
    choice,
    examples,
    heads,
    meter,
    models,
    operating_point,
    prediction,
    router,
    tokens,
    what_if,
    why,
)
from app.layout import slot
from budgetformer.checkpoint import Checkpoint
from budgetformer.trace import Trace, predict

PARTS = {"see": "See", "what-if": "What if", "why": "Why"}


# What is chosen in a part redraws that part alone.
@st.fragment
def see(model: Checkpoint, trace: Trace) -> None:
    with errors.panel("This part could not be drawn"):
        picked = attention.picked_head(trace, "explore")
        heads.budgets_and_heads(model.config, trace, "explore", picked)
        with slot():
            if model.config.routed:
                st.space("small")
                router.section(model, trace)
        st.space("small")
        attention.section(model, trace, "explore", picked)
        st.space("small")
        meter.section(model, trace, "explore")
        st.space("small")
        tokens.section(model, trace)


st.markdown(
    "A BudgetFormer decides for each text **how many** of its attention heads to run in each "
    "layer, and **which**, and skips the others. Give it a text and look at what it decides."
)
operating_point.read()
model = models.pick_model(state.EXPLORE_MODEL)
text, pair = examples.text_input(model)
if model is None:
    st.stop()

operating_point.notice([model], "explore")
trace: Trace | None = None
if not text.strip() or (pair is not None and not pair.strip()):
    what = "a text" if pair is None else "both texts"
    st.info(f"Type {what} above, or pick an example.", icon=":material/edit:")
else:
    with errors.panel("The model found nothing to read"):
        trace = predict(model, text, pair, operating_point.policy(model.config))
if trace is None:
    st.stop()

tokens.notices(trace)
prediction.cards(model, trace)

part = choice.in_address("Part of the page", PARTS, state.EXPLORE_PART, "collapsed")
# Only the part that is looked at is computed.
if part == "see":
    see(model, trace)
elif part == "what-if":
    what_if.section(model, trace, "explore_if")
else:
    why.section(model, trace, "explore")

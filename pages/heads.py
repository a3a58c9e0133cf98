"""Heads: a data set seen from the heads, which run, which matter, and what else could be run."""

from __future__ import annotations

import streamlit as st

from app import errors, state
from app.components import (
    choice,
    economy,
    economy_head,
    economy_importance,
    economy_models,
    economy_policies,
    economy_projection,
    economy_slice,
    models,
    operating_point,
    records,
)
from app.layout import slot

PARTS = {
    "use": "Which run",
    "importance": "Which matter",
    "head": "One head",
    "read": "What routers read",
    "policies": "Other policies",
    "models": "Two models",
}

st.markdown(
    "One text runs a few heads; a whole data set shows which of them the model lives on. Here the "
    "heads of all scored texts are counted, taken out, looked into and spent otherwise."
)
model = models.pick_model(state.HEADS_MODEL)
if model is None:
    st.stop()
left, right = st.columns(2, gap="medium")
with left:
    picked = records.pick(model, state.HEADS_SET, "on the page Examples")
if picked is None:
    st.stop()
with right:
    part = economy_slice.pick(model, picked)
config = model.config
with slot():
    if not config.routed:
        st.info(
            f"This model has no router: all {config.n_heads} heads of each layer run for every "
            "text, so there is no choice to look at. What heads do can be measured all the same.",
            icon=":material/info:",
        )
    elif operating_point.limit(config) is not None:
        st.caption(
            "The limit on heads that you set on Efficiency does not count here: this page looks at "
            "what the model chooses by itself."
        )

shown = choice.in_address("Part of the page", PARTS, state.HEADS_PART, "collapsed", wrap=True)
head = economy.picked_head(part)
# Only the part that is looked at is computed.
with errors.panel("This part could not be drawn"):
    if shown == "use":
        economy.section(part, head)
    elif shown == "importance":
        economy_importance.section(part)
    elif shown == "head":
        economy_head.section(part, head)
    elif shown == "read":
        economy_projection.section(part)
    elif shown == "policies":
        economy_policies.section(part)
    else:
        economy_models.section(part)

"""Efficiency: what accuracy costs, where to stop, and what that takes on a machine."""

from __future__ import annotations

import streamlit as st

from app import errors, loaders, state
from app.components import (
    calculator,
    efficiency,
    efficiency_limit,
    efficiency_measured,
    models,
    operating_point,
)

st.markdown(
    "What do the heads buy, and what do they cost? Here a model is measured with its own choice of "
    "heads, with fewer, with others, and against its twin that runs all of them."
)
model = models.pick_model(state.EFFICIENCY_MODEL)
if model is None:
    st.stop()
sweeps = efficiency.sweeps()
sweep = sweeps.get(loaders.name_of(model))

with errors.panel("The curve could not be drawn"):
    if sweep is None:
        operating_point.read()
        efficiency.missing(model)
    else:
        efficiency.clicked(sweep)
        operating_point.read()
        efficiency.section(sweep, sweeps)
        st.space("small")
        efficiency_limit.section(sweep)
st.space("small")
with errors.panel("The measurements could not be shown"):
    efficiency_measured.section(model)
st.space("small")
with errors.panel("This cannot be calculated"):
    calculator.section(model)

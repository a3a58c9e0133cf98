"""Models: all that are here, what each of them is, and new ones."""

from __future__ import annotations

import streamlit as st

from app import errors
from app.components import model_actions, model_add, model_details, model_list

st.markdown(
    "Every model that the pages can use: those that came with the app, those trained here, and "
    "those you bring. Look at one, set it as the model that the pages open with, or put two side "
    "by side."
)
model_actions.notices()
models = model_list.read_all()
if not models:
    st.info("There is no model yet. Upload one, or fetch one from the Hub.", icon=":material/info:")
else:
    model_list.overview(models)
    st.space("small")
    names = [facts.entry.name for facts in models]
    left, right = st.columns([3, 2], gap="large")
    with left:
        name = model_list.pick(names)
        facts = models[names.index(name)]
        model_details.facts_table(facts)
    with right:
        model_actions.section(facts, names)
    with errors.panel("The figures could not be shown"):
        model_details.figures(facts)
    model_details.card(facts)

st.space("medium")
left, right = st.columns(2, gap="large")
with left, errors.panel("The upload could not be drawn"):
    model_add.upload()
with right, errors.panel("The Hub could not be asked"):
    model_add.from_hub()
st.html(
    '<p class="bf-small">Whoever can open this app can add models, and rename or delete those that '
    "were not shipped with it.</p>"
)

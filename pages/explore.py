"""Explore: one text, and everything that the model decides about it."""

from __future__ import annotations

import streamlit as st

from app import errors, loaders, state
from app.components import examples, heads, models, prediction, tokens, words
from budgetformer.trace import Trace, predict

st.markdown(
    "A BudgetFormer decides for each text **how many** of its attention heads to run in each "
    "layer, and **which**, and skips the others. Give it a text and look at what it decides."
)

model = models.pick_model(state.EXPLORE_MODEL)
text, pair = examples.text_input(model.config.n_segments if model else 1)
if model is None:
    st.stop()

trace: Trace | None = None
if not text.strip() or (pair is not None and not pair.strip()):
    what = "a text" if pair is None else "both texts"
    st.info(f"Type {what} above, or pick an example.", icon=":material/edit:")
else:
    with errors.panel("The model found nothing to read"):
        trace = predict(model, text, pair)
if trace is None:
    st.stop()

tokens.notices(trace)
prediction.cards(model, trace)
heads.budgets_and_heads(model.config, trace, "explore")

st.subheader(
    "Which words the answer hangs on",
    help="Integrated gradients: the model's score is followed from a text in which every word is "
    "masked to yours, and each word gets its share of the change. It says what moved the score, "
    "not why.",
)
# The slowest part comes last, into a place kept for it, so that nothing waits for it.
words_place = st.container()
st.space("small")

with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
    st.subheader(
        "What the model read",
        help="Tokens: the pieces of words that the model knows. A long or rare word is read in "
        "several; “##” marks a piece inside a word.",
        width="content",
    )
    show_special = st.toggle(
        "Show special tokens",
        value=True,
        key=state.EXPLORE_SHOW_SPECIAL,
        help="[CLS] and [SEP] are put round every text. They count, and the model reads them.",
        persist_state="session",
    )
st.markdown(
    f"**{len(trace.encoding.ids)} of {model.config.max_len}** tokens. Joined pieces belong to one "
    "word."
)
tokens.strip(trace, show_special)

with words_place, st.spinner("Finding the words that count …"):
    words.coloured_words(trace, loaders.attribution(model, trace))

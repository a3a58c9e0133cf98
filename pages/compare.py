"""Compare: two texts under one model, or one text under two models."""

from __future__ import annotations

import streamlit as st

from app.components import compare, compare_heads, tokens

st.markdown(
    "Put two runs side by side: what they answer, how many heads they ask for and run, which they "
    "share, and what that costs."
)
sides = compare.pick()
if sides is None:
    st.stop()
a, b = sides

for side in sides:
    tokens.notices(side.trace)
st.space("small")
compare.what_differs(a, b)
st.space("small")
compare_heads.budgets_and_heads(a, b)
st.space("small")

st.subheader(
    "Which words the answer hangs on",
    help="Integrated gradients, as on the page Explore. Both sides explain A's answer, so that the "
    "colours mean the same, unless B does not know that class. Heads are held at those that run.",
)
compare.words_side_by_side(a, b)

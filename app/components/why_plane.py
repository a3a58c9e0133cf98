"""Words on two axes: the class, and the budget."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from app import computed
from app.components.why_target import name
from budgetformer.attribution_targets import Target
from budgetformer.checkpoint import Checkpoint
from budgetformer.figures.word_plane import leanings, word_plane, word_plane_alt
from budgetformer.trace import Trace


def class_against_budget(model: Checkpoint, trace: Trace, target: Target, key: str) -> None:
    """Draw each word by what it does to the class and what to the mean budget.

    Args:
        model: a model whose budget hangs on the text.
        trace: its own prediction.
        target: whose class is on the x axis; the answer where it is no class.
        key: prefix of the chart's.
    """
    if target.kind not in ("logit", "contrast"):
        target = Target.logit(trace.label)
    st.subheader(
        "The answer and the budget, word by word",
        help="Both are integrated gradients from the masked text to yours, heads held at those "
        "that run. A word far to a side moves the answer, one far up or down the number of heads "
        "that the layers ask for.",
    )
    with st.spinner("Placing the words …"):
        by_class = computed.attribution(model, trace, target).word_values
        by_budget = computed.attribution(model, trace, Target.mean_budget()).word_values
    typed = [trace.texts[word.segment][word.start : word.end] for word in trace.words]
    class_name = target.name if target.kind == "contrast" else str(target.label)
    st.html(
        '<p class="bf-small">Across: what a word does to the '
        f"{html.escape(name(target))}. Upwards: what it does to the mean budget s. Words near the "
        "middle do little to either; the strongest carry their name.</p>"
    )
    st.plotly_chart(
        word_plane(typed, by_class, by_budget, class_name),
        key=f"{key}_word_plane",
        config={"displayModeBar": False},
        alt=word_plane_alt(typed, by_class, by_budget, class_name),
    )
    to_class, to_budget = leanings(typed, by_class, by_budget)
    st.html(
        f'<p class="bf-small">Moves the answer rather than the budget: {_quoted(to_class)}.<br>'
        f"Moves the budget rather than the answer: {_quoted(to_budget)}.</p>"
    )


def _quoted(typed: Sequence[str]) -> str:
    return ", ".join(f"“<b>{html.escape(word)}</b>”" for word in typed) or "no word"

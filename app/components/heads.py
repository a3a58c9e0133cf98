"""How many heads and which: the budget bars and the head grid."""

from __future__ import annotations

import streamlit as st

from budgetformer.config import ModelConfig
from budgetformer.figures.budgets import budget_bars, budget_bars_alt
from budgetformer.figures.heads import MOST_HEADS_WITH_TEXT, head_grid, head_grid_alt
from budgetformer.trace import Trace

ROUNDED = {"floor": "rounded down", "nearest": "rounded", "ceil": "rounded up"}
PLAIN_CHART = {"displayModeBar": False}


def budgets_and_heads(config: ModelConfig, trace: Trace, key: str) -> None:
    """Draw both charts side by side; for a dense model, say why there are none."""
    if not config.routed:
        st.subheader("How many heads, and which")
        st.info(
            "This model has no router: nothing is decided for each text, and all "
            f"{config.n_heads} heads of each layer run. Pick a model that chooses its heads to see "
            "budgets and the head grid.",
            icon=":material/info:",
        )
        return
    budgets = [layer.budget for layer in trace.layers]
    executed = [layer.k for layer in trace.layers]
    probabilities = [layer.head_probabilities for layer in trace.layers]
    heads = [layer.heads for layer in trace.layers]
    left, right = st.columns(2, gap="medium")
    with left:
        st.subheader(
            "How many heads",
            help="Budget s: a number between 0 and 1 that a small network in each layer computes "
            "from the text. H: the heads a layer has. k: the heads it runs, max(1, s·H "
            f"{ROUNDED[config.rounding]}).",
        )
        st.markdown(
            f"Each layer asks for a share **s** of its {config.n_heads} heads (blue bar). It gets "
            f"a whole number **k** of them (orange mark): s·H {ROUNDED[config.rounding]}, but "
            "never less than one."
        )
        st.plotly_chart(
            budget_bars(budgets, executed, config.n_heads),
            key=f"{key}_budgets",
            config=PLAIN_CHART,
            alt=budget_bars_alt(budgets, executed, config.n_heads),
        )
    with right:
        st.subheader(
            "Which heads",
            help="p: the router's preference among a layer's heads, softmax(z/τ) of their scores z "
            f"with temperature τ = {config.temperature:g}. The k heads with the largest p run, "
            "each at full strength; p is not a weight.",
        )
        st.markdown(
            "Each number is the preference **p** for a head, in percent of its layer. The **k** "
            "most preferred heads run (framed, with a tick); the others are skipped."
            if config.n_heads <= MOST_HEADS_WITH_TEXT
            else "The deeper the blue, the stronger the preference **p** for a head. The **k** "
            "most preferred heads of a layer run (framed); the others are skipped."
        )
        st.plotly_chart(
            head_grid(probabilities, heads, [layer.scores for layer in trace.layers]),
            key=f"{key}_heads",
            config=PLAIN_CHART,
            alt=head_grid_alt(probabilities, heads),
        )

"""The budgets and heads of two runs, layer by layer."""

from __future__ import annotations

import streamlit as st

from app.components.compare import Side, letter
from app.components.tables import table
from app.components.words import signed
from app.layout import slot
from budgetformer.comparison import LayerDifference, layer_differences
from budgetformer.figures.comparison import (
    budget_pair,
    budget_pair_alt,
    head_pair,
    head_pair_alt,
)

PLAIN_CHART = {"displayModeBar": False}


@slot()
def budgets_and_heads(a: Side, b: Side) -> None:
    """Draw both budgets of each layer, the heads that each ran, and the overlap."""
    routed = [side.model.config.routed for side in (a, b)]
    differences = layer_differences(a.trace, b.trace)
    left, right = st.columns(2, gap="medium")
    with left:
        st.subheader("How many heads", help="Budget s: the share of its heads a layer asks for.")
        if any(routed):
            _budgets(a, b)
        else:
            st.info("No budget on either side: both run all heads.", icon=":material/info:")
    with right:
        st.subheader(
            "Which heads",
            help="Overlap is the Jaccard index: heads that ran in both, out of the heads that ran "
            "in either.",
        )
        _heads(a, b, differences)
    table(
        ("Layer", "s in A", "s in B", "Δs", "k in A", "k in B", "Δk", "Overlap"),
        [_row(i, a, b, difference) for i, difference in enumerate(differences)],
    )
    if not all(routed):
        dense = " and ".join(
            side.letter for side, has in zip((a, b), routed, strict=True) if not has
        )
        st.html(
            f'<p class="bf-small">{dense}: a dense model has no router and no budget; it runs '
            "every head on every text.</p>"
        )
    if a.model.path != b.model.path:
        st.html(
            '<p class="bf-small">Heads of two models share a number, not a job, unless one was '
            "trained on from the other: read an overlap across models with care.</p>"
        )


def _budgets(a: Side, b: Side) -> None:
    first, second = (
        [layer.budget if side.model.config.routed else None for layer in side.trace.layers]
        for side in (a, b)
    )
    st.html(
        f'<p class="bf-small">{letter(a)} is the blue dot, {letter(b)} the orange diamond, and the '
        "gray line what lies between.</p>"
    )
    st.plotly_chart(
        budget_pair(first, second),
        key="compare_budgets",
        config=PLAIN_CHART,
        alt=budget_pair_alt(first, second),
    )


def _heads(a: Side, b: Side, differences: tuple[LayerDifference, ...]) -> None:
    n_heads = a.model.config.n_heads
    if n_heads != b.model.config.n_heads:
        st.html(
            f'<p class="bf-small">A has {n_heads} heads a layer and B '
            f"{b.model.config.n_heads}: their heads cannot be put side by side.</p>"
        )
        return
    n = len(differences)
    first, second = ([layer.heads for layer in side.trace.layers[:n]] for side in (a, b))
    overlaps = [d.overlap for d in differences if d.overlap is not None]
    mean = sum(overlaps) / len(overlaps)
    st.html(
        f'<p class="bf-small">A cell for each head: {letter(a)} fills the left half where it runs '
        f"the head, {letter(b)} the right. Mean overlap <b>{mean:.0%}</b>.</p>"
    )
    st.plotly_chart(
        head_pair(first, second, n_heads),
        key="compare_heads",
        config=PLAIN_CHART,
        alt=head_pair_alt(first, second),
    )


def _row(i: int, a: Side, b: Side, difference: LayerDifference) -> tuple[str, ...]:
    layers = (a.trace.layers[i], b.trace.layers[i])
    routed = [side.model.config.routed for side in (a, b)]
    s = [
        f"{layer.budget:.3f}" if has else "none" for layer, has in zip(layers, routed, strict=True)
    ]
    change = signed(difference.budget_change, 3) if all(routed) else "none"
    overlap = "none" if difference.overlap is None else f"{difference.overlap:.0%}"
    k = [str(layer.k) for layer in layers]
    return (str(i + 1), *s, change, *k, signed(difference.k_change, 0), overlap)

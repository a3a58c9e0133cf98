"""What the routers read: the summaries of a layer's input, on two axes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app import state
from app.components import economy_slice
from app.components.downloads import chart_config, figure_menu, file_name
from app.components.economy_head import states
from app.components.economy_slice import Part, Sample
from app.components.tables import source
from budgetformer.figures.scatter import Axis, Group, looks, scatter, scatter_alt
from budgetformer.figures.style import BLUE, ORANGE
from budgetformer.projection import Projection, project

CHART = "heads_projection_chart"
KINDS = {"s": "budget s of the layer", "gold": "gold class", "right": "right or wrong"}
# Pale to deep: more budget is bluer; shapes too, since shades are close.
SHADES = (("#9cc3de", "circle"), ("#6aa7d0", "square"), ("#3f94cc", "diamond"), ("#1c6ea4", "x"))


def section(part: Part) -> None:
    """Draw the controls and the map."""
    st.subheader(
        "What a router reads",
        help="x̄: the average over a text’s tokens of what reaches the layer. The router sees "
        "nothing else of the text: s and p are computed from it. Principal components: the two "
        "directions in which these averages differ most.",
    )
    st.markdown(
        "Each text reaches a layer’s router as one list of numbers, the average **x̄** of its "
        "tokens. Here it is a point: close points look alike to the router."
    )
    layers = list(range(part.scored.source.n_layers))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        sample = economy_slice.sample(part, "Each becomes a point.")
        if sample is None:
            return
        if st.session_state.get(state.HEADS_LAYER) not in layers:
            st.session_state[state.HEADS_LAYER] = 0
        layer = st.selectbox(
            "Layer", layers, format_func=lambda i: f"Layer {i + 1}", key=state.HEADS_LAYER,
            persist_state="session", width=140,
        )  # fmt: skip
        kinds = [kind for kind in KINDS if kind != "s" or part.picked.scored.has_budgets]
        kind = st.selectbox(
            "Colour", kinds, format_func=lambda name: KINDS.get(name, name), key="heads_colour",
            persist_state="session", width=220,
            help="By s: four groups of equally many texts, from the least budget to the most.",
        )  # fmt: skip
    found = states(part, sample)
    if found is not None:
        _map(part, sample, project(found.summaries[:, layer]), int(layer), str(kind))


def _map(part: Part, sample: Sample, projection: Projection, layer: int, kind: str) -> None:
    share = [f"{part:.1%}" for part in projection.explained]
    axes = [
        Axis(f"component {i + 1} ({share[i]} of the variance)", projection.points[:, i])
        for i in (0, 1)
    ]
    groups = _groups(sample, layer, kind)
    figure = scatter(axes[0], axes[1], groups, sample.scored.rows + 1)
    alt = scatter_alt(axes[0], axes[1], groups, f"Summaries before layer {layer + 1}.")
    name = file_name("summaries", part.scored.source.model, f"layer-{layer + 1}")
    buttons = ("zoom2d", "pan2d", "resetScale2d")
    st.plotly_chart(figure, key=CHART, config=chart_config(name, CHART, buttons), alt=alt)
    total = sum(projection.explained)
    with st.container(horizontal=True, horizontal_alignment="distribute", gap="medium"):
        with st.container(width="stretch"):
            st.html(
                f'<p class="bf-small">The two axes hold <b>{total:.1%}</b> of how the summaries '
                f"differ ({share[0]} and {share[1]}); the rest cannot be seen here. Principal "
                f"components by scikit-learn, {source('measured here')} on "
                f"{len(sample.examples):,} texts.</p>"
            )
        figure_menu(figure, alt, name, CHART, lambda: _frame(sample, projection, layer))


def _groups(sample: Sample, layer: int, kind: str) -> list[Group]:
    records = sample.scored.records
    if kind == "right":
        right = records.correct
        return [
            Group("right", np.flatnonzero(right), BLUE),
            Group("wrong", np.flatnonzero(~right), ORANGE, "diamond"),
        ]
    if kind == "gold":
        labels = sample.scored.source.labels
        return [
            Group(label, np.flatnonzero(records.labels == i), colour, symbol)
            for i, (label, (colour, symbol)) in enumerate(
                zip(labels, looks(len(labels)), strict=True)
            )
        ]
    budget = records.budgets[:, layer]
    quarters = [part for part in np.array_split(np.argsort(budget, kind="stable"), 4) if len(part)]
    return [
        Group(f"s {budget[index].min():.3f} to {budget[index].max():.3f}", index, *look)
        for index, look in zip(quarters, SHADES, strict=False)
    ]


def _frame(sample: Sample, projection: Projection, layer: int) -> pd.DataFrame:
    records, labels = sample.scored.records, np.array(sample.scored.source.labels, object)
    return pd.DataFrame(
        {
            "row": sample.scored.rows + 1,
            "component_1": projection.points[:, 0],
            "component_2": projection.points[:, 1],
            "s": records.budgets[:, layer],
            "gold": labels[records.labels],
            "right": records.correct,
        }
    )

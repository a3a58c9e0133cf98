"""Accuracy of policies at the average numbers of heads that were tried."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from budgetformer.figures.scatter import looks
from budgetformer.figures.style import GRAY, ORANGE, bare_figure
from budgetformer.policy_simulator import WAYS, Simulation

HEIGHT = 420


def policy_points(
    simulations: Sequence[Simulation], shown: float, own: float, n_heads: int
) -> go.Figure:
    """Draw accuracy over the average heads a layer, with intervals; tried averages are joined.

    Args:
        simulations: all that were run on this sample.
        shown: the average that the page is at; its points are larger.
        own: the model's own average, marked by a line.
        n_heads: H.
    """
    figure = bare_figure(HEIGHT)
    # A little apart, so that intervals at the same average can be told from each other.
    shifts = [0.012 * n_heads * (i - (len(WAYS) - 1) / 2) for i in range(len(WAYS))]
    for way, shift, (colour, symbol) in zip(WAYS, shifts, looks(len(WAYS)), strict=True):
        found = [
            (outcome.mean_k, simulation.wanted, outcome)
            for simulation in simulations
            for outcome in simulation.outcomes
            if outcome.way == way
        ]
        found.sort(key=lambda one: one[:2])
        y = [100 * outcome.accuracy.value for _, _, outcome in found]
        figure.add_scatter(
            x=[mean_k + shift for mean_k, _, _ in found], y=y, mode="lines+markers", name=way,
            line={"color": colour, "width": 1.5},
            marker={
                "color": colour, "symbol": symbol,
                "size": [13 if wanted == shown else 8 for _, wanted, _ in found],
            },
            error_y={
                "type": "data", "symmetric": False, "color": colour, "thickness": 1.2, "width": 3,
                "array": [100 * o.accuracy.high - v for (_, _, o), v in zip(found, y, strict=True)],
                "arrayminus": [
                    v - 100 * o.accuracy.low for (_, _, o), v in zip(found, y, strict=True)
                ],
            },
            customdata=[mean_k for mean_k, _, _ in found],
            hovertemplate=f"{way}<br>%{{customdata:.2f}} heads a layer<br>right on %{{y:.2f}}%"
            "<extra></extra>",
        )  # fmt: skip
    figure.add_vline(x=own, line={"color": ORANGE, "width": 2, "dash": "dot"})
    figure.update_layout(
        showlegend=True, hovermode="closest",
        legend={"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"},
        margin={"l": 56, "r": 8, "t": 34, "b": 48},
    )  # fmt: skip
    figure.update_xaxes(
        title={"text": "heads a layer, on average", "standoff": 8}, ticks="",
        range=[1 - 0.05 * n_heads, 1.04 * n_heads], showgrid=True, gridcolor=GRAY,
    )  # fmt: skip
    figure.update_yaxes(
        title={"text": "right, %", "standoff": 6}, ticks="", showgrid=True, gridcolor=GRAY,
        automargin=True,
    )  # fmt: skip
    return figure


def policy_points_alt(simulations: Sequence[Simulation], shown: float) -> str:
    """Say what `policy_points` shows at the average that the page is at."""
    at = next((s for s in simulations if s.wanted == shown), None)
    if at is None:
        return f"Accuracy of {len(WAYS)} policies at {len(simulations)} averages."
    said = ", ".join(f"{o.way} {o.accuracy.value:.1%}" for o in at.outcomes)
    return f"Accuracy at {shown:.2f} heads a layer on average: {said}."

"""How often heads are chosen against what is lost without them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from budgetformer.figures.scatter import looks
from budgetformer.figures.style import GRAY, bare_figure

HEIGHT = 420


@dataclass(frozen=True)
class HeadPoint:
    """One head of the chart."""

    layer: int
    """From 0."""
    head: int
    """From 0."""
    rate: float
    """Share of the examples that ran it, in [0, 1]."""
    effect: float
    """What is lost without it."""
    low: float | None = None
    """Lower end of the effect's interval."""
    high: float | None = None
    """Upper end."""


def importance_points(points: Sequence[HeadPoint], label: str, percent: bool) -> go.Figure:
    """Draw a point a head, a colour and a shape a layer.

    Args:
        points: heads that ran at least once.
        label: of the axis upwards.
        percent: whether the effect is a share, shown in percentage points.
    """
    figure = bare_figure(HEIGHT)
    layers = sorted({point.layer for point in points})
    scale = 100 if percent else 1
    unit = " points" if percent else " nats"
    for layer, (colour, symbol) in zip(layers, looks(len(layers)), strict=True):
        mine = [point for point in points if point.layer == layer]
        bars = all(point.low is not None for point in mine)
        figure.add_scatter(
            x=[100 * point.rate for point in mine],
            y=[scale * point.effect for point in mine],
            mode="markers+text" if len(points) <= 24 else "markers",
            name=f"layer {layer + 1}",
            text=[str(point.head + 1) for point in mine],
            textposition="top center", textfont={"size": 12}, cliponaxis=False,
            marker={"size": 11, "color": colour, "symbol": symbol, "opacity": 0.85},
            error_y={
                "type": "data", "symmetric": False, "color": GRAY, "thickness": 1.5, "width": 3,
                "array": [scale * ((point.high or 0) - point.effect) for point in mine],
                "arrayminus": [scale * (point.effect - (point.low or 0)) for point in mine],
            } if bars else None,
            customdata=[f"layer {point.layer + 1}, head {point.head + 1}" for point in mine],
            hovertemplate=f"%{{customdata}}<br>runs for %{{x:.1f}}%<br>%{{y:+.3f}}{unit}"
            "<extra></extra>",
        )  # fmt: skip
    figure.add_hline(y=0, line={"color": GRAY, "width": 1})
    figure.update_xaxes(
        title={"text": "share of the texts that run the head, %", "standoff": 8},
        range=[-4, 104], tickvals=[0, 25, 50, 75, 100], ticks="", showgrid=True, gridcolor=GRAY,
    )  # fmt: skip
    figure.update_yaxes(
        title={"text": label, "standoff": 6}, ticks="", showgrid=True, gridcolor=GRAY,
        automargin=True,
    )  # fmt: skip
    figure.update_layout(
        showlegend=len(layers) > 1, hovermode="closest",
        legend={"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"},
        margin={"l": 56, "r": 8, "t": 34, "b": 48},
    )  # fmt: skip
    return figure


def importance_points_alt(points: Sequence[HeadPoint], label: str, most: int = 5) -> str:
    """Say what `importance_points` shows: the heads whose loss costs most."""
    known = [point for point in points if not math.isnan(point.effect)]
    known.sort(key=lambda point: -point.effect)
    said = "; ".join(
        f"layer {point.layer + 1}, head {point.head + 1}: runs for {point.rate:.0%}, "
        f"effect {point.effect:+.3f}"
        for point in known[:most]
    )
    return f"{label} against the share of texts that run a head, {len(known)} heads. Most: {said}."

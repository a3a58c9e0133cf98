"""A training as curves, and what the model does at one moment of it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from budgetformer.figures.style import GRAY, bare_figure, blue
from budgetformer.figures.text_sweep import COLOURS, DASHES

CURVES_HEIGHT = 270
LAYER_HEIGHT, AXIS_HEIGHT = 74, 46
MOST_HEADS_WITH_TEXT = 16
# So few reports are seen as points, or a line of them might be a speck.
FEW = 8


@dataclass(frozen=True)
class Curve:
    """One line of a chart."""

    name: str
    x: Sequence[float]
    """Training steps, or shares of the training."""
    y: Sequence[float | None]
    points: bool = False
    """Draw big points joined by a thin line: an epoch's figures, not a step's."""


def curves(
    lines: Sequence[Curve],
    x_title: str = "training step",
    percent: bool = False,
    marks: Sequence[float] = (),
    until: float | None = None,
) -> go.Figure:
    """Draw lines over training steps.

    Args:
        lines: what to draw; the colours follow their order.
        x_title: what x counts.
        percent: y holds shares.
        marks: vertical lines, where epochs end.
        until: the last x of the axis, so that a training in progress shows what is to come.
    """
    figure = bare_figure(CURVES_HEIGHT)
    for i, line in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)]
        figure.add_scatter(
            x=list(line.x), y=list(line.y), name=html.escape(line.name),
            mode="lines+markers" if line.points or len(line.x) <= FEW else "lines",
            line={"color": colour, "width": 1.5 if line.points else 2,
                  "dash": DASHES[i % len(DASHES)]},
            marker={"size": 9 if line.points else 5, "color": colour},
            hovertemplate="%{y:.1%}" if percent else "%{y:.4g}",
        )  # fmt: skip
    figure.update_layout(
        hovermode="x unified", showlegend=True, margin={"l": 8, "r": 8, "t": 8, "b": 40},
        legend={"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0},
        shapes=[
            {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
             "line": {"color": GRAY, "width": 1, "dash": "dot"}, "layer": "below"}
            for x in marks
        ],
    )  # fmt: skip
    figure.update_xaxes(
        title={"text": x_title, "standoff": 4}, ticks="", automargin=True,
        range=None if until is None else [0, 1.015 * until], tickformat=",d" if until else None,
    )  # fmt: skip
    figure.update_yaxes(
        showgrid=True, gridcolor=GRAY, ticks="", automargin=True,
        tickformat=".0%" if percent else None,
    )  # fmt: skip
    return figure


def curves_alt(what: str, lines: Sequence[Curve], percent: bool = False) -> str:
    """Say what `curves` shows: where each line begins and ends."""

    def number(value: float) -> str:
        return f"{value:.1%}" if percent else f"{value:.3g}"

    parts = []
    for line in lines:
        values = [value for value in line.y if value is not None]
        if values:
            parts.append(f"{line.name} from {number(values[0])} to {number(values[-1])}")
    return f"{what}: {'; '.join(parts) or 'nothing yet'}."


def budget_histograms(counts: Sequence[Sequence[int]], means: Sequence[float]) -> go.Figure:
    """Draw how s is spread over the texts, a row a layer.

    Args:
        counts: texts in equal bins of [0, 1], a list a layer.
        means: mean of s of each layer.
    """
    n_layers, n_bins = len(counts), len(counts[0])
    figure = bare_figure(LAYER_HEIGHT * n_layers + AXIS_HEIGHT)
    middles = [(i + 0.5) / n_bins for i in range(n_bins)]
    share = 1 / n_layers
    for layer, row in enumerate(counts):
        total = max(1, sum(row))
        figure.add_bar(
            x=middles, y=[n / total for n in row], width=0.92 / n_bins,
            marker={"color": blue(0.7)}, xaxis="x", yaxis=f"y{layer + 1}" if layer else "y",
            hovertemplate=f"Layer {layer + 1}, s near %{{x:.3f}}<br>%{{y:.1%}} of the texts"
            "<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        margin={"l": 62, "b": AXIS_HEIGHT, "r": 8, "t": 4},
        annotations=[
            {"x": 1, "xref": "paper", "xanchor": "right", "yanchor": "top", "yref": "paper",
             "y": 1 - layer * share, "showarrow": False, "text": f"mean {mean:.3f}",
             "font": {"size": 12}}
            for layer, mean in enumerate(means)
        ],
        **{
            f"yaxis{layer + 1 if layer else ''}": {
                "domain": [1 - (layer + 1) * share + 0.12 * share, 1 - layer * share - 0.1 * share],
                "showticklabels": False, "ticks": "", "rangemode": "tozero",
                "title": {"text": f"Layer {layer + 1}", "standoff": 2}, "fixedrange": True,
                "showgrid": False, "zeroline": True, "zerolinecolor": GRAY,
            }
            for layer in range(n_layers)
        },
    )  # fmt: skip
    figure.update_xaxes(
        title={"text": "budget s", "standoff": 4}, range=[0, 1], ticks="",
        tickvals=[0, 0.25, 0.5, 0.75, 1], anchor=f"y{n_layers}" if n_layers > 1 else "y",
    )  # fmt: skip
    return figure


def budget_histograms_alt(means: Sequence[float]) -> str:
    """Say what `budget_histograms` shows."""
    layers = "; ".join(f"layer {i}: mean {mean:.3f}" for i, mean in enumerate(means, 1))
    return f"Distribution of the budget s between 0 and 1. {layers}."


def usage_grid(usage: Sequence[Sequence[float]]) -> go.Figure:
    """Draw how often each head runs, as shares of the texts, a row a layer."""
    n_layers, n_heads = len(usage), len(usage[0])
    figure = bare_figure(LAYER_HEIGHT * n_layers + AXIS_HEIGHT)
    figure.add_heatmap(
        x=[str(head + 1) for head in range(n_heads)],
        y=[f"Layer {layer + 1}" for layer in range(n_layers)],
        z=[list(row) for row in usage],
        zmin=0, zmax=1, colorscale=[[0, blue(0.05)], [1, blue(0.65)]], showscale=False,
        xgap=4, ygap=4, textfont={"size": 12},
        text=[[f"{100 * share:.0f}" for share in row] for row in usage],
        texttemplate="%{text}" if n_heads <= MOST_HEADS_WITH_TEXT else None,
        hovertemplate="%{y}, head %{x}<br>runs on %{z:.1%} of the texts<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(
        title={"text": "head", "standoff": 16}, type="category", ticks="",
        range=[-0.5, n_heads - 0.5],
    )  # fmt: skip
    figure.update_yaxes(type="category", ticks="", range=[n_layers - 0.5, -0.5])
    figure.update_layout(margin={"l": 62, "b": AXIS_HEIGHT, "r": 8, "t": 4})
    return figure


def usage_grid_alt(usage: Sequence[Sequence[float]]) -> str:
    """Say what `usage_grid` shows: how many heads hardly ever, or nearly always, run."""
    layers = "; ".join(
        f"layer {i}: {sum(share < 0.01 for share in row)} of {len(row)} heads run on less than "
        f"1% of the texts, {sum(share > 0.99 for share in row)} on more than 99%"
        for i, row in enumerate(usage, 1)
    )
    return f"How often each head runs. {layers}."

"""One text at every number of heads: what the classes' probabilities do."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from budgetformer.figures.style import FAINT, GRAY, ORANGE, bare_figure

HEIGHT = 300
COLOURS = ("#2a86c4", "#c87000", "#1f9a7d", "#b0609b", "#8a7a20", "#808c98")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
MOST_CLASSES = 6


def sweep_lines(
    probabilities: Sequence[Mapping[str, float]], own_k: float, sufficient_k: int
) -> go.Figure:
    """Draw each class's probability over k, with the model's own k and the sufficient one.

    Args:
        probabilities: by class, at k = 1 … H.
        own_k: heads a layer of the model's own choice, on average.
        sufficient_k: the smallest k from which on the label is that of all heads.
    """
    n_heads = len(probabilities)
    ks = list(range(1, n_heads + 1))
    # The classes that lead anywhere come first; the tail of many classes stays out.
    labels = sorted(probabilities[0], key=lambda label: -max(p[label] for p in probabilities))
    figure = bare_figure(HEIGHT)
    for i, label in enumerate(labels[:MOST_CLASSES]):
        figure.add_scatter(
            x=ks, y=[p[label] for p in probabilities], mode="lines+markers",
            name=html.escape(label),
            line={"color": COLOURS[i], "dash": DASHES[i], "width": 2.5},
            marker={"size": 8, "symbol": SYMBOLS[i]},
            hovertemplate="%{y:.1%}",
        )  # fmt: skip
    figure.update_layout(
        hovermode="x unified", showlegend=True, margin={"l": 8, "r": 8, "t": 34, "b": 40},
        legend={"orientation": "h", "y": -0.22, "yanchor": "top", "x": 0},
        shapes=[
            {
                "type": "rect", "x0": sufficient_k - 0.02, "x1": n_heads + 0.3, "y0": 0, "y1": 1,
                "yref": "paper", "fillcolor": FAINT, "line": {"width": 0}, "layer": "below",
            },
            {
                "type": "line", "x0": own_k, "x1": own_k, "y0": 0, "y1": 1, "yref": "paper",
                "line": {"color": ORANGE, "width": 3},
            },
        ],
        annotations=[
            {
                "x": own_k, "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False,
                "xanchor": "left" if own_k < n_heads * 0.6 else "right",
                "text": f"<b>spent: {own_k:g}</b>", "font": {"size": 13},
            }
        ],
    )  # fmt: skip
    figure.update_xaxes(
        title={"text": "heads run in each layer, k", "standoff": 4}, range=[0.7, n_heads + 0.3],
        tickvals=ks if n_heads <= 16 else ks[:: n_heads // 8], ticks="",
    )  # fmt: skip
    figure.update_yaxes(
        range=[-0.03, 1.03], tickformat=".0%", tickvals=[0, 0.5, 1], showgrid=True, gridcolor=GRAY,
        automargin=True, ticks="",
    )  # fmt: skip
    return figure


def sweep_lines_alt(
    probabilities: Sequence[Mapping[str, float]], own_k: float, sufficient_k: int
) -> str:
    """Say what `sweep_lines` shows."""
    best = "; ".join(
        f"k {k}: {label} {p[label]:.0%}"
        for k, p in enumerate(probabilities, 1)
        for label in [max(p, key=lambda name: p[name])]
    )
    return (
        f"Class probabilities at every number of heads. {best}. The model spent {own_k:g}, "
        f"{sufficient_k} would have been enough."
    )

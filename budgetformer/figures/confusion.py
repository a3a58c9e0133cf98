"""Which classes are taken for which: counts by gold and predicted class."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from budgetformer.figures.style import BLUE, bare_figure, blue

ROW_HEIGHT, AXIS_HEIGHT = 44, 92
MOST_WITH_TEXT = 10
LONGEST_NAME = 16


def confusion_grid(
    counts: NDArray[np.int64], labels: Sequence[str], picked: tuple[int | None, int | None]
) -> go.Figure:
    """Draw a cell for each gold class (row) and predicted class (column).

    A click selects the point (gold · C + predicted) of the second, invisible trace: a heatmap gives
    no clicks.

    Args:
        counts: examples by gold and predicted class, (C, C).
        labels: the classes, as users wrote them: they are escaped here.
        picked: gold and predicted class of the slice; None for any.
    """
    n = len(labels)
    shown = [html.escape(_short(label)) for label in labels]
    # The share of its row, or the commonest class would be all that has a colour.
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    cells = [(gold, predicted) for gold in range(n) for predicted in range(n)]
    figure = bare_figure(max(ROW_HEIGHT * min(n, 14), 3 * ROW_HEIGHT) + AXIS_HEIGHT)
    figure.add_heatmap(
        z=share, zmin=0, zmax=1, colorscale=[[0, blue(0.05)], [1, blue(0.65)]], showscale=False,
        xgap=3, ygap=3, hoverinfo="skip", text=[[f"{c:,}" for c in row] for row in counts],
        texttemplate="%{text}" if n <= MOST_WITH_TEXT else None, textfont={"size": 13},
    )  # fmt: skip
    figure.add_scatter(
        x=[predicted for _, predicted in cells], y=[gold for gold, _ in cells], mode="markers",
        marker={"symbol": "square", "size": 34 if n <= MOST_WITH_TEXT else 18, "opacity": 0},
        customdata=[
            (
                html.escape(labels[gold]), html.escape(labels[predicted]),
                int(counts[gold, predicted]), float(share[gold, predicted]),
            )
            for gold, predicted in cells
        ],
        hovertemplate="gold %{customdata[0]}, predicted %{customdata[1]}<br>%{customdata[2]:,} "
        "examples, %{customdata[3]:.1%} of the gold class<extra></extra>",
    )  # fmt: skip
    axis = {"tickmode": "array", "tickvals": list(range(n)), "ticktext": shown, "ticks": ""}
    figure.update_layout(
        margin={"l": 4, "r": 4, "t": 4, "b": 4},
        hovermode="closest",
        xaxis={**axis, "title": {"text": "predicted", "standoff": 8}, "automargin": True,
               "range": [-0.5, n - 0.5]},
        yaxis={**axis, "title": {"text": "gold", "standoff": 8}, "automargin": True,
               "range": [n - 0.5, -0.5]},
        shapes=_frame(picked, n),
    )  # fmt: skip
    return figure


def confusion_alt(counts: NDArray[np.int64], labels: Sequence[str]) -> str:
    """Say what `confusion_grid` shows: how many are right, and the commonest mistakes."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:3]
    named = [
        f"{labels[gold]} taken for {labels[predicted]}: {wrong[gold, predicted]:,}"
        for gold, predicted in zip(*np.unravel_index(order, wrong.shape), strict=True)
        if wrong[gold, predicted]
    ]
    mistakes = f" Commonest mistakes: {'; '.join(named)}." if named else ""
    return (
        f"Examples by gold and predicted class: {int(np.trace(counts)):,} of {int(counts.sum()):,} "
        f"are right.{mistakes}"
    )


def _frame(picked: tuple[int | None, int | None], n: int) -> list[dict[str, object]]:
    gold, predicted = picked
    if gold is None and predicted is None:
        return []
    y0, y1 = (-0.5, n - 0.5) if gold is None else (gold - 0.5, gold + 0.5)
    x0, x1 = (-0.5, n - 0.5) if predicted is None else (predicted - 0.5, predicted + 0.5)
    return [
        {"type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1,
         "line": {"color": BLUE, "width": 3}}
    ]  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"

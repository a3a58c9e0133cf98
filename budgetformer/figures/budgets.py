"""How many heads each layer wanted, and how many whole heads that became."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from budgetformer.figures.style import FAINT, GRAY, ORANGE, bare_figure, blue

ROW_HEIGHT = 62
AXIS_HEIGHT = 44
BAR_WIDTH = 0.34


def budget_bars(budgets: Sequence[float], executed: Sequence[int], n_heads: int) -> go.Figure:
    """Draw each layer's s·H as a bar on an axis of heads, with a marker at the executed k.

    Args:
        budgets: s of each layer, in (0, 1), first layer first.
        executed: k of each layer, in [1, H].
        n_heads: H.
    """
    rows = list(range(len(budgets)))
    wanted = [s * n_heads for s in budgets]
    figure = bare_figure(ROW_HEIGHT * len(rows) + AXIS_HEIGHT)
    figure.add_bar(
        y=rows, x=[n_heads] * len(rows), orientation="h", width=BAR_WIDTH, hoverinfo="skip",
        marker={"color": FAINT}, name="all heads",
    )  # fmt: skip
    figure.add_bar(
        y=rows, x=wanted, orientation="h", width=BAR_WIDTH, name="s·H",
        marker={"color": blue(0.55), "line": {"width": 0}},
        customdata=list(zip(budgets, executed, strict=True)),
        hovertemplate="s = %{customdata[0]:.4f}<br>s·H = %{x:.3f}<br>k = %{customdata[1]}"
        "<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        y=rows, x=list(executed), mode="markers", name="executed heads k", hoverinfo="skip",
        marker={"symbol": "line-ns", "size": 22, "line": {"width": 4, "color": ORANGE}},
        cliponaxis=False,
    )  # fmt: skip
    # One update for all of them: plotly takes a millisecond for each that is added by itself.
    figure.update_layout(
        barmode="overlay",
        margin={"l": 4, "r": 10, "b": AXIS_HEIGHT},
        annotations=[
            {
                "x": 0,
                "y": row - 0.42,
                "xanchor": "left",
                "yanchor": "middle",
                "xshift": -2,
                "showarrow": False,
                "font": {"size": 13},
                "text": f"<b>Layer {row + 1}</b>   s = {s:.3f}   s·H = {plain(sh)}   →   "
                f"<b>k = {k}</b>",
            }
            for row, (s, sh, k) in enumerate(zip(budgets, wanted, executed, strict=True))
        ],
        shapes=[
            {
                "type": "line",
                "x0": head,
                "x1": head,
                "y0": row - BAR_WIDTH / 2,
                "y1": row + BAR_WIDTH / 2,
                "line": {"color": GRAY, "width": 1},
            }
            for row in rows
            for head in range(1, n_heads)
        ],
    )
    figure.update_xaxes(
        range=[-0.012 * n_heads, n_heads * 1.012],
        tickvals=list(range(n_heads + 1)) if n_heads <= 16 else list(range(0, n_heads + 1, 4)),
        title={"text": "heads", "standoff": 4},
        ticks="",
    )
    figure.update_yaxes(range=[len(rows) - 0.6, -0.6], showticklabels=False)
    return figure


def budget_bars_alt(budgets: Sequence[float], executed: Sequence[int], n_heads: int) -> str:
    """Say what `budget_bars` shows."""
    layers = "; ".join(
        f"layer {i + 1}: budget {s:.3f}, {plain(s * n_heads)} heads wanted, {k} run"
        for i, (s, k) in enumerate(zip(budgets, executed, strict=True))
    )
    return f"Budget of each layer on an axis of 0 to {n_heads} heads. {layers}."


def plain(wanted: float) -> str:
    """Write s·H with two decimals, or with as many as keep it on its side of a whole number.

    1.9996 is not shown as 2.00 beside k = 1.
    """
    for digits in range(2, 8):
        text = f"{wanted:.{digits}f}"
        if math.floor(float(text)) == math.floor(wanted):
            return text
    return f"{wanted:.2f}"

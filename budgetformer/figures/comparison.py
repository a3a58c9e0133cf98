"""Two predictions in one figure: their budgets, and the heads they share.

The first is blue, round and on the left everywhere, the second orange, angular and on the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from budgetformer.figures.style import FAINT, GRAY, ORANGE, bare_figure, blue

BUDGET_ROW, HEAD_ROW = 58, 50
AXIS_HEIGHT = 50
HALF = 0.4
"""Width of half a cell, in heads."""

Budgets = Sequence[float | None]
Heads = Sequence[Sequence[int]]


def budget_pair(first: Budgets, second: Budgets) -> go.Figure:
    """Draw both budgets of each layer on one axis from 0 to 1, joined by a line.

    Args:
        first: s of each layer; None where there is no budget. The two may differ in length.
        second: the same of the other prediction.
    """
    n_rows = max(len(first), len(second))
    first, second = _padded(first, n_rows), _padded(second, n_rows)
    rows = list(range(n_rows))
    figure = bare_figure(BUDGET_ROW * n_rows + AXIS_HEIGHT)
    figure.add_scatter(
        x=first, y=rows, mode="markers", name="A", hovertemplate="A: s = %{x:.4f}<extra></extra>",
        marker={"size": 15, "color": blue(0.95)}, cliponaxis=False,
    )  # fmt: skip
    figure.add_scatter(
        x=second, y=rows, mode="markers", name="B", hovertemplate="B: s = %{x:.4f}<extra></extra>",
        marker={"size": 11, "symbol": "diamond", "color": ORANGE}, cliponaxis=False,
    )  # fmt: skip
    figure.update_layout(
        margin={"l": 4, "r": 10, "t": 0, "b": AXIS_HEIGHT},
        annotations=[
            {"xref": "paper", "x": 0, "y": row - 0.4, "xanchor": "left", "showarrow": False,
             "font": {"size": 13}, "text": f"<b>Layer {row + 1}</b>   {_pair_text(a, b)}"}
            for row, a, b in zip(rows, first, second, strict=True)
        ],
        shapes=[
            {"type": "line", "x0": 0, "x1": 1, "y0": row, "y1": row, "layer": "below",
             "line": {"color": FAINT, "width": 6}}
            for row in rows
        ] + [
            {"type": "line", "x0": a, "x1": b, "y0": row, "y1": row, "layer": "below",
             "line": {"color": GRAY, "width": 6}}
            for row, a, b in zip(rows, first, second, strict=True)
            if a is not None and b is not None
        ],
    )  # fmt: skip
    figure.update_xaxes(
        range=[-0.015, 1.015], title={"text": "budget s", "standoff": 12}, ticks="",
        tickvals=[0, 0.25, 0.5, 0.75, 1],
    )  # fmt: skip
    figure.update_yaxes(range=[n_rows - 0.6, -0.66], showticklabels=False)
    return figure


def budget_pair_alt(first: Budgets, second: Budgets) -> str:
    """Say what `budget_pair` shows."""
    n_rows = max(len(first), len(second))
    pairs = zip(_padded(first, n_rows), _padded(second, n_rows), strict=True)
    rows = "; ".join(f"layer {row}: {_pair_text(a, b)}" for row, (a, b) in enumerate(pairs, 1))
    return f"Budget of each layer in A and in B. {rows}."


def head_pair(first: Heads, second: Heads, n_heads: int) -> go.Figure:
    """Draw a cell for each head: its left half is filled where A ran it, its right half where B.

    Args:
        first: heads that ran in each layer, from 0.
        second: the same of the other prediction, with as many layers.
        n_heads: H, of both.
    """
    n_layers = len(first)
    cells = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    figure = bare_figure(HEAD_ROW * n_layers + AXIS_HEIGHT)
    figure.add_bar(**_bars(cells, 0, 2 * HALF, FAINT), name="all", hoverinfo="skip")
    for name, heads, shift, colour in (
        ("A", first, -HALF / 2, blue(0.7)),
        ("B", second, HALF / 2, ORANGE),
    ):
        ran = [(layer, head) for layer, row in enumerate(heads) for head in row]
        figure.add_bar(
            **_bars(ran, shift, HALF, colour), name=name,
            text=[name] * len(ran) if n_heads <= 12 else None, textposition="inside",
            insidetextanchor="middle", textangle=0, constraintext="none",
            customdata=[f"layer {layer + 1}, head {head + 1}" for layer, head in ran],
            hovertemplate=f"{name} runs %{{customdata}}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="overlay", margin={"l": 58, "r": 2, "t": 0, "b": AXIS_HEIGHT})
    figure.update_xaxes(
        range=[-0.5, n_heads - 0.5], title={"text": "head", "standoff": 12}, ticks="",
        tickvals=list(range(n_heads)), ticktext=[str(head + 1) for head in range(n_heads)],
    )  # fmt: skip
    figure.update_yaxes(
        range=[n_layers - 0.5, -0.5], ticks="", tickvals=list(range(n_layers)),
        ticktext=[f"Layer {layer + 1}" for layer in range(n_layers)],
    )  # fmt: skip
    return figure


def head_pair_alt(first: Heads, second: Heads) -> str:
    """Say what `head_pair` shows."""
    rows = "; ".join(
        f"layer {layer}: A runs {_numbers(a)}, B runs {_numbers(b)}"
        for layer, (a, b) in enumerate(zip(first, second, strict=True), 1)
    )
    return f"Heads that ran in A and in B. {rows}."


def _bars(
    cells: Sequence[tuple[int, int]], shift: float, width: float, colour: str
) -> dict[str, Any]:
    """Upright bars, one a cell, each as high as most of a row."""
    return {
        "x": [head + shift for _, head in cells],
        "y": [0.8] * len(cells),
        "base": [layer - 0.4 for layer, _ in cells],
        "width": width,
        "marker": {"color": colour, "line": {"width": 0}},
    }


def _padded(values: Budgets, n: int) -> list[float | None]:
    return [*values, *[None] * (n - len(values))]


def _pair_text(a: float | None, b: float | None) -> str:
    if a is None or b is None:
        return f"A {_number(a)}, B {_number(b)}"
    change = f"{b - a:+.3f}".replace("-", "−")
    return f"A {a:.3f}, B {b:.3f} ({change})"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _numbers(heads: Sequence[int]) -> str:
    return ", ".join(str(head + 1) for head in heads) or "none"

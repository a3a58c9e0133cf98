"""What heads add to a target, and whether a map of words beats chance."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from budgetformer.figures.style import GRAY, ORANGE, bare_figure, blue

ROW_HEIGHT = 26
STRIP_HEIGHT = 60
AXIS_HEIGHT = 44
MOST_HEADS = 12

HeadValue = tuple[int, int, float]
"""Layer and head, from 0, and its value."""


def head_bars(values: Sequence[HeadValue], digits: int = 3) -> go.Figure:
    """Draw what each head that ran adds, strongest first; many heads end in one bar for the rest.

    Args:
        values: the executed heads.
        digits: decimals of the numbers.
    """
    names, numbers = _rows(values)
    end = 1.3 * (max(map(abs, numbers), default=0) or 1)
    figure = bare_figure(ROW_HEIGHT * max(1, len(numbers)) + 8)
    figure.add_bar(
        y=names,
        x=numbers,
        orientation="h",
        width=0.62,
        marker={"color": [blue(0.6) if x >= 0 else ORANGE for x in numbers], "line": {"width": 0}},
        text=[_signed(x, digits) for x in numbers],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}<br>%{x:+.5f}<extra></extra>",
    )
    figure.update_layout(
        margin={"l": 118, "r": 4, "t": 4, "b": 4},
        shapes=[
            {"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1,
             "line": {"color": GRAY, "width": 1}}
        ],
    )  # fmt: skip
    figure.update_xaxes(range=[-end, end], showticklabels=False, ticks="")
    figure.update_yaxes(autorange="reversed", type="category", ticks="")
    return figure


def head_bars_alt(values: Sequence[HeadValue], target: str, digits: int = 3) -> str:
    """Say what `head_bars` shows."""
    names, numbers = _rows(values)
    parts = ", ".join(
        f"{name}: {_signed(x, digits)}" for name, x in zip(names, numbers, strict=True)
    )
    return f"What the heads that ran add to the {target}. {parts}."


def random_strip(
    labels: Sequence[str], own: Sequence[float], draws: Sequence[Sequence[float]], axis: str
) -> go.Figure:
    """Draw a map's figure as a diamond on each row, and those of random words as gray dots.

    Args:
        labels: name of each row.
        own: the map's figure.
        draws: the figures of random words.
        axis: what the numbers are.
    """
    rows = list(range(len(labels)))
    figure = bare_figure(STRIP_HEIGHT * len(rows) + AXIS_HEIGHT)
    figure.add_scatter(
        x=[value for values in draws for value in values],
        y=[row for row, values in zip(rows, draws, strict=True) for _ in values],
        mode="markers",
        name="random words",
        marker={"size": 11, "color": "rgba(128, 140, 152, 0.5)"},
        hovertemplate="random words: %{x:+.4f}<extra></extra>",
    )
    figure.add_scatter(
        x=list(own),
        y=rows,
        mode="markers",
        name="top words",
        marker={"size": 15, "symbol": "diamond", "color": blue(0.95)},
        hovertemplate="the map's top words: %{x:+.4f}<extra></extra>",
        cliponaxis=False,
    )
    figure.update_layout(
        margin={"l": 4, "r": 10, "t": 4, "b": AXIS_HEIGHT},
        annotations=[
            {"xref": "paper", "x": 0, "y": row - 0.4, "xanchor": "left", "text": label,
             "showarrow": False, "font": {"size": 13}}
            for row, label in zip(rows, labels, strict=True)
        ],
        shapes=[
            {"type": "line", "x0": 0, "x1": 0, "y0": row - 0.2, "y1": row + 0.2, "layer": "below",
             "line": {"color": GRAY, "width": 2}}
            for row in rows
        ],
    )  # fmt: skip
    figure.update_xaxes(title={"text": axis, "standoff": 10}, ticks="", nticks=5)
    figure.update_yaxes(range=[len(rows) - 0.65, -0.65], showticklabels=False)
    return figure


def random_strip_alt(
    labels: Sequence[str], own: Sequence[float], draws: Sequence[Sequence[float]], axis: str
) -> str:
    """Say what `random_strip` shows."""
    rows = "; ".join(
        f"{label}: {value:+.3f}, random words {min(many):+.3f} to {max(many):+.3f}"
        for label, value, many in zip(labels, own, draws, strict=True)
    )
    return f"{axis}. {rows}."


def _rows(values: Sequence[HeadValue]) -> tuple[list[str], list[float]]:
    ranked = sorted(values, key=lambda item: -abs(item[2]))
    shown, rest = ranked[:MOST_HEADS], ranked[MOST_HEADS:]
    names = [f"Layer {layer + 1}, head {head + 1}" for layer, head, _ in shown]
    numbers = [value for _, _, value in shown]
    if rest:
        names.append(f"{len(rest)} others")
        numbers.append(sum(value for _, _, value in rest))
    return names, numbers


def _signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")

"""How often heads run over many examples: by layer, by group, and in pairs."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from budgetformer.figures.heads import MOST_HEADS_WITH_TEXT
from budgetformer.figures.style import BLUE, ORANGE, bare_figure, blue

ROW_HEIGHT, AXIS_HEIGHT = 50, 48
LEAST_EXPECTED = 5.0
"""Pairs that are expected together less often than this say nothing: their lift is not drawn."""
MOST_LIFT = 4.0
"""Colours of lifts end here and at its inverse."""

Floats = NDArray[np.float64]
Grid = NDArray[Any]


def rate_grid(
    rates: Floats,
    low: Floats,
    high: Floats,
    dead: Grid,
    always_on: Grid,
    picked: tuple[int, int] | None = None,
) -> go.Figure:
    """Draw the share of examples that ran each head; dead and always-on heads have a frame.

    A click on a cell selects the point (layer · H + head) of the second, invisible trace.

    Args:
        rates: in [0, 1], (L, H).
        low: lower ends of their intervals.
        high: upper ends.
        dead: heads to mark as dead, with a dotted frame.
        always_on: heads to mark as always on, with a solid one.
        picked: the head that the page looks at, (layer, head).
    """
    n_layers, n_heads = rates.shape
    names = [f"Layer {layer + 1}" for layer in range(n_layers)]
    figure = _grid(rates, names, blue(0.04), blue(0.65), 1.0)
    cells = list(np.ndindex(n_layers, n_heads))
    x = [str(head + 1) for head in range(n_heads)]
    figure.add_scatter(
        x=[x[head] for _, head in cells], y=[names[layer] for layer, _ in cells],
        mode="markers", marker={"symbol": "square", "size": 38, "opacity": 0},
        customdata=[
            (rates[at], low[at], high[at], _flag(bool(dead[at]), bool(always_on[at])))
            for at in cells
        ],
        hovertemplate="%{y}, head %{x}%{customdata[3]}<br>runs for %{customdata[0]:.2%}<br>"
        "95% interval %{customdata[1]:.2%} to %{customdata[2]:.2%}<extra></extra>",
    )  # fmt: skip
    frames = [_frame(*at, {"color": ORANGE, "width": 2, "dash": "dot"}) for at in _where(dead)]
    frames += [_frame(*at, {"color": ORANGE, "width": 3}) for at in _where(always_on)]
    if picked is not None:
        frames.append(_frame(*picked, {"color": BLUE, "width": 2}, 0.5))
    figure.update_layout(shapes=frames, hovermode="closest", hoverdistance=-1)
    return figure


def rate_grid_alt(rates: Floats, dead: Grid, always_on: Grid) -> str:
    """Say what `rate_grid` shows."""
    layers = "; ".join(
        f"layer {layer}: "
        + ", ".join(f"head {head} {rate:.0%}" for head, rate in enumerate(row, 1))
        for layer, row in enumerate(rates, 1)
    )
    return (
        f"Share of the examples that ran each head. {layers}. "
        f"{int(dead.sum())} dead, {int(always_on.sum())} always on."
    )


def group_grid(names: Sequence[str], rates: Floats, low: Floats, high: Floats) -> go.Figure:
    """Draw how often each group of examples runs each head of one layer.

    Args:
        names: of the groups, as users wrote them: they are escaped here.
        rates: in [0, 1], (G, H); NaN for a group without examples.
        low: lower ends of their intervals.
        high: upper ends.
    """
    figure = _grid(rates, _distinct(names), blue(0.04), blue(0.65), 1.0)
    figure.update_traces(
        hoverinfo=None,
        customdata=np.stack([low, high], axis=2),
        hovertemplate="%{y}: head %{x} runs for %{z:.2%}<br>95% interval %{customdata[0]:.2%} to "
        "%{customdata[1]:.2%}<extra></extra>",
    )
    return figure


def group_grid_alt(names: Sequence[str], rates: Floats, layer: int) -> str:
    """Say what `group_grid` shows; the layer counts from 0."""
    rows = "; ".join(
        f"{name}: " + ", ".join(f"head {head} {_percent(p)}%" for head, p in enumerate(row, 1))
        for name, row in zip(names, rates, strict=True)
    )
    return f"Share of each group that ran each head of layer {layer + 1}. {rows}."


def lift_grid(lift: Floats, observed: Floats, expected: Floats) -> go.Figure:
    """Draw lifts of pairs of heads of one layer; blue goes together, orange shuns each other.

    Args:
        lift: observed over expected, (H, H).
        observed: examples that ran both.
        expected: how many would be expected.
    """
    n_heads = len(lift)
    drawn = np.where(expected >= LEAST_EXPECTED, lift, np.nan)
    bound = math.log2(MOST_LIFT)
    with np.errstate(divide="ignore", invalid="ignore"):
        colour = np.clip(np.log2(drawn), -bound, bound)
    names = [str(head + 1) for head in range(n_heads)]
    text = [[f"{v:.2g}" if np.isfinite(v) else "" for v in row] for row in drawn]
    figure = bare_figure(max(220, 34 * n_heads + AXIS_HEIGHT))
    figure.add_heatmap(
        x=names, y=names, z=colour, zmin=-bound, zmax=bound, showscale=False, xgap=3, ygap=3,
        colorscale=[[0, "rgba(217, 119, 0, 0.75)"], [0.5, "rgba(128, 140, 152, 0.10)"],
                    [1, blue(0.75)]],
        text=text, texttemplate="%{text}" if n_heads <= MOST_HEADS_WITH_TEXT else None,
        textfont={"size": 12}, hoverongaps=False,
        customdata=np.stack([observed, expected, drawn], axis=2),
        hovertemplate="heads %{y} and %{x}<br>together %{customdata[0]:,.0f} times<br>expected "
        "%{customdata[1]:,.1f}<br>lift %{customdata[2]:.2f}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title={"text": "head", "standoff": 8}, type="category", ticks="")
    figure.update_yaxes(type="category", ticks="", autorange="reversed", title={"text": "head"})
    figure.update_layout(margin={"l": 44, "b": AXIS_HEIGHT})
    return figure


def lift_grid_alt(lift: Floats, expected: Floats, layer: int, most: int = 3) -> str:
    """Say what `lift_grid` shows: the pairs that stand out; the layer counts from 0."""
    pairs = [
        (float(lift[i, j]), f"heads {i + 1} and {j + 1}")
        for i, j in zip(*np.triu_indices(len(lift), 1), strict=True)
        if expected[i, j] >= LEAST_EXPECTED
    ]
    if not pairs:
        return f"Layer {layer + 1}: no pair of heads is expected together often enough to tell."
    pairs.sort()
    said = ", ".join(f"{name} {value:.2g} times" for value, name in pairs[::-1][:most])
    rare = ", ".join(f"{name} {value:.2g} times" for value, name in pairs[:most])
    return (
        f"Pairs of heads of layer {layer + 1}, as often together as expected times the lift. "
        f"Highest: {said}. Lowest: {rare}."
    )


def _grid(values: Floats, names: Sequence[str], low: str, high: str, most: float) -> go.Figure:
    n_rows, n_heads = values.shape
    longest = max(len(name) for name in names)
    figure = bare_figure(ROW_HEIGHT * n_rows + AXIS_HEIGHT)
    figure.add_heatmap(
        x=[str(head + 1) for head in range(n_heads)], y=list(names), z=values,
        zmin=0, zmax=most, colorscale=[[0, low], [1, high]], showscale=False,
        xgap=5, ygap=5, hoverinfo="skip", hoverongaps=False, textfont={"size": 13},
        text=[[_percent(value) for value in row] for row in values],
        texttemplate="%{text}" if n_heads <= MOST_HEADS_WITH_TEXT else None,
    )  # fmt: skip
    figure.update_xaxes(
        title={"text": "head", "standoff": 16}, type="category", ticks="",
        range=[-0.5, n_heads - 0.5],
    )  # fmt: skip
    figure.update_yaxes(type="category", ticks="", range=[n_rows - 0.5, -0.5])
    figure.update_layout(margin={"l": min(130, 14 + 7 * longest), "b": AXIS_HEIGHT})
    return figure


def _percent(rate: float) -> str:
    """Write a rate in percent; one that is neither 0 nor 1 is not shown as such."""
    if math.isnan(rate):
        return ""
    if 0 < rate < 0.005:
        return "<1"
    if 0.995 <= rate < 1:
        return ">99"
    return f"{100 * rate:.0f}"


def _flag(dead: bool, always_on: bool) -> str:
    return ", dead" if dead else ", always on" if always_on else ""


def _where(marked: Grid) -> list[tuple[int, int]]:
    return [(int(layer), int(head)) for layer, head in np.argwhere(marked)]


def _distinct(names: Sequence[str], longest: int = 18) -> list[str]:
    """Shorten and escape names; plotly would merge rows of the same name."""
    short = [name if len(name) <= longest else name[: longest - 1] + "…" for name in names]
    # A sign without width tells equal ones apart.
    return [html.escape(name) + "\u200b" * short[:i].count(name) for i, name in enumerate(short)]


def _frame(layer: int, head: int, line: dict[str, object], half: float = 0.45) -> dict[str, object]:
    return {
        "type": "rect", "line": line,
        "x0": head - half, "x1": head + half, "y0": layer - half, "y1": layer + half,
    }  # fmt: skip

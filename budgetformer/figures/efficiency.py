"""Accuracy against compute under every policy, and what models take on a machine."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from budgetformer.figures.style import BLUE, FAINT, GRAY, ORANGE, bare_figure

HEIGHT = 480
ROW_HEIGHT, AXIS_HEIGHT = 44, 56
GREEN, PURPLE, STEEL = "#1f9a7d", "#b0609b", "#808c98"

# By kind of line: how a line and its points look. Colour never stands alone: dashes and symbols
# differ too.
LOOKS: dict[str, dict[str, Any]] = {
    "limit": {"color": BLUE, "symbol": "circle", "size": 10, "dash": "solid", "width": 3},
    "own": {"color": BLUE, "symbol": "star", "size": 19},
    "fixed": {"color": STEEL, "symbol": "circle-open", "size": 8, "dash": "solid", "width": 2},
    "random": {"color": GREEN, "symbol": "triangle-up", "size": 8, "dash": "dot", "width": 2},
    "bottom": {"color": PURPLE, "symbol": "triangle-down", "size": 8, "dash": "dash", "width": 2},
    "shuffled": {"color": BLUE, "symbol": "diamond-open", "size": 13},
    "random-heads": {"color": GREEN, "symbol": "triangle-up-open", "size": 12},
    "bottom-heads": {"color": PURPLE, "symbol": "triangle-down-open", "size": 12},
    "dense": {"color": ORANGE, "symbol": "square", "size": 12},
    "static": {"color": ORANGE, "symbol": "cross", "size": 12},
    "paper": {"color": STEEL, "symbol": "x", "size": 11},
}


@dataclass(frozen=True)
class Mark:
    """One point of a curve."""

    x: float
    """Share of heads or of FLOPs, in [0, 1]."""
    accuracy: float
    note: str
    """What it is, for the hover text; plain text."""
    low: float | None = None
    """Ends of the interval; None where there is none."""
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """Points of one policy."""

    kind: str
    """A key of LOOKS; the points are joined where it has a dash."""
    name: str
    """For the legend; plain text."""
    marks: tuple[Mark, ...]


def accuracy_curve(lines: Sequence[Line], x_title: str, chosen: Mark | None = None) -> go.Figure:
    """Draw accuracy with its intervals over a share of compute, one trace a line.

    Args:
        lines: what to draw; later ones lie on top. The legend has the order of LOOKS.
        x_title: what x is.
        chosen: the point to ring.
    """
    figure = bare_figure(HEIGHT)
    for line in lines:
        figure.add_scatter(**_trace(line))
    figure.update_layout(
        showlegend=True,
        hovermode="closest",
        clickmode="event+select",
        margin={"l": 8, "r": 12, "t": 12, "b": 48},
        legend={"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0, "itemclick": False,
                "itemdoubleclick": False},
    )  # fmt: skip
    if chosen is not None:
        figure.add_scatter(
            x=[chosen.x], y=[chosen.accuracy], mode="markers", hoverinfo="skip", showlegend=False,
            marker={"symbol": "circle-open", "size": 24, "color": ORANGE, "line": {"width": 3}},
        )  # fmt: skip
    figure.update_xaxes(
        title={"text": x_title, "standoff": 6}, tickformat=".0%", showgrid=True, gridcolor=FAINT,
        ticks="", range=_x_range(lines),
    )  # fmt: skip
    figure.update_yaxes(
        title={"text": "accuracy", "standoff": 6}, tickformat=".1%", showgrid=True,
        gridcolor=FAINT, automargin=True, ticks="",
    )  # fmt: skip
    return figure


def accuracy_curve_alt(lines: Sequence[Line], x_title: str) -> str:
    """Say what `accuracy_curve` shows."""
    parts = "; ".join(
        f"{line.name}: " + ", ".join(f"{mark.x:.1%} → {mark.accuracy:.1%}" for mark in line.marks)
        for line in lines
    )
    return f"Accuracy over {x_title}. {parts}."


@dataclass(frozen=True)
class Taken:
    """What one model took once."""

    name: str
    """The model; plain text."""
    here: bool
    """True for what was just measured here, False for what the model's folder says."""
    value: float
    high: float | None = None
    """The far end of its spread, if it has one."""


def taken(rows: Sequence[Taken], x_title: str) -> go.Figure:
    """Draw what models took: a row a model, a blue dot for its file and an orange one for here."""
    names = list(dict.fromkeys(row.name for row in rows))
    figure = bare_figure(ROW_HEIGHT * len(names) + AXIS_HEIGHT)
    for here, name, colour, symbol, size in (
        (False, "shipped", BLUE, "circle", 13),
        (True, "measured here", ORANGE, "diamond", 12),
    ):
        mine = [row for row in rows if row.here == here]
        if not mine:
            continue
        figure.add_scatter(
            x=[row.value for row in mine], y=[names.index(row.name) for row in mine],
            mode="markers", name=name, cliponaxis=False,
            marker={"color": colour, "symbol": symbol, "size": size},
            customdata=[html.escape(row.name) for row in mine],
            hovertemplate=f"%{{customdata}}, {name}: %{{x:.3g}}<extra></extra>",
            error_x={
                "type": "data", "symmetric": False, "arrayminus": [0] * len(mine),
                "array": [(row.high or row.value) - row.value for row in mine],
                "color": colour, "thickness": 2, "width": 6,
            },
        )  # fmt: skip
    figure.update_layout(margin={"l": 8, "r": 12, "t": 0, "b": AXIS_HEIGHT})
    figure.update_xaxes(
        title={"text": x_title, "standoff": 6}, rangemode="tozero", showgrid=True, gridcolor=FAINT,
        ticks="", tickformat="~g", nticks=6,
    )  # fmt: skip
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=[html.escape(name) for name in names], ticks="",
        range=[len(names) - 0.5, -0.5], automargin=True,
    )  # fmt: skip
    return figure


def taken_alt(rows: Sequence[Taken], x_title: str) -> str:
    """Say what `taken` shows."""
    parts = "; ".join(
        f"{row.name}{' (measured here)' if row.here else ''} {row.value:.3g}" for row in rows
    )
    return f"{x_title[:1].upper()}{x_title[1:]} of each model. {parts}."


def _trace(line: Line) -> dict[str, Any]:
    look, marks = LOOKS[line.kind], line.marks
    trace = {
        "x": [mark.x for mark in marks],
        "y": [mark.accuracy for mark in marks],
        "mode": "lines+markers" if "dash" in look else "markers",
        "name": html.escape(line.name), "legendrank": 1000 + list(LOOKS).index(line.kind),
        "marker": {"color": look["color"], "symbol": look["symbol"], "size": look["size"],
                   "line": {"width": 2 if look["symbol"].endswith("open") else 0}},
        # A selection must not fade what is not selected.
        "selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 1}},
        "customdata": [html.escape(mark.note) for mark in marks],
        "hovertemplate": "%{customdata}<br>accuracy %{y:.2%}, x %{x:.1%}<extra></extra>",
    }  # fmt: skip
    if "dash" in look:
        trace["line"] = {"color": look["color"], "dash": look["dash"], "width": look["width"]}
    if marks and marks[0].low is not None:
        trace["error_y"] = {
            "type": "data", "symmetric": False, "color": GRAY, "thickness": 1.5, "width": 0,
            "array": [(mark.high or mark.accuracy) - mark.accuracy for mark in marks],
            "arrayminus": [mark.accuracy - (mark.low or mark.accuracy) for mark in marks],
        }  # fmt: skip
    return trace


def _x_range(lines: Sequence[Line]) -> list[float]:
    xs = [mark.x for line in lines for mark in line.marks] or [0.0, 1.0]
    room = 0.04 * max(0.1, max(xs) - min(xs))
    return [min(xs) - room, max(xs) + room]

"""Many examples as points: what a model spends on each against how hard it is.

Points are drawn by WebGL, so that fifty thousand of them can be moved. A logarithmic axis is drawn
as the logarithm on a plain one: then the histograms beside it have bars of equal width.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from budgetformer.figures.style import BLUE, GRAY, ORANGE, bare_figure
from budgetformer.relation import Trend

HEIGHT = 520
N_BINS = 40
COLOURS = (
    BLUE, ORANGE, "#00896a", "#b0609b", "#7a6a00", "#b93815", "#3d98cf", "#8593a3",
    "#5f6fc4", "#a0772a", "#4f9d4f", "#c2557a", "#6b8f9c", "#9c6bc2",
)  # fmt: skip
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "star", "x", "hexagon")
LINE, RIM = "#1b2733", "#ffffff"
OUTSIDE = "outside the slice"


@dataclass(frozen=True)
class Group:
    """Points that look alike."""

    name: str
    """For the legend, as users wrote it: it is escaped here."""
    index: NDArray[np.int64]
    """Which of the points."""
    colour: str
    """Of the points and of their bars."""
    symbol: str = "circle"
    """Of the points: colour alone does not reach everyone."""


@dataclass(frozen=True)
class Axis:
    """A quantity of every point."""

    name: str
    """For people."""
    values: NDArray[np.float64]
    """(N,); above 0 where the axis is logarithmic."""
    log: bool = False
    """Whether it is drawn on a logarithmic axis."""

    @property
    def drawn(self) -> NDArray[np.float64]:
        """Where the points lie, (N,)."""
        return np.log10(self.values) if self.log else self.values


def scatter(
    x: Axis,
    y: Axis,
    groups: Sequence[Group],
    rows: NDArray[np.int64],
    line: Trend | None = None,
    level: float | None = None,
) -> go.Figure:
    """Draw the points with a histogram on each side.

    Trace i holds the points of groups[i], in the order of their index.

    Args:
        x: the axis to the right.
        y: the axis upwards.
        groups: how the points look; together they hold each point at most once.
        rows: what the hover text calls each point, (N,).
        line: mean of y along x, in x's own values, with its interval.
        level: where a dashed line lies across, such as the median of y.
    """
    figure = bare_figure(HEIGHT)
    size, opacity = _dots(len(x.values))
    for group in groups:
        outside = group.name == OUTSIDE
        figure.add_scattergl(
            x=x.drawn[group.index].astype(np.float32),
            y=y.drawn[group.index].astype(np.float32),
            mode="markers",
            name=html.escape(group.name),
            customdata=np.stack([rows[group.index], x.values[group.index]], axis=1),
            marker={
                "size": size, "color": group.colour, "symbol": group.symbol,
                "opacity": 0.25 if outside else opacity, "line": {"width": 0},
            },
            hovertemplate=f"row %{{customdata[0]:,}}<br>{html.escape(x.name)}: "
            f"%{{customdata[1]:.4~g}}<br>{html.escape(y.name)}: %{{y:.4~g}}"
            f"<extra>{html.escape(group.name)}</extra>",
        )  # fmt: skip
    if line is not None:
        _add_trend(figure, line, x.log)
    for group in groups:
        if group.name != OUTSIDE:
            _add_bars(figure, x.drawn, group, "x")
            _add_bars(figure, y.drawn, group, "y")
    figure.update_layout(
        barmode="stack", bargap=0.06, hovermode="closest", dragmode="lasso",
        margin={"l": 66, "r": 6, "t": 34, "b": 52},
        showlegend=len(groups) > 1,
        legend={"orientation": "h", "x": 0, "y": 1.005, "yanchor": "bottom", "xanchor": "left",
                "itemsizing": "constant", "font": {"size": 13},
                "traceorder": "normal"},
        shapes=[] if level is None else [
            {"type": "line", "xref": "x domain", "x0": 0, "x1": 1, "yref": "y", "y0": level,
             "y1": level, "line": {"color": GRAY, "width": 2, "dash": "dash"}}
        ],
    )  # fmt: skip
    grid = {"showgrid": True, "gridcolor": GRAY, "gridwidth": 1, "ticks": "", "fixedrange": False}
    figure.update_layout(
        xaxis={**grid, "domain": [0, 0.87], "anchor": "y", **_ticks(x), "title":
               {"text": _title(x), "standoff": 10}},
        yaxis={**grid, "domain": [0, 0.84], "anchor": "x", **_ticks(y), "title":
               {"text": _title(y), "standoff": 6}},
        yaxis2={"domain": [0.86, 1], "anchor": "x", "showticklabels": False, "showgrid": False,
                "fixedrange": True, "zeroline": False},
        xaxis2={"domain": [0.885, 1], "anchor": "y", "showticklabels": False, "showgrid": False,
                "fixedrange": True, "zeroline": False},
    )  # fmt: skip
    return figure


def scatter_alt(x: Axis, y: Axis, groups: Sequence[Group], said: str) -> str:
    """Say what `scatter` shows; `said` is what is known of the trend."""
    counts = ", ".join(f"{len(group.index):,} {group.name}" for group in groups)
    return f"{y.name} against {x.name} of {len(x.values):,} examples: {counts}. {said}"


def looks(n: int) -> list[tuple[str, str]]:
    """Return a colour and a symbol for each of n groups."""
    return [(COLOURS[i % len(COLOURS)], SYMBOLS[i % len(SYMBOLS)]) for i in range(n)]


def outside_group(index: NDArray[np.int64]) -> Group:
    """Return the points that a filter left out."""
    return Group(OUTSIDE, index, "rgb(128, 140, 152)")


def _dots(n: int) -> tuple[float, float]:
    """Size and opacity: many points are smaller and more of each other shines through."""
    for most, look in ((800, (9, 0.8)), (4000, (7, 0.6)), (15000, (5, 0.45))):
        if n <= most:
            return look
    return 4, 0.3


def _add_trend(figure: go.Figure, line: Trend, log: bool) -> None:
    """Draw the mean and the ends of its interval, by WebGL too: plain lines lie below the points.

    Each is dark with a light rim, to be seen on points of any colour and on either page.
    """
    x = np.log10(line.x) if log else line.x
    for y, width in ((line.low, 1), (line.high, 1), (line.y, 3)):
        for colour, extra in ((RIM, 2), (LINE, 0)):
            middle = y is line.y and not extra
            figure.add_scattergl(
                x=x, y=y, mode="lines", line={"color": colour, "width": width + extra},
                name="mean along x" if middle else "rim", showlegend=False,
                customdata=np.stack([line.x, line.low, line.high], axis=1) if middle else None,
                hoverinfo=None if middle else "skip",
                hovertemplate="mean %{y:.4~g}<br>95 % interval %{customdata[1]:.4~g} to "
                "%{customdata[2]:.4~g}<br>at %{customdata[0]:.3~g}<extra></extra>"
                if middle else None,
            )  # fmt: skip


def _add_bars(figure: go.Figure, values: NDArray[np.float64], group: Group, side: str) -> None:
    """Count a group along an axis; all groups share the bins."""
    low, high = float(values.min()), float(values.max())
    counts, edges = np.histogram(
        values[group.index], bins=N_BINS, range=(low, high if high > low else low + 1)
    )
    middle = (edges[:-1] + edges[1:]) / 2
    place: dict[str, Any] = (
        {"x": middle, "y": counts, "yaxis": "y2"}
        if side == "x"
        else {"y": middle, "x": counts, "xaxis": "x2", "orientation": "h"}
    )
    figure.add_bar(
        **place, marker={"color": group.colour, "line": {"width": 0}}, opacity=0.75,
        showlegend=False, name=html.escape(group.name), hoverinfo="skip",
    )  # fmt: skip


def _title(axis: Axis) -> str:
    return html.escape(axis.name) + (" (logarithmic)" if axis.log else "")


def _ticks(axis: Axis) -> dict[str, Any]:
    """Name the powers of ten on a logarithmic axis."""
    if not axis.log:
        return {}
    low, high = math.floor(axis.drawn.min()), math.ceil(axis.drawn.max())
    powers = list(range(low, high + 1, max(1, (high - low) // 7)))
    return {
        "tickmode": "array",
        "tickvals": powers,
        "ticktext": [f"{10.0**power:g}" for power in powers],
    }

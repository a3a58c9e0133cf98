"""Where heads look: one head's attention map, and all of them side by side."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from budgetformer.figures.style import BLUE, GRAY, bare_figure, blue

MAP_HEIGHT = 460
MOST_NAMES = 40
"""Names at the axes of more units than this would overlap; they are shown on hover."""
LONGEST_NAME = 14
TILE = 32
"""Cells a side of a map in the overview; a longer text is pooled down to it."""
TILE_HEIGHT = 84
NAMED = 3


def attention_map(weights: NDArray[np.float32], names: Sequence[str]) -> go.Figure:
    """Draw one head's attention; rows look, columns are looked at.

    Args:
        weights: probabilities, (n, n).
        names: what the rows and columns stand for, as typed: it is escaped here.
    """
    shown = [html.escape(_short(name)) for name in names]
    figure = bare_figure(MAP_HEIGHT)
    figure.add_heatmap(
        z=weights.astype(np.float32), zmin=0, zmax=float(weights.max(initial=0)) or 1.0,
        colorscale=[[0, blue(0.03)], [1, blue(0.95)]], showscale=False,
        hovertemplate="%{y} → %{x}<br>%{z:.1%}<extra></extra>",
    )  # fmt: skip
    axis = {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": shown,  # also what the hover text calls %{x} and %{y}
        "showticklabels": len(names) <= MOST_NAMES,
        "ticks": "",
        "automargin": True,
    }
    figure.update_layout(
        margin={"t": 10},  # else the first row's name is cut off
        xaxis={**axis, "tickangle": -90, "title": {"text": "looked at", "standoff": 8}},
        yaxis={**axis, "autorange": "reversed", "title": {"text": "looks", "standoff": 8}},
    )
    return figure


def attention_map_alt(weights: NDArray[np.float32], names: Sequence[str]) -> str:
    """Say what `attention_map` shows: its strongest links."""
    links = "; ".join(f"{a} to {b} {w:.0%}" for a, b, w in strongest(weights, names))
    return f"Attention map of {len(names)} by {len(names)}. Strongest: {links}."


def strongest(
    weights: NDArray[np.float32], names: Sequence[str], n: int = NAMED
) -> list[tuple[str, str, float]]:
    """Return the n largest weights as (who looks, at whom, weight)."""
    flat = weights.ravel()
    n = min(n, flat.size)
    # A full sort of a long text's map takes longer than the model does.
    largest = np.sort(np.argpartition(-flat, n - 1)[:n])
    order = largest[np.argsort(-flat[largest], kind="stable")]
    pairs = zip(*np.unravel_index(order, weights.shape), strict=True)
    return [(names[i], names[j], float(weights[i, j])) for i, j in pairs]


def attention_overview(
    maps: Mapping[tuple[int, int], NDArray[np.float32]],
    n_layers: int,
    n_heads: int,
    picked: tuple[int, int] | None = None,
) -> go.Figure:
    """Draw the maps of all heads as small tiles; a skipped head's tile is empty and says so.

    Each map is drawn on its own scale, so that patterns can be compared; a click selects the point
    (layer · H + head) of the second, invisible trace.

    Args:
        maps: probabilities of the executed heads, by (layer, head).
        n_layers: L, one row of tiles each.
        n_heads: H.
        picked: the head that is shown large.
    """
    side = min(TILE, *(len(map_) for map_ in maps.values())) if maps else 1
    gap = max(1, side // 8)
    step = side + gap
    canvas = np.full((n_layers * step, n_heads * step), np.nan, dtype=np.float32)
    for (layer, head), weights in maps.items():
        tile = pooled(weights, side)
        top, left = layer * step, head * step
        canvas[top : top + side, left : left + side] = tile / max(float(tile.max()), 1e-9)
    middle = (side - 1) / 2
    cells = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    figure = bare_figure(TILE_HEIGHT * n_layers + 48)
    figure.add_heatmap(
        z=canvas, zmin=0, zmax=1, colorscale=[[0, blue(0.06)], [1, blue(0.95)]],
        showscale=False, hoverinfo="skip", hoverongaps=False,
    )  # fmt: skip
    figure.add_scatter(
        x=[head * step + middle for _, head in cells],
        y=[layer * step + middle for layer, _ in cells],
        mode="markers", marker={"symbol": "square", "size": 40, "opacity": 0},
        customdata=[
            (layer + 1, head + 1, "" if (layer, head) in maps else ": skipped")
            for layer, head in cells
        ],
        hovertemplate="Layer %{customdata[0]}, head %{customdata[1]}%{customdata[2]}"
        "<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(
        tickvals=[head * step + middle for head in range(n_heads)],
        ticktext=[str(head + 1) for head in range(n_heads)],
        title={"text": "head", "standoff": 16}, ticks="",
        range=[-0.5 - gap / 2, n_heads * step - 0.5 - gap / 2],
    )  # fmt: skip
    figure.update_yaxes(
        tickvals=[layer * step + middle for layer in range(n_layers)],
        ticktext=[f"Layer {layer + 1}" for layer in range(n_layers)], ticks="",
        range=[n_layers * step - 0.5 - gap / 2, -0.5 - gap / 2],
    )  # fmt: skip
    skipped = [cell for cell in cells if cell not in maps]
    figure.update_layout(
        margin={"l": 58, "b": 48}, hovermode="closest", hoverdistance=-1,
        annotations=[
            {
                "x": head * step + middle, "y": layer * step + middle, "text": "skipped",
                "showarrow": False, "textangle": -90 if n_heads > 6 else 0,
                "font": {"size": 11}, "opacity": 0.7,
            }
            for layer, head in skipped
        ],
        shapes=[
            _tile_frame(layer * step, head * step, side, {"color": GRAY, "width": 1, "dash": "dot"})
            for layer, head in skipped
        ]
        + (
            [_tile_frame(picked[0] * step, picked[1] * step, side, {"color": BLUE, "width": 2})]
            if picked
            else []
        ),
    )  # fmt: skip
    return figure


def attention_overview_alt(
    maps: Mapping[tuple[int, int], NDArray[np.float32]], n_layers: int, n_heads: int
) -> str:
    """Say what `attention_overview` shows."""
    layers = "; ".join(
        f"layer {layer + 1}: maps of heads "
        + ", ".join(str(head + 1) for at, head in sorted(maps) if at == layer)
        for layer in range(n_layers)
    )
    return f"Attention maps of all {n_heads} heads of each layer, skipped ones empty. {layers}."


def pooled(weights: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """Shrink a map to (side, side); each cell keeps the strongest weight in it."""
    edges = np.linspace(0, len(weights), side + 1).astype(int)[:-1]
    rows = np.maximum.reduceat(weights, edges, axis=0)
    return np.asarray(np.maximum.reduceat(rows, edges, axis=1), dtype=np.float32)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _tile_frame(top: float, left: float, side: int, line: dict[str, object]) -> dict[str, object]:
    return {
        "type": "rect", "line": line,
        "x0": left - 0.5, "x1": left + side - 0.5, "y0": top - 0.5, "y1": top + side - 0.5,
    }  # fmt: skip

"""Which heads each layer ran: the layers × heads grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from budgetformer.figures.style import BLUE, ORANGE, bare_figure, blue

ROW_HEIGHT = 58
AXIS_HEIGHT = 44
MOST_HEADS_WITH_TEXT = 12
"""Numbers in the cells of more heads than this would not fit on a phone."""


@dataclass(frozen=True)
class Mark:
    """What a cell says beside p."""

    runs: bool
    """Whether the head ran."""
    tie: bool
    """Whether it is as good as level with one on the other side of the cut."""
    forced: bool | None
    """True if it was forced in, False if out."""

    @property
    def signs(self) -> str:
        """What stands in the cell."""
        forced = {None: "", True: "in", False: "out"}[self.forced]
        return " ".join(filter(None, ["✓" * self.runs, "≈" * self.tie, forced]))

    @property
    def words(self) -> str:
        """What stands in the hover text."""
        forced = {None: "", True: ", forced in", False: ", forced out"}[self.forced]
        return ("runs" if self.runs else "is skipped") + ", near tie" * self.tie + forced


def head_grid(
    probabilities: Sequence[Sequence[float]],
    executed: Sequence[Sequence[int]],
    scores: Sequence[Sequence[float]],
    *,
    ties: Sequence[Sequence[int]] = (),
    forced: Mapping[tuple[int, int], bool] | None = None,
    picked: tuple[int, int] | None = None,
) -> go.Figure:
    """Draw p of every head in every layer; executed heads have a frame, a tick and bold figures.

    A click on a cell selects the point (layer · H + head) of the second, invisible trace: a heatmap
    gives no clicks.

    Args:
        probabilities: p, one row a layer, first layer first.
        executed: indices of the executed heads of each layer.
        scores: z, shown on hover.
        ties: heads of each layer that are as good as level with one on the other side of the cut.
        forced: True for a head that was forced in, False for one forced out, by (layer, head).
        picked: the head that another chart shows, (layer, head).
    """
    n_layers, n_heads = len(probabilities), len(probabilities[0])
    forced = forced or {}
    cells = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    marks = {
        (layer, head): Mark(
            runs=head in executed[layer],
            tie=bool(ties) and head in ties[layer],
            forced=forced.get((layer, head)),
        )
        for layer, head in cells
    }
    x = [str(head + 1) for head in range(n_heads)]
    y = [f"Layer {layer + 1}" for layer in range(n_layers)]
    figure = bare_figure(ROW_HEIGHT * n_layers + AXIS_HEIGHT)
    figure.add_heatmap(
        x=x, y=y, z=[list(row) for row in probabilities],
        zmin=0, zmax=1, colorscale=[[0, blue(0.05)], [1, blue(0.65)]], showscale=False,
        xgap=6, ygap=6, hoverinfo="skip", textfont={"size": 13},
        text=[
            [_cell(p, marks[layer, head]) for head, p in enumerate(row)]
            for layer, row in enumerate(probabilities)
        ],
        texttemplate="%{text}" if n_heads <= MOST_HEADS_WITH_TEXT else None,
    )  # fmt: skip
    figure.add_scatter(
        x=[x[head] for _, head in cells], y=[y[layer] for layer, _ in cells],
        mode="markers", marker={"symbol": "square", "size": 40, "opacity": 0},
        customdata=[
            (probabilities[layer][head], scores[layer][head], marks[layer, head].words)
            for layer, head in cells
        ],
        hovertemplate="%{y}, head %{x} %{customdata[2]}<br>p = %{customdata[0]:.4f}<br>"
        "score z = %{customdata[1]:.3f}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(
        title={"text": "head", "standoff": 16}, type="category", ticks="",
        range=[-0.5, n_heads - 0.5],
    )  # fmt: skip
    figure.update_yaxes(type="category", ticks="", range=[n_layers - 0.5, -0.5])
    frames = [
        _frame(layer, head, {"color": ORANGE, "width": 3 if n_heads <= 8 else 2})
        for layer, head in cells
        if marks[layer, head].runs
    ]
    if picked is not None:
        frames.append(_frame(*picked, {"color": BLUE, "width": 2, "dash": "dot"}, 0.5))
    figure.update_layout(
        margin={"l": 58, "b": AXIS_HEIGHT}, shapes=frames, hovermode="closest", hoverdistance=-1
    )
    return figure


def head_grid_alt(
    probabilities: Sequence[Sequence[float]], executed: Sequence[Sequence[int]]
) -> str:
    """Say what `head_grid` shows."""
    layers = "; ".join(
        f"layer {layer + 1} runs "
        + ", ".join(f"head {head + 1} ({row[head]:.0%})" for head in heads)
        + f" of {len(row)}"
        for layer, (row, heads) in enumerate(zip(probabilities, executed, strict=True))
    )
    return f"Probability of every head, executed heads framed. {layers}."


def _cell(probability: float, mark: Mark) -> str:
    """Write p in percent; a softmax is never 0 or 1, so neither is shown."""
    if probability < 0.005:
        percent = "<1"
    elif probability >= 0.995:
        percent = ">99"
    else:
        percent = f"{100 * probability:.0f}"
    figure = f"<b>{percent}</b>" if mark.runs else percent
    return f"{figure}<br>{mark.signs}" if mark.signs else figure


def _frame(layer: int, head: int, line: dict[str, object], half: float = 0.46) -> dict[str, object]:
    return {
        "type": "rect", "line": line,
        "x0": head - half, "x1": head + half, "y0": layer - half + 0.02, "y1": layer + half - 0.02,
    }  # fmt: skip

"""Which heads each layer ran: the layers × heads grid."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from budgetformer.figures.style import ORANGE, bare_figure, blue

ROW_HEIGHT = 58
AXIS_HEIGHT = 44
MOST_HEADS_WITH_TEXT = 12
"""Numbers in the cells of more heads than this would not fit on a phone."""


def head_grid(
    probabilities: Sequence[Sequence[float]],
    executed: Sequence[Sequence[int]],
    scores: Sequence[Sequence[float]],
) -> go.Figure:
    """Draw p of every head in every layer; executed heads have a frame, a tick and bold figures.

    Args:
        probabilities: p, one row a layer, first layer first.
        executed: indices of the executed heads of each layer.
        scores: z, shown on hover.
    """
    n_layers, n_heads = len(probabilities), len(probabilities[0])
    runs = [[head in heads for head in range(n_heads)] for heads in executed]
    figure = bare_figure(ROW_HEIGHT * n_layers + AXIS_HEIGHT)
    figure.add_heatmap(
        x=[str(head + 1) for head in range(n_heads)],
        y=[f"Layer {layer + 1}" for layer in range(n_layers)],
        z=[list(row) for row in probabilities],
        zmin=0,
        zmax=1,
        colorscale=[[0, blue(0.05)], [1, blue(0.65)]],
        showscale=False,
        xgap=6,
        ygap=6,
        text=[
            [_cell(p, run) for p, run in zip(ps, rs, strict=True)]
            for ps, rs in zip(probabilities, runs, strict=True)
        ],
        texttemplate="%{text}" if n_heads <= MOST_HEADS_WITH_TEXT else None,
        textfont={"size": 13},
        customdata=[
            [(z, "runs" if run else "is skipped") for z, run in zip(zs, rs, strict=True)]
            for zs, rs in zip(scores, runs, strict=True)
        ],
        hovertemplate="%{y}, head %{x} %{customdata[1]}<br>p = %{z:.4f}<br>"
        "score z = %{customdata[0]:.3f}<extra></extra>",
    )
    figure.update_xaxes(title={"text": "head", "standoff": 16}, type="category", ticks="")
    figure.update_yaxes(autorange="reversed", type="category", ticks="")
    figure.update_layout(
        margin={"l": 58, "b": AXIS_HEIGHT},
        shapes=[
            {
                "type": "rect",
                "x0": head - 0.46,
                "x1": head + 0.46,
                "y0": layer - 0.44,
                "y1": layer + 0.44,
                "line": {"color": ORANGE, "width": 3 if n_heads <= 8 else 2},
            }
            for layer, heads in enumerate(executed)
            for head in heads
        ],
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


def _cell(probability: float, runs: bool) -> str:
    """Write p in percent; a softmax is never 0 or 1, so neither is shown."""
    if probability < 0.005:
        percent = "<1"
    elif probability >= 0.995:
        percent = ">99"
    else:
        percent = f"{100 * probability:.0f}"
    return f"<b>{percent}</b><br>✓" if runs else percent

"""How decided head scores are: p of every head at the model's temperature and at another one."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from budgetformer.figures.style import GRAY, bare_figure, blue

ROW_HEIGHT = 110


def sharpness_bars(own: Sequence[Sequence[float]], shown: Sequence[Sequence[float]]) -> go.Figure:
    """Draw p of every head of every layer as bars, the model's own beside that at the asked τ.

    Args:
        own: p at the model's temperature, one row a layer.
        shown: p at the asked temperature.
    """
    n_layers, n_heads = len(own), len(own[0])
    heads = list(range(1, n_heads + 1))
    figure = bare_figure(ROW_HEIGHT * n_layers + 48)
    for layer in range(n_layers):
        axis = {"xaxis": "x", "yaxis": f"y{layer + 1}" if layer else "y"}
        figure.add_bar(
            x=heads, y=list(own[layer]), marker={"color": GRAY}, name="the model's τ", **axis,
            hovertemplate=f"Layer {layer + 1}, head %{{x}}<br>p = %{{y:.3f}} at the model's τ"
            "<extra></extra>",
        )  # fmt: skip
        figure.add_bar(
            x=heads, y=list(shown[layer]), marker={"color": blue(0.75)}, name="your τ", **axis,
            hovertemplate=f"Layer {layer + 1}, head %{{x}}<br>p = %{{y:.3f}} at your τ"
            "<extra></extra>",
        )  # fmt: skip
    share = 1 / n_layers
    figure.update_layout(
        bargap=0.25, bargroupgap=0.05, margin={"l": 58, "b": 48},
        **{
            f"yaxis{layer + 1 if layer else ''}": {
                "domain": [1 - (layer + 1) * share + 0.14 * share, 1 - layer * share],
                "range": [0, 1], "tickvals": [0, 1], "ticktext": ["0", "1"], "ticks": "",
                "title": {"text": f"Layer {layer + 1}", "standoff": 2}, "fixedrange": True,
                "showgrid": False, "zeroline": False,
            }
            for layer in range(n_layers)
        },
    )  # fmt: skip
    figure.update_xaxes(
        title={"text": "head", "standoff": 16}, anchor=f"y{n_layers}" if n_layers > 1 else "y",
        tickvals=heads if n_heads <= 16 else heads[::4], ticks="",
    )  # fmt: skip
    return figure


def sharpness_bars_alt(
    own: Sequence[float], shown: Sequence[float], own_tau: float, tau: float
) -> str:
    """Say what `sharpness_bars` shows, by effective numbers of heads of each layer."""
    layers = "; ".join(
        f"layer {i}: {before:.2f} effective heads at the model's temperature, {after:.2f} at yours"
        for i, (before, after) in enumerate(zip(own, shown, strict=True), 1)
    )
    return f"Head probabilities at temperature {own_tau:g} and at {tau:g}. {layers}."

"""What all figures share.

Backgrounds are transparent and the colours are translucent or of middle lightness, so that one
figure is right on a light and on a dark page; the page sets the colour of the letters.
"""

from __future__ import annotations

import plotly.graph_objects as go

BLUE_RGB = "0, 114, 178"  # Okabe and Ito's blue and, darker, orange: safe for all colour vision
BLUE = "#2a86c4"  # for lines on either page
ORANGE = "#c87000"
GRAY = "rgba(128, 140, 152, 0.35)"
FAINT = "rgba(128, 140, 152, 0.14)"


def blue(alpha: float) -> str:
    """Return the blue with an opacity in [0, 1]."""
    return f"rgba({BLUE_RGB}, {alpha:g})"


def bare_figure(height: int) -> go.Figure:
    """Return a figure without background, margins, legend, zoom or bounce."""
    figure = go.Figure()
    figure.update_layout(
        height=height,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=False,
        dragmode=False,
        hoverlabel={"align": "left"},
    )
    figure.update_xaxes(fixedrange=True, zeroline=False, showgrid=False)
    figure.update_yaxes(fixedrange=True, zeroline=False, showgrid=False)
    return figure

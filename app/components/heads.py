"""How many heads and which: the budget bars and the head grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import streamlit as st

from app.components import operating_point
from app.layout import slot
from budgetformer.config import ModelConfig
from budgetformer.figures.budgets import budget_bars, budget_bars_alt, plain
from budgetformer.figures.heads import MOST_HEADS_WITH_TEXT, head_grid, head_grid_alt
from budgetformer.routing_view import Boundary, boundaries
from budgetformer.trace import Trace

ROUNDED = {"floor": "rounded down", "nearest": "rounded", "ceil": "rounded up"}
PLAIN_CHART: dict[str, object] = {"displayModeBar": False}

Head = tuple[int, int]
"""(layer, head), both from 0; screens add one."""


@slot()
def budgets_and_heads(
    config: ModelConfig, trace: Trace, key: str, picked: Head | None = None
) -> None:
    """Draw both charts side by side; for a dense model, say why there are none."""
    if not config.routed:
        st.subheader("How many heads, and which")
        st.info(
            "This model has no router: nothing is decided for each text, and all "
            f"{config.n_heads} heads of each layer run. Pick a model that chooses its heads to see "
            "budgets and the head grid.",
            icon=":material/info:",
        )
        return
    limit = operating_point.limit(config)
    near = boundaries(trace, config, limit)
    left, right = st.columns(2, gap="medium")
    with left:
        st.subheader(
            "How many heads",
            help="Budget s: a number between 0 and 1 that a small network in each layer computes "
            "from the text. H: the heads a layer has. k: the heads it runs, max(1, s·H "
            f"{ROUNDED[config.rounding]}).",
        )
        st.markdown(
            f"Each layer asks for a share **s** of its {config.n_heads} heads (blue bar). It gets "
            f"a whole number **k** of them (orange mark): s·H {ROUNDED[config.rounding]}, but "
            f"never less than one{'' if limit is None else f' or more than {limit}, your limit'}."
        )
        budgets(config, trace, key)
        st.html(_boundary_lines(near, config))
    with right:
        st.subheader(
            "Which heads",
            help="p: the router's preference among a layer's heads, softmax(z/τ) of their scores z "
            f"with temperature τ = {config.temperature:g}. The k heads with the largest p run, "
            "each at full strength; p is not a weight.",
        )
        st.markdown(
            "Each number is the preference **p** for a head, in percent of its layer. The **k** "
            "most preferred heads run (framed, with a tick); the others are skipped. Click one to "
            "see below where it looks."
            if config.n_heads <= MOST_HEADS_WITH_TEXT
            else "The deeper the blue, the stronger the preference **p** for a head. The **k** "
            "most preferred heads of a layer run (framed); the others are skipped. Click one to "
            "see below where it looks."
        )
        ties = [(b.last, b.next) if b.near_tie and b.next is not None else () for b in near]
        grid(trace, key, ties=ties, picked=picked)
        st.html(_tie_lines(near))


def budgets(config: ModelConfig, trace: Trace, key: str) -> None:
    """Draw the budget bars."""
    wanted = [layer.budget for layer in trace.layers]
    executed = [layer.k for layer in trace.layers]
    st.plotly_chart(
        budget_bars(wanted, executed, config.n_heads),
        key=f"{key}_budgets",
        config=PLAIN_CHART,
        alt=budget_bars_alt(wanted, executed, config.n_heads),
    )


def grid(
    trace: Trace,
    key: str,
    *,
    ties: Sequence[tuple[int, ...]] = (),
    forced: Mapping[Head, bool] | None = None,
    picked: Head | None = None,
) -> None:
    """Draw the head grid; `clicked` tells in the next run where it was clicked."""
    probabilities = [layer.head_probabilities for layer in trace.layers]
    heads = [layer.heads for layer in trace.layers]
    figure = head_grid(
        probabilities,
        heads,
        [layer.scores for layer in trace.layers],
        ties=ties,
        forced=forced,
        picked=picked,
    )
    clickable(figure, f"{key}_heads", head_grid_alt(probabilities, heads))


def clickable(
    figure: go.Figure, key: str, alt: str, config: Mapping[str, object] = PLAIN_CHART
) -> None:
    """Draw a chart of heads; `clicked` tells in the next run which of them was clicked."""
    event = st.plotly_chart(
        figure,
        key=key,
        config=dict(config),
        alt=alt,
        on_select="rerun",
        selection_mode="points",
    )
    # A chart that has changed has lost its selection, so the same head can be clicked again.
    if not event["selection"]["points"]:
        st.session_state[_seen(key)] = None


def clicked(chart: str, n_heads: int) -> Head | None:
    """Return the head that was clicked since the last run, in a chart of L·H points.

    Read before the charts are drawn, so that one run is enough; the seen selection is kept, since
    it stays until the chart changes.
    """
    event = st.session_state.get(chart) or {}
    points = event.get("selection", {}).get("points", [])
    point = points[0].get("point_index") if points else None
    seen, st.session_state[_seen(chart)] = st.session_state.get(_seen(chart)), point
    return divmod(point, n_heads) if isinstance(point, int) and point != seen else None


def _seen(chart: str) -> str:
    return f"{chart}_seen"


def head_name(head: Head) -> str:
    return f"Layer {head[0] + 1}, head {head[1] + 1}"


def _boundary_lines(near: tuple[Boundary, ...], config: ModelConfig) -> str:
    return _lines(
        [_boundary(i, b, config.n_heads, config.constant_budget) for i, b in enumerate(near, 1)]
    )


def _boundary(layer: int, boundary: Boundary, n_heads: int, fixed: bool) -> str:
    start = f"<b>Layer {layer}</b> asks for {plain(boundary.wanted)} heads"
    if fixed:
        return f"{start}, always: this model's budget is fixed."
    parts = []
    if boundary.up is not None:
        parts.append(f"one more from {_heads(boundary.up * n_heads)} on")
    if boundary.down is not None:
        parts.append(f"one fewer below {_heads(boundary.down * n_heads)}")
    flag = " <b>Near the boundary.</b>" if boundary.near_boundary else ""
    alone = "this layer has one head" if n_heads == 1 else "your limit leaves it one"
    return f"{start}: {', '.join(parts) or alone}.{flag}"


def _heads(change: float) -> str:
    """Write a distance in heads, with a sign."""
    digits = 2 if abs(change) >= 0.005 else 4
    return f"{change:+.{digits}f}".replace("-", "−")


def _tie_lines(near: tuple[Boundary, ...]) -> str:
    lines = []
    for layer, b in enumerate(near, 1):
        if b.next is None:
            lines.append(f"<b>Layer {layer}</b> runs all its heads: there is no cut.")
        else:
            flag = " <b>A near tie (≈).</b>" if b.near_tie else ""
            lines.append(
                f"<b>Layer {layer}</b>: head {b.last + 1} is the last that runs, head {b.next + 1} "
                f"the first that does not; p differs by {100 * (b.probability_gap or 0):.1f} "
                f"points.{flag}"
            )
    return _lines(lines)


def _lines(lines: list[str]) -> str:
    return f'<p class="bf-small">{"<br>".join(lines)}</p>'

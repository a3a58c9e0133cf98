"""The map of a scored set: what the model spends on each example against how hard it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import loaders, state
from app.components.downloads import chart_config, figure_menu, file_name
from app.components.examples_filter import set_points
from app.components.examples_table import look_at
from app.components.examples_verdict import estimate
from app.components.records import Picked
from app.components.selection import forget_lost, taken
from app.layout import slot
from budgetformer.figures.scatter import (
    Axis,
    Group,
    looks,
    outside_group,
    scatter,
    scatter_alt,
)
from budgetformer.figures.style import BLUE, ORANGE
from budgetformer.measures import Measure, budgets, difficulties, on_axis
from budgetformer.records import ScoredSet
from budgetformer.relation import trend
from budgetformer.slices import QUADRANTS, Mask, quadrant_of

COLOURS = {
    "right": "right or wrong",
    "quadrant": "quadrant",
    "gold": "gold class",
    "predicted": "predicted class",
}
MOST_CLASSES = 14
MOST_POINTS = 50_000
QUADRANT_LOOKS = (
    ("#e8a33d", "diamond"), (ORANGE, "diamond"), ("#7fb8de", "circle"), (BLUE, "circle"),
)  # fmt: skip


def take_pick(picked: Picked, key: str) -> None:
    """Follow what was picked on the map: one point is read, several make a slice."""
    groups: list[NDArray[np.int64]] = st.session_state.get(f"{key}_map_index", [])
    positions = sorted(
        {
            int(groups[point["curve_number"]][point["point_index"]])
            for point in taken(f"{key}_map")
            # Behind the points come the trend and the histograms.
            if point["curve_number"] < len(groups)
        }
    )
    if positions:
        look_at(picked.scored, positions[0])
    if len(positions) > 1:
        set_points(key, frozenset(positions))


def section(picked: Picked, inside: Mask, key: str) -> None:
    """Draw the map with its controls.

    Args:
        picked: the set.
        inside: the examples that fit all conditions but the pick on this map, (N,).
        key: prefix of the widgets', and of the slice's conditions.
    """
    scored = picked.scored
    x, y, colour = _controls(scored)
    with slot():
        if len(scored) > MOST_POINTS:
            st.caption(f"The first {MOST_POINTS:,} of {len(scored):,} examples are drawn.")
    shown = np.arange(len(scored)) < MOST_POINTS
    groups = _groups(scored, colour, inside & shown, shown)
    axes = [
        Axis(measure.label, on_axis(measure, measure.values(scored)), measure.log)
        for measure in (x, y)
    ]
    line = trend(axes[0].values[inside & shown], axes[1].values[inside & shown])
    level = float(np.median(axes[1].values)) if colour == "quadrant" and y.name == "s" else None
    figure = scatter(axes[0], axes[1], groups, scored.rows + 1, line, level)
    said = _said(picked, x, y)
    alt = scatter_alt(axes[0], axes[1], groups, said)
    chart = f"{key}_map"

    st.session_state[f"{chart}_index"] = [group.index for group in groups]
    name = file_name("map", scored.source.model, x.name, y.name)
    event = st.plotly_chart(
        figure,
        key=chart,
        on_select="rerun",
        selection_mode=("points", "box", "lasso"),
        config=chart_config(
            name, chart, ("lasso2d", "select2d", "zoom2d", "pan2d", "resetScale2d")
        ),
        alt=alt,
    )
    forget_lost(chart, event)
    with st.container(horizontal=True, horizontal_alignment="distribute", gap="medium"):
        st.caption(f"{said} {_how(scored, line is not None, level)}", width="stretch")
        figure_menu(figure, alt, name, chart, lambda: _frame(scored, (x, y)))


def _controls(scored: ScoredSet) -> tuple[Measure, Measure, str]:
    across = {m.name: m for m in difficulties(scored)}
    # Without budgets, doubt against loss is what there is to see.
    other = sorted(across.values(), key=lambda m: m.name != "margin")
    upwards = {m.name: m for m in (budgets(scored) if scored.has_budgets else other)}
    colours = [
        name
        for name in COLOURS
        if (name != "quadrant" or scored.has_budgets)
        and (name not in ("gold", "predicted") or len(scored.source.labels) <= MOST_CLASSES)
    ]
    title, meaning = "Upwards", "Another measure of difficulty."
    if scored.has_budgets:
        title = "Upwards: what it gets"
        meaning = "The budget s that the layers ask for, or the share of heads that ran."
    left, middle, right = st.columns(3)
    with left:
        x = _choice(
            state.EXAMPLES_X, "Across: difficulty", {n: m.label for n, m in across.items()},
            "How hard an example is: by the model's own doubt, by the loss of another model, or by "
            "its length. A small margin is hard; of all others, large is hard.",
        )  # fmt: skip
    with middle:
        y = _choice(
            state.EXAMPLES_Y, title, {n: m.label for n, m in upwards.items()}, meaning,
        )  # fmt: skip
    with right:
        colour = _choice(
            state.EXAMPLES_COLOUR, "Colour", {name: COLOURS[name] for name in colours},
            "What the points' colours and shapes tell apart.",
        )  # fmt: skip
    return across[x], upwards[y], colour


def _choice(key: str, label: str, words: dict[str, str], help: str) -> str:
    """Draw a choice that is part of the page's address."""
    options = list(words)
    state.read_url(key, options[0])
    if st.session_state[key] not in options:
        st.session_state[key] = options[0]
    chosen: str = st.selectbox(
        label, options, format_func=lambda name: words.get(name, name), key=key, help=help,
        persist_state="session",
    )  # fmt: skip
    state.write_url(key, options[0])
    return chosen


def _groups(scored: ScoredSet, colour: str, inside: Mask, shown: Mask) -> list[Group]:
    """Tell the points inside apart; those outside come first, so that they lie below."""
    labels = scored.source.labels
    kinds: Any
    if colour == "quadrant":
        kinds = quadrant_of(scored), QUADRANTS, QUADRANT_LOOKS
    elif colour == "right":
        looks_ = ((BLUE, "circle"), (ORANGE, "diamond"))
        kinds = (~scored.records.correct).astype(int), ("right", "wrong"), looks_
    else:
        numbers = scored.records.labels if colour == "gold" else scored.predicted
        kinds = numbers, labels, looks(len(labels))
    numbers, names, how = kinds
    outside = np.flatnonzero(shown & ~inside)
    groups = [outside_group(outside)] if len(outside) else []
    return groups + [
        Group(name, np.flatnonzero(inside & (numbers == number)), *look)
        for number, (name, look) in enumerate(zip(names, how, strict=True))
    ]


def _said(picked: Picked, x: Measure, y: Measure) -> str:
    rho = loaders.correlation(picked.key, picked.scored, x.name, y.name)
    if rho is None:
        return "One of the two is the same for every example: no correlation."
    return f"Rank correlation of the whole set: ρ = {estimate(rho)}."


def _how(scored: ScoredSet, has_line: bool, level: float | None) -> str:
    parts = []
    if has_line:
        parts.append(
            "Thick line: mean along the axis, in groups of equally many examples; thin lines: its "
            "95 % interval (Student’s t)."
        )
    if level is not None:
        parts.append(f"Dashed: the median s, {level:.3f}, between cheap and dear.")
    parts.append("Draw round points to make a slice of them; click one to read it.")
    return " ".join(parts)


def _frame(scored: ScoredSet, measures: tuple[Measure, Measure]) -> pd.DataFrame:
    labels = np.array(scored.source.labels, object)
    return pd.DataFrame(
        {
            "row": scored.rows + 1,
            "gold": labels[scored.records.labels],
            "predicted": labels[scored.predicted],
            measures[0].name: measures[0].values(scored),
            measures[1].name: measures[1].values(scored),
        }
    )

"""The slice that is looked at and those that were kept, each against the rest; the classes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.components.downloads import csv_button, file_name
from app.components.examples_filter import describe, set_classes
from app.components.heads import PLAIN_CHART
from app.components.records import Picked
from app.components.selection import forget_lost, taken
from app.components.tables import source, table
from budgetformer.figures.confusion import confusion_alt, confusion_grid
from budgetformer.intervals import Estimate
from budgetformer.slices import Filter, Mask, confusion, difference, figures

MOST_KEPT = 12
MOST_CLASSES = 40
LONGEST_NAME = 60
NEW = "this slice"


def section(picked: Picked, wanted: Filter, mask: Mask, key: str) -> None:
    """Draw the table of slices, and the buttons that keep one and let it go.

    Args:
        picked: the set.
        wanted: the conditions of the slice that is looked at.
        mask: which examples fit them, (N,).
        key: prefix of the widgets'.
    """
    st.subheader(
        "Slices",
        help="Each number with its 95 % interval in brackets: accuracy by Wilson, means by "
        "Student’s t. “Against the rest”: the slice minus all other examples, accuracy by "
        "Newcombe, means by Welch; an interval without 0 is a difference beyond chance.",
    )
    kept = _kept(picked)
    slices: dict[str, Mask] = {"all examples": np.ones(len(picked.scored), np.bool_)}
    if not wanted.is_empty:
        slices[f"{NEW}: {describe(wanted)}"] = mask
    slices |= kept
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _keep(picked, wanted, mask, key)
        if kept:
            _let_go(picked, key)
        csv_button(
            lambda: _frame(picked, slices), file_name("slices", picked.scored.source.model),
            f"{key}_slices_csv",
        )  # fmt: skip
    table(
        ("Slice", "Examples", "Accuracy", "Mean s", "Heads run", "MFLOPs"),
        [row for name, part in slices.items() for row in _rows(picked, name, part)],
        [0],
    )
    st.html(
        f'<p class="bf-small">Accuracy, s and heads: {source("measured here")} '
        f"Operations: {source('by formula')}</p>"
    )


def take_cell(picked: Picked, key: str) -> None:
    """Make a slice of the cell that was clicked in the confusion matrix."""
    found = taken(f"{key}_confusion")
    if found:
        set_classes(key, *divmod(int(found[0]["point_index"]), len(picked.scored.source.labels)))


def classes(picked: Picked, inside: Mask, key: str) -> None:
    """Draw the confusion matrix of the slice; a click makes a slice of a cell."""
    scored = picked.scored
    labels = scored.source.labels
    st.subheader("Which class is taken for which")
    if len(labels) > MOST_CLASSES:
        st.caption(f"There are {len(labels)} classes: too many for a grid.")
        return
    counts = confusion(scored, inside)
    chart = f"{key}_confusion"

    now = tuple(
        None if not isinstance(st.session_state.get(f"{key}_{side}"), int)
        else st.session_state[f"{key}_{side}"]
        for side in ("gold", "predicted")
    )  # fmt: skip
    event = st.plotly_chart(
        confusion_grid(counts, labels, (now[0], now[1])),
        key=chart,
        on_select="rerun",
        selection_mode="points",
        config=PLAIN_CHART,
        alt=confusion_alt(counts, labels),
    )
    forget_lost(chart, event)
    st.caption(
        "Examples by gold and predicted class, under all other conditions. Click a cell to make a "
        "slice of it, and again to go back."
    )


def kept_slices(picked: Picked) -> dict[str, Mask]:
    """Return the slices of a set that this session keeps, by name, for other pages."""
    return dict(_kept(picked))


def _keep(picked: Picked, wanted: Filter, mask: Mask, key: str) -> None:
    kept = _kept(picked)
    with st.popover(
        "Keep this slice",
        icon=":material/bookmark_add:",
        disabled=wanted.is_empty or not mask.any(),
    ):
        # A name that was typed stays; else the field offers what the slice is.
        name = st.text_input(
            "Name", max_chars=LONGEST_NAME, key=f"{key}_name",
            placeholder=describe(wanted)[:LONGEST_NAME],
        )  # fmt: skip

        def keep() -> None:
            called = (st.session_state[f"{key}_name"] or describe(wanted))[:LONGEST_NAME].strip()
            kept.pop(called, None)
            kept[called] = mask
            st.session_state[f"{key}_name"] = ""

        full = len(kept) >= MOST_KEPT and name not in kept
        st.button(
            "Keep", key=f"{key}_keep", on_click=keep, disabled=full, icon=":material/check:",
            help=f"It stays in this session; at most {MOST_KEPT} do.",
        )  # fmt: skip


def _let_go(picked: Picked, key: str) -> None:
    kept = _kept(picked)

    def let_go() -> None:
        kept.pop(st.session_state[f"{key}_gone"], None)

    with st.popover("Let one go", icon=":material/bookmark_remove:"):
        st.selectbox("Slice", list(kept), key=f"{key}_gone")
        st.button("Let it go", key=f"{key}_let_go", on_click=let_go, icon=":material/delete:")


def _kept(picked: Picked) -> dict[str, Mask]:
    """The slices of a set that this session keeps, by name."""
    kept: dict[str, dict[str, Mask]] = st.session_state.setdefault("examples_kept", {})
    return kept.setdefault(picked.key, {})


def _rows(picked: Picked, name: str, mask: Mask) -> list[tuple[str, ...]]:
    found = figures(picked.scored, mask)
    if found is None:
        return [(name, "0", "–", "–", "–", "–")]
    whole = bool(mask.all())
    rows: list[tuple[str, ...]] = [
        (
            name, f"{found.n:,}", _percent(found.accuracy), _plain(found.budget),
            _percent(found.heads), _plain(found.mflops, 1),
        )
    ]  # fmt: skip
    if not whole:
        rest = difference(picked.scored, mask)
        rows.append(
            (
                "   against the rest", f"{found.n / len(mask):.0%} of all",
                _percent(rest.accuracy, "+"), _plain(rest.budget, 3, "+"),
                _percent(rest.heads, "+"), _plain(rest.mflops, 1, "+"),
            )
        )  # fmt: skip
    return rows


def _percent(value: Estimate | None, sign: str = "") -> str:
    return _written(value, lambda x: f"{100 * x:{sign}.1f}", "%" if not sign else " points")


def _plain(value: Estimate | None, digits: int = 3, sign: str = "") -> str:
    return _written(value, lambda x: f"{x:{sign}.{digits}f}", "")


def _written(value: Estimate | None, number: Any, unit: str) -> str:
    if value is None:
        return "–"
    if not np.isfinite(value.low):
        return f"{number(value.value)}{unit}".replace("-", "−")
    text = f"{number(value.value)}{unit} [{number(value.low)}, {number(value.high)}]"
    return text.replace("-", "−")


def _frame(picked: Picked, slices: dict[str, Mask]) -> pd.DataFrame:
    rows = []
    for name, mask in slices.items():
        found, rest = figures(picked.scored, mask), difference(picked.scored, mask)
        row: dict[str, Any] = {"slice": name, "n": int(mask.sum())}
        for what in ("accuracy", "budget", "heads", "mflops"):
            for prefix, holder in (("", found), ("minus_rest_", rest)):
                value = getattr(holder, what) if holder is not None else None
                for part, number in (asdict(value) if value else {}).items():
                    row[f"{prefix}{what}_{part}"] = number
        rows.append(row)
    return pd.DataFrame(rows)

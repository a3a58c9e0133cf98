"""The examples of a slice: a table to sort, and one of them to read and take to Explore."""

from __future__ import annotations

import html

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import loaders, state
from app.components.downloads import csv_button, file_name
from app.components.prediction import flop_text, percent
from app.components.records import Picked
from app.components.selection import forget_lost, taken
from budgetformer.checkpoint import Checkpoint
from budgetformer.measures import everything
from budgetformer.records import ScoredSet
from budgetformer.slices import QUADRANTS, Mask, quadrant_of

MOST_ROWS = 500
LONGEST_CELL = 240
FILE_ORDER = "row"


def section(model: Checkpoint, picked: Picked, mask: Mask, key: str) -> None:
    """Draw the table of a slice and the example that is looked at.

    Args:
        model: that scored the set.
        picked: the set.
        mask: which examples are in the slice, (N,).
        key: prefix of the widgets'.
    """
    scored = picked.scored
    st.subheader("Examples in the slice")
    if not mask.any():
        st.info("No example fits all conditions. Drop one of them.", icon=":material/filter_alt:")
        return
    order = _order(scored, mask, key)
    current = _current(scored, order)
    _steps(scored, order, current, key)
    _card(model, scored, current, key)
    shown = order[:MOST_ROWS]
    chart = f"{key}_table"

    st.session_state[f"{chart}_shown"] = shown
    event = st.dataframe(
        frame(scored, shown, LONGEST_CELL),
        key=chart,
        on_select="rerun",
        selection_mode="single-row",
        hide_index=True,
        height=min(36 * (len(shown) + 1) + 3, 400),
        column_config={
            "row": st.column_config.NumberColumn(format="localized", width="small"),
            "right": st.column_config.CheckboxColumn(width="small"),
            **{
                name: st.column_config.NumberColumn(format="%.3f")
                for name in ("loss", "margin", "entropy", "mean s", "heads run", "p of predicted")
            },
        },
        alt=f"{len(shown):,} examples of the slice with text, classes, loss, s and heads.",
    )
    forget_lost(chart, event, "rows")
    with st.container(horizontal=True, horizontal_alignment="distribute", gap="medium"):
        more = "" if len(order) <= MOST_ROWS else f"The first {MOST_ROWS:,} of "
        st.caption(
            f"{more}{len(order):,} examples; tick a row at its left to read it. The magnifier "
            "above the table searches in what is shown, the field “Text holds” in all.",
            width="stretch",
        )
        csv_button(
            lambda: export(scored, order), file_name("examples", scored.source.model),
            f"{key}_table_csv", f"CSV of all {len(order):,}",
            "Every example of the slice with all its scores, s and heads by layer; layers and "
            "heads count from 1.",
        )  # fmt: skip


def take_row(picked: Picked, key: str) -> None:
    """Turn to the example that was ticked in the table."""
    shown: NDArray[np.int64] = st.session_state.get(f"{key}_table_shown", np.empty(0, np.int64))
    rows = taken(f"{key}_table", "rows")
    if rows and rows[0] < len(shown):
        look_at(picked.scored, int(shown[rows[0]]))


def frame(scored: ScoredSet, order: NDArray[np.int64], longest: int | None = None) -> pd.DataFrame:
    """Return what the table shows of the examples at these positions."""
    records, labels = scored.records, np.array(scored.source.labels, object)
    columns: dict[str, object] = {"row": scored.rows[order] + 1}
    for name, texts in (("text", scored.texts), ("second text", scored.text_pairs)):
        if texts is not None:
            columns[name] = [_short(texts[i], longest) for i in order]
    columns |= {
        "gold": labels[records.labels[order]],
        "predicted": labels[scored.predicted[order]],
        "right": records.correct[order],
        "p of predicted": records.probabilities[order].max(axis=1),
        "loss": records.losses[order],
        "margin": records.margins[order],
        "entropy": scored.entropies[order],
        "mean s": records.mean_budgets[order],
        "heads run": records.executed_fractions[order],
        "tokens": records.n_tokens[order],
        "cut off": scored.truncated[order],
    }
    if scored.has_budgets:
        columns["quadrant"] = np.array(QUADRANTS, object)[quadrant_of(scored)[order]]
    return pd.DataFrame(columns)


def export(scored: ScoredSet, order: NDArray[np.int64]) -> pd.DataFrame:
    """Return everything that is known of the examples, one plain column a number."""
    table, records = frame(scored, order), scored.records
    for at, label in enumerate(scored.source.labels):
        table[f"p {label}"] = records.probabilities[order, at]
    for layer in range(scored.source.n_layers):
        heads = records.heads[order, layer]
        table[f"s layer {layer + 1}"] = records.budgets[order, layer]
        table[f"k layer {layer + 1}"] = heads.sum(axis=1)
        table[f"heads layer {layer + 1}"] = [
            " ".join(str(head + 1) for head in np.flatnonzero(row)) for row in heads
        ]
    table["flops"] = scored.flops[order]
    for name, reference in scored.references.items():
        labels = np.array(scored.source.labels, object)
        table[f"{name} predicted"] = labels[reference.predicted[order]]
        table[f"{name} loss"] = reference.losses[order]
        table[f"{name} entropy"] = reference.entropies[order]
    return table


def _order(scored: ScoredSet, mask: Mask, key: str) -> NDArray[np.int64]:
    """Draw the choice of an order, and return the slice's positions in it."""
    known = {m.name: m for m in everything(scored)}
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    with left:
        by = st.selectbox(
            "Sort by",
            [FILE_ORDER, *known],
            format_func=lambda name: known[name].label if name in known else "row of the data set",
            key=f"{key}_sort",
            persist_state="session",
        )
    with right:
        falling = st.toggle("largest first", key=f"{key}_falling", persist_state="session")
    positions = np.flatnonzero(mask)
    values = known[by].values(scored)[positions] if by in known else scored.rows[positions]
    order = np.argsort(-values if falling else values, kind="stable")
    return np.asarray(positions[order], np.int64)


def look_at(scored: ScoredSet, position: int) -> None:
    """Turn to one example; its row is in the page's address."""
    st.session_state[state.EXAMPLES_ROW] = str(int(scored.rows[position]) + 1)


def _current(scored: ScoredSet, order: NDArray[np.int64]) -> int:
    """Return the example that is looked at: the first of the slice unless one was chosen."""
    first = str(int(scored.rows[order[0]]) + 1)
    state.read_url(state.EXAMPLES_ROW, first)
    asked = st.session_state[state.EXAMPLES_ROW]
    found = order[(scored.rows[order] + 1).astype(str) == asked]
    if not len(found):
        st.session_state[state.EXAMPLES_ROW] = first
    state.write_url(state.EXAMPLES_ROW, first)
    return int(found[0] if len(found) else order[0])


def _steps(scored: ScoredSet, order: NDArray[np.int64], current: int, key: str) -> None:
    place = int(np.flatnonzero(order == current)[0])

    def go(to: int) -> None:
        look_at(scored, int(order[to % len(order)]))

    def anywhere() -> None:
        others = order[order != current]
        if len(others):
            look_at(scored, int(np.random.default_rng().choice(others)))

    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button("Previous", key=f"{key}_previous", icon=":material/chevron_left:", on_click=go,
                  args=(place - 1,))  # fmt: skip
        st.button("Next", key=f"{key}_next", icon=":material/chevron_right:", on_click=go,
                  args=(place + 1,))  # fmt: skip
        st.button("Random", key=f"{key}_random", icon=":material/shuffle:", on_click=anywhere)
        st.caption(f"{place + 1:,} of {len(order):,}", width="content")


def _card(model: Checkpoint, scored: ScoredSet, at: int, key: str) -> None:
    """Draw one example with all that was scored of it."""
    records, labels = scored.records, scored.source.labels
    texts = [column[at] for column in (scored.texts, scored.text_pairs) if column is not None]
    with st.container(border=True):
        left, right = st.columns([3, 2], gap="medium")
        with left:
            for text in texts:
                st.html(
                    '<div class="bf-text bf-scroll" style="line-height:1.6" tabindex="0" '
                    'role="region" aria-label="Text of the example">'
                    f"{html.escape(text or '')}</div>"
                )
            if not texts or texts[0] is None:
                st.caption("The text of this example is not at hand.")
        with right:
            title = f"Row {int(scored.rows[at]) + 1:,}: "
            title += "right" if records.correct[at] else "wrong"
            layers = "<br>".join(
                f"Layer {layer + 1}: s = {records.budgets[at, layer]:.3f}, "
                f"k = {int(heads.sum())}, heads {', '.join(str(h + 1) for h in heads.nonzero()[0])}"
                for layer, heads in enumerate(records.heads[at])
            )
            said = percent(float(records.probabilities[at].max()))
            cut = ", cut off" if scored.truncated[at] else ""
            st.html(
                f'<div class="bf-card-title">{title}</div>'
                f'<div class="bf-big">{html.escape(labels[scored.predicted[at]])}</div>'
                f'<p class="bf-small">with <b>{said}</b>; gold is '
                f"<b>{html.escape(labels[records.labels[at]])}</b><br>"
                f"Loss <b>{records.losses[at]:.3f}</b>, margin <b>{records.margins[at]:.3f}</b>, "
                f"entropy <b>{scored.entropies[at]:.3f}</b><br>"
                f"<b>{records.n_tokens[at]:,}</b> tokens{cut}, "
                f"{flop_text(int(scored.flops[at]))} by formula<br>{layers}"
                f"{_judges(scored, at)}</p>"
            )
            _open_in_explore(model, texts, key)


def _judges(scored: ScoredSet, at: int) -> str:
    return "".join(
        f"<br>{html.escape(scored.source.references.get(name, name))} says "
        f"<b>{html.escape(scored.source.labels[reference.predicted[at]])}</b>, loss "
        f"<b>{reference.losses[at]:.3f}</b>"
        for name, reference in scored.references.items()
    )


def _open_in_explore(model: Checkpoint, texts: list[str | None], key: str) -> None:
    readable = bool(texts) and texts[0] is not None
    if st.button(
        "Open in Explore",
        key=f"{key}_open",
        icon=":material/search:",
        disabled=not readable,
        on_click=_hand_over,
        args=(model, texts),
        help=None if readable else "The text is not at hand.",
    ):
        st.switch_page("../pages/explore.py")


def _hand_over(model: Checkpoint, texts: list[str | None]) -> None:
    st.session_state[state.EXPLORE_MODEL] = loaders.name_of(model)
    for key, text in zip((state.EXPLORE_TEXT, state.EXPLORE_TEXT_PAIR), texts, strict=False):
        st.session_state[key] = text


def _short(text: str | None, longest: int | None) -> str:
    text = text or ""
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"

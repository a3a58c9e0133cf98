"""What small changes of the text do to the budget, the heads and the label."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import computed
from app.components import operating_point, wording
from app.components.request import on_request
from app.layout import slot
from budgetformer.checkpoint import Checkpoint
from budgetformer.counterfactuals import Counterfactual, Counterfactuals
from budgetformer.trace import Trace

NAMES = {
    "delete": "leave out",
    "negate": "negate",
    "typo": "typo",
    "shorten": "shorten",
    "repeat": "repeat",
}
LIMIT = 128
TABLE_HEIGHT = 320


@slot()
def small_changes(model: Checkpoint, trace: Trace, segment: int, key: str) -> None:
    """Offer to run the text's neighbours, and list them by what they do to the budget."""
    from budgetformer.counterfactuals import counterfactuals

    st.subheader(
        "What small changes would do",
        help="Each word left out by itself, negations put in or taken out, a typo in each word, "
        "shorter texts and the text twice. Heads are chosen anew for each. Δ is after minus "
        "before.",
    )
    result = on_request(
        f"{key}_edits",
        (computed.input_key(model, trace), segment, operating_point.limit(model.config)),
        "Try small changes",
        lambda progress: counterfactuals(
            model,
            trace,
            segment=segment,
            limit=LIMIT,
            policy=operating_point.policy(model.config),
            progress=progress,
        ),
        f"Runs the model on up to {LIMIT} changed texts; a long text takes seconds.",
    )
    if result is None:
        st.caption("Leave out, negate, misspell, shorten or repeat: does the budget follow?")
        return
    if not result.rows:
        st.info("There is nothing to change in this text.", icon=":material/info:")
        return
    _table(model, trace, result, key)


def _table(model: Checkpoint, trace: Trace, result: Counterfactuals, key: str) -> None:
    rows = result.by_budget()
    changed = sum(row.label_changed for row in rows)
    left_out = (
        f" {result.n_left_out:,} more were left out, evenly over the text."
        if result.n_left_out
        else ""
    )
    st.markdown(
        f"**{len(rows)}** changes, those that move the mean budget most first; **{changed}** of "
        f"them change the label.{left_out} Pick a row to see the text and go on with it. All "
        "measured with this model."
    )
    picked = st.dataframe(
        _columns(rows),
        key=f"{key}_edit_table",
        height=min(TABLE_HEIGHT, 36 * (len(rows) + 1)),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        column_config={
            "Δs": st.column_config.NumberColumn(format="%+.4f", help="Mean budget"),
            "Δp": st.column_config.NumberColumn(
                format="%+.3f", help="Probability of the label that the text has now"
            ),
            "Δk": st.column_config.NumberColumn(
                format="%+d", help="Heads that run, all layers together"
            ),
            "head flips": st.column_config.TextColumn(help="Heads that come (+) and go (−)"),
        },
        alt="Small changes of the text and what they do, strongest first.",
    )
    chosen = picked.selection.rows
    if chosen and chosen[0] < len(rows):
        wording.offer(model, trace, rows[chosen[0]].texts, f"{key}_edit")


def _columns(rows: list[Counterfactual]) -> dict[str, list[Any]]:
    return {
        "change": [NAMES.get(row.kind, row.kind) for row in rows],
        "what": [row.detail for row in rows],
        "Δs": [row.budget_change for row in rows],
        "head flips": [flips(row) for row in rows],
        "label": [f"now {row.label}" if row.label_changed else "same" for row in rows],
        "Δp": [row.probability_change for row in rows],
        "Δk": [row.executed_heads_change for row in rows],
    }


def flips(row: Counterfactual) -> str:
    """Say which heads of which layer came and went; all count from 1."""
    layers = []
    for layer, (came, went) in enumerate(zip(row.gained, row.lost, strict=True), 1):
        moves = [f"+{head + 1}" for head in came] + [f"−{head + 1}" for head in went]
        if moves:
            layers.append(f"layer {layer}: {' '.join(moves)}")
    return "; ".join(layers) or "none"

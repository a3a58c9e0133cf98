"""One moment of a training: how budgets are spread and which heads run."""

from __future__ import annotations

import streamlit as st

from app import jobs
from app.components.tables import source
from app.components.train_curves import PLAIN_CHART
from budgetformer.figures.training import (
    budget_histograms,
    budget_histograms_alt,
    usage_grid,
    usage_grid_alt,
)
from budgetformer.runs import Event

NOW = "Latest batch"


def section(now: jobs.State) -> None:
    """Draw the scrubber over epochs and what it points at."""
    moments: dict[str, Event] = {
        f"Epoch {event['epoch']}": event for event in now.history.epochs if "head_usage" in event
    }
    if now.status != "finished" and now.history.steps and "head_usage" in now.history.steps[-1]:
        moments[NOW] = now.history.steps[-1]
    if not moments:
        st.caption("This model runs all its heads on every text: there is no budget to look at.")
        return
    st.subheader(
        "Budgets and heads at one moment",
        help="After an epoch: over all validation texts, with the heads the model would run. "
        "Latest batch: the texts of one training step, with exploration.",
    )
    event = moments[_pick(now, list(moments))]
    counts, usage = event["budget_counts"], event["head_usage"]
    middles = [(i + 0.5) / len(counts[0]) for i in range(len(counts[0]))]
    # Of the bins' middles: the reports hold counts, not each text's s.
    means = [
        sum(n * middle for n, middle in zip(row, middles, strict=True)) / max(1, sum(row))
        for row in counts
    ]
    what = "validation texts" if event["event"] == "epoch" else "texts of this batch"
    st.html(
        f'<div class="bf-badge"><span>{sum(counts[0]):,} {what}, accuracy '
        f"<b>{event['accuracy']:.1%}</b>, executed heads <b>{event['executed_heads_frac']:.1%}</b>"
        f"</span>{source('measured here')}</div>"
    )
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**How the budget s is spread.** A wide spread: texts are treated differently.")
        st.plotly_chart(
            budget_histograms(counts, means),
            key="train_moment_budgets",
            config=PLAIN_CHART,
            alt=budget_histograms_alt(means),
        )
    with right:
        st.markdown("**How often each head runs**, in percent of the texts.")
        st.plotly_chart(
            usage_grid(usage),
            key="train_moment_heads",
            config=PLAIN_CHART,
            alt=usage_grid_alt(usage),
        )


def _pick(now: jobs.State, names: list[str]) -> str:
    """Draw the scrubber; it stays at the end until somebody moves it."""
    if len(names) < 2:
        return names[0]
    key = f"train_moment_{now.name}"
    chosen = st.session_state.get(key)
    if chosen not in names:
        st.session_state[key] = names[-1]
    return st.select_slider(
        "Moment of the training",
        names,
        key=key,
        help="Drag it to see how budgets and heads came to be what they are.",
        persist_state="session",
    )

"""What if the model were forced: the change beside the original."""

from __future__ import annotations

import streamlit as st

from app import errors, state
from app.components import experiments, forced, forcing, operating_point
from app.components.forced import Trial
from app.components.prediction import flop_text, percent, signed_points
from app.components.tables import table
from app.layout import slot
from budgetformer.checkpoint import Checkpoint
from budgetformer.cost import flops
from budgetformer.trace import Trace

MOST_CLASSES = 6


# What is changed in here redraws this part alone.
@st.fragment
def section(checkpoint: Checkpoint, own: Trace, key: str) -> None:
    """Draw everything that can be tried on one text; the model itself is never changed."""
    with errors.panel("This part could not be drawn"):
        trial = forced.run(checkpoint, own)
        if forcing.take_click(trial, key):
            trial = forced.run(checkpoint, own)
        state.write_url(state.EXPLORE_WHAT_IF, forced.EMPTY)
        _result(trial, key)
        st.space("small")
        if checkpoint.config.routed:
            _routed(trial, key)
        else:
            _dense(trial, key)


def _routed(trial: Trial, key: str) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        forcing.budgets(trial, key)
    with right:
        forcing.which(trial, key)
    st.space("small")
    experiments.other_heads(trial, key)
    st.space("small")
    experiments.sweep(trial, key)
    st.space("small")
    left, right = st.columns(2, gap="large")
    with left:
        experiments.ablation(trial, key)
    with right:
        experiments.temperature(trial, key)


def _dense(trial: Trial, key: str) -> None:
    """A dense model has neither budget nor scores: heads can only be kept out."""
    left, right = st.columns(2, gap="large")
    with left:
        forcing.which(trial, key)
    with right:
        experiments.ablation(trial, key)


@slot()
def _result(trial: Trial, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader(
            "What your changes do",
            help="Nothing is changed in the model: what you force is given to it together with the "
            "text, for this run only.",
            width="stretch",
        )
        st.button(
            "Reset", key=f"{key}_reset", icon=":material/restart_alt:", on_click=forced.reset,
            disabled=trial.change.empty, help="Let the model decide everything again.",
        )  # fmt: skip
    reason = forced.problem()
    if reason:
        errors.show("That change was not made", reason)
    if trial.change.empty:
        st.markdown("Nothing is forced yet: move a budget or click a head below.")
    elif forced.made_for_other_text(trial.own.texts):
        st.info(
            "Your changes were made for another text and are still on. Reset lets the model decide "
            "again.",
            icon=":material/history:",
        )
    rows = _rows(trial.checkpoint, trial.own, trial.shown)
    limit = operating_point.limit(trial.config)
    alone = "Left alone" if limit is None else f"Left alone, at most {limit}"
    table(("", alone, "With changes", "Difference"), rows, [0])
    if trial.own.label != trial.shown.label:
        st.markdown(":orange[:material/swap_horiz: **The answer is another one now.**]")


def _rows(checkpoint: Checkpoint, own: Trace, shown: Trace) -> list[tuple[str, str, str, str]]:
    ranked = sorted(own.probabilities, key=lambda label: -own.probabilities[label])[:MOST_CLASSES]
    rows = [("Answer", own.label, shown.label, "same" if own.label == shown.label else "other")]
    rows += [
        (label, percent(a), percent(b), signed_points(b - a))
        for label in ranked
        for a, b in [(own.probabilities[label], shown.probabilities[label])]
    ]
    n_tokens = len(own.encoding.ids)
    used = [
        flops(checkpoint.config, n_tokens, [layer.k for layer in trace.layers]).model
        for trace in (own, shown)
    ]
    rows.append(("Heads run", _heads(own), _heads(shown), _signed(_total(shown) - _total(own))))
    rows.append(
        (
            "Compute, by formula",
            flop_text(used[0]),
            flop_text(used[1]),
            "0" if used[0] == used[1] else f"{used[1] / used[0] - 1:+.1%}".replace("-", "−"),
        )
    )
    return rows


def _heads(trace: Trace) -> str:
    return f"{_total(trace)} = {' + '.join(str(layer.k) for layer in trace.layers)}"


def _total(trace: Trace) -> int:
    return trace.executed_heads


def _signed(n: int) -> str:
    return f"{n:+d}".replace("-", "−") if n else "0"

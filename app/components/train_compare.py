"""Several trainings side by side."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import jobs, loaders, state
from app.components.tables import table
from app.components.train_curves import PLAIN_CHART
from budgetformer.figures.training import Curve, curves, curves_alt
from budgetformer.runs import History, read_settings

PICK, WHAT = "train_compare_pick", "train_compare_what"
MOST = 6
MEASURES = {
    "Accuracy on validation texts": ("epochs", "accuracy", True),
    "Loss on validation texts": ("epochs", "loss", False),
    "Executed heads on validation texts": ("epochs", "executed_heads_frac", True),
    "Mean budget on validation texts": ("epochs", "mean_budget", True),
    "Does s follow the loss? (Spearman ρ)": ("epochs", "spearman_budget_loss", False),
    "Loss of training batches": ("steps", "loss", False),
    "Mean budget of training batches": ("steps", "mean_budget", True),
}
COLUMNS = (
    ("accuracy", "Accuracy", "{:.1%}"),
    ("loss", "Loss", "{:.3f}"),
    ("mean_budget", "Mean s", "{:.1%}"),
    ("executed_heads_frac", "Executed heads", "{:.1%}"),
    ("spearman_budget_loss", "ρ of s and loss", "{:.3f}"),
)


def section() -> None:
    """Draw the choice of trainings, their curves in one chart, and the last figures."""
    names = [name for name in jobs.names() if loaders.history(name).epochs]
    if not names:
        st.info(
            "There is nothing to compare yet: a training is listed here after its first epoch.",
            icon=":material/school:",
        )
        return
    state.read_url(state.TRAIN_COMPARE, ",".join(names[:2]))
    wanted = [n for n in st.session_state[state.TRAIN_COMPARE].split(",") if n in names]
    st.session_state[PICK] = wanted[:MOST]
    picked = st.multiselect(
        "Trainings",
        names,
        key=PICK,
        max_selections=MOST,
        on_change=_keep,
        help="Those with at least one epoch behind them, the newest first.",
    )
    state.write_url(state.TRAIN_COMPARE, ",".join(names[:2]))
    if not picked:
        st.info("Pick at least one training.", icon=":material/edit:")
        return
    what = st.selectbox("Curve", list(MEASURES), key=WHAT, persist_state="session")
    kind, field, percent = MEASURES[what]
    lines = [_line(name, loaders.history(name), kind, field) for name in picked]
    st.plotly_chart(
        curves(lines, percent=percent),
        key="train_compare_curves",
        config=PLAIN_CHART,
        alt=curves_alt(what, lines, percent),
    )
    st.markdown("**After the last epoch so far**, measured on the validation texts.")
    table(
        ("Training", "Data", "Aim", "Epochs", *(words for _, words, _ in COLUMNS)),
        [_row(name, loaders.history(name)) for name in picked],
    )


def _line(name: str, history: History, kind: str, field: str) -> Curve:
    events = [e for e in getattr(history, kind) if field in e]
    return Curve(name, [e["step"] for e in events], [e[field] for e in events], kind == "epochs")


def _row(name: str, history: History) -> tuple[str, ...]:
    asked: dict[str, Any] = read_settings(jobs.runs_folder() / name)
    last = history.epochs[-1]
    return (
        name,
        str(asked.get("data", "–")).rpartition("/")[2],
        str(asked.get("train", {}).get("objective", "–")),
        str(last["epoch"]),
        *(
            "–" if last.get(field) is None else form.format(last[field])
            for field, _, form in COLUMNS
        ),
    )


def _keep() -> None:
    st.session_state[state.TRAIN_COMPARE] = ",".join(st.session_state[PICK])

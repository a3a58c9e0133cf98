"""All models in one table, and the choice of one of them."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import errors, loaders, state
from app.components.models import NAMES_HELP
from app.components.tables import table
from budgetformer.library import KINDS
from budgetformer.model_facts import Facts

NONE = "–"
HEAD = (
    "Model", "Accuracy", "of texts", "Heads run", "Layers × heads", "Parameters", "Trained on",
    "Where from", "On disk",
)  # fmt: skip
LONGEST_CELL = 28
ARRIVED = "models_arrived"
"""A model that the rest of the page has just added; it is looked at next."""


def read_all() -> list[Facts]:
    """Read what every model's files say; one that goes meanwhile is left out."""
    found = []
    for name in loaders.model_names():
        try:
            found.append(loaders.facts(name))
        except ValueError:
            continue  # somebody else has deleted or renamed it between the two lines above
    return found


def overview(models: Sequence[Facts]) -> None:
    """Draw a row a model; the one that the pages open with stands out."""
    names = [facts.entry.name for facts in models]
    strong = [i for i, name in enumerate(names) if name == state.current_model(names)]
    with st.container(key="models_list"):
        table(HEAD, [_row(facts) for facts in models], strong)
    st.html(
        '<p class="bf-small">Accuracy and heads run: measured, as each model’s metrics.json says, '
        "on test texts, or on validation texts where it is marked (v). Heads run is the mean share "
        "of heads that a text takes. The model in bold is the one that the other pages open with."
        "</p>"
    )


def pick(names: Sequence[str]) -> str:
    """Draw the choice of the model to look at."""
    default = state.DEFAULT_MODEL if state.DEFAULT_MODEL in names else names[0]
    arrived = st.session_state.pop(ARRIVED, None)
    if arrived is not None:
        st.session_state[state.MODELS_MODEL] = arrived
    state.read_url(state.MODELS_MODEL, state.current_model(names) or default)
    asked = st.session_state[state.MODELS_MODEL]
    if asked not in names:
        errors.show(
            "That model is not here any more",
            f"{asked} was deleted or renamed; showing {default} instead.",
        )
        st.session_state[state.MODELS_MODEL] = default
    name = st.selectbox(
        "Model to look at",
        names,
        key=state.MODELS_MODEL,
        help=NAMES_HELP,
        persist_state="session",
    )
    state.write_url(state.MODELS_MODEL, default)
    return name


def size_text(n_bytes: int) -> str:
    """Write a number of bytes with a unit."""
    if n_bytes < 10**6:
        return f"{n_bytes / 1000:.0f} kB"
    return f"{n_bytes / 10**6:.1f} MB"


def short(text: str) -> str:
    """Cut a text to what fits a cell."""
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def _row(facts: Facts) -> tuple[str, ...]:
    measured, config = facts.measured, facts.config
    heads = None if measured is None else measured.executed_heads_frac
    mark = "" if measured is None or measured.split == "test" else " (v)"
    return (
        facts.entry.name,
        NONE if measured is None else f"{measured.accuracy:.1%}{mark}",
        NONE if measured is None else f"{measured.n:,}",
        NONE if heads is None else f"{heads:.1%}",
        NONE if config is None else f"{config.n_layers} × {config.n_heads}",
        NONE if facts.parameters is None else f"{facts.parameters / 1e6:.2f} M",
        short(facts.data) or NONE,
        KINDS[facts.entry.kind] + (", damaged" if facts.problem else ""),
        size_text(facts.size_bytes),
    )

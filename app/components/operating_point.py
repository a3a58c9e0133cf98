"""The limit on heads a layer: chosen on Efficiency, kept to on the other pages."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import errors, loaders, state
from app.components.prediction import percent
from app.layout import slot
from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig
from budgetformer.efficiency import SavedSweep
from budgetformer.policies import Policy, capped

NO_LIMIT = ""


@slot()
def read() -> None:
    """Take the limit from the page's address or the session; say so where it is none."""
    state.read_url(state.HEAD_LIMIT, NO_LIMIT)
    text = st.session_state[state.HEAD_LIMIT]
    if text != NO_LIMIT and not (text.isascii() and text.isdigit() and 0 < int(text) < 1000):
        errors.show(
            "The limit on heads was left out",
            f"head_limit is a whole number of heads from 1 on, not {text[:20]!r}. Choose one on "
            "the page Efficiency.",
        )
        st.session_state[state.HEAD_LIMIT] = NO_LIMIT
    state.write_url(state.HEAD_LIMIT, NO_LIMIT)


def limit(config: ModelConfig | None = None) -> int | None:
    """Return the most heads a layer; None where there is no limit, or it changes nothing.

    Args:
        config: of the model that is run; a dense one has no router to keep to a limit.
    """
    text = st.session_state.get(state.HEAD_LIMIT) or NO_LIMIT
    if text == NO_LIMIT or (config and not (config.routed and int(text) < config.n_heads)):
        return None
    return int(text)


def keep(k: int | None) -> None:
    """Set the limit, or remove it; for a callback."""
    st.session_state[state.HEAD_LIMIT] = NO_LIMIT if k is None else str(k)


def policy(config: ModelConfig) -> Policy | None:
    """Return how a model chooses heads under the limit; None for its own choice."""
    most = limit(config)
    return None if most is None else capped(most, config.rounding)


@slot()
def notice(models: Sequence[Checkpoint], key: str) -> None:
    """Say that there is a limit, whom it reaches and what it was measured to do.

    Args:
        models: those that are about to run.
        key: prefix of the button's.
    """
    most = limit()
    if most is None:
        return
    distinct = list({model.path: model for model in models}.values())
    of = sorted({model.config.n_heads for model in distinct if limit(model.config)})
    heads = f"{most} of {' or '.join(map(str, of))} heads" if of else f"{most} heads"
    with st.container(border=True, horizontal=True, vertical_alignment="center", gap="small"):
        with st.container(gap=None, width="stretch"):
            st.markdown(
                f":orange[:material/tune:] **At most {heads} a layer** (set on Efficiency)."
            )
            for model in distinct:
                sentence = _effect(model, most, len(distinct) > 1)
                if sentence:
                    st.text(sentence)
        st.button(
            "Remove the limit", key=f"{key}_remove_limit", icon=":material/close:",
            on_click=keep, args=(None,), help="The model chooses by itself again, on every page.",
        )  # fmt: skip


def expected(sweep: SavedSweep, k: int | None) -> str:
    """Say what a limit was measured to do on the test texts; None is no limit."""
    row = sweep.own if k is None or k >= sweep.config.n_heads else sweep.row("capped", k)
    if row is None:
        return "What this limit does to accuracy has not been measured for this model."
    return (
        f"Right on {percent(row.accuracy)} of {sweep.n:,} {sweep.split} texts of {sweep.data} "
        f"({row.ci_low:.1%} to {row.ci_high:.1%}, 95% interval), with "
        f"{row.executed_heads_frac:.1%} of the heads and {sweep.flops_share(row):.1%} of the "
        "operations of all heads on."
    )


def _effect(model: Checkpoint, most: int, named: bool) -> str:
    """Say what the limit does to one model, in plain text."""
    name = loaders.name_of(model)
    who = name if named else "This model"
    if not model.config.routed:
        return f"{who} has no router: the limit does not reach it."
    if limit(model.config) is None:
        return f"{who} has {model.config.n_heads} heads a layer: the limit changes nothing."
    sweep = None
    with errors.panel("The measured accuracy cannot be shown"):
        sweep = loaders.saved_sweep(name)
    row = sweep.row("capped", most) if sweep else None
    if sweep is None or row is None or sweep.outdated:
        return f"{who} has not been measured with this limit."
    return (
        f"{who}, measured with this limit: right on {percent(row.accuracy)} of {sweep.n:,} "
        f"{sweep.split} texts; {percent(sweep.own.accuracy)} without it."
    )

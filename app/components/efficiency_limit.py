"""The operating point: at most so many heads a layer, and what that was measured to do."""

from __future__ import annotations

import streamlit as st

from app import state
from app.components import operating_point
from app.components.tables import source
from budgetformer.efficiency import SavedSweep

SLIDER = "efficiency_limit"


def section(sweep: SavedSweep) -> None:
    """Draw the slider, what the limit does, and the ways to the other pages."""
    n_heads = sweep.config.n_heads
    st.subheader(
        "Operating point",
        help="A layer that asks for more heads than the limit gets its best-scored ones, "
        "min(k, limit) of them; one that asks for fewer is left alone. Nothing in the model "
        "changes: the limit is given to it together with the text.",
    )
    if sweep.kind == "dense" or n_heads == 1:
        st.info(
            "This model has no heads to choose from, so there is no limit to set. Pick a model "
            "that chooses its heads.",
            icon=":material/info:",
        )
        return
    limit = operating_point.limit(sweep.config)

    def use() -> None:
        k = int(st.session_state[SLIDER])
        operating_point.keep(None if k == n_heads else k)

    # It follows the limit, which also comes from a click, a link or the other pages.
    st.session_state[SLIDER] = limit or n_heads
    left, right = st.columns([2, 3], gap="large")
    with left:
        st.slider(
            f"At most so many of {n_heads} heads a layer", 1, n_heads, key=SLIDER, on_change=use,
            help=f"{n_heads} is no limit.",
        )  # fmt: skip
    with right:
        title = "No limit" if limit is None else f"At most {limit} of {n_heads} heads a layer"
        st.markdown(f"**{title}**")
        st.text(operating_point.expected(sweep, limit))
        measured = limit is None or sweep.row("capped", limit) is not None
        if measured:
            st.html(f'<div class="bf-badge">{source("measured")}</div>')
    with st.container(horizontal=True, gap="small"):
        for page, icon, model_key in (
            ("Explore", ":material/search:", state.EXPLORE_MODEL),
            ("Compare", ":material/compare_arrows:", state.COMPARE_MODEL),
        ):
            if st.button(
                f"Go on in {page}", key=f"efficiency_to_{page.lower()}", icon=icon,
                on_click=_hand_over, args=(sweep.name, model_key),
                help=f"Opens {page} with this model"
                + ("." if limit is None else " and this limit."),
            ):  # fmt: skip
                st.switch_page(f"../pages/{page.lower()}.py")
        st.button(
            "Remove the limit", key="efficiency_remove_limit", icon=":material/close:",
            on_click=operating_point.keep, args=(None,), disabled=limit is None,
        )  # fmt: skip


def _hand_over(name: str, model_key: str) -> None:
    st.session_state[model_key] = name

"""The controls of What if: budgets by slider, heads by click or by name, and their order."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import cast

import streamlit as st

from app.components import heads
from app.components.forced import Trial
from app.components.heads import Head, head_name
from budgetformer.interventions import HeadOrder

ORDERS = {"top": "top-k", "random": "random-k", "bottom": "bottom-k", "sample": "drawn by p"}


def take_click(trial: Trial, key: str) -> bool:
    """Turn the clicked head round; return whether there was a click.

    One that runs is kept out, one that does not is forced in. A second click lets the model decide
    about it again.
    """
    head = heads.clicked(f"{key}_heads", trial.config.n_heads)
    if head is None:
        return False
    forced = trial.forced_heads
    if head in forced:
        del forced[head]
    else:
        forced[head] = head[1] not in trial.shown.layers[head[0]].heads
    trial.keep_heads(forced)
    return True


def budgets(trial: Trial, key: str) -> None:
    """Draw a slider for all layers and one a layer, with the model's own value below each."""
    st.subheader(
        "How many heads",
        help="Force the budget s: the layer then runs as many heads as that budget gives, whatever "
        "its router asked for. What a layer puts out changes what the next one reads, so the "
        "scores and budgets of later layers may move too.",
    )
    st.markdown("Move a budget. The orange mark is what the model asks for by itself.")
    values = _budgets(trial)
    shared = values[0] if len(set(values)) == 1 else None
    _slider(trial, f"{key}_budget_all", "All layers", None, trial.own.mean_budget, shared)
    for layer, (own, shown) in enumerate(zip(trial.own.layers, trial.shown.layers, strict=True)):
        label = f"Layer {layer + 1}: k = {shown.k}" + (
            "" if shown.k == own.k else f" instead of {own.k}"
        )
        _slider(trial, f"{key}_budget_{layer + 1}", label, layer, own.budget, values[layer])


def _slider(
    trial: Trial, key: str, label: str, layer: int | None, own: float, forced: float | None
) -> None:
    """Draw the slider of a layer, or of all where layer is None, with the model's own value."""

    def use() -> None:
        values = list(_budgets(trial))
        for i in range(len(values)) if layer is None else (layer,):
            values[i] = st.session_state[key]
        trial.keep(replace(trial.change, budgets=tuple(values), k=()))

    # The slider follows the change, which also comes from a link, a reset or another slider.
    st.session_state[key] = round(own if forced is None else float(forced), 2)
    st.slider(label, 0.0, 1.0, step=0.01, key=key, on_change=use)
    text = f"own {'mean ' if layer is None else ''}{own:.3f}"
    if forced is not None:
        text += f", forced to {forced:.2f}"
    at, rest = f"{100 * own:.1f}%", f"{100 - 100 * own:.1f}%"
    place = f"left:calc({at} + 0.6rem)" if own < 0.5 else f"right:calc({rest} + 0.6rem)"
    st.html(
        f'<div class="bf-own"><i style="left:{at}" aria-hidden="true">▲</i>'
        f'<span style="{place}">{html.escape(text)}</span></div>'
    )


def _budgets(trial: Trial) -> tuple[float | None, ...]:
    return trial.change.budgets or (None,) * trial.config.n_layers


def which(trial: Trial, key: str) -> None:
    """Draw the grid, the two lists of forced heads and the order."""
    st.subheader(
        "Which heads",
        help="A head that is forced in takes the place of the last of the others, and the place of "
        "one that is kept out goes to the next, so k stays as it is wherever it can.",
    )
    if trial.config.routed:
        st.markdown(
            "Click a head that runs to keep it **out**, a skipped one to force it **in**; a second "
            "click lets the model decide again."
        )
        heads.grid(trial.shown, key, forced=trial.forced_heads)
    else:
        st.markdown("This model has no router and runs every head. Keep some out here.")
        _list(trial, f"{key}_out", "Never run", False)
        return
    left, right = st.columns(2)
    with left:
        _list(trial, f"{key}_in", "Always run", True)
    with right:
        _list(trial, f"{key}_out", "Never run", False)
    _order(trial, key)


def _list(trial: Trial, key: str, label: str, runs: bool) -> None:
    """Draw the heads that are forced in, or out, as a list to choose from."""
    forced = trial.forced_heads

    def use() -> None:
        others = {head: value for head, value in forced.items() if value != runs}
        trial.keep_heads({**others, **dict.fromkeys(st.session_state[key], runs)})

    every: list[Head] = [
        (layer, head)
        for layer in range(trial.config.n_layers)
        for head in range(trial.config.n_heads)
    ]
    st.session_state[key] = [head for head, value in forced.items() if value == runs]
    st.multiselect(
        label,
        [head for head in every if forced.get(head, runs) == runs],
        format_func=head_name,
        key=key,
        on_change=use,
        placeholder="No head",
        select_all=False,
    )


def _order(trial: Trial, key: str) -> None:
    order_key, seed_key = f"{key}_order", f"{key}_seed"

    def use() -> None:
        order = cast(HeadOrder, st.session_state[order_key])
        seed = int(st.session_state.get(seed_key, trial.change.seed))
        trial.keep(replace(trial.change, order=order, seed=seed))

    st.session_state[order_key] = trial.change.order
    st.segmented_control(
        "Who gets the other places",
        list(ORDERS),
        format_func=ORDERS.__getitem__,
        key=order_key,
        on_change=use,
        required=True,
        help="top-k: the best-scored heads, as the router does. bottom-k: the worst. random-k: "
        "any. Drawn by p: at random, but a preferred head more often.",
        wrap=True,
    )
    if trial.change.order in ("random", "sample"):
        st.session_state[seed_key] = trial.change.seed
        st.number_input(
            "Draw", min_value=0, max_value=9999, step=1, key=seed_key, on_change=use, width=160,
            help="Each number is one draw, the same for every text.",
        )  # fmt: skip

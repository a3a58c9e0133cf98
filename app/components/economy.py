"""Which heads are used: how often each runs, for whom, with whom, and how evenly."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import state
from app.components import choice
from app.components.downloads import chart_config, csv_button, figure_menu, file_name
from app.components.economy_slice import Part
from app.components.heads import Head, clickable, clicked
from app.components.tables import source, table
from budgetformer.co_selection import co_selection
from budgetformer.figures.economy import (
    LEAST_EXPECTED,
    group_grid,
    group_grid_alt,
    lift_grid,
    lift_grid_alt,
    rate_grid,
    rate_grid_alt,
)
from budgetformer.head_economy import (
    SelectionRates,
    concentration,
    rate_spread,
    rates_by,
    selection_rates,
)
from budgetformer.slices import QUADRANTS, quadrant_of

GROUPINGS = {
    "gold": "gold class",
    "predicted": "predicted class",
    "right": "right or wrong",
    "quadrant": "quadrant",
    "length": "length",
    "slice": "this slice or the rest",
}
CHART = "heads_rates"
MOST_NAMED = 12

Grouping = tuple[list[str], NDArray[np.int64], NDArray[np.bool_]]
"""Names of the groups, the group of each example, and its executed heads."""


def picked_head(part: Part) -> Head:
    """Return the head that the page looks at: clicked, picked by name, or the most used one."""
    runs = part.scored.records.heads.sum(axis=0)
    n_layers, n_heads = runs.shape
    click = clicked(CHART, n_heads)
    if click is not None:
        st.session_state[state.HEADS_HEAD] = click
        st.session_state[state.HEADS_LAYER] = click[0]
    kept: Head | None = st.session_state.get(state.HEADS_HEAD)
    if kept is None or kept[0] >= n_layers or kept[1] >= n_heads:
        layer, head = np.unravel_index(int(runs.argmax()), runs.shape)
        st.session_state[state.HEADS_HEAD] = kept = (int(layer), int(head))
    return kept


def section(part: Part, picked: Head) -> None:
    """Draw the grid of rates, the layers' economy, and one layer's groups and pairs."""
    rates = selection_rates(part.scored.records.heads)
    _rates(part, rates, picked)
    st.space("small")
    _layers(part)
    st.space("small")
    layer = choice.layer(part.scored.source.n_layers, state.HEADS_LAYER, picked[0])
    left, right = st.columns(2, gap="large")
    with left:
        _groups(part, layer)
    with right:
        _pairs(part, layer)


def _rates(part: Part, rates: SelectionRates, picked: Head) -> None:
    st.subheader(
        "How often each head runs",
        help="The share of the slice’s examples for which the head is among the k that run. Hover "
        "for the 95 % interval (Wilson). Dead: fewer than 1 % of the examples run it. Always on: "
        "more than 99 % do.",
    )
    st.markdown(
        "Each number is the share of texts, in percent, that run the head. A dotted frame marks "
        "**dead** heads (under 1%), a solid orange one heads that are **always on** (over 99%). "
        "Click a head to look at it alone under “One head”."
    )
    figure = rate_grid(rates.rates, rates.low, rates.high, rates.dead, rates.always_on, picked)
    alt = rate_grid_alt(rates.rates, rates.dead, rates.always_on)
    name = _name(part, "selection-rates")
    clickable(figure, CHART, alt, chart_config(name, CHART))
    with st.container(horizontal=True, horizontal_alignment="distribute", gap="medium"):
        with st.container(width="stretch"):
            st.html(
                f'<p class="bf-small">{_named(rates.dead, "dead")}<br>'
                f"{_named(rates.always_on, 'always on')}<br>{source('measured here')} over "
                f"{rates.n:,} examples.</p>"
            )
        figure_menu(figure, alt, name, CHART, lambda: _rate_frame(rates))


def _named(marked: NDArray[np.bool_], what: str) -> str:
    heads = [(int(layer), int(head)) for layer, head in np.argwhere(marked)]
    if not heads:
        return f"<b>No head is {what}.</b>"
    few = ", ".join(f"{layer + 1}.{head + 1}" for layer, head in heads[:MOST_NAMED])
    more = "" if len(heads) <= MOST_NAMED else f" and {len(heads) - MOST_NAMED} more"
    verb = "is" if len(heads) == 1 else "are"
    return f"<b>{len(heads)} of {marked.size} heads {verb} {what}</b> (layer.head): {few}{more}."


def _layers(part: Part) -> None:
    st.subheader(
        "How concentrated the choice is",
        help="Take a run of a layer’s head at random and ask which head it was: the entropy of "
        "that answer in bits, H = −Σ share·log₂ share. 2^H is the number of heads that, used "
        "equally often, would be as evenly spread.",
    )
    n_heads = part.scored.source.n_heads
    st.markdown(
        "If a layer ran the same heads for every text, its **effective heads** would equal its "
        f"mean **k**; if it dealt its work out evenly, they would equal all {n_heads}."
    )
    found = concentration(part.scored.records.heads)
    table(
        ("Layer", "Mean k", "Entropy", "Effective heads", "Of"),
        [
            (
                str(i), f"{layer.mean_k:.2f}", f"{layer.entropy_bits:.2f} bits",
                f"{layer.effective_heads:.2f}", str(n_heads),
            )
            for i, layer in enumerate(found, 1)
        ],
    )  # fmt: skip
    csv_button(
        lambda: pd.DataFrame([{"layer": i, **vars(one)} for i, one in enumerate(found, 1)]),
        _name(part, "concentration"), "heads_layers_csv",
    )  # fmt: skip


def _groups(part: Part, layer: int) -> None:
    st.subheader(
        "For whom they run",
        help="Of each group’s examples, the share that runs the head, in percent; hover for the "
        "95 % interval (Wilson).",
    )
    options = [name for name in GROUPINGS if _can(part, name)]
    state.read_url(state.HEADS_GROUPS, options[0])
    if st.session_state[state.HEADS_GROUPS] not in options:
        st.session_state[state.HEADS_GROUPS] = options[0]
    by = st.selectbox(
        "Split by", options, format_func=lambda name: GROUPINGS.get(name, name),
        key=state.HEADS_GROUPS, persist_state="session", width=240,
        help="Length: the shortest, middle and longest third of the slice, in tokens.",
    )  # fmt: skip
    state.write_url(state.HEADS_GROUPS, options[0])
    names, groups, heads = _split(part, by)
    found = rates_by(heads, groups, len(names))
    missing = np.full(part.scored.source.n_heads, np.nan)
    rates, low, high = (
        np.array([missing if one is None else getattr(one, side)[layer] for one in found])
        for side in ("rates", "low", "high")
    )
    figure = group_grid(names, rates, low, high)
    alt, key = group_grid_alt(names, rates, layer), "heads_groups_chart"
    name = _name(part, f"rates-by-{by}-layer-{layer + 1}")
    st.plotly_chart(figure, key=key, config=chart_config(name, key), alt=alt)
    with st.container(horizontal=True, horizontal_alignment="distribute", gap="medium"):
        with st.container(width="stretch"):
            st.text(_widest(names, found, layer))
        figure_menu(figure, alt, name, key, lambda: _group_frame(names, found))


def _can(part: Part, name: str) -> bool:
    """Whether a split has two groups here."""
    if name == "quadrant":
        return part.picked.scored.has_budgets
    return name != "slice" or not part.mask.all()


def _split(part: Part, by: str) -> Grouping:
    scored = part.scored
    heads, labels = scored.records.heads, list(scored.source.labels)
    if by == "gold":
        return labels, scored.records.labels, heads
    if by == "predicted":
        return labels, scored.predicted, heads
    if by == "right":
        return ["right", "wrong"], np.asarray(~scored.records.correct, np.int64), heads
    if by == "quadrant":
        return list(QUADRANTS), quadrant_of(part.picked.scored)[part.mask], heads
    if by == "length":
        tokens = scored.records.n_tokens
        edges = np.quantile(tokens, [1 / 3, 2 / 3])
        a, b = (f"{edge:,.0f}" for edge in edges)
        names = [f"up to {a} tokens", f"to {b} tokens", f"over {b} tokens"]
        return names, np.searchsorted(edges, tokens, side="left"), heads
    every = part.picked.scored.records.heads
    return ["this slice", "the rest"], np.asarray(~part.mask, np.int64), every


def _widest(names: list[str], found: list[SelectionRates | None], layer: int) -> str:
    """Name the head on which the groups differ most."""
    spread = rate_spread(found)[layer]
    head = int(spread.argmax())
    known = [(one.rates[layer, head], i, one) for i, one in enumerate(found) if one is not None]
    if len(known) < 2 or spread[head] == 0:
        return "The groups run the heads of this layer equally often."
    low, high = min(known, key=lambda one: one[0]), max(known, key=lambda one: one[0])
    said = [
        f"{names[i]} {rate:.1%} ({one.low[layer, head]:.1%} to {one.high[layer, head]:.1%})"
        for rate, i, one in (high, low)
    ]
    apart = high[2].low[layer, head] > low[2].high[layer, head]
    beyond = "The two 95% intervals do not overlap." if apart else "The 95% intervals overlap."
    return f"Widest apart on head {head + 1}: {said[0]} against {said[1]}. {beyond}"


def _pairs(part: Part, layer: int) -> None:
    st.subheader(
        "Which go together",
        help="Lift: how often two heads run together, over how often they would if heads were "
        "chosen independently of each other, each at its own rate, and only draws of exactly k "
        "heads were kept (conditional Bernoulli sampling, for each k by itself).",
    )
    st.markdown(
        "**1** is what their rates and the number k alone explain; **2** means together twice as "
        "often as that, **0** never."
    )
    pairs = co_selection(part.scored.records.heads[:, layer])
    figure = lift_grid(pairs.lift, pairs.observed, pairs.expected)
    alt, key = lift_grid_alt(pairs.lift, pairs.expected, layer), "heads_pairs_chart"
    name = _name(part, f"co-selection-layer-{layer + 1}")
    st.plotly_chart(figure, key=key, config=chart_config(name, key), alt=alt)
    with st.container(horizontal=True, horizontal_alignment="distribute", gap="medium"):
        st.caption(
            "Blue: together more often, orange: less often. Empty: expected together fewer than "
            f"{LEAST_EXPECTED:g} times, too few to tell.",
            width="stretch",
        )
        figure_menu(
            figure, alt, name, key,
            lambda: pd.DataFrame(
                [
                    {
                        "layer": layer + 1, "head": i + 1, "other": j + 1,
                        "together": pairs.observed[i, j], "expected": pairs.expected[i, j],
                        "lift": pairs.lift[i, j],
                    }
                    for i, j in zip(*np.triu_indices(len(pairs.lift), 1), strict=True)
                ]
            ),
        )  # fmt: skip


def _rate_frame(rates: SelectionRates) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "layer": at[0] + 1, "head": at[1] + 1, "n": rates.n, "ran": rates.counts[at],
                "rate": rates.rates[at], "low": rates.low[at], "high": rates.high[at],
                "dead": rates.dead[at], "always_on": rates.always_on[at],
            }
            for at in np.ndindex(*rates.counts.shape)
        ]
    )  # fmt: skip


def _group_frame(names: list[str], found: list[SelectionRates | None]) -> pd.DataFrame:
    return pd.concat(
        [
            _rate_frame(one).assign(group=name)
            for name, one in zip(names, found, strict=True)
            if one is not None
        ]
    )


def _name(part: Part, what: str) -> str:
    return file_name(what, part.scored.source.model)

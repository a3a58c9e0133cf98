"""Where executed heads look: one head's map and all of them side by side."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app import state
from app.components.heads import PLAIN_CHART, Head, clickable, clicked, head_name
from app.components.tables import table
from app.layout import slot
from budgetformer.attention_maps import AttentionMaps, attention_maps, by_word
from budgetformer.checkpoint import Checkpoint
from budgetformer.figures.attention import (
    attention_map,
    attention_map_alt,
    attention_overview,
    attention_overview_alt,
    strongest,
)
from budgetformer.trace import Trace

LINKS = 6
"""Strongest links that are named."""


def picked_head(trace: Trace, key: str) -> Head:
    """Return the head to show: clicked in a chart, picked by name, or the first that ran.

    Charts are read before they are drawn, so call this first. A skipped head has no map: then the
    most preferred head of its layer is shown, and `section` says so.
    """
    for chart in (f"{key}_heads", f"{key}_maps"):
        click = clicked(chart, len(trace.layers[0].scores))
        if click is not None:
            st.session_state[_asked(key)] = click
    layer, head = _wish(trace, key) or (0, trace.layers[0].heads[0])
    heads, p = trace.layers[layer].heads, trace.layers[layer].head_probabilities
    return layer, head if head in heads else max(heads, key=lambda h: p[h])


def ask_for(head: Head, key: str) -> None:
    """Let a page open with a head, as if it had been clicked there."""
    st.session_state[_asked(key)] = head


def section(checkpoint: Checkpoint, trace: Trace, key: str, picked: Head) -> None:
    """Draw the picker, one map and the overview."""
    st.subheader(
        "Where a head looks",
        help="Attention: for each piece of a word, a head spreads 100% over all pieces and takes "
        "in what stands there. It shows where the head looks, not what it makes of it.",
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        st.session_state[state.EXPLORE_HEAD] = picked
        st.selectbox(
            "Head",
            [(i, head) for i, layer in enumerate(trace.layers) for head in layer.heads],
            format_func=head_name,
            key=state.EXPLORE_HEAD,
            help="You can also click a head in the grid above, or a map below.",
            on_change=_use_named,
            args=(key,),
            width=220,
        )
        merge = st.toggle(
            "Whole words", value=True, key=state.EXPLORE_MAP_WORDS, persist_state="session",
            help="Merges the pieces of a word: a sum over the pieces looked at, a mean over those "
            "that look.",
        )  # fmt: skip
        special = st.toggle(
            "Special tokens", value=True, key=state.EXPLORE_MAP_SPECIAL, persist_state="session",
            help="[CLS] and [SEP], which the model puts round a text. Without them a row may add "
            "up to less than 100%.",
        )  # fmt: skip
    _say_if_skipped(trace, key, picked)
    maps = attention_maps(checkpoint, trace)
    shown, names = _shown(by_word(maps, trace) if merge else maps, special)
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.plotly_chart(
            attention_map(shown[picked], names),
            key=f"{key}_map",
            config=PLAIN_CHART,
            alt=f"{head_name(picked)}. {attention_map_alt(shown[picked], names)}",
        )
    with right:
        st.markdown(
            "A row is a word that looks, a column one that is looked at; the deeper the blue, the "
            "more of the row's 100% goes there."
        )
        table(
            ("Strongest links", "Share"),
            [(f"{a} → {b}", f"{w:.0%}") for a, b, w in strongest(shown[picked], names, LINKS)],
        )
    st.markdown("All heads at a glance, each on its own scale. A skipped head computed no map.")
    n_layers, n_heads = checkpoint.config.n_layers, checkpoint.config.n_heads
    clickable(
        attention_overview(shown, n_layers, n_heads, picked),
        f"{key}_maps",
        attention_overview_alt(shown, n_layers, n_heads),
    )


def _shown(maps: AttentionMaps, special: bool) -> tuple[dict[Head, NDArray[np.float32]], list[str]]:
    """Leave special tokens out where they are hidden."""
    keep = [i for i, unit in enumerate(maps.units) if special or not unit.special]
    weights = {(m.layer, m.head): m.weights[keep][:, keep] for m in maps.maps}
    return weights, [maps.units[i].text for i in keep]


def _wish(trace: Trace, key: str) -> Head | None:
    """Return the head that was asked for, if the model has it."""
    asked: Head | None = st.session_state.get(_asked(key))
    if asked is None or asked[0] >= len(trace.layers):
        return None
    return asked if asked[1] < len(trace.layers[0].scores) else None


def _use_named(key: str) -> None:
    st.session_state[_asked(key)] = st.session_state[state.EXPLORE_HEAD]


def _asked(key: str) -> str:
    return f"{key}_asked_head"


@slot()
def _say_if_skipped(trace: Trace, key: str, picked: Head) -> None:
    asked = _wish(trace, key)
    if asked is not None and asked != picked:
        st.caption(
            f"{head_name(asked)} is skipped for this text, so it has no map; showing head "
            f"{picked[1] + 1} instead."
        )

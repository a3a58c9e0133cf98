"""What the examples of a slice have in common: the conditions, and the ways to set them."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app.components.records import Picked
from budgetformer.measures import everything
from budgetformer.records import ScoredSet
from budgetformer.slices import QUADRANTS, Filter

ANY = "any"
NO_RANGE = "none"
CONDITIONS = ("quadrants", "gold", "predicted", "search", "regex", "measure", "range", "picked")


def conditions(picked: Picked, key: str) -> Filter:
    """Draw the conditions of a slice and return them; all must hold.

    Args:
        picked: the set.
        key: prefix of the widgets'.
    """
    scored = picked.scored
    _forget_other_set(picked, key)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown("**Slice**: examples that …", width="stretch")
        st.button(
            "Clear", key=f"{key}_clear", icon=":material/filter_alt_off:", on_click=clear,
            args=(key,), help="Drop all conditions: the slice is the whole set again.",
        )  # fmt: skip
    quadrants = tuple(_quadrants(key)) if scored.has_budgets else ()
    left, right = st.columns(2)
    labels = [ANY, *range(len(scored.source.labels))]

    def name(label: object) -> str:
        return ANY if label == ANY else scored.source.labels[int(str(label))]

    with left:
        gold = st.selectbox(
            "Gold class", labels, format_func=name, key=f"{key}_gold", persist_state="session"
        )
    with right:
        predicted = st.selectbox(
            "Predicted class", labels, format_func=name, key=f"{key}_predicted",
            persist_state="session",
        )  # fmt: skip
    search, regex = _search(scored, key)
    return Filter(
        picked=points(key),
        search=search,
        regex=regex,
        quadrants=quadrants,
        gold=None if gold == ANY else name(gold),
        predicted=None if predicted == ANY else name(predicted),
        ranges=_range(scored, key),
    )


def clear(key: str) -> None:
    """Drop all conditions."""
    for condition in CONDITIONS:
        st.session_state.pop(f"{key}_{condition}", None)


def points(key: str) -> frozenset[int] | None:
    """Return the positions that were picked on the map; None where none were."""
    kept: frozenset[int] | None = st.session_state.get(f"{key}_picked")
    return kept


def set_points(key: str, positions: frozenset[int] | None) -> None:
    """Keep what was picked on the map: the chart itself forgets it when it changes."""
    st.session_state[f"{key}_picked"] = positions


def set_classes(key: str, gold: int, predicted: int) -> None:
    """Turn to one cell of the confusion matrix, or back if that is the slice already."""
    now = (st.session_state.get(f"{key}_gold"), st.session_state.get(f"{key}_predicted"))
    gone = now == (gold, predicted)
    st.session_state[f"{key}_gold"] = ANY if gone else gold
    st.session_state[f"{key}_predicted"] = ANY if gone else predicted


def describe(wanted: Filter) -> str:
    """Say the conditions in words, for a slice's name."""
    parts = [*wanted.quadrants]
    if wanted.gold is not None:
        parts.append(f"gold {wanted.gold}")
    if wanted.predicted is not None:
        parts.append(f"predicted {wanted.predicted}")
    if wanted.search:
        parts.append(f"/{wanted.search}/" if wanted.regex else f"“{wanted.search}”")
    parts += [f"{name} {low:g} to {high:g}" for name, (low, high) in wanted.ranges.items()]
    if wanted.picked is not None:
        parts.append(f"{len(wanted.picked):,} picked")
    return ", ".join(parts)


def _quadrants(key: str) -> list[str]:
    return st.pills(
        "Quadrants",
        QUADRANTS,
        selection_mode="multi",
        wrap=True,
        key=f"{key}_quadrants",
        persist_state="session",
        help="Cheap: mean s below the median of this set; dear: at or above it. Cheap-wrong texts "
        "got few heads and would have needed help, dear-right ones got many and were solved.",
    )


def _search(scored: ScoredSet, key: str) -> tuple[str, bool]:
    text = st.text_input(
        "Text holds",
        key=f"{key}_search",
        disabled=scored.texts is None,
        placeholder="not at hand" if scored.texts is None else "a word or a pattern",
        persist_state="session",
        help="In capital or small letters, anywhere in the text. As a pattern: ^ is the start, .* "
        "anything, \\b the edge of a word, a|b one of two (RE2’s regular expressions).",
    )
    regex = st.toggle(
        "is a regular expression", key=f"{key}_regex", disabled=scored.texts is None,
        persist_state="session",
    )  # fmt: skip
    return ("" if scored.texts is None else text or ""), bool(regex)


def _range(scored: ScoredSet, key: str) -> dict[str, tuple[float, float]]:
    known = {m.name: m for m in everything(scored)}
    name = st.selectbox(
        "Only a range of",
        [NO_RANGE, *known],
        format_func=lambda one: known[one].label if one in known else "nothing",
        key=f"{key}_measure",
        persist_state="session",
    )
    if name not in known:
        return {}
    values = known[name].values(scored)
    low, high = float(values.min()), float(values.max())
    if low == high:
        st.caption(f"It is {low:g} for every example.")
        return {}
    slot = f"{key}_range"
    if st.session_state.get(f"{slot}_of") != (name, low, high):
        st.session_state[f"{slot}_of"] = (name, low, high)
        st.session_state[slot] = (low, high)
    chosen: Any = st.slider(
        known[name].label, low, high, key=slot, step=(high - low) / 500, format="%.4g",
        help=known[name].help, persist_state="session",
    )  # fmt: skip
    # The slider's steps may miss the ends, and the ends belong to it.
    step = (high - low) / 500
    bounds = (
        low if chosen[0] <= low + step / 2 else chosen[0],
        high if chosen[1] >= high - step / 2 else chosen[1],
    )
    return {} if bounds == (low, high) else {name: bounds}


def _forget_other_set(picked: Picked, key: str) -> None:
    """Conditions on one set mean nothing on another."""
    if st.session_state.get(f"{key}_of") != picked.key:
        if f"{key}_of" in st.session_state:
            clear(key)
        st.session_state[f"{key}_of"] = picked.key

"""One of a few, side by side: parts of a page, axes, layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import streamlit as st

from app import state

Label = Literal["visible", "collapsed"]


def in_address(
    label: str,
    names: Mapping[str, str],
    key: str,
    shown: Label = "visible",
    wrap: bool | None = None,
    help: str | None = None,
) -> str:
    """Draw a choice that the page's address holds, the first one to begin with.

    Args:
        label: of the widget.
        names: what can be chosen, and how it is called.
        key: of the widget, and its name in the address.
        shown: whether the label is.
        wrap: whether the choices may take several lines.
        help: what is told on request.
    """
    first = begin(key, names)
    picked = st.segmented_control(
        label,
        list(names),
        # A choice that a newer page no longer has may still be in the widget.
        format_func=lambda name: names.get(name, name),
        key=key,
        help=help,
        required=True,
        wrap=wrap,
        label_visibility=shown,
        persist_state="session",
    )
    state.write_url(key, first)
    return picked or first


def begin(key: str, options: Iterable[str]) -> str:
    """Give a widget the value that the address has, and return the first option, its default.

    A value that is no option, from a link or another model, is dropped.
    """
    known = list(options)
    state.read_url(key, known[0])
    if st.session_state[key] not in known:
        st.session_state[key] = known[0]
    return known[0]


def layer(n_layers: int, key: str, first: int = 0, shown: Label = "visible") -> int:
    """Draw the choice of a layer, counted from 0, and return it."""
    layers = list(range(n_layers))
    if st.session_state.get(key) not in layers:
        st.session_state[key] = first
    picked = st.segmented_control(
        "Layer",
        layers,
        format_func=lambda i: f"Layer {i + 1}",
        key=key,
        required=True,
        label_visibility=shown,
        persist_state="session",
    )
    return first if picked is None else picked

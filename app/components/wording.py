"""Another wording of the text: what is different about it, and what can be done with it."""

from __future__ import annotations

import difflib
import html
import re

import streamlit as st

from app import loaders, state
from budgetformer.checkpoint import Checkpoint
from budgetformer.trace import Trace

PIECES = re.compile(r"\w+|\W")
MOST_PIECES = 4000
"""Longer texts are not marked: finding what differs takes time with the square of this."""


def offer(model: Checkpoint, trace: Trace, texts: tuple[str, ...], key: str) -> None:
    """Show a wording with its changes marked, and the buttons that take it further.

    Args:
        model: that Explore shows.
        trace: the prediction of the text as it stands.
        texts: the other wording.
        key: prefix of the buttons'.
    """
    for before, after in zip(trace.texts, texts, strict=True):
        if before != after:
            st.html(
                '<div class="bf-text bf-scroll" tabindex="0" role="region" '
                f'aria-label="The other wording">{marked(before, after)}</div>'
            )
    with st.container(horizontal=True, gap="small"):
        if st.button(
            "Use as the text",
            key=f"{key}_use",
            icon=":material/input:",
            on_click=_use,
            args=(texts,),
            help="Puts this wording into the box at the top of the page.",
        ):
            # The box stands outside of this part of the page.
            st.rerun()
        if st.button(
            "Compare with the text",
            key=f"{key}_compare",
            icon=":material/compare_arrows:",
            on_click=compare,
            args=(model, trace.texts, texts),
            help="Opens both side by side on the page Compare.",
        ):
            st.switch_page("../pages/compare.py")


def marked(before: str, after: str) -> str:
    """Return the new text as HTML; what came in is underlined, what went is struck through."""
    old, new = PIECES.findall(before), PIECES.findall(after)
    if len(old) > MOST_PIECES:
        return html.escape(after)
    parts = []
    for what, a0, a1, b0, b1 in difflib.SequenceMatcher(None, old, new).get_opcodes():
        gone, come = "".join(old[a0:a1]), html.escape("".join(new[b0:b1]))
        if what == "equal":
            parts.append(come)
            continue
        if gone:
            # A line through the space behind a word would look like a dash.
            word = gone.rstrip()
            parts.append(
                f'<del class="bf-cut">{html.escape(word)}</del><del>{gone[len(word) :]}</del>'
            )
        if come:
            parts.append(f'<ins class="bf-new">{come}</ins>')
    return "".join(parts)


def compare(model: Checkpoint, first: tuple[str, ...], second: tuple[str, ...]) -> None:
    """Fill in the page Compare: two texts, or two pairs, under one model."""
    st.session_state[state.COMPARE_BY] = "texts"
    st.session_state[state.COMPARE_MODEL] = loaders.name_of(model)
    for keys, texts in ((state.COMPARE_A, first), (state.COMPARE_B, second)):
        for key, text in zip(keys, texts, strict=False):
            st.session_state[key] = text


def _use(texts: tuple[str, ...]) -> None:
    keys = (state.EXPLORE_TEXT, state.EXPLORE_TEXT_PAIR)
    for key, text in zip(keys, texts, strict=False):
        st.session_state[key] = text

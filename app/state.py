"""Names and limits of what a session keeps, and of what the address of a page holds.

A widget's key is also its name in the address, so these names are a promise to everyone who saved
a link.

Streamlit's own bind="query-params" is not used: the browser then writes a text into the address
whatever its length, the server refuses an address above 64 KB, and a reload shows an error.
"""

from __future__ import annotations

import streamlit as st

EXPLORE_MODEL = "explore_model"
EXPLORE_TEXT = "explore_text"
EXPLORE_TEXT_PAIR = "explore_text_pair"
EXPLORE_EXAMPLE = "explore_example"
EXPLORE_SHOW_SPECIAL = "explore_show_special"
EXPLORE_PART = "explore_part"
EXPLORE_LAYER = "explore_layer"
EXPLORE_HEAD = "explore_head"
EXPLORE_MAP_WORDS = "explore_map_words"
EXPLORE_MAP_SPECIAL = "explore_map_special"
EXPLORE_WHAT_IF = "explore_what_if"

COMPARE_BY = "compare_by"
COMPARE_MODEL = "compare_model"
COMPARE_MODEL_B = "compare_model_b"
COMPARE_A = ("compare_text", "compare_text_pair")
COMPARE_B = ("compare_text_b", "compare_text_b_pair")

DEFAULT_MODEL = "imdb"

# A character may take twelve bytes of an address, and chat programs cut long links.
LONGEST_IN_URL = 2000


def read_url(key: str, default: str) -> None:
    """Give a widget its value before it is drawn: from the address, from before, or the default.

    The address counts when it says something that we did not write: a link was opened, or the
    Back button pressed.
    """
    asked = st.query_params.get(key)
    if asked is not None and asked != st.session_state.get(_written(key)):
        st.session_state[key] = asked
    elif st.session_state.get(key) is None:
        st.session_state[key] = default


def write_url(key: str, default: str) -> None:
    """Put a widget's value into the address, unless it is the default or too long."""
    value = st.session_state[key]
    if value == default or len(value) > LONGEST_IN_URL:
        st.query_params.pop(key, None)
    elif st.query_params.get(key) != value:
        st.query_params[key] = value
    st.session_state[_written(key)] = st.query_params.get(key)


def _written(key: str) -> str:
    return f"{key}_in_url"

"""Names and limits of what a session keeps, and of what the address of a page holds.

A widget's key is also its name in the address, so these names are a promise to everyone who saved
a link.

Streamlit's own bind="query-params" is not used: the browser then writes a text into the address
whatever its length, the server refuses an address above 64 KB, and a reload shows an error.
"""

from __future__ import annotations

from collections.abc import Sequence

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

EFFICIENCY_MODEL = "efficiency_model"
EFFICIENCY_X = "efficiency_x"
HEAD_LIMIT = "head_limit"
"""Most heads a layer, as digits; empty for no limit. Explore and Compare keep to it too."""

MODELS_MODEL = "models_model"
MODELS_OTHER = "models_other"

EXAMPLES_MODEL = "examples_model"
EXAMPLES_SET = "examples_set"
EXAMPLES_X = "examples_x"
EXAMPLES_Y = "examples_y"
EXAMPLES_COLOUR = "examples_colour"
EXAMPLES_ROW = "examples_row"

HEADS_MODEL = "heads_model"
HEADS_SET = "heads_set"
HEADS_SLICE = "heads_slice"
HEADS_PART = "heads_part"
HEADS_LAYER = "heads_layer"
HEADS_GROUPS = "heads_groups"
HEADS_HEAD = "heads_head"
HEADS_SAMPLE = "heads_sample"
HEADS_OTHER = "heads_other"

TRAIN_PART = "train_part"
TRAIN_RUN = "train_run"
TRAIN_COMPARE = "train_compare"

DEFAULT_MODEL = "imdb"
CURRENT_MODEL = "current_model"
"""The model that pages open with in this session, where one was set."""
MODEL_PICKERS = "model_pickers"
"""Keys of the pickers that turn to that model when another is set."""

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


def set_current_model(name: str) -> None:
    """Let every page of this session open with a model, those that were open before too."""
    st.session_state[CURRENT_MODEL] = name
    for key in st.session_state.get(MODEL_PICKERS, ()):
        st.session_state[key] = name


def current_model(names: Sequence[str]) -> str:
    """Return the model that pages open with, if it is among the names; empty if there is none."""
    for name in (st.session_state.get(CURRENT_MODEL), DEFAULT_MODEL):
        if name in names:
            return str(name)
    return ""


def _written(key: str) -> str:
    return f"{key}_in_url"

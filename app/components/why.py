"""Why: the words and heads behind an answer or a budget, and what other words would do."""

from __future__ import annotations

import streamlit as st

from app import errors
from app.components import why_edits, why_plane, why_search, why_target, why_words
from budgetformer.checkpoint import Checkpoint
from budgetformer.trace import Trace


# A choice made in here redraws this part of the page alone.
@st.fragment
def section(model: Checkpoint, trace: Trace, key: str) -> None:
    """Draw the whole section.

    Args:
        model: the model.
        trace: its own prediction, within the limit on heads if one is set: its neighbours keep to
            that too. Another forced one would be compared with unforced neighbours.
        key: prefix of the keys of widgets and charts.
    """
    with errors.panel("The words could not be found"):
        _words(model, trace, f"{key}_why")


def _words(model: Checkpoint, trace: Trace, key: str) -> None:
    config = model.config
    st.subheader(
        "What it hangs on",
        help="Pick a number that the model computes, and how to divide it among words or heads. It "
        "says what moved the number, not why.",
    )
    target = why_target.pick_target(config, trace, key)
    method = why_target.pick_method(key)
    attribution = why_words.explanation(model, trace, target, method, key)
    if attribution is not None:
        why_words.test_of_truth(model, trace, attribution, key)
    if not config.routed:
        _no_budget("This model has no router, so there is no budget to explain: it runs all its")
        return
    if config.constant_budget:
        _no_budget("No word moves the budget: this model runs the same number of")
        return
    st.space("small")
    why_plane.class_against_budget(model, trace, target, key)
    st.space("small")
    segment = _segment(trace, key)
    why_edits.small_changes(model, trace, segment, key)
    st.space("small")
    why_search.searches(model, trace, segment, key)


def _no_budget(why: str) -> None:
    st.info(
        f"{why} heads on every text. What the classes hang on is shown above.",
        icon=":material/info:",
    )


def _segment(trace: Trace, key: str) -> int:
    """Ask which text of a pair the changes below are made in."""
    if len(trace.texts) == 1:
        return 0
    options = ["First text", "Second text"]
    picked = st.segmented_control(
        "Change words of", options, default=options[0], key=f"{key}_segment", required=True
    )
    return options.index(picked or options[0])

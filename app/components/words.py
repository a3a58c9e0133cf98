"""Which words the prediction hangs on: the text as typed, coloured."""

from __future__ import annotations

import html

import streamlit as st

from budgetformer.attribution import BASELINE, Attribution
from budgetformer.figures.style import BLUE_RGB
from budgetformer.trace import Trace

ORANGE_RGB = "217, 119, 0"
DEEPEST = 0.6
"""Opacity of the strongest word: letters stay readable on it in both themes."""
SHOWN_CUT_CHARS = 160
STRONGEST = 3


def coloured_words(trace: Trace, attribution: Attribution) -> None:
    """Draw the text with the words' contributions, what they sum to, and how exactly."""
    label = html.escape(trace.label)
    st.html(
        f'<p class="bf-small"><span class="bf-key" style="{_fill(1.0)}">blue</span> speaks '
        f'for {label}, <span class="bf-key bf-against" style="{_fill(-1.0)}">orange</span> and a '
        "dashed line against it; the deeper, the more.</p>"
    )
    for segment, text in enumerate(trace.texts):
        st.html(
            '<div class="bf-text bf-scroll" tabindex="0" role="region" '
            'aria-label="Text with contributions of words">'
            f"{_text(trace, attribution, segment, text)}</div>"
        )
    st.html(f'<p class="bf-small">{_summary(trace, attribution)}</p>')


def _text(trace: Trace, attribution: Attribution, segment: int, text: str) -> str:
    scale = max((abs(value) for value in attribution.word_values), default=0.0) or 1.0
    end = trace.encoding.cut[segment]
    read = len(text) if end is None else end
    parts, at = [], 0
    for word, value in zip(trace.words, attribution.word_values, strict=True):
        if word.segment == segment:
            # What stands between words is shown exactly as typed.
            parts.append(html.escape(text[at : word.start]))
            # The sign does not hang on colour alone; a hint of colour needs no line.
            mark = " bf-against" if value < -0.1 * scale else ""
            parts.append(
                f'<span class="bf-word{mark}" style="{_fill(value / scale)}" '
                f'title="{signed(value, 3)}">{html.escape(text[word.start : word.end])}</span>'
            )
            at = word.end
    parts.append(html.escape(text[at:read]))
    if end is not None:
        unread = text[end : end + SHOWN_CUT_CHARS]
        more = "…" if len(text) > end + SHOWN_CUT_CHARS else ""
        parts.append(f'<span class="bf-cut" title="not read">{html.escape(unread)}{more}</span>')
    return "".join(parts)


def signed(value: float, digits: int = 2) -> str:
    """Write a number with its sign, a true minus."""
    return f"{value:+.{digits}f}".replace("-", "−")


def _fill(strength: float) -> str:
    rgb = BLUE_RGB if strength >= 0 else ORANGE_RGB
    return f"background:rgba({rgb}, {DEEPEST * abs(strength):.3f})"


def _summary(trace: Trace, attribution: Attribution) -> str:
    ranked = sorted(
        zip(trace.words, attribution.word_values, strict=True), key=lambda item: -abs(item[1])
    )
    strongest = ", ".join(
        f"“<b>{html.escape(trace.texts[word.segment][word.start : word.end])}</b>” {signed(value)}"
        for word, value in ranked[:STRONGEST]
    )
    return (
        f"Strongest: {strongest}.<br>Added up, the words move the model's score (logit) for "
        f"{html.escape(trace.label)} by {signed(sum(attribution.word_values))}: from "
        f"{signed(attribution.baseline_value)}, with {html.escape(BASELINE)}, to "
        f"{signed(attribution.value)}, for your text. Completeness error: "
        f"{abs(attribution.completeness_error):.1e}; 0 would be exact. The heads that run are held "
        "fixed."
    )

"""Which words a prediction, or a budget, hangs on: the text as typed, coloured."""

from __future__ import annotations

import html

import streamlit as st

from app.components.why_target import digits, name
from budgetformer.attribution import Attribution
from budgetformer.attribution_targets import Target
from budgetformer.figures.style import BLUE_RGB
from budgetformer.trace import Trace

ORANGE_RGB = "217, 119, 0"
DEEPEST = 0.6
"""Opacity of the strongest word: letters stay readable on it in both themes."""
SHOWN_CUT_CHARS = 160
STRONGEST = 3


def coloured_words(trace: Trace, attribution: Attribution) -> None:
    """Draw the text with the words' contributions, what they sum to, and how exactly."""
    legend(attribution.target)
    for segment in range(len(trace.texts)):
        text_region(trace, attribution, segment)
    st.html(f'<p class="bf-small">{_summary(trace, attribution)}</p>')


def legend(target: Target) -> None:
    """Say what the colours mean."""
    up, down = _directions(target)
    st.html(
        f'<p class="bf-small"><span class="bf-key" style="{_fill(1.0)}">blue</span> '
        f'{html.escape(up)}, <span class="bf-key bf-against" style="{_fill(-1.0)}">orange</span> '
        f"and a dashed line {html.escape(down)}; the deeper, the more.</p>"
    )


def text_region(trace: Trace, attribution: Attribution, segment: int) -> None:
    """Draw one text as typed, coloured."""
    st.html(
        '<div class="bf-text bf-scroll" tabindex="0" role="region" '
        'aria-label="Text with contributions of words">'
        f"{_text(trace, attribution, segment, trace.texts[segment])}</div>"
    )


def strongest(trace: Trace, attribution: Attribution) -> str:
    """Name the words with the largest values, as HTML."""
    ranked = sorted(
        zip(trace.words, attribution.word_values, strict=True), key=lambda item: -abs(item[1])
    )
    places = digits(attribution.target)
    return ", ".join(
        f"“<b>{html.escape(trace.texts[word.segment][word.start : word.end])}</b>” "
        f"{signed(value, places)}"
        for word, value in ranked[:STRONGEST]
    )


def _text(trace: Trace, attribution: Attribution, segment: int, text: str) -> str:
    scale = max((abs(value) for value in attribution.word_values), default=0.0) or 1.0
    places = digits(attribution.target) + 1
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
                f'title="{signed(value, places)}">{html.escape(text[word.start : word.end])}</span>'
            )
            at = word.end
    parts.append(html.escape(text[at:read]))
    if end is not None:
        unread = text[end : end + SHOWN_CUT_CHARS]
        more = "…" if len(text) > end + SHOWN_CUT_CHARS else ""
        parts.append(f'<span class="bf-cut" title="not read">{html.escape(unread)}{more}</span>')
    return "".join(parts)


def signed(value: float, digits: int = 2) -> str:
    """Write a number with its sign, a true minus; what rounds to zero is +0."""
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")


def _fill(strength: float) -> str:
    rgb = BLUE_RGB if strength >= 0 else ORANGE_RGB
    return f"background:rgba({rgb}, {DEEPEST * abs(strength):.3f})"


def _directions(target: Target) -> tuple[str, str]:
    """What blue and orange words do."""
    if target.kind == "logit":
        return f"speaks for {target.label}", "against it"
    if target.kind == "contrast":
        return f"speaks for {target.label}", f"for {target.other}"
    return f"raises the {target.name}", "lowers it"


def _summary(trace: Trace, attribution: Attribution) -> str:
    places = digits(attribution.target)
    exact = (
        f"Completeness error: {abs(attribution.completeness_error):.1e}; 0 would be exact."
        if attribution.method.complete
        else "With this method the words need not add up to the whole change: they miss it by "
        f"{signed(attribution.completeness_error, places)}."
    )
    return (
        f"Strongest: {strongest(trace, attribution)}.<br>Added up, the words move the model's "
        f"{html.escape(name(attribution.target))} by {signed(attribution.total, places)}; it goes "
        f"from {signed(attribution.baseline_value, places)}, with "
        f"{html.escape(attribution.baseline)}, to {signed(attribution.value, places)}, for your "
        f"text. {exact} {html.escape(attribution.heads.capitalize())}."
    )

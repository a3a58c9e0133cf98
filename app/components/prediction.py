"""What the model says about a text, in three cards: class, heads, compute."""

from __future__ import annotations

import html

import streamlit as st

from budgetformer.checkpoint import Checkpoint
from budgetformer.cost import Flops, dense_flops, flops
from budgetformer.trace import Trace

MOST_CLASSES = 6


def cards(checkpoint: Checkpoint, trace: Trace) -> None:
    """Draw the three cards side by side, or one below the other where the page is narrow."""
    left, middle, right = st.columns(3, border=True)
    with left:
        st.html(_classes(checkpoint, trace))
    with middle:
        st.html(_heads(checkpoint, trace))
    with right:
        executed = [layer.k for layer in trace.layers]
        n_tokens = len(trace.encoding.ids)
        st.html(
            _compute(
                flops(checkpoint.config, n_tokens, executed),
                dense_flops(checkpoint.config, n_tokens),
                n_tokens,
            )
        )


def _classes(checkpoint: Checkpoint, trace: Trace) -> str:
    ranked = sorted(trace.probabilities.items(), key=lambda item: -item[1])
    rows = "".join(_row(label, percent(p), p) for label, p in ranked[:MOST_CLASSES])
    rest = ranked[MOST_CLASSES:]
    if rest:
        rows += _row(
            f"{len(rest)} other classes", f"{sum(p for _, p in rest):.1%}", sum(p for _, p in rest)
        )
    return _card(
        f"Answer of {checkpoint.path.name if checkpoint.path else 'the model'}",
        trace.label,
        f"Its probability for each class; a high one is no proof of being right. Margin over "
        f"{ranked[1][0]}: {points(ranked[0][1] - ranked[1][1])}.",
        rows,
    )


def _heads(checkpoint: Checkpoint, trace: Trace) -> str:
    total = checkpoint.config.n_layers * checkpoint.config.n_heads
    run = sum(layer.k for layer in trace.layers)
    if not checkpoint.config.routed:
        return _card(
            "Heads run",
            f"{run} of {total}",
            "This is an ordinary Transformer: it has no router, so there is no budget to show and "
            "every head runs on every text.",
            "",
        )
    return _card(
        "Heads run",
        f"{run} of {total}",
        "A head is one way of relating words to each other. For this text the model runs some "
        "and skips the rest.",
        _row(
            "Mean budget: what the layers asked for", f"{trace.mean_budget:.1%}", trace.mean_budget
        )
        + _row(
            "Executed heads: what they got, in whole heads",
            f"{trace.executed_heads_frac:.1%}",
            trace.executed_heads_frac,
        ),
    )


def _compute(used: Flops, dense: Flops, n_tokens: int) -> str:
    parts = (
        ("Attention core", used.attention_core, dense.attention_core),
        ("Attention, with projections", used.attention, dense.attention),
        ("Whole model", used.model, dense.model),
    )
    rows = "".join(
        _row(name, saved(a, b), a / b, f"{flop_text(a)} of {flop_text(b)}") for name, a, b in parts
    )
    return _card(
        "Compute, whole model",
        saved(used.model, dense.model),
        f"Computed by formula for {n_tokens} tokens, not measured: operations of this model out of "
        "those of its dense twin, which runs every head and has no router.",
        rows,
    )


def saved(used: int, dense: int) -> str:
    """Say how much less, or more, than the dense twin."""
    if used == dense:
        return "The same"
    share = 1 - used / dense
    return f"{abs(share):.1%} {'less' if share >= 0 else 'more'}"


def percent(probability: float) -> str:
    """Write a probability with one decimal; one that is neither 0 nor 1 is not shown as such."""
    if 0 < probability < 0.0005:
        return "< 0.1%"
    if 0.9995 <= probability < 1:
        return "> 99.9%"
    return f"{probability:.1%}"


def points(difference: float) -> str:
    """Write a difference of probabilities in percentage points."""
    return f"{100 * difference:.1f} points".replace("-", "−")


def signed_points(difference: float) -> str:
    """Write a difference of probabilities in percentage points, with its sign."""
    return (
        "0.0 points"
        if abs(difference) < 5e-4
        else f"{100 * difference:+.1f} points".replace("-", "−")
    )


def flop_text(count: int) -> str:
    """Write a number of operations with a unit, such as 3.1 MFLOP."""
    value, units = float(count), ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


def _card(title: str, big: str, text: str, rows: str) -> str:
    return (
        f'<div class="bf-card-title">{html.escape(title)}</div>'
        f'<div class="bf-big">{html.escape(big)}</div>'
        f'<div class="bf-rows">{rows}</div>'
        f'<p class="bf-small">{html.escape(text)}</p>'
    )


def _row(name: str, number: str, share: float, detail: str = "") -> str:
    """A name and a number above a bar; the bar adds nothing for who hears the page."""
    width = 100 * min(1.0, max(0.0, share))
    below = f'<div class="bf-detail">{html.escape(detail)}</div>' if detail else ""
    return (
        f'<div><div class="bf-row"><span>{html.escape(name)}</span>'
        f"<span>{html.escape(number)}</span></div>"
        f'<div class="bf-bar" aria-hidden="true"><div style="width:{width:.2f}%"></div></div>'
        f"{below}</div>"
    )

"""How one layer's router came to its choice, step by step with this text's numbers."""

from __future__ import annotations

import math

import streamlit as st

from app import state
from app.components import choice, operating_point
from app.components.heads import ROUNDED
from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig
from budgetformer.figures.budgets import plain
from budgetformer.figures.style import BLUE_RGB
from budgetformer.routing_view import RouterSteps, router_steps
from budgetformer.trace import Trace

ORANGE_RGB = "217, 119, 0"


def section(checkpoint: Checkpoint, trace: Trace) -> None:
    """Draw the picker of the layer and the steps."""
    st.subheader(
        "How a layer decides",
        help="A router is a small network beside the attention of its layer. It reads one summary "
        "of the text and gives two answers: how many heads, and which.",
    )
    layer = choice.layer(checkpoint.config.n_layers, state.EXPLORE_LAYER, shown="collapsed")
    steps = router_steps(checkpoint, trace, layer)
    left, right = st.columns(2, gap="medium")
    left.html(_how_many(steps, checkpoint))
    right.html(_which(steps))


def _how_many(steps: RouterSteps, checkpoint: Checkpoint) -> str:
    config = checkpoint.config
    budget = (
        f"This model's budget is fixed at <b>s = {steps.budget:.4f}</b>, whatever the text."
        if config.constant_budget
        else "A small network turns the summary into one number, and the sigmoid of it is the "
        f"budget <b>s = {steps.budget:.4f}</b>."
        + _formula(f"s = 1 / (1 + e<sup>−x</sup>) with x = {_number(steps.budget_logit)}")
    )
    return _steps(
        f"The vectors of the {steps.n_tokens} tokens are averaged to a summary <b>x̄</b> of "
        f"{len(steps.summary)} numbers (blue above zero, orange below), of length "
        f"{steps.summary_norm:.2f}. Padding never takes part."
        f'<div class="bf-strip" aria-hidden="true" style="{_strip(steps.summary)}"></div>',
        budget,
        f"Of {config.n_heads} heads that is {plain(steps.wanted)}; {ROUNDED[steps.rounding]}, and "
        f"never below one{_limit(config)}, it gives <b>k = {steps.k}</b>."
        + _formula(f"s·H = {steps.budget:.4f} × {config.n_heads} = {plain(steps.wanted)}"),
        "A second network scores every head from the same summary: <b>z</b>. Softmax at "
        f"temperature τ = {steps.sharpness.temperature:g} makes preferences <b>p</b> of the "
        "scores, without noise. They add up to 100%.",
        f"The <b>{steps.k}</b> best-scored heads run; the line in the table is the cut.",
    )


def _limit(config: ModelConfig) -> str:
    limit = operating_point.limit(config)
    return "" if limit is None else f" or above {limit}, your limit"


def _which(steps: RouterSteps) -> str:
    rows = []
    for head in sorted(steps.heads, key=lambda head: head.rank):
        kind = "bf-strong" if head.executed else "bf-skipped"
        if head.rank == steps.k:
            kind += " bf-cut-line"
        width = 100 * head.probability
        rows.append(
            f'<tr class="{kind}"><td>{head.rank}</td><td>{head.head + 1}</td>'
            f"<td>{_number(head.score)}</td><td>{head.probability:.1%}</td>"
            f'<td style="width:32%"><div class="bf-bar" aria-hidden="true">'
            f'<div style="width:{width:.1f}%"></div></div></td>'
            f"<td>{'✓ runs' if head.executed else 'skipped'}</td></tr>"
        )
    return (
        '<div class="bf-table"><table class="bf-short"><thead><tr>'
        "<th>Rank</th><th>Head</th><th>z</th><th>p</th>"
        f'<th aria-label="p as a bar"></th><th></th></tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div>"
        f'<p class="bf-small">Entropy {steps.sharpness.entropy:.2f} nats: the router is as '
        f"undecided as among <b>{steps.sharpness.effective_heads:.1f}</b> equally good heads.</p>"
    )


def _steps(*steps: str) -> str:
    rows = "".join(f'<div class="bf-step"><div>{step}</div></div>' for step in steps)
    return f'<div class="bf-steps">{rows}</div>'


def _formula(text: str) -> str:
    return f'<div class="bf-formula">{text}</div>'


def _strip(summary: tuple[float, ...]) -> str:
    """A CSS gradient with one stripe a number."""
    deepest = max(map(abs, summary)) or 1.0
    stops = []
    for i, value in enumerate(summary):
        rgb = BLUE_RGB if value >= 0 else ORANGE_RGB
        ends = f"{100 * i / len(summary):.2f}% {100 * (i + 1) / len(summary):.2f}%"
        stops.append(f"rgba({rgb},{abs(value) / deepest:.2f}) {ends}")
    return f"background:linear-gradient(to right,{','.join(stops)})"


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.3f}".replace("-", "−")

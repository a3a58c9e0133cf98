"""Searches through wordings: the cheapest with the same label, and the edits that cost most."""

from __future__ import annotations

import html
from collections.abc import Callable

import streamlit as st

from app import computed
from app.components import operating_point, why_edits, wording
from app.components.request import on_request
from app.components.words import signed
from app.layout import slot
from budgetformer.checkpoint import Checkpoint
from budgetformer.rewording import Rewording
from budgetformer.trace import Trace

LIMIT = 256
NAMES = why_edits.NAMES | {"insert": "insert"}


def searches(model: Checkpoint, trace: Trace, segment: int, key: str) -> None:
    """Offer both searches side by side."""
    from budgetformer.rewording import cheapest_wording, dearest_wording

    st.subheader(
        "Cheaper and dearer wordings",
        help="Both searches are greedy and bounded: they find a wording, not the best of all.",
    )
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**The cheapest wording with the same label.** Words go as long as that saves.")
        _search(model, trace, segment, cheapest_wording, "Find it", f"{key}_cheapest")
    with right:
        st.markdown("**The edits that raise s most.** Three at most: leave out, misspell, insert.")
        _search(model, trace, segment, dearest_wording, "Find them", f"{key}_dearest")


@slot()
def _search(
    model: Checkpoint,
    trace: Trace,
    segment: int,
    search: Callable[..., Rewording],
    label: str,
    key: str,
) -> None:
    result = on_request(
        key,
        (computed.input_key(model, trace), segment, operating_point.limit(model.config)),
        label,
        lambda progress: search(
            model,
            trace,
            segment=segment,
            limit=LIMIT,
            policy=operating_point.policy(model.config),
            progress=progress,
        ),
        f"Runs the model on up to {LIMIT} wordings; a long text takes seconds.",
    )
    if result is None:
        return
    if not result.steps:
        st.info(f"None of {result.n_tried:,} wordings does better.", icon=":material/info:")
        return
    steps = "".join(
        f"<li>{NAMES[step.kind]} “{html.escape(_short(step.detail))}”: "
        f"s = {step.mean_budget:.3f}, {step.executed_heads} heads</li>"
        for step in result.steps
    )
    start, end = result.start, result.end
    label_now = "the label stays" if end.label == start.label else f"the label is now {end.label}"
    more = "" if result.complete else " The limit ended the search or thinned it out."
    st.html(
        f'<div class="bf-big">{_heads(start.executed_heads, end.executed_heads)}</div>'
        f'<p class="bf-small">Mean budget s {end.mean_budget:.3f} instead of '
        f"{start.mean_budget:.3f} ({signed(end.mean_budget - start.mean_budget, 3)}), "
        f"{len(end.encoding.ids)} tokens instead of {len(start.encoding.ids)}; "
        f"{html.escape(label_now)}. Measured on {result.n_tried:,} wordings.{more}</p>"
        f'<ol class="bf-small">{steps}</ol>'
    )
    wording.offer(model, trace, end.texts, key)


def _heads(before: int, after: int) -> str:
    noun = "head" if after == 1 else "heads"
    return f"{after} {noun}{', as before' if after == before else f' instead of {before}'}"


def _short(detail: str, longest: int = 60) -> str:
    return detail if len(detail) <= longest else detail[: longest - 1] + "…"

"""What one text costs, by formula and by the clock, and the proof that skipping skips."""

from __future__ import annotations

import streamlit as st

from app import computed
from app.components.prediction import flop_text, saved
from app.components.tables import source, table
from budgetformer.audit import TOLERANCE
from budgetformer.checkpoint import Checkpoint
from budgetformer.cost import flops, full_flops
from budgetformer.trace import Trace

SCOPES = (
    ("Attention core: comparing and mixing", "attention_core"),
    ("Attention, with projections", "attention"),
    ("All layers, with feed-forward and router", "layers"),
    ("Whole model, with classifier", "model"),
)


def section(checkpoint: Checkpoint, trace: Trace, key: str) -> None:
    """Draw the compute meter and the audit badge side by side."""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _formula(checkpoint, trace)
    with right:
        _audit(checkpoint, trace)
        _clock(checkpoint, trace, key)


def _formula(checkpoint: Checkpoint, trace: Trace) -> None:
    st.subheader(
        "What it costs",
        help="FLOP: one multiplication or addition. Each scope holds the one above it. All heads "
        "on: the same model with nothing skipped, its router included.",
    )
    n_tokens = len(trace.encoding.ids)
    st.html(
        f'<div class="bf-badge"><span>Operations for {n_tokens} tokens</span>'
        f"{source('by formula')}</div>"
    )
    used = flops(checkpoint.config, n_tokens, [layer.k for layer in trace.layers])
    full = full_flops(checkpoint.config, n_tokens)
    table(
        ("Scope", "This text", "All heads on", "Saved"),
        [
            (name, flop_text(a), flop_text(b), saved(a, b))
            for name, scope in SCOPES
            for a, b in [(getattr(used, scope), getattr(full, scope))]
        ],
    )


def _audit(checkpoint: Checkpoint, trace: Trace) -> None:
    """Say whether exactly the chosen heads were computed, with the masked form's answer."""
    found = computed.audit(checkpoint, trace)
    st.subheader(
        "Are skipped heads skipped?",
        help="While the text is classified, every operation is watched: which heads' weights it "
        "reads, and how many operations its products take. Then the model runs once more with "
        "every head computed and the skipped ones multiplied by zero: the answer must be the same.",
    )
    same = all(layer.chosen == layer.computed for layer in found.layers)
    chosen = sum(len(layer.chosen) for layer in found.layers)
    ran = sum(len(layer.computed) for layer in found.layers)
    equal = found.max_difference <= TOLERANCE
    by = f"by {found.max_difference:.0e} at most" if found.max_difference else "by nothing"
    st.html(
        f'<div class="bf-checks">{_check(same)}<div><b>{ran} heads computed, {chosen} '
        f"chosen</b>{', the same ones' if same else ': not the same'}</div>"
        f"{_check(found.counted_flops == found.expected_flops)}<div><b>"
        f"{flop_text(found.counted_flops)} counted</b> outside the attention core, "
        f"{flop_text(found.expected_flops)} by formula</div>"
        f"{_check(equal)}<div><b>Skipping {'equals' if equal else 'differs from'} masking</b>: "
        f"scores differ {by}</div></div>"
        f'<div class="bf-badge">{source("measured here")}</div>'
    )


def _check(passed: bool) -> str:
    return f'<span class="bf-check">{"✓" if passed else "✗"}</span>'


def _clock(checkpoint: Checkpoint, trace: Trace, key: str) -> None:
    st.subheader(
        "On the clock",
        help="The model's forward pass for this text, with its heads and with all heads, in "
        "turns. What the page does around it is not counted.",
    )
    asked, this = f"{key}_timed", (checkpoint.path, trace.texts)

    def measure() -> None:
        st.session_state[asked] = this

    if st.session_state.get(asked) != this:
        st.markdown("Fewer operations are less time only if skipped heads are left out for real.")
        st.button(
            "Measure it here", key=f"{key}_measure", icon=":material/timer:", on_click=measure
        )
        return
    timing = computed.stopwatch(checkpoint, trace)
    st.html(
        f'<div class="bf-badge"><span>Time of one forward pass</span>'
        f"{source('measured here')}</div>"
    )
    table(
        ("Heads", "Median", ""),
        [
            ("This text's", f"{timing.chosen_ms:.2f} ms", ""),
            ("All", f"{timing.full_ms:.2f} ms", f"{timing.speed_up:.2f} × as long"),
        ],
    )
    st.html(
        f'<p class="bf-small">{timing.rounds} runs of each, in turns, on {timing.threads} '
        f"{'thread' if timing.threads == 1 else 'threads'} of the server.</p>"
    )

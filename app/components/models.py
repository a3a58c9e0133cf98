"""Which model to use."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import streamlit as st

from app import errors, loaders, state
from app.layout import slot
from budgetformer.model_facts import measured_on

if TYPE_CHECKING:
    from budgetformer.checkpoint import Checkpoint

NAMES_HELP = (
    "Shipped models have a plain name. runs/… were trained here, models/… uploaded, user/name is "
    "from the Hub. The page Models tells more about each."
)


def pick_model(key: str, label: str = "Model", wanted: str | None = None) -> Checkpoint | None:
    """Draw the model picker in the sidebar and load what is picked.

    Args:
        key: of the widget, and its name in the address.
        label: of the widget.
        wanted: the model to start with, where it is there; without one, the model that was set on
            the page Models, now and whenever another is set there.

    Returns:
        The model, or None where there is none to use; the page has then been told why.
    """
    names = loaders.model_names()
    if not names:
        errors.show(
            "There is no model yet",
            "Put a folder with a trained model (model.safetensors, config.json, tokenizer.json) "
            "into checkpoints/ and reload this page, or upload one on the page Models.",
        )
        return None
    default = next((name for name in (wanted, state.DEFAULT_MODEL) if name in names), names[0])
    first = default
    if wanted is None:
        st.session_state.setdefault(state.MODEL_PICKERS, set()).add(key)
        first = state.current_model(names) or default
    state.read_url(key, first)
    asked = st.session_state[key]
    with slot():
        if asked not in names:
            errors.show(
                "The model that was asked for is not here",
                f"{asked}; showing {default} instead. It was deleted or renamed, or the link comes "
                "from elsewhere.",
            )
            st.session_state[key] = default
    with st.sidebar:
        name = st.selectbox(label, names, key=key, help=NAMES_HELP, persist_state="session")
    state.write_url(key, default)
    with errors.panel("This model cannot be used"):
        checkpoint = loaders.checkpoint(name)
        with st.sidebar:
            st.html(f'<div class="bf-small">{_facts(checkpoint)}</div>')
        return checkpoint
    return None


def _facts(checkpoint: Checkpoint) -> str:
    config = checkpoint.config
    kind = (
        "chooses its heads for each text" if config.routed else "runs all its heads on every text"
    )
    lines = [
        f"<b>{config.n_layers} × {config.n_heads}</b> layers × heads; {kind}",
        f"Reads up to <b>{config.max_len}</b> tokens",
        f"Decides between {html.escape(', '.join(config.labels))}",
    ]
    measured = measured_on(checkpoint.metrics)
    if measured:
        lines.append(
            f"Right on <b>{measured.accuracy:.1%}</b> of {measured.n:,} {measured.split} texts "
            "(measured, see the model's card)"
        )
    return "<br>".join(lines)

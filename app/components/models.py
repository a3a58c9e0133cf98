"""Which model to use."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import streamlit as st

from app import errors, loaders, state

if TYPE_CHECKING:
    from budgetformer.checkpoint import Checkpoint


def pick_model(
    key: str, label: str = "Model", wanted: str = state.DEFAULT_MODEL
) -> Checkpoint | None:
    """Draw the model picker in the sidebar and load what is picked.

    Args:
        key: of the widget, and its name in the address.
        label: of the widget.
        wanted: the model to start with, where it is there.

    Returns:
        The model, or None where there is none to use; the page has then been told why.
    """
    names = loaders.model_names()
    if not names:
        errors.show(
            "There is no model yet",
            "Put a folder with a trained model (model.safetensors, config.json, tokenizer.json) "
            "into checkpoints/ and reload this page.",
        )
        return None
    default = next((name for name in (wanted, state.DEFAULT_MODEL) if name in names), names[0])
    state.read_url(key, default)
    asked = st.session_state[key]
    if asked not in names:
        errors.show(
            "The model that was asked for is not here", f"{asked}; showing {default} instead"
        )
        st.session_state[key] = default
    with st.sidebar:
        name = st.selectbox(
            label, names, key=key, help="The folders in checkpoints/.", persist_state="session"
        )
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
    for split in ("test", "validation"):
        measured = checkpoint.metrics.get(split)
        if isinstance(measured, dict) and {"accuracy", "n"} <= measured.keys():
            lines.append(
                f"Right on <b>{float(measured['accuracy']):.1%}</b> of {int(measured['n']):,} "
                f"{split} texts (measured, see the model's card)"
            )
            break
    return "<br>".join(lines)

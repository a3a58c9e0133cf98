"""What is to be explained, and how: the two pickers of the Why section."""

from __future__ import annotations

import streamlit as st

from app import state
from app.components import choice
from budgetformer.attribution_targets import Target
from budgetformer.config import ModelConfig
from budgetformer.trace import Trace

KINDS = {
    "class": "A class",
    "contrast": "Two classes",
    "budget": "The budget s",
    "score": "A head's score",
}
METHODS = {
    "integrated": "Integrated gradients",
    "gradient": "Gradient × input",
    "occlusion": "Mask each word",
    "heads": "Heads",
}
METHOD_HELP = (
    "**Integrated gradients** follow the number from a text in which every word is masked to "
    "yours; the shares add up. **Gradient × input** looks at the slope at your text only: quick "
    "and rough. **Mask each word** hides one word after the other and runs the model each "
    "time. **Heads** asks for the shares of the heads that ran instead of the words."
)
BEST = ""  # the answer, or the class next to it, whatever they are for this text
MEAN = "mean"


def pick_target(config: ModelConfig, trace: Trace, key: str) -> Target:
    """Draw the picker of the number to explain, with as many boxes as it needs."""
    with st.container(horizontal=True, vertical_alignment="top", gap="small"):
        kind = choice.in_address("Explain", _kinds(config), f"{key}_target", wrap=True)
        if kind == "class":
            return Target.logit(_pick_class(config, trace, key))
        if kind == "contrast":
            label = _pick_class(config, trace, key)
            return Target.contrast(label, _pick_other(config, trace, label, key))
        if kind == "budget":
            names = {MEAN: "Mean of all layers"} | _layers(config)
            layer = _select("Of", names, f"{key}_budget_layer")
            return Target.mean_budget() if layer == MEAN else Target.budget(int(layer) - 1)
        layer = _select("Of", _layers(config), f"{key}_score_layer")
        heads = {str(head): f"Head {head}" for head in range(1, config.n_heads + 1)}
        head = _select("Head", heads, f"{key}_score_head")
        return Target.score(int(layer) - 1, int(head) - 1)


def pick_method(key: str) -> str:
    """Draw the picker of the method; return a key of METHODS."""
    return choice.in_address("Explain with", METHODS, f"{key}_method", wrap=True, help=METHOD_HELP)


def name(target: Target) -> str:
    """Say what a target is, as a part of a sentence."""
    if target.kind == "logit":
        return f"score (logit) for {target.label}"
    if target.kind == "contrast":
        return f"lead of {target.label} over {target.other} (difference of logits)"
    return target.name


def digits(target: Target) -> int:
    """Decimals that tell a target's values apart: a budget lies between 0 and 1."""
    return 4 if target.kind in ("budget", "mean_budget") else 2


def _kinds(config: ModelConfig) -> dict[str, str]:
    """What this model computes; a fixed number of heads hangs on no word."""
    missing = set()
    if not config.routed or config.budgets == "static":
        missing = {"budget", "score"}
    elif config.constant_budget:
        missing = {"budget"}
    return {kind: label for kind, label in KINDS.items() if kind not in missing}


def _pick_class(config: ModelConfig, trace: Trace, key: str) -> str:
    names = {BEST: f"{trace.label} (the answer)"} | {label: label for label in config.labels}
    return _select("Class", names, f"{key}_class") or trace.label


def _pick_other(config: ModelConfig, trace: Trace, label: str, key: str) -> str:
    others = [other for other in config.labels if other != label]
    nearest = max(others, key=trace.probabilities.__getitem__)
    names = {BEST: f"{nearest} (the likeliest other)"} | {other: other for other in others}
    return _select("Against", names, f"{key}_other") or nearest


def _layers(config: ModelConfig) -> dict[str, str]:
    return {str(layer): f"Layer {layer}" for layer in range(1, config.n_layers + 1)}


def _select(label: str, names: dict[str, str], key: str) -> str:
    """A box whose options are plain text: class names are users' words."""
    default = choice.begin(key, names)
    value = st.selectbox(
        label,
        list(names),
        format_func=lambda option: names.get(option, option),
        key=key,
        width=240,
        persist_state="session",
    )
    state.write_url(key, default)
    return value or ""

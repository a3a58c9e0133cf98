"""The settings of a training as widgets, one a field of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

import streamlit as st

from app import jobs, loaders
from budgetformer.config import ModelConfig, TrainConfig, choices, field_docs, from_dict

# These follow from the data and the objective.
DERIVED = {"vocab_size", "labels", "n_segments", "routed"}
FIRST = ("objective", "epochs", "limit", "n_layers", "n_heads", "s_max")
STARTS = ("init", "warm_start", "teacher")
WORDS = {
    "objective": "What training aims at",
    "epochs": "Passes over the data",
    "limit": "Most training texts (0: all)",
    "n_layers": "Layers",
    "n_heads": "Heads a layer",
    "s_max": "Upper end of the budget",
    "s_min": "Lower end of the budget",
    "lr": "Learning rate",
    "d_model": "Width of the model",
    "d_ff": "Width of the feed-forward layer",
    "d_router": "Width of the router",
    "max_len": "Longest text in tokens",
    "vocab_size": "Vocabulary",
}
STARTS_HELP = {
    "init": "A pretrained encoder of the BERT family to start from: minilm, or a name on the Hub. "
    "Its shape and vocabulary come with it.",
    "warm_start": "A model whose weights and vocabulary the training starts from.",
    "teacher": "A model of the same vocabulary whose answers are learned beside the labels.",
}
Values = dict[str, Any]


def key(name: str) -> str:
    return f"train_set_{name}"


def known() -> dict[str, type[TrainConfig] | type[ModelConfig]]:
    """Return the fields that can be set, and which configuration holds each."""
    return {
        f.name: cls
        for cls in (TrainConfig, ModelConfig)
        for f in fields(cls)
        if not (cls is ModelConfig and f.name in DERIVED)
    }


def use(preset: Mapping[str, Any]) -> None:
    """Put a preset's values, and the defaults of all it does not name, into the widgets."""
    given = {**preset.get("train", {}), **preset.get("model", {})}
    for name, cls in known().items():
        default = next(f.default for f in fields(cls) if f.name == name)
        st.session_state[key(name)] = given.get(name, default)
    for name in STARTS:
        st.session_state[key(name)] = preset.get(name, "")


def first() -> None:
    """Draw the few fields that decide most."""
    columns = st.columns(3)
    for i, name in enumerate(FIRST):
        with columns[i % 3]:
            field(name)


def more() -> None:
    """Draw all other fields, by what they are about."""
    for title, cls in (("Training", TrainConfig), ("Shape of the model", ModelConfig)):
        st.markdown(f"**{title}**")
        columns = st.columns(3)
        rest = [name for name, its in known().items() if its is cls and name not in FIRST]
        for i, name in enumerate(rest):
            with columns[i % 3]:
                field(name)
    st.markdown("**Start from another model**")
    columns = st.columns(3)
    with columns[0]:
        st.text_input(
            "Pretrained encoder `init`",
            key=key("init"),
            help=STARTS_HELP["init"],
            persist_state="session",
        )
    for column, name, words in zip(columns[1:], STARTS[1:], ("Weights of", "Teacher"), strict=True):
        with column:
            options = ["", *loaders.model_names()]
            if st.session_state.get(key(name)) not in options:
                st.session_state[key(name)] = ""
            st.selectbox(
                f"{words} `{name}`",
                options,
                key=key(name),
                format_func=lambda model: model or "none",
                help=STARTS_HELP[name],
                persist_state="session",
            )


def field(name: str) -> None:
    """Draw the widget of a field; its help is what the configuration says about it."""
    cls = known()[name]
    words = WORDS.get(name, name.replace("_", " ").capitalize())
    # Errors name the field as the configuration does.
    label = f"{words} `{name}`"
    about: Any = {"key": key(name), "help": field_docs(cls)[name], "persist_state": "session"}
    kind, allowed = get_type_hints(cls)[name], choices(cls, name)
    if allowed:
        st.selectbox(label, allowed, **about)
    elif kind is bool:
        st.toggle(label, **about)
    elif kind is int:
        st.number_input(label, step=1, format="%d", **about)
    elif kind is float:
        st.session_state[key(name)] = float(st.session_state[key(name)])
        st.number_input(label, format="%g", step=_step(st.session_state[key(name)]), **about)
    else:
        st.text_input(label, **about)


def read() -> tuple[TrainConfig, Values, Values]:
    """Return what the widgets hold: the training, the model's fields, and where to start from.

    Raises:
        ValueError: if a field is out of its range, naming it.
    """
    values = {name: st.session_state[key(name)] for name in known()}
    train = from_dict(TrainConfig, {n: v for n, v in values.items() if known()[n] is TrainConfig})
    model = {n: v for n, v in values.items() if known()[n] is ModelConfig}
    # Vocabulary and labels come from the data; any will do to check the rest.
    from_dict(ModelConfig, {**model, "vocab_size": train.vocab_size, "labels": ("a", "b")})
    if train.objective == "requested" and not model["fixed_heads"]:
        raise ValueError("fixed_heads must be at least 1 for the requested objective, got 0")
    defaults = {f.name: f.default for f in fields(ModelConfig)}
    starts = {name: _folder(name, st.session_state[key(name)]) for name in STARTS}
    return train, {n: v for n, v in model.items() if v != defaults[n]}, starts


def _folder(name: str, model: str) -> str:
    """Return what the command line calls a model that is picked here by its name."""
    if not model or name == "init":
        return model.strip()
    return jobs.shown(loaders.library().entry(model).folder)


def _step(value: float) -> float:
    """Return a step for a number's + and − that suits its size."""
    return 0.1 if value >= 1 else 0.05 if value >= 0.1 else 0.01 if value >= 0.01 else 0.0001

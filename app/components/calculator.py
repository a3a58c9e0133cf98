"""What a model of any shape would cost in a year, with all heads on and with a share of them."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import loaders
from app.components import efficiency_measured
from app.components.efficiency_watch import measuring
from app.components.prediction import flop_text
from app.components.tables import source, table
from budgetformer.calculator import MOST, Load, year
from budgetformer.checkpoint import Checkpoint
from budgetformer.energy import Grid

FORMULA = "FLOP = L · (share · (8·T·D² + 4·T²·D) + 4·T·D·D_ff) + routers + classifier"
LABELS = {
    "n_layers": ("Layers L", "Encoder layers."),
    "n_heads": ("Heads H", "Attention heads a layer; the width is a multiple of them."),
    "d_model": ("Width D", "Numbers a token."),
    "d_ff": ("Feed-forward D_ff", "Width of the feed-forward layer."),
    "n_tokens": ("Tokens T", "Tokens of a text."),
}
RATES = "calculator_rates"


def section(model: Checkpoint) -> None:
    """Draw the inputs and what they come to."""
    st.subheader(
        "Compute calculator",
        help="For a model that you have in mind. The vocabulary does not matter: looking a word up "
        "is no multiplication. Two classes and a router of 32 numbers a layer are assumed.",
    )
    _fill(model)
    columns = st.columns(len(LABELS))
    shape = {}
    for column, (name, (label, help)) in zip(columns, LABELS.items(), strict=True):
        with column:
            shape[name] = st.number_input(
                label, 1, MOST[name], step=1, key=_key(name), help=help, persist_state="session"
            )
    first, second, third = st.columns([2, 2, 2], vertical_alignment="bottom")
    with first:
        percent = st.slider(
            "Heads that run, on average", 1, 100, step=1, format="%d%%", key=_key("share"),
            persist_state="session",
        )  # fmt: skip
    with second:
        texts = st.number_input(
            "Texts a day", 0, 10**12, step=1000, key=_key("texts"), persist_state="session"
        )
    with third:
        watts = st.number_input(
            "Power while it works, in watts", 0.0, 1e6, step=1.0, key=_key("watts"),
            persist_state="session", help=_power_help(),
        )  # fmt: skip
    load = Load(**shape, heads_share=percent / 100, texts_a_day=texts)
    _result(load, watts, loaders.grids()[st.session_state[efficiency_measured.COUNTRY]])


def _result(load: Load, watts: float | None, grid: Grid) -> None:
    used, dense = load.flops, load.dense_flops
    rows: list[tuple[str, ...]] = [
        ("Operations a text", flop_text(round(used)), flop_text(round(dense)), _saved(used, dense))
    ]
    rates = st.session_state.setdefault(RATES, {})
    measured = rates.get(_question(load))
    if measured is not None:
        dense_rate, used_rate = measured
        seconds = used / used_rate, dense / dense_rate
        rows.append(("Time a text", *(_time(s) for s in seconds), _saved(*seconds)))
        if watts:
            mine, full = (year(s, load.texts_a_day, watts, grid.carbon_g_per_kwh) for s in seconds)
            for name, unit, a, b in (
                ("Energy a year", "kWh", mine.kwh, full.kwh),
                ("CO₂ a year", "kg", mine.carbon_kg, full.carbon_kg),
            ):
                rows.append((name, f"{a:,.3g} {unit}", f"{b:,.3g} {unit}", _saved(a, b)))
    table(("", f"{load.heads_share:.0%} of the heads", "All heads on", "Saved"), rows)
    st.html(f'<div class="bf-formula">{FORMULA}</div>')
    if measured is None:
        st.html(
            f'<p class="bf-small">Operations: {source("by formula")}. For time, energy and CO₂ one '
            "layer of this shape has to be timed on this machine.</p>"
        )
        _time_here(load)
        return
    power = f"{watts:g} W" if watts else "a power that you have not given"
    st.html(
        f'<p class="bf-small">Operations: {source("by formula")}. Time: operations / operations a '
        f"second, {source('measured here')} on one thread with one layer of this shape: "
        f"{flop_text(round(measured[1]))} a second with {load.k} of {load.n_heads} heads, "
        f"{flop_text(round(measured[0]))} with all. "
        f"Energy: {source('by formula')}, time × {power}; "
        f"CO₂: energy × {grid.carbon_g_per_kwh:,.0f} g a kWh ({grid.name}); "
        f"{load.texts_a_day:,.0f} texts a day for 365 days.</p>"
    )


def _time_here(load: Load) -> None:
    layer = load.layer_flops()
    question = _question(load)

    def keep(values: dict[str, Any]) -> None:
        (row,) = values["rows"]
        rates = 1e3 * layer[0] / row["dense_ms"], 1e3 * layer[1] / row["sparse_ms"]
        st.session_state[RATES] = {**st.session_state.get(RATES, {}), question: rates}

    measuring(
        "calculator_time",
        "Time this shape on this machine",
        "Runs one layer with random weights, with all heads and with the share of them; seconds "
        "for a small shape, a minute for a large one.",
        ["bench", "--shape", ",".join(map(str, question))],
        keep,
    )


def _question(load: Load) -> tuple[int, ...]:
    """What `bench --shape` is asked."""
    return load.n_heads, load.d_model, load.d_ff, load.n_tokens, load.k


def _fill(model: Checkpoint) -> None:
    """Start with the picked model's shape, and go back to it on request."""
    if _key("n_layers") not in st.session_state:
        _use(model)
    st.button(
        "Take this model's shape", key="calculator_take", icon=":material/input:", on_click=_use,
        args=(model,),
    )  # fmt: skip


def _use(model: Checkpoint) -> None:
    config, test = model.config, model.metrics.get("test")
    figures = test if isinstance(test, dict) else {}
    for name in ("n_layers", "n_heads", "d_model", "d_ff"):
        st.session_state[_key(name)] = getattr(config, name)
    st.session_state[_key("n_tokens")] = round(figures.get("mean_tokens") or config.max_len)
    share = 100 * (figures.get("executed_heads_frac") or 1.0)
    st.session_state[_key("share")] = min(100, max(1, round(share)))
    st.session_state.setdefault(_key("texts"), 1_000_000)
    st.session_state.setdefault(_key("watts"), _power()[0])


def _power() -> tuple[float | None, str]:
    """Return the power that a shipped measurement says, and its model."""
    for name, found in efficiency_measured.shipped().items():
        return float(round(found.watts)), name
    return None, ""


def _power_help() -> str:
    watts, _ = _power()
    said = (
        ""
        if watts is None
        else f" To start with: the {watts:g} W that the shipped measurements come to."
    )
    return "What the machine draws while the model runs." + said


def _key(name: str) -> str:
    return f"calculator_{name}"


def _saved(used: float, full: float) -> str:
    if not full:
        return ""
    return f"{abs(1 - used / full):.1%} {'less' if used <= full else 'more'}"


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"

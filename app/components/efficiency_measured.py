"""Time, memory, energy and CO₂ of the models: as measured before, and here on request."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import errors, loaders
from app.components import examples
from app.components.efficiency_watch import measuring
from app.components.tables import source, table
from app.layout import slot
from budgetformer.checkpoint import Checkpoint
from budgetformer.efficiency import Measured, measured_from_dict
from budgetformer.energy import JOULES_PER_KWH, Grid
from budgetformer.figures.efficiency import Taken, taken, taken_alt
from budgetformer.own_data import check_public_name, is_local

COUNTRY, HERE = "efficiency_country", "efficiency_here"
DEFAULT_COUNTRY = "FRA"
N_TEXTS = 200
PLAIN_CHART = {"displayModeBar": False}


def section(model: Checkpoint) -> None:
    """Draw the table, both figures and the button that measures the picked model."""
    st.subheader(
        "On a machine",
        help="Fewer operations are worth something only if time and energy follow. Time: one text "
        "at a time on one thread, from token ids to the answer. Memory: what one pass over the "
        "longest text adds at its peak. Energy: processor and memory of the whole machine.",
    )
    grid = country()
    rows = [(name, found, False) for name, found in shipped().items()]
    here: dict[str, Measured] = st.session_state.setdefault(HERE, {})
    rows += [(name, found, True) for name, found in here.items()]
    with slot():
        if rows:
            _figures(rows, grid)
            _table(rows, grid)
    unmeasured = [name for name in loaders.model_names() if name not in shipped()]
    with slot():
        if unmeasured:
            st.text(f"No measurement is shipped for {', '.join(unmeasured)}.")
    _measure_here(model, grid)


def country() -> Grid:
    """Draw the picker of the country whose electricity is assumed."""
    grids = loaders.grids()
    if st.session_state.get(COUNTRY) not in grids:
        st.session_state[COUNTRY] = DEFAULT_COUNTRY
    code = st.selectbox(
        "Electricity of",
        list(grids),
        format_func=lambda code: grids[code].name,
        key=COUNTRY,
        width=260,
        persist_state="session",
        help="CO₂ is energy × the mean carbon intensity of a country's electricity, as codecarbon "
        "has it.",
    )
    grid = grids[code or DEFAULT_COUNTRY]
    year = f", {grid.year}" if grid.year else ""
    st.html(
        f'<p class="bf-small">Carbon intensity of {grid.name}: '
        f"<b>{grid.carbon_g_per_kwh:,.0f} g</b> CO₂ equivalent a kWh (codecarbon{year}).</p>"
    )
    return grid


def shipped() -> dict[str, Measured]:
    """Return what the models' folders say, by name; a damaged file is reported and left out."""
    found = {}
    for name in loaders.model_names():
        with errors.panel("The measurement of a model cannot be read"):
            measured = loaders.measured(name)
            if measured is not None:
                found[name] = measured
    return found


def _figures(rows: list[tuple[str, Measured, bool]], grid: Grid) -> None:
    left, right = st.columns(2, gap="medium")
    times = [Taken(name, here, found.p50_ms, found.p99_ms) for name, found, here in rows]
    carbon = [Taken(name, here, _carbon_mg(found, grid)) for name, found, here in rows]
    for column, key, title, values, axis in (
        (left, "time", "Time of one text: median, and a line to the 99th percentile", times,
         "milliseconds"),
        (right, "carbon", f"CO₂ of 1,000 texts with the electricity of {grid.name}", carbon,
         "milligrams"),
    ):  # fmt: skip
        with column:
            st.html(f'<p class="bf-small"><b>{title}.</b></p>')
            st.plotly_chart(
                taken(values, axis),
                key=f"efficiency_{key}",
                config=PLAIN_CHART,
                alt=taken_alt(values, axis),
            )


def _table(rows: list[tuple[str, Measured, bool]], grid: Grid) -> None:
    head = (
        "Model", "Heads run", "Median", "90%", "99%", "Memory", "Energy, 1,000 texts",
        "CO₂, 1,000 texts",
    )  # fmt: skip
    table(
        head,
        [
            (
                f"{name}, measured here" if here else name,
                f"{found.executed_heads_frac:.1%}",
                f"{found.p50_ms:.2f} ms",
                f"{found.p90_ms:.2f} ms",
                f"{found.p99_ms:.2f} ms",
                f"{found.forward_bytes / 2**20:.1f} MiB",
                f"{found.energy_j:,.1f} J",
                f"{_carbon_mg(found, grid):,.2f} mg",
            )
            for name, found, here in rows
        ],
    )
    sources = sorted({found.energy_source for _, found, _ in rows})
    st.html(
        f'<p class="bf-small">Time and memory: {source("measured")} Energy: '
        f"{' '.join(source(word) for word in sources)}, where estimated as load × rated power of "
        f"the processor. CO₂: {source('by formula')}, energy × carbon intensity.</p>"
    )
    with st.expander("Texts and machine of each", icon=":material/table_rows:"):
        for name, found, here in rows:
            busy = (
                ""
                if found.machine.quiet
                else f" Other work ran meanwhile (load {found.machine.load:g})."
            )
            st.text(
                f"{name}{', measured here' if here else ''}: {found.texts}, "
                f"{found.mean_tokens:.0f} tokens on average; {found.machine}; {found.date}.{busy}"
            )


def _measure_here(model: Checkpoint, grid: Grid) -> None:
    """Offer to measure the picked model on this server."""
    assert model.path is not None  # it comes from checkpoint()
    name = loaders.name_of(model)
    test = model.metrics.get("test")
    data = str(test.get("data", "")) if isinstance(test, dict) else ""
    arguments = ["measure", "--model", str(model.path.resolve()), "--country", grid.country]
    arguments += ["--n", str(N_TEXTS)]
    files = {}
    if data and is_local(data):
        # A model that somebody uploaded may name anything.
        arguments += ["--data", check_public_name(data)]
    else:
        st.text(
            "The texts that this model was tested on are not on this server. The app's own "
            "examples are measured instead: their lengths differ, and so do times."
        )
        arguments += ["--texts", "{folder}/examples of the app.tsv"]
        files["examples of the app.tsv"] = _example_lines(model.config.n_segments)

    def keep(values: dict[str, Any]) -> None:
        st.session_state[HERE] = {
            **st.session_state.get(HERE, {}), name: measured_from_dict(values)
        }  # fmt: skip

    measuring(
        "efficiency_measure",
        "Measure this model on this machine",
        "Takes some 30 seconds, longer on a busy server. The points appear beside the others.",
        arguments,
        keep,
        files,
    )


def _example_lines(n_segments: int) -> str:
    """Return the app's examples as a file: a text a line, a tab between the two of a pair."""
    lines = []
    for example in examples.EXAMPLES:
        parts = (example.text, example.text_pair)[:n_segments]
        if bool(example.text_pair) == (n_segments == 2):
            lines.append("\t".join(" ".join(part.split()) for part in parts))
    return "\n".join(lines) + "\n"


def _carbon_mg(found: Measured, grid: Grid) -> float:
    """Milligrams of CO₂ equivalent for 1,000 texts with a country's electricity."""
    return 1e3 * found.energy_j / JOULES_PER_KWH * grid.carbon_g_per_kwh

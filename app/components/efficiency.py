"""Accuracy against compute: the curve of one model with its controls, and the choice on it."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from app import errors, loaders, state
from app.components import choice, downloads, operating_point
from app.components.prediction import flop_text, percent
from app.components.tables import source, table
from app.components.words import signed
from app.layout import slot
from budgetformer import paper
from budgetformer.checkpoint import Checkpoint
from budgetformer.efficiency import SavedSweep, companions
from budgetformer.figures.efficiency import Line, Mark, accuracy_curve, accuracy_curve_alt
from budgetformer.sweep import SweepRow

if TYPE_CHECKING:
    import pandas as pd

CHART = "efficiency_curve"
AXES = {"heads": "Executed heads", "flops": "Operations"}
X_TITLES = {
    "heads": "executed heads, share of all heads",
    "flops": "operations (FLOP), share of all heads on",
}
# policy -> what it is, in the order of the legend
CURVES = {
    "fixed": "Every text gets k",
    "random": "k random heads",
    "bottom": "k worst-scored heads",
}
AT_OWN = {
    "shuffled": "Budgets of other texts",
    "random-heads": "Own k, random heads",
    "bottom-heads": "Own k, worst-scored heads",
}


def sweeps() -> dict[str, SavedSweep]:
    """Return what the models' folders say, by name; a damaged file is reported and left out."""
    found = {}
    for name in loaders.model_names():
        with errors.panel("The sweep of a model cannot be read"):
            sweep = loaders.saved_sweep(name)
            if sweep is not None:
                found[name] = replace(sweep, name=name)
    return found


def section(sweep: SavedSweep, others: dict[str, SavedSweep]) -> None:
    """Draw the curve, what was clicked on it, and the figures behind it."""
    st.subheader(
        "What the heads buy",
        help="Each point is one way of choosing heads, run on every text of the test split. The "
        "bars are 95% intervals (Wilson): points whose bars overlap much are not told apart by "
        "these texts. Operations: by formula, 2 for each multiply-add, the whole model.",
    )
    with slot():
        if sweep.outdated:
            st.warning(
                "sweep.json was measured with other weights than this model has now: its accuracy "
                "is not that of metrics.json. Run `sweep --save` again.",
                icon=":material/history:",
            )
    axis = choice.in_address("Accuracy against", AXES, state.EFFICIENCY_X)
    lines = curve_lines(sweep, others, axis)
    chosen = None
    if sweep.kind != "dense":
        k = operating_point.limit(sweep.config)
        row = sweep.own if k is None else sweep.row("capped", k)
        chosen = None if row is None else _mark(sweep, row, axis, "")
        st.markdown(
            "The star is the model as it is, the **blue line** the model with a limit on heads a "
            "layer: **click a point of it** to choose. All others are controls: what the same "
            "heads would give without the model's own choice."
        )
    figure = accuracy_curve(lines, X_TITLES[axis], chosen)
    alt = accuracy_curve_alt(lines, X_TITLES[axis])
    name = downloads.file_name("accuracy", sweep.name, axis)
    st.plotly_chart(
        figure,
        key=CHART,
        config=downloads.chart_config(name, CHART),
        alt=alt,
        on_select="rerun",
        selection_mode="points",
    )
    downloads.figure_menu(figure, alt, name, CHART, lambda: _frame(sweep))
    _sources(sweep, lines)
    _rows(sweep, others)


def clicked(sweep: SavedSweep) -> None:
    """Turn a click on the curve into the limit; read before anything is drawn.

    What counts is the place: a limit of one head lies where "every text gets one" lies.
    """
    event = st.session_state.get(CHART) or {}
    points = event.get("selection", {}).get("points", [])
    point = (points[0].get("x"), points[0].get("y")) if points else None
    seen, st.session_state[f"{CHART}_seen"] = st.session_state.get(f"{CHART}_seen"), point
    if point is None or point == seen or sweep.kind == "dense":
        return
    axis = st.session_state.get(state.EFFICIENCY_X, "heads")
    # The model's own choice first: where a limit changes nothing, there is none to set.
    for row in (sweep.own, *sweep.series("capped")):
        mark = _mark(sweep, row, axis, "")
        if math.isclose(mark.x, point[0]) and math.isclose(mark.accuracy, point[1]):
            operating_point.keep(row.k)
            return
    st.toast("That is a control. Choose a point of the blue line.", icon=":material/info:")


def curve_lines(sweep: SavedSweep, others: dict[str, SavedSweep], axis: str) -> list[Line]:
    """Return what the chart shows: controls first, so that what can be chosen lies on top."""
    twin, statics = companions(sweep, list(others.values()))
    lines = []
    for policy, name in CURVES.items():
        rows = sweep.series(policy)
        marks = tuple(_mark(sweep, row, axis, f"{name}, k = {row.k}") for row in rows)
        if marks:
            lines.append(Line(policy, name, marks))
    for policy, name in AT_OWN.items():
        found = sweep.row(policy)
        if found is not None:
            lines.append(Line(policy, name, (_mark(sweep, found, axis, name),)))
    for other in statics:
        name = f"{other.name}: same heads for every text"
        lines.append(Line("static", name, (_mark(sweep, other.own, axis, name),)))
    if twin is not None:
        name = f"{twin.name}: trained with all heads"
        lines.append(Line("dense", name, (_mark(sweep, twin.own, axis, name),)))
    reported = paper.reported(sweep.data)
    if reported is not None and axis == "flops":
        note = "Reported by the paper: another shape, other training rows"
        marks = (Mark(1 - reported.flops_saved, reported.accuracy, note),)
        lines.append(Line("paper", "Reported by the paper", marks))
    if sweep.kind != "dense":
        capped = [
            _mark(sweep, row, axis, f"At most {row.k} of {sweep.config.n_heads} heads a layer")
            for row in sweep.series("capped")
        ]
        if capped:
            lines.append(Line("limit", "With a limit", tuple(capped)))
    own = _mark(sweep, sweep.own, axis, f"{sweep.name} as it is")
    lines.append(Line("dense" if sweep.kind == "dense" else "own", sweep.name, (own,)))
    return lines


def _mark(sweep: SavedSweep, row: SweepRow, axis: str, note: str) -> Mark:
    x = row.executed_heads_frac if axis == "heads" else sweep.flops_share(row)
    return Mark(x, row.accuracy, note, row.ci_low, row.ci_high)


def _sources(sweep: SavedSweep, lines: list[Line]) -> None:
    """Say where the points come from, the paper's above all."""
    text = (
        f"Accuracy: {source('measured')} on {sweep.n:,} {sweep.split} texts, the same for every "
        f"point, kept in sweep.json. Operations: {source('by formula')}"
    )
    reported = paper.reported(sweep.data)
    if reported is not None:
        text += (
            f"<br>Paper: {source('reported by the paper')} (arXiv {paper.ARXIV}, second-hand) on "
            f"{reported.name}: accuracy {reported.accuracy:.2%} against "
            f"{reported.transformer_accuracy:.2%} for its Transformer, {reported.flops_saved:.1%} "
            f"of the operations saved, mean budget s {reported.mean_budget:.3f}. That is another "
            f"shape ({paper.SHAPE}), with other training rows and test texts, and it gives no "
            "executed heads, so it stands on the axis of operations only."
        )
    st.html(f'<p class="bf-small">{text}</p>')


def _rows(sweep: SavedSweep, others: dict[str, SavedSweep]) -> None:
    twin, statics = companions(sweep, list(others.values()))
    named = [(sweep.name, sweep.own)]
    named += [(name, row) for policy, name in AT_OWN.items() if (row := sweep.row(policy))]
    full = sweep.row("fixed", sweep.config.n_heads)
    if full is not None:
        named.append((f"{sweep.name}, all heads forced on", full))
    named += [(other.name, other.own) for other in (*statics, *([twin] if twin else []))]
    head = ("Choice of heads", "Accuracy", "95% interval", "Heads run", "Operations", "Against own")
    table(head, [_cells(sweep, name, row) for name, row in named], [0])
    if sweep.kind == "dense":
        return
    with st.expander("Every k and every limit", icon=":material/table_rows:"):
        every = [
            (f"{name}, k = {row.k}", row)
            for policy, name in {"capped": "With a limit", **CURVES}.items()
            for row in sweep.series(policy)
        ]
        table(head, [_cells(sweep, name, row) for name, row in every])


def _cells(sweep: SavedSweep, name: str, row: SweepRow) -> tuple[str, ...]:
    own = row is sweep.own
    return (
        name,
        f"{row.accuracy:.2%}",
        f"{row.ci_low:.1%} – {row.ci_high:.1%}",
        percent(row.executed_heads_frac),
        f"{flop_text(round(row.flops_per_example))} ({sweep.flops_share(row):.1%})",
        "" if own else f"{signed(100 * (row.accuracy - sweep.own.accuracy), 2)} points",
    )


def missing(model: Checkpoint) -> None:
    """Say how to get the curve of a model that has none."""
    assert model.path is not None  # it comes from checkpoint()
    test = model.metrics.get("test")
    data = test.get("data", "DATA") if isinstance(test, dict) else "DATA"
    st.info("This model has no sweep yet, so there is no curve.", icon=":material/info:")
    st.text("To measure it, run this where the app is installed; it takes minutes:")
    st.code(
        shlex.join(
            ["python", "-m", "budgetformer", "sweep", "--model", str(_folder(model.path)),
             "--data", str(data), "--save"]
        ),
        language=None, wrap_lines=True,
    )  # fmt: skip


def _folder(path: Path) -> Path:
    """Return a path below the project's folder, which a command line there can use."""
    return path.relative_to(errors.ROOT) if path.is_relative_to(errors.ROOT) else path


def _frame(sweep: SavedSweep) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([{"model": sweep.name, **row.to_dict()} for row in sweep.rows])

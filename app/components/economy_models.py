"""Two models on one slice: the heads they share, their budgets, and the answers that change."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import loaders, state
from app.components import economy_slice, models
from app.components.downloads import csv_button, file_name
from app.components.economy_slice import Part, Sample
from app.components.prediction import signed_points
from app.components.request import on_request
from app.components.tables import source, table
from app.components.words import signed
from app.layout import slot
from budgetformer.checkpoint import Checkpoint
from budgetformer.checkpoint_diff import (
    CheckpointDiff,
    compare_checkpoints,
    run_other,
)
from budgetformer.intervals import Estimate
from budgetformer.progress import Progress

CHANCE = 0.05
"""Below this p-value a difference is called one beyond chance."""


def section(part: Part) -> None:
    """Draw the second model's picker, the request and both tables."""
    st.subheader(
        "Against another model",
        help="Both models read the same texts, each with its own choice of heads. A: the model of "
        "this page. B: the second one, picked at the side.",
    )
    name = loaders.name_of(part.model)
    st.markdown(
        "Do two models run the same heads, ask for the same budgets, and give the same answers? "
        "Pick model B at the side."
    )
    other = models.pick_model(state.HEADS_OTHER, "Model B", f"{name}-dense")
    if other is None:
        return
    sample = economy_slice.sample(part, "Model B runs them; A’s answers are those of the set.")
    if sample is None:
        return

    def run(progress: Progress) -> CheckpointDiff:
        labels = sample.scored.source.labels
        records = run_other(other, sample.examples, labels, progress)
        return compare_checkpoints(sample.scored.records, records)

    found = on_request(
        "heads_models",
        (sample.question, loaders.model_key(other)),
        f"Run model B ({len(sample.examples):,} runs)",
        run,
        "Runs model B once for each text.",
    )
    if found is not None:
        _result(part, other, sample, found)


def _result(part: Part, other: Checkpoint, sample: Sample, found: CheckpointDiff) -> None:
    name = file_name("models", part.scored.source.model, loaders.name_of(other))
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Heads and budgets**, B minus A, averages over the texts.")
        table(
            ("Layer", "Δs", "Δk", "Heads shared"),
            [
                (
                    str(i), _estimate(layer.budget_change), signed(layer.k_change, 2),
                    "–" if layer.overlap is None else f"{layer.overlap:.1%}",
                )
                for i, layer in enumerate(found.layers, 1)
            ],
        )  # fmt: skip
        st.caption(
            "Heads shared: those that both run, over those that at least one runs (Jaccard). Two "
            "models trained apart number their heads differently, so little overlap says little "
            "unless one was trained on from the other. A model without a router counts as s = 1."
        )
    with right:
        st.markdown("**Answers**, in texts.")
        table(
            ("", "B right", "B wrong"),
            [
                ("A right", f"{found.both_right:,}", f"{found.only_first_right:,}"),
                ("A wrong", f"{found.only_second_right:,}", f"{found.both_wrong:,}"),
            ],
        )
        st.markdown(_verdict(found))
    shapes = part.model.config, other.config
    with slot():
        if shapes[0].n_layers != shapes[1].n_layers:
            st.caption(
                f"A has {shapes[0].n_layers} layers and B {shapes[1].n_layers}: the first "
                f"{len(found.layers)} stand side by side."
            )
    st.html(
        f'<p class="bf-small">{source("measured here")} on {found.n:,} of {sample.n_slice:,} texts '
        "of the slice. In brackets the 95% interval, paired bootstrap over the texts. p: McNemar’s "
        "exact test on the texts that only one of the two gets right.</p>"
    )
    csv_button(lambda: _frame(found), name, "heads_models_csv")


def _verdict(found: CheckpointDiff) -> str:
    change = found.accuracy_change
    p = "p < 0.001" if found.p_value < 0.001 else f"p = {found.p_value:.3f}"
    what = (
        "**B is more often right.**" if change.value > 0 else "**B is less often right.**"
    ) if found.p_value < CHANCE else "**No difference in accuracy beyond chance.**"  # fmt: skip
    return (
        f"{what} B minus A: {signed_points(change.value)} [{signed_points(change.low)}, "
        f"{signed_points(change.high)}], {p}. The answer differs for "
        f"{found.labels_changed:,} of {found.n:,} texts ({found.labels_changed / found.n:.1%})."
    )


def _estimate(value: Estimate) -> str:
    return f"{signed(value.value, 3)} [{signed(value.low, 3)}, {signed(value.high, 3)}]"


def _frame(found: CheckpointDiff) -> pd.DataFrame:
    rows: list[dict[str, object]] = []
    for i, layer in enumerate(found.layers, 1):
        rows += [
            {"what": f"budget change, layer {i}", **vars(layer.budget_change)},
            {"what": f"k change, layer {i}", "value": layer.k_change},
            {"what": f"heads shared, layer {i}", "value": layer.overlap},
        ]
    rows.append({"what": "accuracy change", **vars(found.accuracy_change)})
    for what in ("n", "both_right", "only_first_right", "only_second_right", "both_wrong",
                 "labels_changed", "p_value"):  # fmt: skip
        rows.append({"what": what.replace("_", " "), "value": getattr(found, what)})
    return pd.DataFrame(rows)

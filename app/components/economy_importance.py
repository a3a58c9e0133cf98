"""What is lost without each head, and whether the router chooses those that matter."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from app.components import economy_slice
from app.components.downloads import chart_config, csv_button, figure_menu, file_name
from app.components.economy_slice import Part, Sample
from app.components.prediction import signed_points
from app.components.request import on_request
from app.components.tables import source, table
from app.components.words import signed
from budgetformer.ablation import Replacement
from budgetformer.figures.head_importance import (
    HeadPoint,
    importance_points,
    importance_points_alt,
)
from budgetformer.head_importance import (
    LEAST_RAN,
    REFERENCE_TEXTS,
    HeadEffect,
    HeadImportance,
    head_importance,
)
from budgetformer.intervals import Estimate

CHART = "heads_importance_chart"
REPLACEMENTS: dict[Replacement, str] = {"zero": "nothing (zero)", "mean": "its mean output"}
MEASURES = {"loss": "loss for each run", "accuracy": "accuracy of all texts"}
MOST_ROWS = 16


def section(part: Part) -> None:
    """Draw the request, then the chart, the verdict and the table."""
    st.subheader(
        "Does the router choose the heads that matter?",
        help="Ablation: one head’s output is taken out wherever it ran, the other heads keep their "
        "strength, and the texts are classified again. A head that never ran cannot be judged in "
        "this way.",
    )
    st.markdown(
        "Each head is taken out in turn, and the texts that ran it are classified again without "
        "it. Texts that did not run it are left alone: for them nothing can change."
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        sample = economy_slice.sample(part, "Each head is taken out over these texts.")
        if sample is None:
            return
        replacement: Replacement = st.selectbox(
            "In its place", list(REPLACEMENTS), key="heads_replacement", width=200,
            format_func=lambda name: REPLACEMENTS.get(name, name), persist_state="session",
            help="Nothing: the head writes zeros. Its mean: the average of what it writes, over "
            f"the tokens of the first {REFERENCE_TEXTS} of these texts, so that only its answer to "
            "this text is lost.",
        )  # fmt: skip
        reroute = st.toggle(
            "Later layers choose again", key="heads_reroute", persist_state="session",
            help="Off: all layers keep the heads that they ran, so the head is all that differs. "
            "On: the layers above see the change and may choose other heads.",
        )  # fmt: skip
    runs = int(sample.scored.records.heads.sum())
    found = on_request(
        "heads_importance",
        (sample.question, replacement, reroute),
        f"Take out each head ({runs:,} runs)",
        lambda progress: _summed(
            head_importance(part.model, sample.examples, replacement, reroute, progress=progress)
        ),
        "Runs the model once for each text and head that ran; the result stays until you ask for "
        "another.",
    )
    if found is not None:
        _result(part, sample, *found)


def _summed(found: HeadImportance) -> tuple[list[HeadEffect], Estimate | None, int]:
    """Resample once, not whenever the page is drawn; the runs themselves need not be kept."""
    return found.effects(), found.rank_correlation(), found.n_runs


def _result(
    part: Part, sample: Sample, effects: list[HeadEffect], rho: Estimate | None, n_runs: int
) -> None:
    n = len(sample.examples)
    by = st.segmented_control(
        "Upwards", list(MEASURES), format_func=lambda name: MEASURES.get(name, name),
        key="heads_importance_by", default="loss", required=True, persist_state="session",
        help="Loss for each run: how much −ln p of the right class rises, averaged over the texts "
        "that ran the head. Accuracy of all texts: how many points are lost over the whole sample; "
        "a head that seldom runs cannot cost much there.",
    )  # fmt: skip
    ran = [effect for effect in effects if effect.n_ran]
    points = [_point(effect, n, str(by)) for effect in ran]
    label = "rise of the loss, nats" if by == "loss" else "accuracy lost, points"
    figure, alt = importance_points(points, label, by != "loss"), importance_points_alt(
        points, label
    )  # fmt: skip
    name = file_name("head-importance", part.scored.source.model)
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.plotly_chart(figure, key=CHART, config=chart_config(name, CHART), alt=alt)
        with st.container(horizontal=True, horizontal_alignment="distribute", gap="medium"):
            st.caption(
                "A point is a head that ran, its number above it. Up: more is lost without it. "
                + ("" if by == "loss" else "Lines: 95% interval, paired bootstrap over the texts."),
                width="stretch",
            )
            figure_menu(figure, alt, name, CHART, lambda: _frame(effects, n))
    with right:
        st.markdown(_verdict(rho))
        st.html(
            f'<p class="bf-small">{source("measured here")} on {n:,} of {sample.n_slice:,} texts '
            f"of the slice, {n_runs:,} runs. Spearman’s rank correlation over heads that at "
            f"least {LEAST_RAN} texts ran, of the share that runs a head and the rise of the loss "
            "for each run; 95% interval by bootstrap over the texts.</p>"
        )
    _table(effects, n)


def _point(effect: HeadEffect, n: int, by: str) -> HeadPoint:
    rate = effect.n_ran / n
    if by == "loss":
        return HeadPoint(effect.layer, effect.head, rate, effect.loss_rise)
    drop = effect.accuracy_drop
    return HeadPoint(effect.layer, effect.head, rate, drop.value, drop.low, drop.high)


def _verdict(rho: Estimate | None) -> str:
    if rho is None:
        return (
            "**That cannot be said here.** It takes at least three heads that run often enough, "
            "and some that run more often than others."
        )
    value = f"ρ = {_number(rho.value)} [{_number(rho.low)}, {_number(rho.high)}]"
    if rho.low > 0:
        return f"**Yes.** Heads that run more often also cost more when they are missing: {value}."
    if rho.high < 0:
        return (
            f"**The other way round.** Heads that run more often cost less when they are missing: "
            f"{value}."
        )
    return (
        "**That is not shown.** How often a head runs and what its absence costs go together no "
        f"better than chance: {value} holds 0."
    )


def _table(effects: list[HeadEffect], n: int) -> None:
    ranked = sorted(
        (effect for effect in effects if effect.n_ran),
        key=lambda effect: (-effect.accuracy_drop.value, -effect.loss_rise),
    )
    st.markdown(
        "Heads whose absence costs most come first; a change of accuracy whose interval holds 0 is "
        "no more than chance."
    )
    table(
        ("Head", "Runs for", "Accuracy lost", "95% interval", "Loss, each run", "Labels changed"),
        [
            (
                f"layer {effect.layer + 1}, head {effect.head + 1}", f"{effect.n_ran / n:.1%}",
                signed_points(effect.accuracy_drop.value),
                f"{signed_points(effect.accuracy_drop.low)} to "
                f"{signed_points(effect.accuracy_drop.high)}",
                signed(effect.loss_rise, 3), f"{effect.label_changes:,}",
            )
            for effect in ranked[:MOST_ROWS]
        ],
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        csv_button(lambda: _frame(effects, n), "head-importance", "heads_importance_csv")
        if len(ranked) > MOST_ROWS:
            st.caption(f"{MOST_ROWS} of {len(ranked)} heads that ran; all are in the file.")


def _frame(effects: list[HeadEffect], n: int) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "layer": one.layer + 1, "head": one.head + 1, "n": n, "ran": one.n_ran,
                "rate": one.n_ran / n, "accuracy_lost": one.accuracy_drop.value,
                "low": one.accuracy_drop.low, "high": one.accuracy_drop.high,
                "loss_rise_per_run": None if math.isnan(one.loss_rise) else one.loss_rise,
                "labels_changed": one.label_changes,
            }
            for one in effects
        ]
    )  # fmt: skip


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")

"""Does s follow difficulty, is that only length, and does it pay? In words and numbers."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import loaders
from app.components.downloads import csv_button, file_name
from app.components.prediction import signed_points
from app.components.records import Picked
from app.components.tables import source, table
from budgetformer.adaptivity import ADAPTIVITY
from budgetformer.checkpoint import Checkpoint
from budgetformer.config import read_json
from budgetformer.intervals import Estimate
from budgetformer.measures import Measure, difficulties
from budgetformer.records import ScoredSet
from budgetformer.slices import QUADRANTS, quadrant_of

STRENGTHS = ((0.7, "strongly"), (0.4, "clearly"), (0.2, "weakly"), (0.0, "hardly"))
NEGLIGIBLE = 0.05
"""A change of ρ that is not worth a sentence."""

Row = tuple[Measure, Estimate | None, Estimate | None]
"""Measure of difficulty, ρ with s, and ρ with the number of tokens held fixed."""


def section(model: Checkpoint, picked: Picked, key: str) -> None:
    """Draw the verdict, with the numbers that it rests on."""
    st.subheader(
        "Does the budget follow difficulty?",
        help="ρ: Spearman's rank correlation, from −1 to 1. With 1 the harder of two texts always "
        "gets the larger s, with 0 there is no such order. “Length held fixed”: partial "
        "correlation, what is left of ρ among texts of about the same number of tokens. In "
        "brackets the 95 % interval: percentile bootstrap over examples, 500 resamples.",
    )
    if not picked.scored.has_budgets:
        st.info(
            "This model gives the same budget to every text, so there is no budget that could "
            "follow anything. Pick a model that chooses its heads for each text.",
            icon=":material/info:",
        )
        return
    with st.spinner("Relating s to difficulty …"):
        rows = [_row(picked, measure) for measure in difficulties(picked.scored)]
    words, numbers = st.columns([2, 3], gap="large")
    with words:
        for sentence in sentences(rows):
            st.markdown(sentence)
        st.markdown(_mistakes(picked.scored))
        _pays(model, picked)
    with numbers:
        table(
            ("Difficulty", "ρ with mean s", "ρ, length held fixed"),
            [(row[0].label, estimate(row[1]), _partial(row)) for row in rows],
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            st.html(f"{source('measured here')}")
            csv_button(
                lambda: _frame(rows), file_name("adaptivity", picked.scored.source.model),
                f"{key}_verdict_csv",
            )  # fmt: skip


def sentences(rows: list[Row]) -> list[str]:
    """Say what the correlations say: with the model's own loss, with another judge's, by length."""
    by_name = {row[0].name: row for row in rows}
    own, given = by_name["loss"][1:]
    said = [_follows("the model’s own loss", own)]
    judge = next((by_name[n] for n in ("dense_loss", "linear_loss") if n in by_name), None)
    if judge is not None:
        who = judge[0].label[0].lower() + judge[0].label[1:]
        said.append(_follows(f"the {who}, which is not its own doubt", judge[1]))
    if own is not None and given is not None:
        change = abs(own.value) - abs(given.value)
        if abs(change) < NEGLIGIBLE:
            said.append(
                f"**Length is not the reason.** With the number of tokens held fixed ρ is "
                f"{_number(given.value)} instead of {_number(own.value)}."
            )
        elif change > 0:
            said.append(
                f"**A part of it is length.** With the number of tokens held fixed ρ falls from "
                f"{_number(own.value)} to {_number(given.value)}."
            )
        else:
            said.append(
                f"**Length hides a part of it.** With the number of tokens held fixed ρ is "
                f"{_number(given.value)} instead of {_number(own.value)}."
            )
    return said


def estimate(value: Estimate | None) -> str:
    """Write a correlation with its interval."""
    if value is None:
        return "undefined"
    return f"{_number(value.value)} [{_number(value.low)}, {_number(value.high)}]"


def _row(picked: Picked, measure: Measure) -> Row:
    scored = picked.scored
    rho = loaders.correlation(picked.key, scored, "s", measure.name)
    if measure.name == "tokens":
        return measure, rho, None
    return measure, rho, loaders.correlation(picked.key, scored, "s", measure.name, "tokens")


def _partial(row: Row) -> str:
    return "–" if row[0].name == "tokens" else estimate(row[2])


def _follows(what: str, rho: Estimate | None) -> str:
    if rho is None:
        return f"How s goes with {what} is undefined here: one of the two is the same for all."
    if rho.low <= 0 <= rho.high:
        return (
            f"**No.** s and {what} go together no better than chance: ρ = {estimate(rho)} holds 0."
        )
    how = next(word for least, word in STRENGTHS if abs(rho.value) >= least)
    if rho.value < 0:
        return f"**The other way round.** s falls {how} with {what}: ρ = {estimate(rho)}."
    return f"**s rises {how}** with {what}: ρ = {estimate(rho)}."


def _mistakes(scored: ScoredSet) -> str:
    """Say how many mistakes got little: where the model is sure of a wrong answer."""
    counts = np.bincount(quadrant_of(scored), minlength=len(QUADRANTS))
    cheap, dear = int(counts[0]), int(counts[1])
    if not cheap + dear:
        return "There is no wrong answer in this set."
    return (
        f"**Mistakes.** Of {cheap + dear:,} wrong answers, {dear:,} ({dear / (cheap + dear):.0%}) "
        f"got a budget in the upper half (dear), {cheap:,} in the lower half (cheap): those are "
        "mistakes that the model did not take for hard."
    )


def _pays(model: Checkpoint, picked: Picked) -> None:
    """Say whether adaptive budgets beat fixed and shuffled ones, where that was measured."""
    assert model.path is not None
    path = model.path / ADAPTIVITY
    if picked.own or not path.is_file():
        st.html(
            '<p class="bf-small">Whether following difficulty also <b>pays</b>, in accuracy at the '
            "same average number of heads, has not been measured on this data: the command "
            "<code>adaptivity</code> does it.</p>"
        )
        return
    pays: dict[str, Any] = read_json(path).get("pays", {})
    try:
        n = int(pays["n"])
        against = {
            "the same budgets dealt to other texts": Estimate(**pays["adaptive_minus_shuffled"]),
            "the same k for every text": Estimate(**pays["adaptive_minus_fixed"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not hold what adaptivity writes: {error}") from error
    wins = [name for name, gain in against.items() if gain.low > 0]
    loses = [name for name, gain in against.items() if gain.high < 0]
    if len(wins) == 2:
        verdict = "**It pays.** At the same average heads, accuracy is higher than with both:"
    elif loses:
        verdict = "**It does not pay, it costs.** At the same average heads, accuracy differs by"
    elif wins:
        verdict = "**It pays in part.** At the same average heads, accuracy differs by"
    else:
        verdict = (
            "**That it pays is not shown.** At the same average heads, accuracy differs by no more "
            "than chance:"
        )
    parts = "; ".join(
        f"{signed_points(gain.value)} [{signed_points(gain.low)}, {signed_points(gain.high)}] "
        f"against {name}"
        for name, gain in against.items()
    )
    st.markdown(f"{verdict} {parts}.")
    st.html(
        f'<p class="bf-small">{source("measured")} by the command adaptivity on {n:,} examples, '
        f"see {html.escape(ADAPTIVITY)} beside the model.</p>"
    )


def _frame(rows: list[Row]) -> pd.DataFrame:
    records = []
    for measure, rho, given in rows:
        record: dict[str, Any] = {"difficulty": measure.name}
        for name, found in (("rho", rho), ("rho_given_tokens", given)):
            record[name] = found.value if found else None
            record[f"{name}_low"] = found.low if found else None
            record[f"{name}_high"] = found.high if found else None
        records.append(record)
    return pd.DataFrame(records)


def _number(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")

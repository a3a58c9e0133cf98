"""Spend the heads otherwise: policies at an average that a slider sets."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.components import economy_slice
from app.components.downloads import chart_config, csv_button, figure_menu, file_name
from app.components.economy_slice import Part, Sample
from app.components.prediction import flop_text, signed_points
from app.components.request import on_request
from app.components.tables import source, table
from budgetformer.figures.policies import policy_points, policy_points_alt
from budgetformer.policy_simulator import Outcome, Simulation, Way, simulate

CHART, AVERAGE, TRIED = "heads_policies_chart", "heads_average", "heads_policies_tried"
STEPS_A_HEAD = 4
MOST_TRIED = 64
WORDS: dict[Way, str] = {
    "adaptive": "adaptive: the router’s budgets, scaled",
    "capped": "capped: the router’s, up to a limit",
    "fixed": "fixed: the same for every text",
    "shuffled": "shuffled: adaptive’s, of other texts",
    "random": "random: adaptive’s k, any heads",
}


def section(part: Part) -> None:
    """Draw the slider, and what was found at the averages that were tried."""
    st.subheader(
        "What if the heads were spent otherwise?",
        help="All policies spend the same average. Adaptive: each text’s budgets s are multiplied "
        "by one number c, at most 1 each, and rounded as the model rounds; c is found by bisection "
        "so that the average k is the slider’s. Capped: min(k, m), a random part of the texts with "
        "m + 1. Fixed: in each layer as many heads as adaptive runs there on average, the same for "
        "every text. Shuffled: adaptive’s numbers, dealt to other texts. Random: adaptive’s "
        "numbers, with heads drawn by lot. Seed 0.",
    )
    if not part.scored.source.routed:
        st.info(
            "This model has no router: there are no budgets to spend otherwise. Pick a model that "
            "chooses its heads.",
            icon=":material/info:",
        )
        return
    st.markdown(
        "Set how many heads a layer may run **on average**, and see how accurate the router’s way "
        "of spreading them over texts is against simpler ways at the same average."
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        sample = economy_slice.sample(part, "Each policy runs them all.")
        if sample is None:
            return
        wanted = _slider(sample)
    tried = _tried(sample)
    if wanted not in tried:
        n = 5 * len(sample.examples)
        found = on_request(
            "heads_policies",
            (sample.question, wanted),
            f"Run the five policies ({n:,} runs)",
            lambda progress: simulate(
                part.model, sample.examples, sample.scored.records, wanted, progress=progress
            ),
            "What was run once stays: move the slider back and it is there.",
        )
        if found is not None:
            tried[wanted] = found
            while len(tried) > MOST_TRIED:
                del tried[next(iter(tried))]
    if tried:
        _result(part, sample, tried, wanted)


def _slider(sample: Sample) -> float:
    """Draw the slider; the model's own average is one of its places."""
    n_heads = sample.scored.source.n_heads
    own = _own(sample)
    steps = (n_heads - 1) * STEPS_A_HEAD
    places = sorted({1 + i / STEPS_A_HEAD for i in range(steps + 1)} | {own})
    if st.session_state.get(AVERAGE) not in places:
        st.session_state[AVERAGE] = own
    return st.select_slider(
        "Heads a layer, on average",
        places,
        format_func=lambda k: f"{k:.2f}{' (the model’s own)' if k == own else ''}",
        key=AVERAGE,
        persist_state="session",
        help=f"Of {n_heads}. At the model’s own average, adaptive is the model as it is.",
    )


def _own(sample: Sample) -> float:
    return float(sample.scored.records.executed_heads.mean())


def _tried(sample: Sample) -> dict[float, Simulation]:
    """What this session has found for a sample, by average; one sample is kept."""
    held = st.session_state.get(TRIED)
    if held is None or held[0] != sample.question:
        held = st.session_state[TRIED] = (sample.question, {})
    found: dict[float, Simulation] = held[1]
    return found


def _result(part: Part, sample: Sample, tried: dict[float, Simulation], wanted: float) -> None:
    figure = policy_points(list(tried.values()), wanted, _own(sample), sample.scored.source.n_heads)
    alt = policy_points_alt(list(tried.values()), wanted)
    name = file_name("policies", part.scored.source.model)
    st.plotly_chart(figure, key=CHART, config=chart_config(name, CHART), alt=alt)
    with st.container(horizontal=True, horizontal_alignment="distribute", gap="medium"):
        st.caption(
            "Bars: 95% interval (Wilson). Dotted line: the model’s own average. Larger points: "
            "where the slider is.",
            width="stretch",
        )
        figure_menu(figure, alt, name, CHART, lambda: _frame(list(tried.values())))
    now = tried.get(wanted)
    if now is None:
        return
    st.markdown(_verdict(now))
    table(
        ("Policy", "Heads a layer", "Right", "95% interval", "Operations", "Minus adaptive"),
        [_row(outcome) for outcome in now.outcomes],
        [0],
    )
    cap = (
        f"Capped: at most {now.cap} or {now.cap + 1} heads a layer."
        if now.cap is not None
        else "Capped: no cap is needed, the model spends no more than this; it runs as it is."
    )
    st.html(
        f'<p class="bf-small">Accuracy and heads: {source("measured here")} on {now.n:,} texts. '
        f"Operations: {source('by formula')} on average for a text. Adaptive: budgets times "
        f"c = {now.factor:.3f}. {cap} Minus adaptive: in brackets the 95% interval, paired "
        "bootstrap over the texts.</p>"
    )
    csv_button(lambda: _frame(list(tried.values())), name, "heads_policies_csv")


def _row(outcome: Outcome) -> tuple[str, ...]:
    accuracy, gain = outcome.accuracy, outcome.minus_adaptive
    return (
        WORDS[outcome.way],
        f"{outcome.mean_k:.2f}",
        f"{accuracy.value:.1%}",
        f"{accuracy.low:.1%} to {accuracy.high:.1%}",
        flop_text(round(outcome.flops_per_example)),
        "–"
        if gain is None
        else f"{signed_points(gain.value)} [{signed_points(gain.low)}, {signed_points(gain.high)}]",
    )


def _verdict(now: Simulation) -> str:
    """Say which ways are better or worse than adaptive beyond chance."""
    pairs = [(o.way, o.minus_adaptive) for o in now.outcomes if o.minus_adaptive is not None]
    worse = [way for way, gain in pairs if gain.high < 0]
    better = [way for way, gain in pairs if gain.low > 0]
    if not worse and not better:
        return "**No difference beyond chance** between the router’s way and the other four."
    parts = []
    if worse:
        parts.append(f"**The router’s way beats** {', '.join(worse)}")
    if better:
        parts.append(f"**it is beaten by** {', '.join(better)}" if parts else
                     f"**The router’s way is beaten by** {', '.join(better)}")  # fmt: skip
    return f"{'; '.join(parts)}, beyond chance."


def _frame(simulations: list[Simulation]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "average_wanted": one.wanted, "factor": one.factor, "cap": one.cap, "n": one.n,
                "policy": o.way, "heads_a_layer": o.mean_k, "accuracy": o.accuracy.value,
                "low": o.accuracy.low, "high": o.accuracy.high, "flops": o.flops_per_example,
                "minus_adaptive": o.minus_adaptive and o.minus_adaptive.value,
                "minus_adaptive_low": o.minus_adaptive and o.minus_adaptive.low,
                "minus_adaptive_high": o.minus_adaptive and o.minus_adaptive.high,
            }
            for one in sorted(simulations, key=lambda one: one.wanted)
            for o in one.outcomes
        ]
    )  # fmt: skip

"""What if, by experiment: other heads at the same k, every k, one head out, another temperature."""

from __future__ import annotations

import math
from typing import cast

import streamlit as st

from app import computed
from app.components import operating_point
from app.components.forced import Trial
from app.components.heads import PLAIN_CHART, head_name
from app.components.prediction import percent, signed_points
from app.components.tables import table
from app.layout import slot
from budgetformer.ablation import Replacement, ablate
from budgetformer.figures.sharpness import sharpness_bars, sharpness_bars_alt
from budgetformer.figures.text_sweep import sweep_lines, sweep_lines_alt
from budgetformer.interventions import HeadOrder, Intervention
from budgetformer.oracle import Heads, OracleChoice, n_choices, oracle_heads
from budgetformer.routing_view import sharpness
from budgetformer.trace import predict_under

ORACLE_LIMIT = 1000
POLICIES: dict[HeadOrder, str] = {
    "top": "top-k, the router's choice",
    "random": "random-k",
    "bottom": "bottom-k",
}
REPLACEMENTS = {"zero": "nothing (zero)", "mean": "its mean"}
TEMPERATURES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 8.0)


@slot()
def other_heads(trial: Trial, key: str) -> None:
    """Compare the router's heads with others at the same k, and search the best on request."""
    st.subheader(
        "Other heads, as many of them",
        help="The same k in every layer, but other heads. Loss: −ln of the probability of the "
        "model's own answer, in nats; lower is better. Oracle-k: the heads with the lowest loss, "
        "found by trying, which no router can know beforehand.",
    )
    ks = tuple(layer.k for layer in trial.shown.layers)
    st.markdown(
        f"The layers run {' + '.join(map(str, ks))} heads in each row, and p and loss are those of "
        "the model's own answer. Good routing shows as a gap between the first row and the next "
        "two."
    )
    rows = [_row(trial, order, ks) for order in POLICIES]
    place = st.container()
    found = _oracle(trial, ks, key)
    if found:
        kind = "exact" if found.exact else "greedy"
        name = f"oracle-k, {kind} ({found.n_tried:,} tried)"
        rows.append(_cells(name, found.heads, found.probabilities, found.label))
    with place:
        table(("Choice", "Heads, by layer", "Answer", "p", "Loss"), rows, [0])


def _row(trial: Trial, order: HeadOrder, ks: tuple[int, ...]) -> tuple[str, ...]:
    policy = Intervention(k=ks, order=order, seed=trial.change.seed).policy(trial.config)
    trace = predict_under(trial.checkpoint, trial.own, 1, lambda _: policy)[0]
    heads = tuple(layer.heads for layer in trace.layers)
    return _cells(POLICIES[order], heads, trace.probabilities, trial.own.label)


def _cells(name: str, heads: Heads, p: dict[str, float], label: str) -> tuple[str, ...]:
    numbers = " | ".join(", ".join(str(head + 1) for head in row) for row in heads)
    loss = -math.log(max(p[label], 1e-45))
    return name, numbers, max(p, key=p.__getitem__), percent(p[label]), f"{loss:.3f}"


def _oracle(trial: Trial, ks: tuple[int, ...], key: str) -> OracleChoice | None:
    """Draw the button that searches, and return what was found for this text and k."""
    slot, wanted = f"{key}_oracle_found", (trial.checkpoint.path, trial.own.texts, ks)
    choices = n_choices(trial.config, ks)
    tried = min(choices, ORACLE_LIMIT)
    searched = st.button(
        f"Search the best heads ({'all' if tried == choices else 'up to'} {tried:,} choices)",
        key=f"{key}_oracle",
        icon=":material/travel_explore:",
        help="Every choice of heads at this k is run." if choices <= ORACLE_LIMIT else
        f"There are {choices:,} choices at this k: a greedy search tries some of them and "
        "may miss the best.",
    )  # fmt: skip
    if searched:
        bar = st.progress(0.0, "Trying heads …")

        def progress(done: int, _: int) -> None:
            bar.progress(min(1.0, done / tried), "Trying heads …")

        found = oracle_heads(
            trial.checkpoint, trial.own, ks, trial.own.label, ORACLE_LIMIT, progress
        )
        st.session_state[slot] = wanted, found
        bar.empty()
    kept = st.session_state.get(slot)
    if kept is None or kept[0] != wanted:
        return None
    best: OracleChoice = kept[1]

    def use() -> None:
        trial.keep(Intervention(k=best.k, heads_in=best.heads))

    st.button("Force the best heads", key=f"{key}_use_oracle", on_click=use)
    return best


@slot()
def sweep(trial: Trial, key: str) -> None:
    """Draw the classes' probabilities at every k, and what would have been enough."""
    st.subheader(
        "Every number of heads",
        help="The same k in all layers, each time the router's best-scored heads. Sufficient k: "
        "the smallest from which on the answer is that of all heads and stays so.",
    )
    found = computed.text_sweep(trial.checkpoint, trial.own)
    spare = found.overspend
    verdict = f"The model spent **{found.own_k:g}** a layer on average: " + (
        "just enough."
        if spare == 0
        else f"**{abs(spare):g}** {'more than needed' if spare > 0 else 'fewer than that'}."
    )
    limit = operating_point.limit(trial.config)
    if limit is not None:
        verdict += f" That is with your limit of {limit}; the chart tries every k, beyond it too."
    if not found.keeps_full_label:
        verdict += " Its answer is not that of all heads."
    st.markdown(
        f"From **{found.sufficient_k}** of {trial.config.n_heads} heads in each layer on "
        f"(shaded), the answer is that of all heads. {verdict}"
    )
    probabilities = [point.probabilities for point in found.points]
    st.plotly_chart(
        sweep_lines(probabilities, found.own_k, found.sufficient_k),
        key=f"{key}_sweep",
        config=PLAIN_CHART,
        alt=sweep_lines_alt(probabilities, found.own_k, found.sufficient_k),
    )


def ablation(trial: Trial, key: str) -> None:
    """Take one executed head out and show before and after."""
    st.subheader(
        "One head taken out",
        help="Its output is replaced and everything else stays: no other head takes its place, and "
        "the rest keep their strength. So the change is what the answer owes to this head. Zero: "
        "nothing of it is left. Mean: what differs between words is lost, the level stays.",
    )
    executed = [(i, head) for i, layer in enumerate(trial.shown.layers) for head in layer.heads]
    if st.session_state.get(f"{key}_ablated") not in executed:
        st.session_state[f"{key}_ablated"] = executed[0]
    head = st.selectbox(
        "Head", executed, format_func=head_name, key=f"{key}_ablated", persist_state="session"
    )
    kind = st.segmented_control(
        "Replace it by", list(REPLACEMENTS), default="zero", required=True,
        format_func=lambda name: REPLACEMENTS[name], key=f"{key}_replacement",
        persist_state="session",
    )  # fmt: skip
    (found,) = ablate(trial.checkpoint, trial.shown, [head], cast(Replacement, kind))
    labels = sorted(found.before, key=lambda label: -found.before[label])[:6]
    table(
        ("Class", "Before", "After", "Difference"),
        [
            (label, percent(found.before[label]), percent(found.after[label]),
             signed_points(found.changes[label]))
            for label in labels
        ],
        [0],
    )  # fmt: skip
    if found.label_changed:
        st.markdown(":orange[:material/swap_horiz: **Without it the answer is another one.**]")


def temperature(trial: Trial, key: str) -> None:
    """Show p of the head scores at another temperature."""
    own_tau = trial.config.temperature
    st.subheader(
        "Sharper or softer preferences",
        help="p = softmax(z/τ). A low τ makes one head take all, a high one makes all alike. The "
        "order of the heads stays, so the k best-scored heads do too. Effective heads: exp of the "
        "entropy of p, from 1 (decided) to H (undecided).",
    )
    options = sorted({*TEMPERATURES, own_tau})
    if st.session_state.get(f"{key}_tau") not in options:
        st.session_state[f"{key}_tau"] = own_tau
    tau = st.select_slider(
        f"Temperature τ (the model's own: {own_tau:g})", options, key=f"{key}_tau",
        format_func=lambda value: f"{value:g}", persist_state="session",
    )  # fmt: skip
    before = [sharpness(layer.scores, own_tau) for layer in trial.shown.layers]
    after = [sharpness(layer.scores, tau) for layer in trial.shown.layers]
    st.plotly_chart(
        sharpness_bars([s.probabilities for s in before], [s.probabilities for s in after]),
        key=f"{key}_sharpness",
        config=PLAIN_CHART,
        alt=sharpness_bars_alt(
            [s.effective_heads for s in before], [s.effective_heads for s in after], own_tau, tau
        ),
    )
    table(
        ("Grey: the model's τ, blue: yours", "Entropy, nats", "Effective heads"),
        [
            (f"Layer {i}", f"{a.entropy:.2f} → {b.entropy:.2f}",
             f"{a.effective_heads:.2f} → {b.effective_heads:.2f}")
            for i, (a, b) in enumerate(zip(before, after, strict=True), 1)
        ],
    )  # fmt: skip

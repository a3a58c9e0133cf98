"""What a training reports at each step, as curves."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from budgetformer.figures.training import Curve, curves, curves_alt
from budgetformer.runs import Event, History

PLAIN_CHART = {"displayModeBar": False}
TERMS = {
    "task": "how wrong the answers are",
    "distillation": "how far they are from the teacher’s",
    "budget": "how far s is out of its range",
    "alignment": "how far s is from what a text’s difficulty asks for",
    "utility": "the price of heads against what they gain",
}


def section(history: History) -> None:
    """Draw four charts: losses, accuracy, budget, and what anneals."""
    st.subheader(
        "How it learns",
        help="Lines: one batch every 20 steps, while training, with noise and words left out on "
        "purpose. Points: all validation texts after each epoch. Dotted: where an epoch ends.",
    )
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown(
            "**Loss**: what training makes small, and its parts before weighting.",
            help="; ".join(f"{name}: {words}" for name, words in TERMS.items())
            + ". validation: how wrong the answers are to texts that it does not learn from.",
        )
        _chart("loss", "Loss", history, loss_lines(history))
        st.markdown(
            "**Budget**: what the layers ask for, and the share of heads they get.",
            help="While it trains, s·H is rounded up or down at random; on the validation texts "
            "by the setting rounding: down, unless you changed it, so these get fewer heads.",
        )
        _chart("budget", "Budget and executed heads", history, budget_lines(history), percent=True)
    with right:
        st.markdown("**Accuracy**: the share of texts it gets right.")
        _chart("accuracy", "Accuracy", history, accuracy_lines(history), percent=True)
        st.markdown(
            "**Trying out**: temperature τ and noise fall, so the choice of heads gets firm.",
            help="Entropy of p: how evenly the router spreads its preference over a layer’s heads, "
            "in nats. Noise: what is added to head scores, so that all heads get their chance.",
        )
        _chart("anneal", "Entropy, temperature and noise", history, annealing_lines(history))


def loss_lines(history: History) -> list[Curve]:
    lines = [_of(history.steps, name, name) for name in ("loss", *TERMS)]
    return [*filter(None, lines), _points(history.epochs, "loss", "validation")]


def accuracy_lines(history: History) -> list[Curve]:
    return [
        *filter(None, [_of(history.steps, "accuracy", "training batch")]),
        _points(history.epochs, "accuracy", "validation"),
    ]


def budget_lines(history: History) -> list[Curve]:
    return [
        *filter(
            None,
            [
                _of(history.steps, "mean_budget", "mean s"),
                _of(history.steps, "executed_heads_frac", "executed heads"),
            ],
        ),
        _points(history.epochs, "executed_heads_frac", "validation"),
    ]


def annealing_lines(history: History) -> list[Curve]:
    names = {"entropy": "entropy of p", "tau": "temperature τ", "noise": "noise"}
    return list(filter(None, [_of(history.steps, name, words) for name, words in names.items()]))


def _of(events: Sequence[Event], name: str, words: str) -> Curve | None:
    found = [event for event in events if name in event]
    if not found:
        return None
    return Curve(words, [event["step"] for event in found], [event[name] for event in found])


def _points(epochs: Sequence[Event], name: str, words: str) -> Curve:
    return Curve(words, [e["step"] for e in epochs], [e[name] for e in epochs], points=True)


def _chart(
    key: str, what: str, history: History, lines: list[Curve], percent: bool = False
) -> None:
    st.plotly_chart(
        curves(
            lines,
            percent=percent,
            marks=[epoch["step"] for epoch in history.epochs],
            until=history.n_steps or None,
        ),
        key=f"train_curve_{key}",
        config=PLAIN_CHART,
        alt=curves_alt(what, lines, percent),
    )

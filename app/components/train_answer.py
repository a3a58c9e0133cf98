"""A text of the visitor's own, answered by the model as it learns."""

from __future__ import annotations

import html
from typing import Any

import streamlit as st

from app import jobs
from app.components.prediction import percent
from app.components.tables import table
from app.layout import slot
from budgetformer.control import read_wishes
from budgetformer.figures.training import Curve, curves, curves_alt

LONGEST = 500
MOST_CLASSES = 4


@slot()
def section(now: jobs.State) -> None:
    """Draw the text box and how the answer changed."""
    told = read_wishes(now.folder).texts
    st.subheader(
        "Ask it while it learns",
        help="The model answers with each report, every 20 steps, after each epoch, and at once "
        "while it is paused. Asking changes nothing in what it learns.",
    )
    pair = now.history.start is not None and bool(_answers(now, told)) and len(told) > 1
    key = f"train_ask_{now.name}"
    if key not in st.session_state:
        st.session_state[key] = told[0] if told else ""
        st.session_state[f"{key}_pair"] = told[1] if len(told) > 1 else ""
    live = now.status in ("waiting", "starting", "running", "paused")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        for name, label in ((key, "Your text"), (f"{key}_pair", "Second text, for pairs")):
            if name == key or _wants_pair(now, told) or pair:
                st.text_input(
                    label,
                    key=name,
                    max_chars=LONGEST,
                    placeholder="Type a text for the model to answer",
                    disabled=not live,
                    on_change=_ask,
                    args=(now.name, key),
                    persist_state="session",
                )
        answers = _answers(now, told)
        if told and not answers and live:
            st.caption("The answer comes with the next report.")
    if answers:
        with right:
            _show(answers[-1])
        with left:
            _over_time(answers, now)


def _wants_pair(now: jobs.State, told: tuple[str, ...]) -> bool:
    last = _answers(now, told)
    return bool(last) and "compares two texts" in last[-1]["answer"].get("refused", "")


def _answers(now: jobs.State, texts: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the reports with an answer to these very texts."""
    return [event for event in now.history.answers if event["answer"]["texts"] == list(texts)]


def _ask(name: str, key: str) -> None:
    text = st.session_state[key].strip()
    pair = st.session_state.get(f"{key}_pair", "").strip()
    jobs.ask(name, tuple(filter(None, (text, pair))) if text else ())


def _show(event: dict[str, Any]) -> None:
    answer = event["answer"]
    if "refused" in answer:
        st.text(answer["refused"])
        return
    st.html(
        f'<div class="bf-card-title">After step {event["step"]:,} it says</div>'
        f'<div class="bf-big">{html.escape(answer["label"])}</div>'
    )
    ranked = sorted(answer["probabilities"].items(), key=lambda item: -item[1])[:MOST_CLASSES]
    st.html(
        '<div class="bf-rows">'
        + "".join(
            f'<div class="bf-row"><span>{html.escape(label)}</span><span>{percent(p)}</span></div>'
            for label, p in ranked
        )
        + "</div>"
    )
    table(
        ("Layer", "s", "Heads that run"),
        [
            (str(i), f"{layer['budget']:.3f}", ", ".join(str(h + 1) for h in layer["heads"]))
            for i, layer in enumerate(answer["layers"], 1)
        ],
    )


def _over_time(events: list[dict[str, Any]], now: jobs.State) -> None:
    """Draw the probability of the label it says now, and its budget, over the training."""
    told = [event for event in events if "label" in event["answer"]]
    if len(told) < 2:
        return
    label, steps = told[-1]["answer"]["label"], [event["step"] for event in told]
    lines = [
        Curve(
            f"probability of {label}", steps, [e["answer"]["probabilities"][label] for e in told]
        ),
        Curve("mean budget s", steps, [e["answer"]["mean_budget"] for e in told]),
    ]
    st.plotly_chart(
        curves(lines, percent=True, until=now.history.n_steps),
        key="train_answer_curves",
        config={"displayModeBar": False},
        alt=curves_alt("The answer to your text over the training", lines, percent=True),
    )

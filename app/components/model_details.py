"""One model: what it is, what was measured on it, and its card."""

from __future__ import annotations

import html

import streamlit as st

from app import errors
from app.components.model_list import size_text
from app.components.tables import table
from budgetformer.card import TITLES
from budgetformer.config import ModelConfig
from budgetformer.library import KINDS
from budgetformer.model_facts import Facts

OBJECTIVES = {
    "aligned": "budgets follow how hard a text is",
    "utility": "a head runs where it lowers the loss by more than its price",
    "paper": "the paper's own losses",
    "paper-mean": "the paper's losses, with the limit on the average budget",
    "requested": "any number of heads can be asked for",
    "dense": "all heads run",
}
SINCE = {"trained": "Trained", "uploaded": "Uploaded", "hub": "Fetched"}
MOST_LABELS = 30


def facts_table(facts: Facts) -> None:
    """Draw what a model is and where it comes from."""
    if facts.problem:
        errors.show("This model cannot be used", facts.problem)
    rows = [("Where from", KINDS[facts.entry.kind])]
    if facts.config is not None:
        rows += _shape(facts.config)
    if facts.parameters is not None:
        rows.append(("Parameters", f"{facts.parameters:,}, {facts.numbers} numbers on disk"))
    rows += [("On disk", f"{size_text(facts.size_bytes)} with everything beside the weights")]
    texts = "" if facts.rows is None else f", {facts.rows:,} texts"
    seed = "" if facts.seed is None else f", seed {facts.seed}"
    meaning = OBJECTIVES.get(facts.objective)
    for name, value in (
        ("Trained on", facts.data and facts.data + texts),
        ("Objective", facts.objective and facts.objective + (f": {meaning}" if meaning else "")),
        ("Started from", facts.warm_start or facts.init),
        ("Taught by", facts.teacher),
        (SINCE.get(facts.entry.kind, ""), facts.since),
        ("Version on the Hub", facts.commit),
    ):
        if value:
            rows.append((name, value + (seed if name == "Objective" else "")))
    body = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(value)}</td></tr>'
        for name, value in rows
    )
    st.html(f'<div class="bf-table bf-facts"><table><tbody>{body}</tbody></table></div>')


def figures(facts: Facts) -> None:
    """Draw the figures of metrics.json, the known ones by name, and the file itself."""
    st.subheader(
        "Measured",
        help="The figures in the model's metrics.json. Whoever trained the model measured them; "
        "nothing was measured for this page.",
    )
    splits = [split for split, values in facts.metrics.items() if values]
    known = [key for key in TITLES if any(key in facts.metrics[split] for split in splits)]
    if not known:
        st.text("Its metrics.json holds no figures, or there is none.")
    else:
        table(
            ("", *splits),
            [(TITLES[key], *(_cell(facts.metrics[s].get(key)) for s in splits)) for key in known],
        )
    if facts.metrics_text:
        with st.expander("metrics.json", key="models_metrics", icon=":material/data_object:"):
            st.code(facts.metrics_text, language="json", wrap_lines=True, height=320)


def card(facts: Facts) -> None:
    """Draw the model's card as plain text: anybody may have written it."""
    with st.expander("Model card (README.md)", key="models_card", icon=":material/description:"):
        if facts.card.strip():
            st.code(facts.card, language=None, wrap_lines=True, height=480)
        else:
            st.text("This model has no card.")


def _shape(config: ModelConfig) -> list[tuple[str, str]]:
    texts = "pairs of texts" if config.n_segments == 2 else "single texts"
    labels = ", ".join(config.labels[:MOST_LABELS])
    if len(config.labels) > MOST_LABELS:
        labels += f" and {len(config.labels) - MOST_LABELS} more"
    return [
        ("Reads", f"{texts}, up to {config.max_len:,} tokens"),
        ("Decides between", labels),
        (
            "Shape",
            f"{config.n_layers} layers of {config.n_heads} heads, width {config.d_model}, "
            f"feed-forward {config.d_ff}, {config.vocab_size:,} word pieces",
        ),
        ("Heads", _heads(config)),
    ]


def _heads(config: ModelConfig) -> str:
    if config.fixed_heads:
        which = "best-scored" if config.routed else "first"
        return f"the {config.fixed_heads} {which} of each layer run, on every text"
    if not config.routed:
        return "all run, on every text"
    if config.constant_budget:
        return "the same run on every text, as training left them"
    return "chosen for each text"


def _cell(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{int(value):,}" if value.is_integer() and abs(value) > 1 else f"{value:.4f}"

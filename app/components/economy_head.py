"""One head: where it looks on average, and the texts that want it most."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from app import loaders, state
from app.components import economy_slice
from app.components.attention import ask_for
from app.components.downloads import csv_button, file_name
from app.components.economy_slice import Part, Sample
from app.components.heads import Head, head_name
from app.components.request import on_request
from app.components.tables import source, table
from budgetformer.head_signature import MEASURES, Signatures, describe, signatures
from budgetformer.router_states import RouterStates, router_states

MOST_TEXTS = 20
ROWS = {
    "distance": "How far it looks",
    "entropy": "How widely it spreads",
    "cls": "To [CLS]",
    "sep": "To [SEP]",
    "self": "To the token itself",
    "previous": "To the token before",
    "next": "To the token after",
}


def section(part: Part, picked: Head) -> None:
    """Draw the picker, the texts and the signature of one head."""
    rates = part.scored.records.heads.mean(axis=0)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        ran = [(int(i), int(j)) for i, j in zip(*rates.nonzero(), strict=True)]
        if picked not in ran:
            st.session_state[state.HEADS_HEAD] = None
        head = st.selectbox(
            "Head",
            ran,
            index=None,
            format_func=lambda at: f"{head_name(at)} (runs for {rates[at]:.1%})",
            key=state.HEADS_HEAD,
            persist_state="session",
            width=320,
            placeholder=f"{head_name(picked)} never runs",
            help="Heads that no text of the slice runs are not listed: they looked at nothing.",
        )
        sample = economy_slice.sample(part, "These texts are run again to see what heads do.")
    if sample is None:
        return
    if head is None:
        st.info(
            f"No text of the slice runs {head_name(picked).lower()}. Pick another head.",
            icon=":material/info:",
        )
        return
    st.space("small")
    left, right = st.columns([3, 2], gap="large")
    with left:
        _texts(part, sample, head)
    with right:
        _signature(part, sample, head)


def states(part: Part, sample: Sample) -> RouterStates | None:
    """Offer to run the sample and keep what the routers saw; two parts of the page share it."""
    n = len(sample.examples)
    return on_request(
        "heads_states",
        sample.question,
        f"Ask the routers ({n:,} runs)",
        lambda progress: router_states(part.model, sample.examples, progress=progress),
        "Runs the model once for each text. “One head” and “What routers read” share the result.",
    )


def _texts(part: Part, sample: Sample, head: Head) -> None:
    st.subheader(
        "The texts that want it most",
        help="p: the router’s preference among the heads of the layer, softmax(z/τ). Of the texts "
        "that run the head, those with the highest p come first.",
    )
    st.markdown("What do they have in common? Pick a row to open the text in Explore.")
    found = states(part, sample)
    if found is None:
        return
    order = found.strongest(*head, MOST_TEXTS)
    if not len(order):
        st.info("None of these texts runs this head; take more of them.", icon=":material/info:")
        return
    frame = _frame(sample, found, head, order.tolist())
    chosen = st.dataframe(
        frame,
        key="heads_texts",
        height=min(420, 36 * (len(frame) + 1)),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        column_config={
            "p": st.column_config.NumberColumn(format="%.3f", width="small"),
            "s": st.column_config.NumberColumn(
                format="%.3f", width="small", help="Budget of this layer"
            ),
        },
        alt=f"Texts that run {head_name(head).lower()}, highest p first.",
    ).selection.rows
    with st.container(horizontal=True, gap="small"):
        if st.button(
            "Open in Explore", key="heads_open", icon=":material/search:",
            disabled=not chosen or chosen[0] >= len(order),
            on_click=_hand_over,
            args=(part, sample, head, int(order[chosen[0]]) if chosen else 0),
            help="Opens the text there, with this head’s attention map.",
        ):  # fmt: skip
            st.switch_page("../pages/explore.py")
        csv_button(
            lambda: _frame(
                sample, found, head, found.strongest(*head, len(sample.examples)).tolist()
            ),
            file_name("texts-of", part.scored.source.model, head_name(head)), "heads_texts_csv",
            help="All texts of the sample that run the head.",
        )  # fmt: skip


def _frame(sample: Sample, found: RouterStates, head: Head, order: list[int]) -> pd.DataFrame:
    scored, labels = sample.scored, sample.scored.source.labels
    columns = {
        "p": [float(found.probabilities[i, head[0], head[1]]) for i in order],
        "s": [float(scored.records.budgets[i, head[0]]) for i in order],
        "text": [sample.examples.texts[i] for i in order],
    }
    if sample.examples.text_pairs is not None:
        columns["second text"] = [sample.examples.text_pairs[i] for i in order]
    columns["gold"] = [labels[scored.records.labels[i]] for i in order]
    columns["answer"] = [labels[scored.predicted[i]] for i in order]
    return pd.DataFrame(columns)


def _hand_over(part: Part, sample: Sample, head: Head, i: int) -> None:
    st.session_state[state.EXPLORE_MODEL] = loaders.name_of(part.model)
    st.session_state[state.EXPLORE_TEXT] = sample.examples.texts[i]
    if sample.examples.text_pairs is not None:
        st.session_state[state.EXPLORE_TEXT_PAIR] = sample.examples.text_pairs[i]
    st.session_state[state.EXPLORE_PART] = "see"
    ask_for(head, "explore")


def _signature(part: Part, sample: Sample, head: Head) -> None:
    st.subheader(
        "Where it looks, on average",
        help="Averages over the tokens that look, then over the texts that ran the head. Even: "
        "what attention spread evenly over the same texts would give. Entropy is in bits: each bit "
        "more is twice as many tokens.",
    )
    st.markdown("Numbers far from **even** are what this head is made of.")
    n = len(sample.examples)
    found = on_request(
        "heads_signatures",
        sample.question,
        f"Measure attention ({n:,} runs)",
        lambda progress: signatures(part.model, sample.examples, progress),
        "Runs the model once for each text and computes the attention maps of all heads that ran; "
        "long texts take a while.",
    )
    if found is None:
        return
    if not found.n_ran[head]:
        st.info("None of these texts runs this head; take more of them.", icon=":material/info:")
        return
    values, even = found.values[head].tolist(), found.even[head].tolist()
    st.html(f'<div class="bf-big">{describe(values, even).capitalize()}</div>')
    table(
        ("Attention", "This head", "Even"),
        [
            (ROWS[name], _value(name, value), _value(name, flat))
            for name, value, flat in zip(MEASURES, values, even, strict=True)
        ],
    )
    st.html(
        f'<p class="bf-small">{source("measured here")} on the {found.n_ran[head]:,} of {n:,} '
        "texts that ran it.</p>"
    )
    csv_button(
        lambda: _signature_frame(found), file_name("signatures", part.scored.source.model),
        "heads_signatures_csv", help="The signatures of all heads.",
    )  # fmt: skip


def _value(name: str, value: float) -> str:
    if name == "distance":
        return f"{value:.1f} tokens"
    if name == "entropy":
        return f"{value:.2f} bits"
    return f"{value:.1%}"


def _signature_frame(found: Signatures) -> pd.DataFrame:
    rows = []
    for layer, head in zip(*found.n_ran.nonzero(), strict=True):
        values, even = found.values[layer, head].tolist(), found.even[layer, head].tolist()
        assert not math.isnan(values[0])
        rows.append(
            {"layer": layer + 1, "head": head + 1, "texts": found.n_ran[layer, head]}
            | {"in_words": describe(values, even)}
            | dict(zip(MEASURES, values, strict=True))
            | {f"even_{name}": value for name, value in zip(MEASURES, even, strict=True)}
        )
    return pd.DataFrame(rows)

"""The words, or the heads, behind one number, and a test of whether they are the right ones."""

from __future__ import annotations

import html

import streamlit as st

from app import computed
from app.components import operating_point, words
from app.components.request import on_request
from app.components.why_target import digits, name
from app.layout import slot
from budgetformer.attribution import Attribution
from budgetformer.attribution_heads import HeadAttribution
from budgetformer.attribution_targets import Target
from budgetformer.checkpoint import Checkpoint
from budgetformer.faithfulness import Faithfulness, TopWords, n_forwards
from budgetformer.figures.attribution import (
    head_bars,
    head_bars_alt,
    random_strip,
    random_strip_alt,
)
from budgetformer.progress import Progress
from budgetformer.trace import Trace

PLAIN_CHART = {"displayModeBar": False}


@slot()
def explanation(
    model: Checkpoint, trace: Trace, target: Target, method: str, key: str
) -> Attribution | None:
    """Draw what the target hangs on.

    Returns:
        The words' values; None where heads were asked for, or a slow method was not started yet.
    """
    if method == "heads":
        with st.spinner("Finding the heads that count …"):
            _heads(computed.head_attribution(model, trace, target), trace, key)
        return None
    if method == "occlusion":
        attribution = _occlusion(model, trace, target, key)
    else:
        with st.spinner("Finding the words that count …"):
            attribution = computed.attribution(model, trace, target, method)
    if attribution is not None:
        words.coloured_words(trace, attribution)
    return attribution


def test_of_truth(model: Checkpoint, trace: Trace, attribution: Attribution, key: str) -> None:
    """Offer to measure whether the words that the map ranks first are the ones that count."""
    limit = operating_point.limit(model.config)
    question = (computed.input_key(model, trace), attribution.target, attribution.method, limit)
    result = on_request(
        f"{key}_faithfulness",
        question,
        "Test these words against random ones",
        lambda progress: _measure(model, trace, attribution, progress),
        f"Masks the strongest words, and as many random ones, and runs the model {n_forwards()} "
        "times. The heads are chosen anew each time.",
    )
    if result is not None:
        _faithfulness(result, key)


def _measure(
    model: Checkpoint, trace: Trace, attribution: Attribution, progress: Progress
) -> Faithfulness:
    from budgetformer.faithfulness import faithfulness

    policy = operating_point.policy(model.config)
    return faithfulness(model, trace, attribution, policy=policy, progress=progress)


def _occlusion(model: Checkpoint, trace: Trace, target: Target, key: str) -> Attribution | None:
    from budgetformer.attribution import occlusion

    return on_request(
        f"{key}_occlusion",
        (computed.input_key(model, trace), target),
        "Mask each word in turn",
        lambda progress: occlusion(model, trace, target, progress=progress),
        f"Runs the model {len(trace.words) + 2:,} times, once a word; a long text takes seconds.",
    )


def _heads(attribution: HeadAttribution, trace: Trace, key: str) -> None:
    places = digits(attribution.target) + 1
    values = [
        (layer, head, attribution.head_values[layer][head])
        for layer, decided in enumerate(trace.layers)
        for head in decided.heads
    ]
    # What a layer's router says was settled before its own heads run.
    values = [item for item in values if item[2] != 0]
    if not values:
        st.info(
            "No head has a say in this: a router decides before the heads of its own layer run, "
            "and no layer stands before the first.",
            icon=":material/info:",
        )
        return
    st.html(
        '<p class="bf-small">What each head that ran adds to the model’s '
        f"{html.escape(name(attribution.target))}. Blue raises it, orange lowers it.</p>"
    )
    st.plotly_chart(
        head_bars(values, places),
        key=f"{key}_head_bars",
        config=PLAIN_CHART,
        alt=head_bars_alt(values, name(attribution.target), places),
    )
    st.html(
        '<p class="bf-small">Added up, the heads move it by '
        f"{words.signed(attribution.total, places)}: from "
        f"{words.signed(attribution.baseline_value, places)} "
        f"({html.escape(attribution.baseline)}) to {words.signed(attribution.value, places)}. "
        f"Completeness error: {abs(attribution.completeness_error):.1e}; 0 would be exact. "
        f"{html.escape(attribution.heads.capitalize())}. The rest comes by the way past attention. "
        "Skipped heads add nothing; what they would have done is another question.</p>"
    )


def _faithfulness(result: Faithfulness, key: str) -> None:
    labels = [_share(step) for step in result.steps]
    left, right = st.columns(2, gap="medium")
    for column, title, text, axis, own, draws in (
        (
            left,
            "Without the top words",
            "How far the number falls. Further right than random words (gray) is better.",
            "comprehensiveness",
            [step.comprehensiveness for step in result.steps],
            [step.random_comprehensiveness for step in result.steps],
        ),
        (
            right,
            "With nothing else",
            "How far it falls with only these words left. Further left than "
            "random words (gray) is better.",
            "sufficiency",
            [step.sufficiency for step in result.steps],
            [step.random_sufficiency for step in result.steps],
        ),
    ):
        with column:
            st.markdown(f"**{title}.** {text}")
            st.plotly_chart(
                random_strip(labels, own, draws, axis),
                key=f"{key}_{axis}",
                config=PLAIN_CHART,
                alt=random_strip_alt(labels, own, draws, axis.capitalize()),
            )
    places = digits(result.target)
    st.html(
        f'<p class="bf-small">{_verdict(result)} Better than chance by '
        f"<b>{words.signed(result.comprehensiveness_gain, places)}</b> in comprehensiveness and "
        f"<b>{words.signed(result.sufficiency_gain, places)}</b> in sufficiency, in units of the "
        f"{html.escape(name(result.target))}, mean over the rows. Measured here with "
        f"{result.n_forwards} runs of the model, {html.escape(result.heads)}; the random words are "
        f"{len(result.steps[0].random_sufficiency)} draws a row.</p>"
    )


def _verdict(result: Faithfulness) -> str:
    good = (result.comprehensiveness_gain > 0) + (result.sufficiency_gain > 0)
    return (
        "These words are no better than random ones by either measure.",
        "These words beat random ones by one of the two measures.",
        "These words beat random ones by both measures.",
    )[good]


def _share(step: TopWords) -> str:
    noun = "word" if step.n_words == 1 else "words"
    return f"Top {step.fraction:.0%}: {step.n_words} {noun}"

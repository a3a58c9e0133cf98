"""Two sides of a comparison: what is read, what came out, and by how much they differ."""

from __future__ import annotations

import html
from dataclasses import dataclass

import streamlit as st

from app import computed, errors, loaders, state
from app.components import choice, examples, models, operating_point, words
from app.components.prediction import flop_text, percent
from app.components.tables import source, table
from budgetformer.attribution_targets import Target
from budgetformer.checkpoint import Checkpoint
from budgetformer.comparison import PairTimes
from budgetformer.cost import flops
from budgetformer.trace import Trace, predict

WAYS = {"texts": "Two texts, one model", "models": "One text, two models"}
MOST_CLASSES = 8
NOTHING = "none"


@dataclass(frozen=True)
class Side:
    """One of the two runs that are compared."""

    letter: str
    model: Checkpoint
    trace: Trace

    @property
    def model_name(self) -> str:
        return loaders.name_of(self.model)


def pick() -> tuple[Side, Side] | None:
    """Draw what is compared with what, and run both.

    Returns:
        The two sides, or None where one of them cannot be run; the page has then been told why.
    """
    by = choice.in_address("Compare", WAYS, state.COMPARE_BY, wrap=True)
    operating_point.read()
    picked = _models(by == "models")
    if picked is None:
        return None
    texts = _texts(by == "models", max(model.config.n_segments for model in picked))
    operating_point.notice(picked, "compare")
    sides = []
    for letter, model, parts in zip("AB", picked, texts, strict=True):
        # A model of single texts reads the first of two.
        read = parts[: model.config.n_segments]
        if not all(part.strip() for part in read):
            st.info("Type something into every box above.", icon=":material/edit:")
            return None
        with errors.panel(f"The model found nothing to read in {letter}"):
            sides.append(
                Side(
                    letter,
                    model,
                    predict(
                        model,
                        read[0],
                        read[1] if len(read) == 2 else None,
                        operating_point.policy(model.config),
                    ),
                )
            )
    return (sides[0], sides[1]) if len(sides) == 2 else None


def _models(two: bool) -> tuple[Checkpoint, Checkpoint] | None:
    first = models.pick_model(state.COMPARE_MODEL, "Model A" if two else "Model")
    if not two:
        return None if first is None else (first, first)
    # The twin with all heads on, where there is one.
    name = loaders.name_of(first) if first is not None else state.DEFAULT_MODEL
    second = models.pick_model(state.COMPARE_MODEL_B, "Model B", f"{name}-dense")
    return None if first is None or second is None else (first, second)


def _texts(one: bool, n_segments: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    kind = [
        example for example in examples.EXAMPLES if bool(example.text_pair) == (n_segments == 2)
    ]
    if one:
        parts = _boxes("", state.COMPARE_A, kind[0], n_segments)
        return parts, parts
    left, right = st.columns(2, gap="medium")
    with left:
        first = _boxes("A", state.COMPARE_A, kind[0], n_segments)
    with right:
        second = _boxes("B", state.COMPARE_B, kind[1], n_segments)
    return first, second


def _boxes(
    letter: str, keys: tuple[str, ...], example: examples.Example, n_segments: int
) -> tuple[str, ...]:
    names = ("First text", "Second text") if n_segments == 2 else ("Text",)
    defaults = (example.text, example.text_pair)
    return tuple(
        examples.text_area(f"{name} {letter}".strip(), key, default)
        for name, key, default in zip(names, keys, defaults, strict=False)
    )


def what_differs(a: Side, b: Side) -> None:
    """Draw the table of both sides and their difference, and say what cannot be compared."""
    times = computed.times(a.model, a.trace, b.model, b.trace)
    left, right = st.columns([2, 3], gap="large")
    with left:
        same = a.trace.label == b.trace.label
        answers = "".join(
            f'<div class="bf-row"><span>{letter(side)} {html.escape(side.trace.label)}</span>'
            f"<span>{html.escape(side.model_name)}</span></div>"
            for side in (a, b)
        )
        notes = "".join(f'<p class="bf-small">{html.escape(note)}</p>' for note in _notes(a, b))
        st.html(
            f'<div class="bf-big">{"The same answer" if same else "Different answers"}</div>'
            f'<div class="bf-rows">{answers}</div>{notes}'
            f'<p class="bf-small">Answers, budgets and heads: {source("measured here")}<br>'
            f"Operations: {source('by formula')}<br>Time: {source('measured here')} the shortest "
            f"of {times.rounds} forward passes each, in turns.</p>"
        )
    with right:
        rows = [*_classes(a, b), *_budget(a, b), *_compute(a, b, times)]
        table(("Compared", "A", "B", "B − A"), rows)


def letter(side: Side) -> str:
    """Return the side's letter in its colour, as HTML."""
    return f'<span class="bf-letter bf-letter-{side.letter.lower()}">{side.letter}</span>'


def _classes(a: Side, b: Side) -> list[tuple[str, str, str, str]]:
    """Probabilities of the classes that both know, likeliest first."""
    both = [label for label in a.trace.probabilities if label in b.trace.probabilities]
    both.sort(key=lambda label: -max(a.trace.probabilities[label], b.trace.probabilities[label]))
    rows = []
    for label in both[:MOST_CLASSES]:
        p, q = a.trace.probabilities[label], b.trace.probabilities[label]
        rows.append((label, percent(p), percent(q), f"{words.signed(100 * (q - p), 1)} points"))
    return rows


def _budget(a: Side, b: Side) -> list[tuple[str, str, str, str]]:
    routed = [side.model.config.routed for side in (a, b)]
    budgets = [side.trace.mean_budget for side in (a, b)]
    change = words.signed(budgets[1] - budgets[0], 3) if all(routed) else NOTHING
    s, t = (f"{s:.3f}" if has else NOTHING for s, has in zip(budgets, routed, strict=True))
    k = [side.trace.executed_heads for side in (a, b)]
    of = [side.model.config.n_layers * side.model.config.n_heads for side in (a, b)]
    n = [len(side.trace.encoding.ids) for side in (a, b)]
    return [
        ("Mean budget s", s, t, change),
        ("Heads run", f"{k[0]} of {of[0]}", f"{k[1]} of {of[1]}", words.signed(k[1] - k[0], 0)),
        ("Tokens", f"{n[0]:,}", f"{n[1]:,}", words.signed(n[1] - n[0], 0)),
    ]


def _compute(a: Side, b: Side, times: PairTimes) -> list[tuple[str, str, str, str]]:
    cost = [
        flops(
            side.model.config,
            len(side.trace.encoding.ids),
            [layer.k for layer in side.trace.layers],
        )
        for side in (a, b)
    ]
    return [
        (name, flop_text(x), flop_text(y), f"{words.signed(100 * (y / x - 1), 1)}%")
        for name, x, y in (
            ("Attention core", cost[0].attention_core, cost[1].attention_core),
            ("Whole model", cost[0].model, cost[1].model),
        )
    ] + [
        (
            "Time",
            f"{times.first_ms:.2f} ms",
            f"{times.second_ms:.2f} ms",
            f"{words.signed(times.second_ms - times.first_ms, 2)} ms",
        )
    ]


def _notes(a: Side, b: Side) -> list[str]:
    """Say what the two do not have in common."""
    notes = []
    one, two = set(a.model.config.labels), set(b.model.config.labels)
    for side, only in ((a, one - two), (b, two - one)):
        if only:
            few = ", ".join(sorted(only)[:MOST_CLASSES])
            notes.append(f"Only {side.letter} knows these classes, so they are left out: {few}.")
    if a.model.config.n_layers != b.model.config.n_layers:
        n = min(a.model.config.n_layers, b.model.config.n_layers)
        notes.append(
            f"A has {a.model.config.n_layers} layers and B {b.model.config.n_layers}: only the "
            f"first {n} can be put side by side."
        )
    if a.model.config.n_segments != b.model.config.n_segments:
        single = a if a.model.config.n_segments == 1 else b
        notes.append(f"{single.letter} reads a single text: of the two it sees the first only.")
    if len(one & two) > MOST_CLASSES:
        notes.append(f"Of {len(one & two)} classes, the {MOST_CLASSES} likeliest are shown.")
    return notes


def words_side_by_side(a: Side, b: Side) -> None:
    """Draw each side's words by what they do to one class, where both know it."""
    targets = [Target.logit(a.trace.label)] * 2
    if a.trace.label not in b.model.config.labels:
        targets[1] = Target.logit(b.trace.label)
    else:
        words.legend(targets[0])
    for column, side, target in zip(st.columns(2, gap="medium"), (a, b), targets, strict=True):
        with column, errors.panel(f"The words of {side.letter} could not be found"):
            if targets[0] != targets[1]:
                words.legend(target)
            with st.spinner("Finding the words that count …"):
                attribution = computed.attribution(side.model, side.trace, target)
            st.html(f"<p>{letter(side)}</p>")
            for segment in range(len(side.trace.texts)):
                words.text_region(side.trace, attribution, segment)
            st.html(
                f'<p class="bf-small">Strongest: {words.strongest(side.trace, attribution)}.<br>'
                f"Completeness error: {abs(attribution.completeness_error):.1e}; 0 would be exact."
                "</p>"
            )
            open_in_explore(side)


def open_in_explore(side: Side) -> None:
    """Draw the button that takes a side over to Explore; it works for a text of any length."""
    if st.button(
        f"Open {side.letter} in Explore",
        key=f"compare_open_{side.letter.lower()}",
        icon=":material/search:",
        on_click=_hand_over,
        args=(side,),
    ):
        st.switch_page("../pages/explore.py")


def _hand_over(side: Side) -> None:
    st.session_state[state.EXPLORE_MODEL] = side.model_name
    keys = (state.EXPLORE_TEXT, state.EXPLORE_TEXT_PAIR)
    for key, text in zip(keys, side.trace.texts, strict=False):
        st.session_state[key] = text

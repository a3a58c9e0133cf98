"""Which examples the Heads page is about: a slice of a scored set, and a sample of it to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from app import loaders, state
from app.components.examples_slices import kept_slices
from app.components.records import Picked
from budgetformer.checkpoint import Checkpoint
from budgetformer.data import Examples
from budgetformer.records import ScoredSet
from budgetformer.slices import QUADRANTS, Filter, Mask, mask_of

ALL = "all"
SIZES = (100, 250, 500, 1000, 2500)
DEFAULT_SIZE = 250


@dataclass(frozen=True)
class Part:
    """The examples that the page looks at."""

    model: Checkpoint
    picked: Picked
    """The scored set."""
    name: str
    """Of the slice, for people."""
    mask: Mask
    """Which examples of the set are in the slice, (N,)."""
    scored: ScoredSet
    """Those examples."""


@dataclass(frozen=True)
class Sample:
    """Examples of a slice whose texts are at hand, ready to be run again."""

    scored: ScoredSet
    examples: Examples
    n_slice: int
    """Examples in the slice."""
    question: tuple[object, ...]
    """Tells it from all other samples."""


def pick(model: Checkpoint, picked: Picked) -> Part:
    """Draw the choice of a slice."""
    slices = _slices(picked)
    state.read_url(state.HEADS_SLICE, ALL)
    if st.session_state[state.HEADS_SLICE] not in slices:
        st.session_state[state.HEADS_SLICE] = ALL
    chosen = st.selectbox(
        "Slice",
        list(slices),
        format_func=lambda key: slices[key][0] if key in slices else key,
        key=state.HEADS_SLICE,
        persist_state="session",
        help="The examples that this page counts over. Cheap and dear: mean budget s below the "
        "set’s median, or not. Slices that you keep on the page Examples are listed here too.",
    )
    state.write_url(state.HEADS_SLICE, ALL)
    name, mask = slices[chosen]
    scored = picked.scored if mask.all() else picked.scored.take(mask)
    return Part(model, picked, name, mask, scored)


def sample(part: Part, what: str) -> Sample | None:
    """Draw the choice of how many texts are run; None where no text is at hand.

    Args:
        part: the slice.
        what: what is done with them, to end a sentence.
    """
    texts = part.scored.texts
    here = np.flatnonzero([text is not None for text in texts or ()])
    if not len(here):
        st.info(
            "This runs the model again, and for that it needs the texts. The scored set holds none "
            "and its data set is not on this machine.",
            icon=":material/info:",
        )
        return None
    sizes = [size for size in SIZES if size < len(here)]
    if len(here) <= SIZES[-1]:
        sizes.append(len(here))
    if st.session_state.get(state.HEADS_SAMPLE) not in sizes:
        st.session_state[state.HEADS_SAMPLE] = DEFAULT_SIZE if DEFAULT_SIZE in sizes else sizes[-1]
    size = st.selectbox(
        "Texts to run",
        sizes,
        format_func=lambda n: f"all {n:,}" if n == len(here) else f"the first {n:,}",
        key=state.HEADS_SAMPLE,
        persist_state="session",
        width=180,
        help=f"{what} The set is in random order, so its first texts are a fair sample of the "
        "slice; more of them take longer and make the intervals narrower.",
    )
    taken = part.scored.take(here[:size])
    assert taken.texts is not None
    examples = Examples(
        _strings(taken.texts),
        tuple(taken.records.labels.tolist()),
        None if taken.text_pairs is None else _strings(taken.text_pairs),
    )
    question = (loaders.model_key(part.model), part.picked.key, taken.rows.tobytes())
    return Sample(taken, examples, len(part.scored), question)


def _slices(picked: Picked) -> dict[str, tuple[str, Mask]]:
    """List the slices of a set: by key its name and which examples it holds; none is empty."""
    scored = picked.scored
    found: dict[str, tuple[str, Mask]] = {
        ALL: (f"All {len(scored):,} examples", np.ones(len(scored), np.bool_))
    }
    right = scored.records.correct
    found["right"], found["wrong"] = ("Right answers", right), ("Wrong answers", ~right)
    if scored.has_budgets:
        for name in QUADRANTS:
            words = name.replace("-", " and ").capitalize()
            found[name] = (words, mask_of(scored, Filter(quadrants=(name,))))
    for number, label in enumerate(scored.source.labels):
        found[f"class-{number}"] = (f"Gold class {label}", scored.records.labels == number)
    for name, mask in kept_slices(picked).items():
        found[f"kept-{name}"] = (f"Yours: {name}", mask)
    return {
        key: (f"{name} ({int(mask.sum()):,})" if key != ALL else name, mask)
        for key, (name, mask) in found.items()
        if mask.any()
    }


def _strings(texts: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(text for text in texts if text is not None)

"""Which scored set to look at: the one beside the model, or one that was scored in this session."""

from __future__ import annotations

import html
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import streamlit as st

from app import errors, loaders, state
from budgetformer.checkpoint import Checkpoint
from budgetformer.records import SHIPPED, ScoredSet

OWN_SETS = "scored_sets"
MOST_OWN_SETS = 4
BESIDE = "shipped"


@dataclass(frozen=True)
class Picked:
    """A scored set that a page looks at."""

    key: str
    """Tells it from all others, also from an earlier state of the same file."""
    name: str
    """For people; it may quote a file's name."""
    scored: ScoredSet
    """The set, with its texts where they are at hand."""
    own: bool
    """Whether it was scored in this session."""


@dataclass(frozen=True)
class OwnSet:
    """A set that was scored in this session."""

    model: Path
    """Folder of the model."""
    name: str
    """What was scored, in words."""
    scored: ScoredSet
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Tells it from the sets of other sessions."""


def pick(model: Checkpoint, key: str, where: str = "below") -> Picked | None:
    """Draw the choice among a model's scored sets.

    Args:
        model: whose sets they are.
        key: of the widget, and its name in the address.
        where: a set can be scored, to end a sentence.

    Returns:
        The set, or None where there is none; the page has then been told how to make one.
    """
    assert model.path is not None  # it comes from the loaders
    choices = _choices(model)
    if not choices:
        name = loaders.name_of(model)
        st.info(
            f"No data set has been scored with this model yet. Score one {where}, or on the "
            "command line:",
            icon=":material/dataset:",
        )
        st.code(f"python -m budgetformer score --model {model.path.name} --data … --save", None)
        st.text(f"Here {model.path.name} stands for the folder of the model {name}.")
        return None
    default = next(iter(choices))
    state.read_url(key, default)
    wanted = st.session_state.pop(_wanted(key), None)
    if wanted in choices:
        st.session_state[key] = wanted
    if st.session_state[key] not in choices:
        st.session_state[key] = default
    asked = st.selectbox(
        "Scored data",
        list(choices),
        format_func=lambda choice: choices.get(choice, choice),
        key=key,
        persist_state="session",
        help="A scored set holds what the model said about each example: class, loss, s, heads. "
        "The one that comes with a model, and those that you score on the page Examples; yours "
        "stay in this session only.",
    )
    # Another session has other sets, so a link to one would lead nowhere.
    if asked == BESIDE:
        state.write_url(key, default)
    with errors.panel("This scored set cannot be used"):
        return _open(model, asked, choices[asked])
    return None


def remember(model: Checkpoint, name: str, scored: ScoredSet, pick_key: str) -> None:
    """Keep a set in this session and turn a picker to it; the oldest leaves when there are many."""
    assert model.path is not None
    sets: dict[str, OwnSet] = st.session_state.setdefault(OWN_SETS, {})
    number = st.session_state[f"{OWN_SETS}_made"] = st.session_state.get(f"{OWN_SETS}_made", 0) + 1
    sets[f"own-{number}"] = OwnSet(model.path, name, scored)
    while len(sets) > MOST_OWN_SETS:
        del sets[next(iter(sets))]
    # The picker is drawn already; the next run turns it.
    st.session_state[_wanted(pick_key)] = f"own-{number}"


def _wanted(key: str) -> str:
    return f"{key}_wanted"


def _choices(model: Checkpoint) -> dict[str, str]:
    """Return the sets of a model, by key, in words."""
    assert model.path is not None
    found = {}
    if (model.path / SHIPPED).is_file():
        with errors.panel("The scored set beside the model cannot be read"):
            source = loaders.scored_set(model.path / SHIPPED).source
            found[BESIDE] = f"{source.data}, {source.split} split, scored with the model"
    own: dict[str, OwnSet] = st.session_state.get(OWN_SETS, {})
    for key, one in own.items():
        if one.model == model.path:
            found[key] = f"{one.name}, scored in this session"
    return found


def _open(model: Checkpoint, key: str, name: str) -> Picked:
    assert model.path is not None
    if key != BESIDE:
        own: OwnSet = st.session_state[OWN_SETS][key]
        return Picked(own.mark, name, own.scored, True)
    path = model.path / SHIPPED
    scored, n_missing = loaders.scored_set(path), 0
    with errors.panel("The texts cannot be read"):
        scored, n_missing = loaders.scored_set_with_texts(path)
    source, n = scored.source, len(scored)
    with st.sidebar:
        st.html(f'<div class="bf-small">{_facts(scored)}</div>')
    if not loaders.same_weights(model, scored):
        st.warning(
            "These scores were made by other weights of this model, so they may differ from what "
            "the other pages show. Score the data again to bring them up to date.",
            icon=":material/history:",
        )
    if scored.texts is None:
        with st.container(border=True):
            st.text(
                f"The file holds scores without texts, and the data set {source.data} is not on "
                "this machine. Everything but the texts works. To see them, put the data set's "
                f"folder {source.data} into the folder data, or name the folder that it lies in by "
                "BUDGETFORMER_DATA, and start the app again."
            )
    elif n_missing:
        with st.container(border=True):
            st.text(
                f"{n_missing:,} of {n:,} texts are missing: at their place, the data set "
                f"{source.data} on this machine holds other texts than those that were scored."
            )
    return Picked(f"{path}-{path.stat().st_mtime_ns}", name, scored, False)


def _facts(scored: ScoredSet) -> str:
    source = scored.source
    judges = "".join(f", judged too by {html.escape(name)}" for name in source.references.values())
    return (
        f"<b>{len(scored):,}</b> examples scored, {scored.records.correct.mean():.1%} right"
        f"{judges} (measured, budgetformer {html.escape(source.version)})"
    )

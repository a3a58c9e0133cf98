"""What a user forces on the model: one value, kept in the session and in the page's address."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import streamlit as st

from app import errors, state
from app.components import operating_point
from app.components.heads import Head, head_name
from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig
from budgetformer.interventions import Intervention
from budgetformer.trace import Trace, predict_under

EMPTY = "{}"
FOR_TEXTS = "explore_forced_for"
PROBLEM = "explore_forced_problem"


@dataclass(frozen=True)
class Trial:
    """One text, left alone and with what is forced."""

    checkpoint: Checkpoint
    own: Trace
    """Left alone, but within the limit on heads, if one is set."""
    shown: Trace
    """With the change."""
    change: Intervention

    @property
    def config(self) -> ModelConfig:
        return self.checkpoint.config

    @property
    def forced_heads(self) -> dict[Head, bool]:
        """True for a head that is forced in, False for one that is kept out."""
        return forced_heads(self.change)

    def keep(self, change: Intervention) -> None:
        """Keep another change, or the reason why it cannot be; for a callback."""
        try:
            _fitting(change, self.config)
        except ValueError as error:
            st.session_state[PROBLEM] = str(error)
            return
        st.session_state[state.EXPLORE_WHAT_IF] = change.to_json()
        st.session_state[FOR_TEXTS] = self.own.texts

    def keep_heads(self, forced: dict[Head, bool]) -> None:
        """Keep these forced heads and no others; for a callback."""
        self.keep(
            replace(
                self.change,
                heads_in=_rows((head for head, runs in forced.items() if runs), self.config),
                heads_out=_rows((head for head, runs in forced.items() if not runs), self.config),
            )
        )


def run(checkpoint: Checkpoint, own: Trace) -> Trial:
    """Run a text with what is forced."""
    change = read(checkpoint.config)
    if change.empty:
        return Trial(checkpoint, own, own, change)
    policy = change.policy(checkpoint.config, operating_point.limit(checkpoint.config))
    return Trial(checkpoint, own, predict_under(checkpoint, own, 1, lambda _: policy)[0], change)


def read(config: ModelConfig) -> Intervention:
    """Return what is forced; where that does not fit this model, say so and return nothing."""
    state.read_url(state.EXPLORE_WHAT_IF, EMPTY)
    change = Intervention()
    with errors.panel("These changes do not fit this model, so they are left out"):
        change = _fitting(Intervention.from_json(st.session_state[state.EXPLORE_WHAT_IF]), config)
    return change


def reset() -> None:
    st.session_state[state.EXPLORE_WHAT_IF] = EMPTY
    st.session_state.pop(FOR_TEXTS, None)


def problem() -> str | None:
    """Return why the last change was refused, once."""
    found: str | None = st.session_state.pop(PROBLEM, None)
    return found


def made_for_other_text(texts: tuple[str, ...]) -> bool:
    """Whether the changes were made while another text was shown."""
    made_for: tuple[str, ...] = st.session_state.setdefault(FOR_TEXTS, texts)
    return made_for != texts


def forced_heads(change: Intervention) -> dict[Head, bool]:
    """Return True for each head that is forced in, False for each that is kept out."""
    found = {}
    for heads, runs in ((change.heads_in, True), (change.heads_out, False)):
        found.update({(layer, head): runs for layer, row in enumerate(heads) for head in row})
    return found


def _rows(heads: Iterable[Head], config: ModelConfig) -> tuple[tuple[int, ...], ...]:
    """Sort heads into layers; nothing at all where there are none."""
    rows: list[list[int]] = [[] for _ in range(config.n_layers)]
    for layer, head in heads:
        rows[layer].append(head)
    return tuple(map(tuple, rows)) if any(rows) else ()


def _fitting(change: Intervention, config: ModelConfig) -> Intervention:
    """Return the change if this model can run it.

    Raises:
        ValueError: in the words of the screen, where layers count from 1.
    """
    for layer, heads in enumerate(change.heads_out, start=1):
        if len(heads) >= config.n_heads:
            raise ValueError(f"Layer {layer} needs a head: not all of them can be kept out.")
    for head in forced_heads(change):
        if head[1] >= config.n_heads or head[0] >= config.n_layers:
            raise ValueError(f"{head_name(head)} is not in this model.")
    change.policy(config)
    return change

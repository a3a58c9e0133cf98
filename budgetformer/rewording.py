"""Searches through wordings: the cheapest one with the same label, and the dearest one near by.

Both are greedy and bounded: they find a wording, not the best of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from budgetformer import edits
from budgetformer.checkpoint import Checkpoint
from budgetformer.counterfactuals import (
    edits_of,
    readable,
    replaced,
    text_of,
    word_spans,
)
from budgetformer.edits import Edit, EditKind
from budgetformer.policies import Policy
from budgetformer.progress import Progress
from budgetformer.routing_view import require_routed
from budgetformer.trace import Trace, predict_many

INSERTED = ("not", "but", "although", "however", "maybe", "almost", "never", "why")
"""Words that the search for the dearest wording tries."""
INSERTION_PLACES = 12


@dataclass(frozen=True)
class Step:
    """One accepted edit and where it led."""

    kind: EditKind
    """The rule; see edits.py."""
    detail: str
    """What was done, in a few words."""
    texts: tuple[str, ...]
    """The input after it."""
    label: str
    """The label after it."""
    probability: float
    """p of the label that the input had at the start."""
    executed_heads: int
    """k after it, all layers together."""
    mean_budget: float
    """Mean s after it."""


@dataclass(frozen=True)
class Rewording:
    """A search and what it found."""

    start: Trace
    """The prediction at the start."""
    end: Trace
    """The prediction at the end; the start where nothing better was found."""
    steps: tuple[Step, ...]
    """The accepted edits in their order, possibly none."""
    n_tried: int
    """Wordings that the model ran, at most the limit."""
    complete: bool
    """Whether every edit was tried; False where the limit thinned them out or ended the search."""


def cheapest_wording(
    checkpoint: Checkpoint,
    trace: Trace,
    segment: int = 0,
    limit: int = 256,
    policy: Policy | None = None,
    progress: Progress | None = None,
) -> Rewording:
    """Delete words as long as that lowers the executed heads, or else the mean s.

    Runs of half the words are tried first, then of a quarter, and so on down to single words. Of
    the deletions of one length that keep the label, the one with the fewest executed heads of all
    layers together wins, then the one with the lowest mean s. At least a word stays.

    Args:
        checkpoint: the model that made the trace.
        trace: the model's own prediction of the input.
        segment: which text of a pair is edited.
        limit: most wordings to run.
        policy: what made the trace; the model's own choice when None.
        progress: called with the wordings run and the limit.

    Raises:
        ValueError: for a dense model, an unknown segment or a limit below 1.
    """
    search = _Search(checkpoint, trace, segment, limit, policy, progress)
    length = len(word_spans(trace, segment)) // 2
    while length and search.left:
        text, places = text_of(search.now, segment), word_spans(search.now, segment)
        runs = [places[i : i + length] for i in range(0, len(places), length)]
        candidates = edits.deletions(text, [(run[0][0], run[-1][1]) for run in runs])
        if not search.step(candidates, search.left, _cost, keep_label=True):
            length = min(length, len(places)) // 2
    search.complete &= length == 0
    return search.result()


def dearest_wording(
    checkpoint: Checkpoint,
    trace: Trace,
    segment: int = 0,
    n_edits: int = 3,
    words: Sequence[str] = INSERTED,
    keep_label: bool = False,
    seed: int = 0,
    limit: int = 256,
    policy: Policy | None = None,
    progress: Progress | None = None,
) -> Rewording:
    """Make the edits that raise the mean s most, one after the other.

    Each time, the deletion of each word, a typo in each word and each of a few words at up to
    twelve places are tried; where the limit does not allow all of them, they are thinned out.

    Args:
        checkpoint: the model that made the trace.
        trace: the model's own prediction of the input.
        segment: which text of a pair is edited.
        n_edits: most edits to make.
        words: what is tried as insertions.
        keep_label: accept only wordings with the label of the start.
        seed: of the typos.
        limit: most wordings to run.
        policy: what made the trace; the model's own choice when None.
        progress: called with the wordings run and the limit.

    Raises:
        ValueError: for a dense model, an unknown segment or a limit below 1.
    """
    search = _Search(checkpoint, trace, segment, limit, policy, progress)
    for done in range(n_edits):
        text, places = text_of(search.now, segment), word_spans(search.now, segment)
        stride = -(-len(places) // INSERTION_PLACES) or 1
        candidates = [
            *edits_of("delete", text, places),
            *edits_of("typo", text, places, seed),
            *edits.insertions(text, places[::stride], words),
        ]
        room = -(-search.left // (n_edits - done))
        if not search.step(candidates, room, lambda run: (-run.mean_budget,), keep_label):
            break
    return search.result()


def _cost(trace: Trace) -> tuple[float, ...]:
    return (trace.executed_heads, trace.mean_budget)


class _Search:
    """Where a greedy search stands."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        trace: Trace,
        segment: int,
        limit: int,
        policy: Policy | None,
        progress: Progress | None,
    ) -> None:
        require_routed(checkpoint.config)
        text_of(trace, segment)
        if limit < 1:
            raise ValueError(f"expected a limit of at least 1, got {limit}")
        self.checkpoint, self.start, self.now, self.segment = checkpoint, trace, trace, segment
        self.limit, self.policy, self.progress = limit, policy, progress
        self.steps: list[Step] = []
        self.n_tried, self.complete = 0, True

    @property
    def left(self) -> int:
        return self.limit - self.n_tried

    def step(
        self,
        candidates: Sequence[Edit],
        room: int,
        cost: Callable[[Trace], tuple[float, ...]],
        keep_label: bool,
    ) -> bool:
        """Try at most `room` edits; accept the one of the lowest cost, if that is below now's."""
        candidates = [edit for edit in candidates if readable(edit.text)]
        if len(candidates) > room:
            candidates, self.complete = edits.spread(candidates, room), False
        inputs = [replaced(self.now, self.segment, edit.text) for edit in candidates]
        runs = predict_many(self.checkpoint, inputs, self.policy, self._report)
        self.n_tried += len(runs)
        allowed = [
            (cost(run), i)
            for i, run in enumerate(runs)
            if not keep_label or run.label == self.start.label
        ]
        best = min(allowed, default=None)
        if best is None or best[0] >= cost(self.now):
            return False
        self._accept(candidates[best[1]], runs[best[1]])
        return True

    def result(self) -> Rewording:
        return Rewording(self.start, self.now, tuple(self.steps), self.n_tried, self.complete)

    def _accept(self, edit: Edit, run: Trace) -> None:
        self.now = run
        self.steps.append(
            Step(
                edit.kind,
                edit.detail,
                run.texts,
                run.label,
                run.probabilities[self.start.label],
                run.executed_heads,
                run.mean_budget,
            )
        )

    def _report(self, done: int, _: int) -> None:
        if self.progress:
            self.progress(self.n_tried + done, self.limit)

"""One input and its neighbours: what small edits do to the budget, the heads and the label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from budgetformer import edits
from budgetformer.checkpoint import Checkpoint
from budgetformer.edits import Edit, EditKind, Span
from budgetformer.policies import Policy
from budgetformer.progress import Progress
from budgetformer.routing_view import require_routed
from budgetformer.tokenizer import WORD
from budgetformer.trace import Trace, predict_many

KINDS: tuple[EditKind, ...] = ("delete", "negate", "typo", "shorten", "repeat")


@dataclass(frozen=True)
class Counterfactual:
    """An edited input and what changed with it; changes are after minus before."""

    kind: EditKind
    """The rule; see edits.py."""
    detail: str
    """What was done, in a few words."""
    texts: tuple[str, ...]
    """The input after the edit."""
    n_tokens: int
    """Tokens that the model read, special tokens included."""
    label: str
    """The label now."""
    label_changed: bool
    """Whether it is another one."""
    probability_change: float
    """Δp of the label before."""
    budget_change: float
    """Δs, mean over layers."""
    layer_budget_changes: tuple[float, ...]
    """Δs of each layer."""
    executed_heads_change: int
    """Δk, all layers together."""
    gained: tuple[tuple[int, ...], ...]
    """Heads of each layer that run now and did not before."""
    lost: tuple[tuple[int, ...], ...]
    """Heads of each layer that ran before and do not now."""

    @property
    def flips(self) -> int:
        """Heads gained and lost, all layers together."""
        return sum(map(len, (*self.gained, *self.lost)))


@dataclass(frozen=True)
class Counterfactuals:
    """The edits of one input that were run."""

    rows: tuple[Counterfactual, ...]
    """By rule, then by place."""
    n_left_out: int
    """Edits that the limit left out; those that ran are spread evenly over the text."""

    def by_budget(self) -> list[Counterfactual]:
        """Return them, largest |Δs| first."""
        return sorted(self.rows, key=lambda row: -abs(row.budget_change))

    def by_label(self) -> list[Counterfactual]:
        """Return them, those that change the label first, then by falling |Δp|."""
        return sorted(
            self.rows, key=lambda row: (not row.label_changed, -abs(row.probability_change))
        )


def counterfactuals(
    checkpoint: Checkpoint,
    trace: Trace,
    kinds: Iterable[EditKind] = KINDS,
    segment: int = 0,
    seed: int = 0,
    limit: int = 128,
    policy: Policy | None = None,
    progress: Progress | None = None,
) -> Counterfactuals:
    """Edit one text of an input in every way that the rules give, and run the results in batches.

    Edits that leave nothing to read, or that equal the text or another edit, are dropped.

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction that the edits are compared with.
        kinds: which rules; "insert" has none of its own.
        segment: which text of a pair is edited.
        seed: of the typos.
        limit: most edits to run; rules with fewer edits come in whole before others.
        policy: what made the trace; the model's own choice when None.
        progress: called after each batch.

    Raises:
        ValueError: for a dense model, an unknown rule or segment, or a limit below 1.
    """
    require_routed(checkpoint.config)
    if limit < 1:
        raise ValueError(f"expected a limit of at least 1, got {limit}")
    text, places = text_of(trace, segment), word_spans(trace, segment)
    wanted = [edits_of(kind, text, places, seed) for kind in kinds]
    wanted = _distinct(text, wanted)
    chosen = _share(wanted, limit)
    inputs = [replaced(trace, segment, edit.text) for edit in chosen]
    runs = predict_many(checkpoint, inputs, policy, progress)
    rows = tuple(compare(trace, run, edit) for run, edit in zip(runs, chosen, strict=True))
    return Counterfactuals(rows, sum(map(len, wanted)) - len(rows))


def edits_of(kind: EditKind, text: str, places: Sequence[Span], seed: int = 0) -> list[Edit]:
    """Return a rule's edits of a text.

    Raises:
        ValueError: for an unknown rule.
    """
    match kind:
        case "delete":
            return edits.deletions(text, places)
        case "negate":
            return edits.negations(text, places)
        case "typo":
            return edits.typos(text, places, seed)
        case "shorten":
            return edits.shorter(text, places)
        case "repeat":
            return edits.repeated(text)
    raise ValueError(f"expected a rule of {', '.join(KINDS)}, got {kind!r}")


def text_of(trace: Trace, segment: int) -> str:
    """Return the text of a segment.

    Raises:
        ValueError: where the input has no such segment.
    """
    if not 0 <= segment < len(trace.texts):
        raise ValueError(f"the input has {len(trace.texts)} text(s), no segment {segment}")
    return trace.texts[segment]


def word_spans(trace: Trace, segment: int) -> list[Span]:
    """Return where the words of a text stand that the model read, punctuation left out."""
    text = text_of(trace, segment)
    return [
        (word.start, word.end)
        for word in trace.words
        if word.segment == segment and WORD.match(text, word.start, word.end)
    ]


def replaced(trace: Trace, segment: int, text: str) -> tuple[str, ...]:
    """Return the trace's texts with one of them replaced."""
    return (*trace.texts[:segment], text, *trace.texts[segment + 1 :])


def compare(before: Trace, after: Trace, edit: Edit) -> Counterfactual:
    """Return what an edit changed."""
    layers = list(zip(before.layers, after.layers, strict=True))
    return Counterfactual(
        kind=edit.kind,
        detail=edit.detail,
        texts=after.texts,
        n_tokens=len(after.encoding.ids),
        label=after.label,
        label_changed=after.label != before.label,
        probability_change=after.probabilities[before.label] - before.probabilities[before.label],
        budget_change=after.mean_budget - before.mean_budget,
        layer_budget_changes=tuple(new.budget - old.budget for old, new in layers),
        executed_heads_change=after.executed_heads - before.executed_heads,
        gained=tuple(tuple(sorted({*new.heads} - {*old.heads})) for old, new in layers),
        lost=tuple(tuple(sorted({*old.heads} - {*new.heads})) for old, new in layers),
    )


def readable(text: str) -> bool:
    """Whether a word is left in a text."""
    return WORD.search(text) is not None


def _distinct(text: str, groups: Sequence[Sequence[Edit]]) -> list[list[Edit]]:
    """Drop edits that change nothing, repeat another or leave no word."""
    seen, kept = {text}, list[list[Edit]]()
    for group in groups:
        kept.append([])
        for edit in group:
            if edit.text not in seen and readable(edit.text):
                seen.add(edit.text)
                kept[-1].append(edit)
    return kept


def _share(groups: Sequence[Sequence[Edit]], limit: int) -> list[Edit]:
    """Choose at most `limit` edits: small groups whole, large ones evenly thinned out."""
    chosen: dict[int, list[Edit]] = {}
    by_size = sorted(range(len(groups)), key=lambda i: len(groups[i]))
    for done, i in enumerate(by_size):
        room = limit - sum(map(len, chosen.values()))
        # The last group takes what is left, and one place is never rounded away.
        chosen[i] = edits.spread(groups[i], -(-room // (len(groups) - done)))
    return [edit for i in range(len(groups)) for edit in chosen[i]]

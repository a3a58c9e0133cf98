"""Two checkpoints on the same examples: the heads they share, their budgets, their answers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from budgetformer.checkpoint import Checkpoint
from budgetformer.data import Examples
from budgetformer.evaluate import Records, evaluate
from budgetformer.intervals import Estimate, paired_difference
from budgetformer.progress import Progress, counted


@dataclass(frozen=True)
class LayerDiff:
    """One layer of both; changes are second minus first."""

    budget_change: Estimate
    """Δs, mean over examples, with its 95 % interval (paired bootstrap)."""
    k_change: float
    """Δk in heads, mean over examples."""
    overlap: float | None
    """Jaccard index of the executed heads, mean over examples, in [0, 1]; None where the layers
    have other numbers of heads."""


@dataclass(frozen=True)
class CheckpointDiff:
    """Two models' runs over N examples; differences are second minus first."""

    n: int
    """Examples."""
    layers: tuple[LayerDiff, ...]
    """The layers that both have, from the first on."""
    both_right: int
    """Examples that both get right."""
    only_first_right: int
    """Examples that only the first gets right."""
    only_second_right: int
    """Examples that only the second gets right."""
    both_wrong: int
    """Examples that both get wrong."""
    labels_changed: int
    """Examples with another answer."""
    accuracy_change: Estimate
    """Accuracy of the second minus the first, with its 95 % interval (paired bootstrap)."""
    p_value: float
    """McNemar's exact test of the hypothesis that both are right equally often (1947): two-sided
    binomial test on the examples that only one gets right."""


def compare_checkpoints(first: Records, second: Records, seed: int = 0) -> CheckpointDiff:
    """Compare two models' runs over the same examples.

    Args:
        first: with classes numbered in one way.
        second: the same examples in the same order, classes numbered the same way.
        seed: of the bootstraps.

    Raises:
        ValueError: if the examples' labels differ, or there are none.
    """
    from scipy.stats import binomtest

    if len(first.labels) == 0 or not np.array_equal(first.labels, second.labels):
        raise ValueError("both models must have read the same examples, at least one")
    a, b = first.correct, second.correct
    only_first, only_second = int((a & ~b).sum()), int((b & ~a).sum())
    odd = only_first + only_second
    n_layers = min(first.heads.shape[1], second.heads.shape[1])
    return CheckpointDiff(
        n=len(a),
        layers=tuple(_layer(first, second, layer, seed) for layer in range(n_layers)),
        both_right=int((a & b).sum()),
        only_first_right=only_first,
        only_second_right=only_second,
        both_wrong=int((~a & ~b).sum()),
        labels_changed=int(
            (first.probabilities.argmax(axis=1) != second.probabilities.argmax(axis=1)).sum()
        ),
        accuracy_change=Estimate(*paired_difference(b.astype(float), a.astype(float), seed)),
        p_value=float(binomtest(only_first, odd).pvalue) if odd else 1.0,
    )


def jaccard(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the shared over all heads of each example, (N, H) and (N, H) -> (N,)."""
    both, either = (first & second).sum(axis=1), (first | second).sum(axis=1)
    return np.asarray(both / np.maximum(1, either), np.float64)


def run_other(
    checkpoint: Checkpoint,
    examples: Examples,
    labels: tuple[str, ...],
    progress: Progress | None = None,
) -> Records:
    """Run a model over examples whose labels are numbered as another model numbers its classes.

    Args:
        checkpoint: the model to run.
        examples: with labels as indices into `labels`.
        labels: the other model's classes.
        progress: called after each batch.

    Returns:
        Records with classes numbered as in `labels`.

    Raises:
        ValueError: if the model answers with other classes, or as `evaluate` does.
    """
    own = checkpoint.config.labels
    _check_classes(own, labels)
    numbered = replace(examples, labels=tuple(own.index(labels[i]) for i in examples.labels))
    records = evaluate(checkpoint, numbered, after_batch=counted(progress, len(examples)))
    return renumbered(records, own, labels)


def renumbered(records: Records, labels: tuple[str, ...], wanted: tuple[str, ...]) -> Records:
    """Number a model's classes as another one does.

    Args:
        records: with classes in the order of `labels`.
        labels: the model's classes.
        wanted: the same classes in another order.

    Raises:
        ValueError: if the two do not name the same classes.
    """
    _check_classes(labels, wanted)
    order = [labels.index(label) for label in wanted]
    position = np.argsort(order)
    return replace(
        records,
        labels=position[records.labels],
        probabilities=records.probabilities[:, order],
    )


def _check_classes(labels: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    if set(labels) != set(wanted):
        odd = sorted(set(labels) ^ set(wanted))[0]
        raise ValueError(f"the models answer with other classes: only one of them knows {odd!r}")


def _layer(first: Records, second: Records, layer: int, seed: int) -> LayerDiff:
    s, t = first.budgets[:, layer].astype(float), second.budgets[:, layer].astype(float)
    heads, other = first.heads[:, layer], second.heads[:, layer]
    same = heads.shape[1] == other.shape[1]
    return LayerDiff(
        budget_change=Estimate(*paired_difference(t, s, seed)),
        k_change=float(other.sum(axis=1).mean() - heads.sum(axis=1).mean()),
        overlap=float(jaccard(heads, other).mean()) if same else None,
    )

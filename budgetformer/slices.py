"""Parts of a scored set: what their examples have in common, and how they differ from the rest.

Cheap and dear mean a mean budget s below the set's median, and at or above it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetformer.intervals import Estimate, wilson_interval
from budgetformer.measures import everything
from budgetformer.records import ScoredSet

QUADRANTS = ("cheap-wrong", "dear-wrong", "cheap-right", "dear-right")
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Filter:
    """What the examples of a slice have in common; every condition must hold."""

    picked: frozenset[int] | None = None
    """Positions in the set, as picked on a chart."""
    search: str = ""
    """What the text holds, whatever its case."""
    regex: bool = False
    """Whether the search is a regular expression."""
    quadrants: tuple[str, ...] = ()
    """Any of QUADRANTS; all when empty."""
    gold: str | None = None
    """Gold class."""
    predicted: str | None = None
    """Predicted class."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Lowest and highest value by name of a measure."""

    @property
    def is_empty(self) -> bool:
        """Whether every example fits."""
        return self == Filter()


@dataclass(frozen=True)
class SliceFigures:
    """What holds on average in a slice, each with its 95 % interval."""

    n: int
    """Number of examples."""
    accuracy: Estimate
    """Fraction right (Wilson 1927)."""
    budget: Estimate
    """Mean s (Student's t)."""
    heads: Estimate
    """Share of heads that ran (Student's t)."""
    mflops: Estimate
    """Closed-form FLOPs of the whole model in millions (Student's t)."""


@dataclass(frozen=True)
class SliceDifference:
    """A slice minus everything outside it; None where that cannot be said."""

    accuracy: Estimate | None
    """In accuracy (Newcombe 1998, method 10)."""
    budget: Estimate | None
    """In mean s (Welch)."""
    heads: Estimate | None
    """In the share of heads that ran (Welch)."""
    mflops: Estimate | None
    """In closed-form MFLOPs (Welch)."""


def quadrant_of(scored: ScoredSet) -> NDArray[np.int64]:
    """Return each example's index into QUADRANTS, (N,)."""
    budget = scored.records.mean_budgets
    dear = budget >= np.median(budget)
    return np.asarray(2 * scored.records.correct + dear, np.int64)


def mask_of(scored: ScoredSet, wanted: Filter) -> Mask:
    """Return which examples fit a filter, (N,).

    Raises:
        ValueError: for a search where the set has no texts, or a pattern that cannot be read.
    """
    mask = np.ones(len(scored), np.bool_)
    if wanted.picked is not None:
        mask &= np.isin(np.arange(len(scored)), np.fromiter(wanted.picked, int, len(wanted.picked)))
    if wanted.quadrants:
        numbers = [QUADRANTS.index(name) for name in wanted.quadrants]
        mask &= np.isin(quadrant_of(scored), numbers)
    labels = scored.source.labels
    if wanted.gold is not None:
        mask &= scored.records.labels == labels.index(wanted.gold)
    if wanted.predicted is not None:
        mask &= scored.predicted == labels.index(wanted.predicted)
    known = {measure.name: measure for measure in everything(scored)}
    for name, (low, high) in wanted.ranges.items():
        values = known[name].values(scored)
        mask &= (values >= low) & (values <= high)
    if wanted.search:
        mask &= search_texts(scored, wanted.search, wanted.regex)
    return mask


def search_texts(scored: ScoredSet, search: str, regex: bool = False) -> Mask:
    """Return which texts hold a string, or match a pattern, whatever the case.

    Patterns are RE2's, which take time in proportion to the text: no visitor's pattern can stop the
    others.

    Raises:
        ValueError: if the set has no texts, or the pattern cannot be read.
    """
    import pyarrow as pa
    from pyarrow import compute

    if scored.texts is None:
        raise ValueError("the texts are not at hand, so they cannot be searched")
    columns = [scored.texts, *([scored.text_pairs] if scored.text_pairs is not None else [])]
    found = np.zeros(len(scored), np.bool_)
    match = compute.match_substring_regex if regex else compute.match_substring
    for column in columns:
        try:
            hits = match(pa.array(column, pa.large_string()), search, ignore_case=True)
        except pa.ArrowInvalid as error:
            reason = str(error).removeprefix("Invalid regular expression: ")
            raise ValueError(
                f"the pattern {search!r} cannot be read: {reason}. A sign with a meaning of its "
                "own, such as ( [ * + ? . \\, is taken as it stands with a \\ before it; looking "
                "ahead (?=…) and repeating a group \\1 are not supported"
            ) from error
        found |= hits.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def figures(scored: ScoredSet, mask: Mask) -> SliceFigures | None:
    """Return a slice's averages; None for an empty one."""
    n = int(mask.sum())
    if n == 0:
        return None
    n_right = int(scored.records.correct[mask].sum())
    return SliceFigures(
        n,
        Estimate(n_right / n, *wilson_interval(n_right, n)),
        *(_mean(values[mask]) for values in _spent(scored)),
    )


def difference(scored: ScoredSet, mask: Mask) -> SliceDifference:
    """Compare a slice with all examples outside it."""
    right = scored.records.correct
    accuracy = None
    if mask.any() and not mask.all():
        accuracy = proportion_difference(
            int(right[mask].sum()), int(mask.sum()), int(right[~mask].sum()), int((~mask).sum())
        )
    return SliceDifference(
        accuracy, *(mean_difference(values[mask], values[~mask]) for values in _spent(scored))
    )


def proportion_difference(right_a: int, n_a: int, right_b: int, n_b: int) -> Estimate:
    """Return the difference of two independent proportions (Newcombe 1998, method 10)."""
    p, q = right_a / n_a, right_b / n_b
    (p_low, p_high), (q_low, q_high) = wilson_interval(right_a, n_a), wilson_interval(right_b, n_b)
    return Estimate(
        p - q,
        p - q - math.hypot(p - p_low, q_high - q),
        p - q + math.hypot(p_high - p, q - q_low),
    )


def mean_difference(a: NDArray[Any], b: NDArray[Any]) -> Estimate | None:
    """Return the difference of two means (Welch's t); None for groups of fewer than two."""
    from scipy.stats import t

    if len(a) < 2 or len(b) < 2:
        return None
    a, b = np.asarray(a, float), np.asarray(b, float)
    change = float(a.mean() - b.mean())
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    if va + vb == 0:
        return Estimate(change, change, change)
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = float(t.ppf(0.975, freedom) * math.sqrt(va + vb))
    return Estimate(change, change - half, change + half)


def confusion(scored: ScoredSet, mask: Mask | None = None) -> NDArray[np.int64]:
    """Count examples by gold class (rows) and predicted class (columns), (C, C)."""
    n = len(scored.source.labels)
    gold, predicted = scored.records.labels, scored.predicted
    if mask is not None:
        gold, predicted = gold[mask], predicted[mask]
    return np.bincount(gold * n + predicted, minlength=n * n).reshape(n, n)


def _spent(scored: ScoredSet) -> tuple[NDArray[np.float64], ...]:
    records = scored.records
    return (
        records.mean_budgets.astype(float),
        records.executed_fractions.astype(float),
        scored.flops / 1e6,
    )


def _mean(values: NDArray[np.float64]) -> Estimate:
    from scipy.stats import t

    mean, n = float(values.mean()), len(values)
    if n < 2:
        return Estimate(mean, float("nan"), float("nan"))
    half = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n))
    return Estimate(mean, mean - half, mean + half)

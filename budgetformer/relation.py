"""Two quantities of many examples: rank correlation with its interval, and the trend between them.

Fast enough to be looked at: the bootstrap of fifty thousand examples takes a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetformer.intervals import CONFIDENCE, Estimate

N_RESAMPLES = 500
TREND_BINS = 20
FEWEST_IN_A_BIN = 5


@dataclass(frozen=True)
class Trend:
    """Mean of y in groups of equally many examples, in the order of x."""

    x: NDArray[np.float64]
    """Median of x in each group."""
    y: NDArray[np.float64]
    """Mean of y."""
    low: NDArray[np.float64]
    """Lower end of the mean's 95 % interval (Student's t)."""
    high: NDArray[np.float64]
    """Upper end."""


def rank_correlation(x: NDArray[Any], y: NDArray[Any], seed: int = 0) -> Estimate | None:
    """Return Spearman's ρ with its 95 % interval; None where one of the two is constant.

    The interval is the percentile bootstrap over examples (Efron 1979), N_RESAMPLES of them.
    """
    return _defined([x, y], seed)


def partial_rank_correlation(
    x: NDArray[Any], y: NDArray[Any], given: NDArray[Any], seed: int = 0
) -> Estimate | None:
    """Return Spearman's ρ with the rank of a third quantity held fixed, and its 95 % interval."""
    if np.ptp(given) == 0:
        return rank_correlation(x, y, seed)
    return _defined([x, y, given], seed)


def trend(x: NDArray[Any], y: NDArray[Any], n_bins: int = TREND_BINS) -> Trend | None:
    """Return the mean of y along x; None where x has too few different values to be grouped."""
    from scipy.stats import t

    order = np.argsort(x, kind="stable")
    x, y = np.asarray(x, float)[order], np.asarray(y, float)[order]
    n_bins = min(n_bins, len(x) // FEWEST_IN_A_BIN)
    if n_bins < 2 or x[0] == x[-1]:
        return None
    edges = np.linspace(0, len(x), n_bins + 1).round().astype(int)
    # Equal values belong together, or the trend between them would be that of the file's order.
    edges = np.unique(np.searchsorted(x, x[edges[:-1]]))
    starts, ends = edges, np.append(edges[1:], len(x))
    n = (ends - starts).astype(float)
    keep = n >= FEWEST_IN_A_BIN
    if keep.sum() < 2:
        return None
    starts, ends, n = starts[keep], ends[keep], n[keep]
    means = np.array([y[a:b].mean() for a, b in zip(starts, ends, strict=True)])
    spread = np.array([y[a:b].std(ddof=1) for a, b in zip(starts, ends, strict=True)])
    half = t.ppf(0.975, n - 1) * spread / np.sqrt(n)
    middle = np.array([np.median(x[a:b]) for a, b in zip(starts, ends, strict=True)])
    return Trend(middle, means, means - half, means + half)


def spearman(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the rank correlation of two samples; NaN where one of them is constant."""
    return _weighted(_groups([x, y]), np.ones(len(x)))


def partial_spearman(x: NDArray[Any], y: NDArray[Any], given: NDArray[Any]) -> float:
    """Return the rank correlation of x and y with the rank of a third variable held fixed."""
    return _weighted(_groups([x, y, given]), np.ones(len(x)))


def correlation(
    columns: Sequence[NDArray[Any]], seed: int = 0, n_resamples: int = N_RESAMPLES
) -> Estimate:
    """Return the rank correlation of two samples, a third one held fixed where it is given.

    Args:
        columns: x, y and perhaps the third, (N,) each.
        seed: of the percentile bootstrap over examples (Efron 1979).
        n_resamples: how many resamples it draws.

    Returns:
        Value and 95 % interval; NaN where a column is constant.
    """
    n, groups = len(columns[0]), _groups(columns)
    generator = np.random.default_rng(seed)
    samples = [
        _weighted(groups, np.bincount(generator.integers(0, n, n), minlength=n).astype(float))
        for _ in range(n_resamples)
    ]
    low, high = np.nanquantile(samples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(_weighted(groups, np.ones(n)), float(low), float(high))


def _defined(columns: Sequence[NDArray[Any]], seed: int) -> Estimate | None:
    if len(columns[0]) < 3 or any(np.ptp(column) == 0 for column in columns[:2]):
        return None
    found = correlation(columns, seed)
    return found if np.isfinite([found.value, found.low]).all() else None


def _groups(columns: Sequence[NDArray[Any]]) -> list[NDArray[np.intp]]:
    """Number the different values of each column in their order.

    A value's rank in a resample follows from how often each value was drawn: the values need to be
    sorted once, not in every resample.
    """
    return [np.unique(column, return_inverse=True)[1] for column in columns]


def _weighted(groups: list[NDArray[np.intp]], times: NDArray[np.float64]) -> float:
    """Return the (partial) rank correlation of rows that occur so many times each."""
    middle = (times.sum() + 1) / 2
    ranks = []
    for group in groups:
        count = np.bincount(group, times)
        ranks.append((np.cumsum(count) - (count - 1) / 2 - middle)[group])

    def correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        # einsum instead of BLAS, whose threads take longer to wake than this does.
        xy, xx, yy = (np.einsum("i,i,i", times, a, b) for a, b in ((x, y), (x, x), (y, y)))
        return float(xy / np.sqrt(xx * yy))

    with np.errstate(divide="ignore", invalid="ignore"):
        xy = correlation(ranks[0], ranks[1])
        if len(ranks) == 2:
            return xy
        xz, yz = correlation(ranks[0], ranks[2]), correlation(ranks[1], ranks[2])
        return float(np.divide(xy - xz * yz, np.sqrt((1 - xz**2) * (1 - yz**2))))

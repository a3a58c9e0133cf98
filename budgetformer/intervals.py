"""Figures with their 95 % intervals: proportions, paired differences, and anything by bootstrap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
# The quantile of the normal distribution that goes with it.
Z = 1.959963984540054
BOOTSTRAP_SAMPLES = 2000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(counts: NDArray[Any], n: int) -> tuple[Floats, Floats]:
    """Return the 95 % intervals of proportions counts / n (Wilson 1927), of any shape.

    The middle is (p + z²/2n) / (1 + z²/n), the half width z·√(p(1−p)/n + z²/4n²) / (1 + z²/n).
    """
    p = np.asarray(counts, np.float64) / n
    middle = p + Z**2 / (2 * n)
    half = Z * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    low, high = (middle - half) / (1 + Z**2 / n), (middle + half) / (1 + Z**2 / n)
    # Exactly 0 and 1 at the ends, whatever rounding does.
    return np.where(p == 0, 0.0, low), np.where(p == 1, 1.0, high)


def wilson_interval(n_right: int, n: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of one proportion (Wilson 1927)."""
    low, high = wilson(np.array(n_right), n)
    return float(low), float(high)


def paired_difference(
    first: NDArray[np.float64], second: NDArray[np.float64], seed: int = 0
) -> tuple[float, float, float]:
    """Return the accuracy of the first minus the second on the same examples, and its interval.

    Args:
        first: 1 where an example is right, 0 where not, or an average of such.
        second: the same for the other policy.
        seed: of the percentile bootstrap over examples that gives the 95 % interval.
    """
    difference = first - second
    low, high = bootstrap_interval(
        lambda rows: float(difference[rows].mean()), len(difference), BOOTSTRAP_SAMPLES, seed
    )
    return float(difference.mean()), low, high


def bootstrap_interval(
    statistic: Callable[[NDArray[np.int64]], float], n: int, n_samples: int, seed: int
) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of a statistic of row numbers (Efron 1979).

    Resamples on which the statistic is undefined (NaN) are left out.
    """
    generator = np.random.default_rng(seed)
    samples = [statistic(generator.integers(0, n, n)) for _ in range(n_samples)]
    low, high = np.nanquantile(samples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)

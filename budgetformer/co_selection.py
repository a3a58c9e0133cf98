"""Which heads of a layer go together, beyond what their rates and the number of heads explain.

Two heads that both run often meet often, and where k heads run, each one that runs leaves less room
for the others. So the yardstick is: choose heads independently of each other, each with its own
rate, and keep only the draws of exactly k heads (conditional Bernoulli sampling: Chen, Dempster and
Liu 1994, Biometrika 81, 457–469). Rates and yardstick are taken for every k by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgetformer.head_economy import Floats, Heads

TOLERANCE = 1e-10
MOST_STEPS = 2000


@dataclass(frozen=True, eq=False)
class CoSelection:
    """Pairs of heads of one layer; every array is (H, H) and symmetric, without a diagonal (NaN)."""

    observed: Floats
    """Examples that ran both heads."""
    expected: Floats
    """How many would be expected if the heads were chosen independently, given k and the rates."""

    @property
    def lift(self) -> Floats:
        """Observed over expected; NaN where nothing is expected."""
        return np.divide(
            self.observed,
            self.expected,
            out=np.full_like(self.observed, np.nan),
            where=self.expected > 0,
        )


def co_selection(heads: Heads) -> CoSelection:
    """Count pairs of heads of one layer and what would be expected.

    Args:
        heads: executed heads of one layer, (N, H), at least one an example.
    """
    n_heads = heads.shape[1]
    runs = heads.astype(np.float64)
    observed = runs.T @ runs
    expected = np.zeros((n_heads, n_heads))
    k = heads.sum(axis=1)
    for count in np.unique(k):
        stratum = runs[k == count]
        expected += len(stratum) * joint_rates(stratum.mean(axis=0), int(count))
    np.fill_diagonal(observed, np.nan)
    np.fill_diagonal(expected, np.nan)
    return CoSelection(observed, expected)


def joint_rates(rates: Floats, k: int) -> Floats:
    """Return how often two heads run together where k heads are chosen independently at these rates.

    Args:
        rates: share of the examples that run a head, (H,); their sum is k.
        k: heads that every example runs.

    Returns:
        (H, H) joint rates; the diagonal means nothing.
    """
    joint = np.outer(rates, rates)  # right for a head that always or never runs
    free = np.flatnonzero((rates > 0) & (rates < 1))
    if len(free) == 0:
        return joint
    left = k - int((rates == 1).sum())
    weights = _weights(rates[free], left)
    total = _elementary(weights[None, :], left)[0]
    for i in range(len(free)):
        for j in range(i + 1, len(free)):
            rest = np.delete(weights, [i, j])[None, :]
            both = weights[i] * weights[j] * _elementary(rest, left - 2)[0] / total
            joint[free[i], free[j]] = joint[free[j], free[i]] = both
    return joint


def _weights(rates: Floats, k: int) -> Floats:
    """Find odds of independent heads that have these rates in draws of exactly k heads."""
    n = len(rates)
    weights = rates / (1 - rates)
    others = ~np.eye(n, dtype=bool)
    for _ in range(MOST_STEPS):
        weights = weights / np.exp(np.log(weights).mean())  # only their ratios matter
        without = _elementary(np.where(others, weights, 0.0), k - 1)
        found = weights * without / _elementary(weights[None, :], k)[0]
        if np.abs(found - rates).max() < TOLERANCE:
            break
        weights = weights * rates / found
    return weights


def _elementary(weights: Floats, k: int) -> NDArray[np.float64]:
    """Return the sum, over all choices of k columns, of the products of weights, for each row."""
    if k < 0:
        return np.zeros(len(weights))
    sums = np.zeros((len(weights), k + 1))
    sums[:, 0] = 1
    for column in weights.T:
        sums[:, 1:] += column[:, None] * sums[:, :-1]
    return sums[:, k]

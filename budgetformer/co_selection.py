"""Which heads of a layer go together, beyond what their rates and the number of heads explain.

Two heads that both run often meet often, and where k heads run, each one that runs leaves less room
for the others. So the yardstick is: choose heads independently of each other, each with its own
rate, and keep only the draws of exactly k heads (conditional Bernoulli sampling: Chen, Dempster and
Liu 1994, Biometrika 81, 457–469). Rates and yardstick are taken for every k by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from budgetformer.head_economy import Heads
from budgetformer.intervals import Floats

TOLERANCE = 1e-9
MOST_STEPS = 60


@dataclass(frozen=True, eq=False)
class CoSelection:
    """Pairs of heads of one layer: symmetric (H, H) arrays, NaN on the diagonal."""

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
    """Return how often two heads run together if heads are independent, given k and the rates.

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
    _, found = _moments(_log_odds(rates[free], left), left)
    joint[np.ix_(free, free)] = found
    return joint


def _log_odds(rates: Floats, k: int) -> Floats:
    """Find log-odds of independent heads that have these rates in draws of exactly k heads.

    Newton's method on the likelihood, which is concave; a step that would lower it is halved.
    """
    odds = np.log(rates / (1 - rates))
    for _ in range(MOST_STEPS):
        found, joint = _moments(odds, k)
        if np.abs(found - rates).max() < TOLERANCE:
            break
        covariance = joint - np.outer(found, found)
        np.fill_diagonal(covariance, found * (1 - found))
        # Singular: only differences of log-odds matter.
        step = np.linalg.lstsq(covariance, rates - found, rcond=1e-12)[0]
        before = _likelihood(odds, rates, k)
        while _likelihood(odds + step, rates, k) < before and np.abs(step).max() > TOLERANCE:
            step = step / 2
        odds = odds + step
    return odds


def _moments(odds: Floats, k: int) -> tuple[Floats, Floats]:
    """Return the rates, (n,), and joint rates, (n, n), of draws of exactly k heads."""
    weights = np.exp(odds - odds.mean())  # only their ratios matter
    n, total = len(weights), _elementary(weights[None, :], k)[0]
    rates = weights * _elementary(np.where(np.eye(n, dtype=bool), 0.0, weights), k - 1) / total
    first, second = np.triu_indices(n, 1)
    rest, pairs = np.tile(weights, (len(first), 1)), np.arange(len(first))
    rest[pairs, first] = rest[pairs, second] = 0
    both = weights[first] * weights[second] * _elementary(rest, k - 2) / total
    joint = np.zeros((n, n))
    joint[first, second] = joint[second, first] = both
    return rates, joint


def _likelihood(odds: Floats, rates: Floats, k: int) -> float:
    """Mean log-likelihood of draws with these rates, up to a constant."""
    shifted = odds - odds.mean()
    return float(rates @ shifted - np.log(_elementary(np.exp(shifted)[None, :], k)[0]))


def _elementary(weights: Floats, k: int) -> Floats:
    """Return the sum, over all choices of k columns, of the products of weights, for each row."""
    if k < 0:
        return np.zeros(len(weights))
    sums = np.zeros((len(weights), k + 1))
    sums[:, 0] = 1
    for column in weights.T:
        sums[:, 1:] += column[:, None] * sums[:, :-1]
    return np.asarray(sums[:, k])

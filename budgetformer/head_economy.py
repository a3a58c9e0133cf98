"""Which heads a router uses over many examples: how often, for whom, and how evenly.

Everything here counts executed heads, (N, L, H) of booleans as `evaluate.Records` holds them; no
model runs. Which heads go together stands in co_selection.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from budgetformer.intervals import Floats, wilson

DEAD = 0.01
"""A head that fewer examples run than this share counts as dead."""
ALWAYS_ON = 0.99
"""A head that more examples run than this share counts as always on."""

Heads = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SelectionRates:
    """How many of n examples ran each head."""

    n: int
    """Examples."""
    counts: NDArray[np.int64]
    """Examples that ran a head, (L, H)."""
    low: Floats
    """Lower ends of the rates' 95 % intervals (Wilson 1927), (L, H)."""
    high: Floats
    """Upper ends."""

    @property
    def rates(self) -> Floats:
        """Share of the examples that ran a head, (L, H)."""
        return np.asarray(self.counts / self.n)

    @property
    def dead(self) -> Heads:
        """Heads that fewer than 1 % of the examples ran, (L, H)."""
        return np.asarray(self.rates < DEAD)

    @property
    def always_on(self) -> Heads:
        """Heads that more than 99 % of the examples ran, (L, H)."""
        return np.asarray(self.rates > ALWAYS_ON)


@dataclass(frozen=True)
class Concentration:
    """How evenly one layer spreads its runs over its heads."""

    mean_k: float
    """Heads that an example runs in this layer, on average."""
    entropy_bits: float
    """Entropy of "which head was it?" for a run drawn at random, in [0, log2 H]."""
    effective_heads: float
    """2^entropy: so many heads, used equally often, would be as evenly spread; in [1, H]."""


def selection_rates(heads: Heads) -> SelectionRates:
    """Count who ran which head.

    Args:
        heads: executed heads, (N, L, H).

    Raises:
        ValueError: if there are no examples.
    """
    n = len(heads)
    if n == 0:
        raise ValueError("there are no examples to count heads over")
    counts = heads.sum(axis=0).astype(np.int64)
    low, high = wilson(counts, n)
    return SelectionRates(n, counts, low, high)


def rates_by(heads: Heads, groups: NDArray[np.int64], n_groups: int) -> list[SelectionRates | None]:
    """Count who ran which head, group by group.

    Args:
        heads: executed heads, (N, L, H).
        groups: the group of each example, in [0, n_groups), (N,).
        n_groups: how many groups there are.

    Returns:
        One a group; None for a group without examples.
    """
    members = [groups == group for group in range(n_groups)]
    return [selection_rates(heads[member]) if member.any() else None for member in members]


def rate_spread(by_group: Sequence[SelectionRates | None]) -> Floats:
    """Return the largest minus the smallest rate among groups, (L, H).

    Raises:
        ValueError: if no group has examples.
    """
    rates = [found.rates for found in by_group if found is not None]
    if not rates:
        raise ValueError("there is no group with examples")
    return np.asarray(np.max(rates, axis=0) - np.min(rates, axis=0))


def concentration(heads: Heads) -> list[Concentration]:
    """Return how evenly each layer uses its heads.

    The share of a head is its runs over all runs of the layer; H = −Σ share·log2 share. A layer
    that runs the same k heads for everyone has 2^H = k, one that deals them out evenly 2^H = H.

    Args:
        heads: executed heads, (N, L, H), at least one an example and layer.
    """
    found = []
    for counts in heads.sum(axis=0):  # (H,)
        share = counts[counts > 0] / counts.sum()
        # Adding 0 turns −0 of a single head into 0.
        bits = float(-(share * np.log2(share)).sum()) + 0.0
        found.append(Concentration(float(counts.sum() / len(heads)), bits, float(2**bits)))
    return found

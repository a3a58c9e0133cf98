"""Selection rates, concentration and co-selection against loops, scipy and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, entropy

from budgetformer.co_selection import co_selection, joint_rates
from budgetformer.head_economy import (
    concentration,
    rate_spread,
    rates_by,
    selection_rates,
)
from budgetformer.intervals import wilson


def draw(n: int, n_layers: int, n_heads: int, seed: int = 0) -> NDArray[np.bool_]:
    generator = np.random.default_rng(seed)
    heads = generator.random((n, n_layers, n_heads)) < generator.random((1, n_layers, n_heads))
    heads[..., 0] |= ~heads.any(axis=2)  # at least one an example
    return np.asarray(heads)


def test_rates_are_counted_and_their_intervals_scipys() -> None:
    heads = draw(57, 2, 5)
    found = selection_rates(heads)
    assert found.n == 57
    for layer, head in itertools.product(range(2), range(5)):
        n_ran = sum(bool(row[layer][head]) for row in heads)
        assert found.counts[layer, head] == n_ran
        assert found.rates[layer, head] == n_ran / 57
        interval = binomtest(n_ran, 57).proportion_ci(0.95, method="wilson")
        ends = (found.low[layer, head], found.high[layer, head])
        assert ends == pytest.approx((interval.low, interval.high), abs=1e-12)
    low, high = wilson(np.array([0, 57]), 57)
    assert low[0] == 0 and high[1] == 1 and high[0] > 0.05


def test_dead_and_always_on_at_their_thresholds() -> None:
    heads = np.zeros((200, 1, 5), bool)
    heads[:, 0, 0] = True
    heads[:199, 0, 1] = True  # 99.5 %
    heads[:198, 0, 2] = True  # 99 % is not more than 99 %
    heads[:2, 0, 3] = True  # 1 % is not less than 1 %
    heads[:1, 0, 4] = True  # 0.5 %
    found = selection_rates(heads)
    assert found.always_on.tolist() == [[True, True, False, False, False]]
    assert found.dead.tolist() == [[False, False, False, False, True]]
    with pytest.raises(ValueError, match="no examples"):
        selection_rates(heads[:0])


def test_rates_by_group_and_their_spread() -> None:
    heads = draw(90, 2, 4)
    groups = np.arange(90) % 3
    groups[groups == 2] = 3  # group 2 is empty
    found = rates_by(heads, groups, 4)
    assert found[2] is None
    for group in (0, 1, 3):
        part = found[group]
        assert part is not None
        assert part.n == 30
        for layer, head in itertools.product(range(2), range(4)):
            mine = [heads[i, layer, head] for i in range(90) if groups[i] == group]
            assert part.rates[layer, head] == pytest.approx(np.mean(mine))
    spread = rate_spread(found)
    kept = [part.rates[1, 2] for part in found if part is not None]
    assert spread[1, 2] == pytest.approx(max(kept) - min(kept))
    with pytest.raises(ValueError, match="no group"):
        rate_spread([None])


def test_concentration_is_scipys_entropy_and_right_at_its_ends() -> None:
    heads = draw(80, 3, 6)
    for layer, found in enumerate(concentration(heads)):
        counts = heads[:, layer].sum(axis=0)
        assert found.entropy_bits == pytest.approx(entropy(counts, base=2))
        assert found.effective_heads == pytest.approx(2 ** entropy(counts, base=2))
        assert found.mean_k == pytest.approx(counts.sum() / 80)
    same = np.zeros((10, 1, 8), bool)
    same[:, 0, :2] = True
    even = np.eye(8, dtype=bool)[:, None]
    assert concentration(same)[0].effective_heads == pytest.approx(2)
    assert concentration(even)[0].effective_heads == pytest.approx(8)
    assert concentration(even)[0].mean_k == 1


def conditional_bernoulli(odds: NDArray[np.float64], k: int) -> tuple[NDArray, NDArray]:
    """Rates and joint rates of independent heads given exactly k, by listing every choice."""
    n = len(odds)
    rates, joint, total = np.zeros(n), np.zeros((n, n)), 0.0
    for choice in itertools.combinations(range(n), k):
        weight = math.prod(float(odds[i]) for i in choice)
        total += weight
        for i in choice:
            rates[i] += weight
            for j in choice:
                joint[i, j] += weight
    return rates / total, joint / total


@pytest.mark.parametrize("k", [1, 2, 3, 5, 6])
def test_joint_rates_are_those_of_every_choice_listed(k: int) -> None:
    odds = np.array([0.05, 0.3, 1.0, 1.7, 4.0, 60.0])
    rates, wanted = conditional_bernoulli(odds, k)
    found = joint_rates(rates, k)
    off = ~np.eye(6, dtype=bool)
    assert found[off] == pytest.approx(wanted[off], abs=1e-7)
    if k == 1:
        assert found[off].max() == 0  # two heads cannot meet where one runs


def test_joint_rates_with_heads_that_always_or_never_run() -> None:
    rates, joint = conditional_bernoulli(np.array([0.5, 1.0, 3.0]), 1)
    found = joint_rates(np.concatenate([[1.0], rates, [0.0]]), 2)
    assert found[0, 1:4] == pytest.approx(rates)
    assert found[1, 2] == pytest.approx(joint[0, 1], abs=1e-9) == 0
    assert found[4].max() == 0


def test_co_selection_of_independent_heads_has_no_lift() -> None:
    generator = np.random.default_rng(3)
    rates = np.array([0.8, 0.7, 0.4, 0.3, 0.15])
    heads = generator.random((40_000, 5)) < rates
    heads = heads[heads.any(axis=1)]
    found = co_selection(heads)
    for i, j in itertools.combinations(range(5), 2):
        assert found.observed[i, j] == found.observed[j, i] == (heads[:, i] & heads[:, j]).sum()
        assert found.lift[i, j] == pytest.approx(1, abs=0.05)
    assert np.isnan(np.diag(found.lift)).all()
    # The naive yardstick, products of rates within k, would see repulsion here.
    k = heads.sum(axis=1)
    naive = sum(
        (k == c).sum() * heads[k == c, 0].mean() * heads[k == c, 1].mean() for c in range(1, 6)
    )
    assert found.observed[0, 1] / naive < 0.97


def test_co_selection_sees_pairs_that_go_together_or_shun_each_other() -> None:
    # Of four heads two run: 0 goes with 1 and 2 with 3, never otherwise.
    heads = np.array([[1, 1, 0, 0], [0, 0, 1, 1]] * 30, bool)
    lift = co_selection(heads).lift
    # Independent heads at rates 1/2, two at a time: each of six pairs is equally likely.
    assert lift[0, 1] == pytest.approx(3)
    assert lift[0, 2] == 0
    never = co_selection(np.array([[1, 0, 0]] * 5, bool))
    assert np.isnan(never.lift).all()

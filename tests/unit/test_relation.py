"""Rank correlations against scipy, resample by resample; the trend against a loop."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr
from scipy.stats import t as student

from budgetformer.relation import (
    FEWEST_IN_A_BIN,
    N_RESAMPLES,
    partial_rank_correlation,
    rank_correlation,
    trend,
)


def sample(n: int, seed: int = 0, ties: bool = False) -> tuple[np.ndarray, ...]:
    g = np.random.default_rng(seed)
    z = g.normal(size=n)
    x, y = z + g.normal(size=n), z**3 + g.normal(size=n)
    if ties:
        x, y, z = np.round(x), np.round(y), np.round(z)
    return x, y, z


def by_residuals(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> float:
    """Partial correlation as it is defined: of what a line on the third rank leaves over."""
    rx, ry, rz = (rankdata(v) for v in (x, y, z))
    design = np.stack([np.ones_like(rz), rz], axis=1)
    left = [r - design @ np.linalg.lstsq(design, r, rcond=None)[0] for r in (rx, ry)]
    return float(pearsonr(*left).statistic)


@pytest.mark.parametrize("ties", [False, True])
def test_rho_and_its_interval_are_those_of_a_loop_over_scipy(ties: bool) -> None:
    x, y, _ = sample(80, ties=ties)
    found = rank_correlation(x, y, seed=3)
    assert found is not None
    assert found.value == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
    g = np.random.default_rng(3)
    draws = [g.integers(0, 80, 80) for _ in range(N_RESAMPLES)]
    rhos = [spearmanr(x[rows], y[rows]).statistic for rows in draws]
    assert [found.low, found.high] == pytest.approx(np.quantile(rhos, [0.025, 0.975]), abs=1e-10)


@pytest.mark.parametrize("ties", [False, True])
def test_partial_rho_is_the_correlation_of_residuals(ties: bool) -> None:
    x, y, z = sample(60, 1, ties)
    found = partial_rank_correlation(x, y, z, seed=5)
    assert found is not None
    assert found.value == pytest.approx(by_residuals(x, y, z), abs=1e-10)
    g = np.random.default_rng(5)
    draws = [g.integers(0, 60, 60) for _ in range(N_RESAMPLES)]
    rhos = [by_residuals(x[rows], y[rows], z[rows]) for rows in draws]
    assert [found.low, found.high] == pytest.approx(np.quantile(rhos, [0.025, 0.975]), abs=1e-8)
    assert abs(found.value) < abs(rank_correlation(x, y).value)  # type: ignore[union-attr]


def test_constants_have_no_correlation() -> None:
    x, y, z = sample(20)
    assert rank_correlation(np.ones(20), y) is None
    assert rank_correlation(x, np.ones(20)) is None
    assert partial_rank_correlation(np.ones(20), y, z) is None
    assert partial_rank_correlation(x, y, np.ones(20)) == rank_correlation(x, y)
    assert rank_correlation(x[:2], y[:2]) is None


def test_a_perfect_order_is_one() -> None:
    x = np.arange(30.0)
    found = rank_correlation(x, x**3)
    assert found is not None
    assert [found.value, found.low, found.high] == pytest.approx([1, 1, 1])


def test_trend_is_the_mean_of_equal_groups() -> None:
    x, y, _ = sample(200)
    found = trend(x, y, 8)
    assert found is not None
    order = np.argsort(x)
    for i in range(8):
        rows = order[25 * i : 25 * (i + 1)]
        assert found.x[i] == pytest.approx(np.median(x[rows]))
        assert found.y[i] == pytest.approx(np.mean(y[rows]))
        low, high = student.interval(
            0.95, 24, np.mean(y[rows]), np.std(y[rows], ddof=1) / np.sqrt(25)
        )
        assert (found.low[i], found.high[i]) == pytest.approx((low, high))


def test_equal_values_share_a_group_of_the_trend() -> None:
    g = np.random.default_rng(0)
    x = g.integers(0, 3, 90)
    y = g.normal(size=90)
    found = trend(x, y, 20)
    assert found is not None
    assert found.x.tolist() == [0, 1, 2]
    assert found.y.tolist() == pytest.approx([y[x == v].mean() for v in range(3)])


def test_too_little_for_a_trend() -> None:
    assert trend(np.arange(2 * FEWEST_IN_A_BIN - 1), np.arange(2 * FEWEST_IN_A_BIN - 1)) is None
    assert trend(np.ones(100), np.arange(100)) is None
    assert trend(np.array([]), np.array([])) is None

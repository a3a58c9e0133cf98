"""Sweeps over policies and the intervals beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from budgetformer.adaptivity import (
    adaptivity,
    linear_reference,
    pays,
    same_average,
)
from budgetformer.checkpoint import Checkpoint
from budgetformer.data import Examples
from budgetformer.evaluate import Records, evaluate
from budgetformer.intervals import paired_difference, wilson_interval
from budgetformer.relation import partial_spearman, spearman
from budgetformer.sweep import sweep
from budgetformer.trace import predict

TEXTS = ("a good film", "bad", "the plot was not good at all", "good good", "a film", "so bad")
LABELS = (1, 0, 0, 1, 1, 0)


def records(budget: list[float], loss: list[float], tokens: list[int]) -> Records:
    """Records of one layer with four heads in which the first half is right."""
    n = len(budget)
    right = np.arange(n) < n // 2
    return Records(
        labels=np.ones(n, np.int64),
        probabilities=np.where(right[:, None], [0.2, 0.8], [0.8, 0.2]).astype(np.float32),
        losses=np.array(loss, np.float32),
        n_tokens=np.array(tokens),
        budgets=np.array(budget, np.float32)[:, None],
        heads=np.arange(4)[None, None, :] < np.ceil(np.array(budget) * 4)[:, None, None],
    )


def test_wilson_interval_by_hand() -> None:
    # 8 of 10 at z = 1.959964: centre (0.8 + z²/20) / (1 + z²/10), the textbook's formula.
    z = 1.959963984540054
    centre = (0.8 + z**2 / 20) / (1 + z**2 / 10)
    half = z / (1 + z**2 / 10) * math.sqrt(0.8 * 0.2 / 10 + z**2 / 400)
    assert wilson_interval(8, 10) == pytest.approx((centre - half, centre + half))


def test_paired_difference_of_equal_results_is_exactly_zero() -> None:
    right = np.array([1.0, 0.0, 1.0, 1.0])
    assert paired_difference(right, right) == (0.0, 0.0, 0.0)


def test_paired_difference_covers_the_mean() -> None:
    first, second = np.array([1.0] * 60 + [0.0] * 40), np.array([1.0] * 40 + [0.0] * 60)
    value, low, high = paired_difference(first, second)
    # 20 of 100 differ, all one way: standard error √(.2·.8/100) = .04.
    assert value == pytest.approx(0.2)
    assert low == pytest.approx(0.2 - 1.96 * 0.04, abs=0.02)
    assert high == pytest.approx(0.2 + 1.96 * 0.04, abs=0.02)


def test_rank_correlations_by_hand() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0])
    y = np.array([10.0, 30.0, 20.0, 40.0])
    # ρ = 1 - 6Σd²/(n(n²-1)) = 1 - 6·2/60.
    assert spearman(x, y) == pytest.approx(0.8)
    given = np.array([1.0, 2.0, 4.0, 3.0])
    # ρ(x, g) = 1 - 12/60 = .8; ρ(y, g): ranks 1 3 2 4 against 1 2 4 3, Σd² = 6, ρ = .4.
    wanted = (0.8 - 0.8 * 0.4) / math.sqrt((1 - 0.64) * (1 - 0.16))
    assert partial_spearman(x, y, given) == pytest.approx(wanted)


def test_budgets_that_follow_the_loss_are_adaptive() -> None:
    budget = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    found = adaptivity(
        records(budget, [1, 2, 3, 4, 5, 6, 7, 8], [5] * 7 + [6]),
        np.arange(1.0, 9.0),
        np.arange(8) >= 4,
    )
    assert found.spearman_loss.value == pytest.approx(1.0)
    assert found.auroc_error is not None and found.auroc_error.value == 1.0
    # k = 1 1 | 2 2 | 2 3 | 3 4 of 4 heads.
    assert found.heads_by_quartile == pytest.approx((0.25, 0.5, 0.625, 0.875))


def test_equal_budgets_are_refused() -> None:
    with pytest.raises(ValueError, match="all budgets are equal"):
        adaptivity(records([0.5] * 4, [1, 2, 3, 4], [5] * 4), np.arange(4.0), np.arange(4) > 1)


def test_same_average_keeps_each_layers_total() -> None:
    k = np.array([[1, 4], [2, 4], [4, 4]])
    spread = same_average(k, np.random.default_rng(0))
    assert sorted(spread[:, 0]) == [2, 2, 3] and list(spread[:, 1]) == [4, 4, 4]


def test_sweep_rows_agree_with_single_predictions(checkpoint: Checkpoint) -> None:
    examples = Examples(TEXTS, LABELS)
    rows = {(row.policy, round(row.budget, 6)): row for row in sweep(checkpoint, examples)}
    traces = [predict(checkpoint, text) for text in TEXTS]
    labels = checkpoint.config.labels
    own = next(row for (policy, _), row in rows.items() if policy == "adaptive")
    right = [labels[gold] == trace.label for gold, trace in zip(LABELS, traces, strict=True)]
    assert own.accuracy == pytest.approx(np.mean(right))
    assert own.budget == pytest.approx(np.mean([trace.mean_budget for trace in traces]), abs=1e-5)
    assert own.executed_heads_frac == pytest.approx(
        np.mean([trace.executed_heads_frac for trace in traces])
    )
    n_heads = checkpoint.config.n_heads
    for k in range(1, n_heads + 1):
        assert rows["fixed", round(k / n_heads, 6)].executed_heads_frac == pytest.approx(
            k / n_heads
        )
    shuffled = next(row for (policy, _), row in rows.items() if policy == "shuffled")
    assert shuffled.executed_heads_frac == pytest.approx(own.executed_heads_frac)
    assert own.ci_low <= own.accuracy <= own.ci_high


def test_pays_compares_at_equal_heads(checkpoint: Checkpoint) -> None:
    found = pays(checkpoint, Examples(TEXTS, LABELS))
    difference = found["adaptive_minus_fixed"]
    assert difference["value"] == pytest.approx(found["accuracy"] - found["accuracy_fixed"])
    assert difference["low"] <= difference["value"] <= difference["high"]


def test_linear_reference_knows_what_it_was_taught() -> None:
    train = Examples(("good film", "bad film") * 5, (1, 0) * 5)
    judge = linear_reference(train, Examples(("good film", "bad film"), (1, 1)))
    assert list(judge.correct) == [True, False]
    assert judge.losses[1] > math.log(2) > judge.losses[0]


def test_evaluation_keeps_the_order_of_the_examples(checkpoint: Checkpoint) -> None:
    found = evaluate(checkpoint, Examples(TEXTS, LABELS), batch_size=2)
    for row, text in enumerate(TEXTS):
        trace = predict(checkpoint, text)
        torch.testing.assert_close(
            torch.from_numpy(found.probabilities[row]),
            torch.tensor(list(trace.probabilities.values())),
            atol=1e-5,
            rtol=0,
        )

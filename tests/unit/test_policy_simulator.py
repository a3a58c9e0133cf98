"""The policy simulator's plans against brute force, and its runs against forced ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from budgetformer import BudgetFormer, Checkpoint
from budgetformer.config import ModelConfig
from budgetformer.cost import flops
from budgetformer.data import Examples
from budgetformer.evaluate import evaluate, evaluate_ids
from budgetformer.policies import given_k
from budgetformer.policy_simulator import WAYS, capped_k, scale_budgets, scaled_k, simulate

TEXTS = (
    "what a boring story; what an awful actor",
    "a good film, a fine film",
    "the actors are good and the story is fine",
    "an awful, boring and over-long film",
    "yes & no",
    "the film",
    "don't over-think it!",
    "naive story",
)


@pytest.fixture(scope="module")
def examples() -> Examples:
    return Examples(TEXTS, (0, 1, 1, 0, 1, 0, 1, 0))


def config(rounding: str = "floor", n_heads: int = 8) -> ModelConfig:
    return ModelConfig(
        vocab_size=50, labels=("a", "b"), n_layers=2, n_heads=n_heads, d_model=16, d_ff=16,
        d_router=4, max_len=32, rounding=rounding,  # type: ignore[arg-type]
    )  # fmt: skip


def test_scaled_k_is_the_formula() -> None:
    budgets = np.random.default_rng(0).uniform(0.02, 0.98, (60, 2)).astype(np.float32)
    for factor in (0.3, 1.0, 1.9, 50.0):
        found = scaled_k(budgets, factor, config())
        for s, k in zip(budgets.flatten().tolist(), found.flatten().tolist(), strict=True):
            assert k == max(1, math.floor(min(1.0, s * factor) * 8 + 1e-5))


@pytest.mark.parametrize("rounding", ["floor", "nearest", "ceil"])
@pytest.mark.parametrize("wanted", [1.0, 1.4, 2.5, 5.0, 7.75, 8.0])
def test_the_factor_hits_the_average(rounding: str, wanted: float) -> None:
    budgets = np.random.default_rng(1).uniform(0.02, 0.98, (400, 2)).astype(np.float32)
    factor = scale_budgets(budgets, wanted, config(rounding))
    # Steps of the average are one head of one layer of one example; a few budgets may coincide.
    assert scaled_k(budgets, factor, config(rounding)).mean() == pytest.approx(wanted, abs=0.005)


def test_the_models_own_average_needs_no_factor() -> None:
    budgets = np.random.default_rng(2).uniform(0.02, 0.98, (50, 2)).astype(np.float32)
    own = scaled_k(budgets, 1.0, config()).mean()
    assert scale_budgets(budgets, float(own), config()) == 1.0
    for wrong in (0.5, 8.5):
        with pytest.raises(ValueError, match=f"1 to 8 heads, got {wrong}"):
            scale_budgets(budgets, wrong, config())


def test_the_cap_hits_the_average_and_caps() -> None:
    generator = np.random.default_rng(3)
    k = generator.integers(1, 9, (500, 2))
    for wanted in (1.0, 1.5, 2.7, 4.0):
        capped, cap = capped_k(k, wanted, np.random.default_rng(0))
        assert cap is not None
        assert capped.mean() == pytest.approx(wanted, abs=0.005) and capped.mean() <= wanted
        # Each example is capped at m or at m + 1, in all its layers alike.
        low, high = np.minimum(k, cap), np.minimum(k, cap + 1)
        assert (((capped == low).all(axis=1)) | ((capped == high).all(axis=1))).all()
        assert np.minimum(k, cap).mean() <= wanted < np.minimum(k, cap + 1).mean()
    same, none = capped_k(k, 8.0, np.random.default_rng(0))
    assert none is None and np.array_equal(same, k)


def test_a_simulation_is_forced_runs(checkpoint: Checkpoint, examples: Examples) -> None:
    own = evaluate(checkpoint, examples)
    calls: list[tuple[int, int]] = []
    wanted = 2.0
    found = simulate(checkpoint, examples, own, wanted, progress=lambda *d: calls.append(d))
    assert [outcome.way for outcome in found.outcomes] == list(WAYS)
    assert found.n == 8 and calls[-1] == (40, 40)
    k = torch.from_numpy(scaled_k(own.budgets, found.factor, checkpoint.config))
    inputs = checkpoint.tokenizer.encode_ids(TEXTS)
    forced = evaluate_ids(
        checkpoint.model, checkpoint.tokenizer, inputs, examples.labels,
        policy_for=lambda rows: given_k(k[list(rows)]),
    )  # fmt: skip
    adaptive, capped, fixed, shuffled, random = found.outcomes
    assert adaptive.accuracy.value == forced.correct.mean()
    assert adaptive.mean_k == pytest.approx(float(k.float().mean()))
    assert adaptive.minus_adaptive is None
    cost = [
        flops(checkpoint.config, len(row.ids), ks).model
        for row, ks in zip(inputs, k.tolist(), strict=True)
    ]
    assert adaptive.flops_per_example == pytest.approx(np.mean(cost))
    for outcome in (fixed, shuffled, random):
        assert outcome.mean_k == pytest.approx(adaptive.mean_k)
    assert capped.mean_k <= wanted + 1e-9
    for outcome in found.outcomes[1:]:
        assert outcome.minus_adaptive is not None
        difference = outcome.accuracy.value - adaptive.accuracy.value
        assert outcome.minus_adaptive.value == pytest.approx(difference)
        assert outcome.accuracy.low <= outcome.accuracy.value <= outcome.accuracy.high


def test_at_its_own_average_adaptive_is_the_model(
    checkpoint: Checkpoint, examples: Examples
) -> None:
    own = evaluate(checkpoint, examples)
    mean_k = float(own.executed_heads.mean())
    found = simulate(checkpoint, examples, own, mean_k)
    assert found.factor == 1.0 and found.cap is None
    for outcome in found.outcomes[:2]:
        assert outcome.accuracy.value == own.correct.mean()
        assert outcome.mean_k == pytest.approx(mean_k)
    again = simulate(checkpoint, examples, own, mean_k)
    assert again == found


def test_at_all_heads_every_policy_is_the_same(checkpoint: Checkpoint, examples: Examples) -> None:
    own = evaluate(checkpoint, examples)
    found = simulate(checkpoint, examples, own, 4.0)
    full = [o for o in found.outcomes if o.way != "capped"]
    assert {o.accuracy.value for o in full} == {full[0].accuracy.value}
    assert all(o.mean_k == 4 for o in full)


def test_a_dense_model_has_nothing_to_spend(
    checkpoint: Checkpoint, make_model: Callable[..., BudgetFormer], examples: Examples
) -> None:
    vocab_size = checkpoint.tokenizer.vocab_size
    model = make_model(vocab_size=vocab_size, labels=("negative", "positive"), routed=False)
    dense = Checkpoint(model, checkpoint.tokenizer)
    with pytest.raises(ValueError, match="no router"):
        simulate(dense, examples, evaluate(dense, examples), 2.0)

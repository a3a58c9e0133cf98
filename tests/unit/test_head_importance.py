"""Heads taken out over a data set, against models whose weights were changed."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from budgetformer import BudgetFormer, Checkpoint
from budgetformer import head_importance as module
from budgetformer.ablation import mean_outputs
from budgetformer.data import Examples
from budgetformer.evaluate import Records, evaluate
from budgetformer.head_importance import HeadImportance, head_importance
from budgetformer.policies import fixed_heads

TEXTS = (
    "what a boring story; what an awful actor",
    "a good film, a fine film",
    "the actors are good and the story is fine",
    "an awful, boring and over-long film",
    "yes & no",
    "the film",
    "don't over-think it!",
)


@pytest.fixture(scope="module")
def examples() -> Examples:
    return Examples(TEXTS, (0, 1, 1, 0, 1, 0, 1))


def surgery(checkpoint: Checkpoint, layer: int, head: int) -> Checkpoint:
    model = copy.deepcopy(checkpoint.model)
    with torch.no_grad():
        model.layers[layer].attention.out_weight[head] = 0
    return Checkpoint(model, checkpoint.tokenizer)


def held(own: Records) -> Callable[[Sequence[int]], Any]:
    heads = torch.from_numpy(own.heads)
    return lambda rows: fixed_heads(list(heads[list(rows)].unbind(dim=1)))


@pytest.mark.parametrize("reroute", [False, True])
def test_a_head_taken_out_is_a_model_whose_head_writes_nothing(
    checkpoint: Checkpoint, examples: Examples, reroute: bool
) -> None:
    found = head_importance(checkpoint, examples, reroute=reroute, batch_size=3)
    own = evaluate(checkpoint, examples)
    assert np.array_equal(found.own.heads, own.heads)
    moved = 0
    for layer in range(2):
        for head in range(4):
            cut = evaluate(
                surgery(checkpoint, layer, head),
                examples,
                policy_for=None if reroute else held(own),
            )
            assert found.losses[:, layer, head] == pytest.approx(cut.losses, abs=1e-5)
            assert np.array_equal(found.correct[:, layer, head], cut.correct)
            effect = found.effect(layer, head)
            drop = own.correct.mean() - cut.correct.mean()
            assert effect.accuracy_drop.value == pytest.approx(drop)
            ran = own.heads[:, layer, head]
            assert effect.n_ran == ran.sum()
            if ran.any():
                rise = (cut.losses - own.losses)[ran].mean()
                assert effect.loss_rise == pytest.approx(rise, abs=1e-5)
                moved += abs(rise) > 1e-3
            else:
                assert math.isnan(effect.loss_rise)
            changed = cut.probabilities.argmax(1) != own.probabilities.argmax(1)
            assert effect.label_changes == changed.sum()
    assert moved >= 3


def test_only_examples_that_ran_a_head_are_run_again(
    checkpoint: Checkpoint, examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    original = module.evaluate_ids

    def counting(model: Any, tokenizer: Any, inputs: Any, *rest: Any) -> Records:
        sizes.append(len(inputs))
        return original(model, tokenizer, inputs, *rest)

    monkeypatch.setattr(module, "evaluate_ids", counting)
    calls: list[tuple[int, int]] = []
    found = head_importance(checkpoint, examples, progress=lambda *done: calls.append(done))
    own = evaluate(checkpoint, examples)
    counts = [int(n) for n in own.heads.sum(axis=0).flatten() if n]
    assert sizes == counts
    assert found.n_runs == sum(counts) < 8 * len(examples)
    assert calls[-1] == (found.n_runs, found.n_runs)
    # What did not run a head is untouched by it, to the last bit.
    for layer, head in np.argwhere(~own.heads.any(axis=0)):
        assert np.array_equal(found.losses[:, layer, head], found.own.losses)
    skipped = ~own.heads
    same = np.broadcast_to(found.own.losses[:, None, None], skipped.shape)
    assert np.array_equal(found.losses[skipped], same[skipped])


@pytest.mark.parametrize("output_scale", ["sqrt", "none"])
def test_a_mean_stands_in_at_the_layers_scale(
    make_model: Callable[..., BudgetFormer],
    checkpoint: Checkpoint,
    examples: Examples,
    output_scale: str,
) -> None:
    model = make_model(
        vocab_size=checkpoint.tokenizer.vocab_size,
        labels=("negative", "positive"),
        output_scale=output_scale,
        rounding="ceil",
    )
    checkpoint = Checkpoint(model, checkpoint.tokenizer)
    found = head_importance(checkpoint, examples, "mean")
    own = evaluate(checkpoint, examples)
    means = mean_outputs(checkpoint, [(text,) for text in TEXTS])
    row = next(i for i in range(len(TEXTS)) if own.heads[i, 0].sum() > 1)
    head = int(np.flatnonzero(own.heads[row, 0])[0])
    scale = math.sqrt(4 / own.heads[row, 0].sum()) if output_scale == "sqrt" else 1.0
    cut = surgery(checkpoint, 0, head)
    with torch.no_grad():
        cut.model.layers[0].attention.out_bias += scale * torch.from_numpy(means[0, head])
    one = evaluate(cut, examples.take([row]), policy_for=lambda _: held(own)([row]))
    assert found.losses[row, 0, head] == pytest.approx(one.losses[0], abs=1e-5)


def records(heads: np.ndarray, losses: np.ndarray) -> Records:
    n = len(heads)
    right = np.stack([np.full(n, 0.2), np.full(n, 0.8)], axis=1).astype(np.float32)
    return Records(
        np.ones(n, np.int64), right, losses.astype(np.float32), np.full(n, 5),
        np.full((n, 1), 0.5, np.float32), heads,
    )  # fmt: skip


def test_rank_correlation_is_scipys_over_heads_that_ran_often_enough() -> None:
    generator = np.random.default_rng(0)
    n, rates = 300, np.array([0.9, 0.5, 0.7, 0.3, 0.01])
    heads = (generator.random((n, 1, 5)) < rates).astype(bool)
    own = records(heads, np.full(n, 0.3))
    # Without a head the loss rises by 0.1 + noise times its place, only where it ran.
    rise = np.array([0.5, 0.4, 0.1, 0.2, 9.0]) + 0.05 * generator.normal(size=(n, 1, 5))
    losses = (0.3 + rise * heads).astype(np.float32)
    found = HeadImportance(own, own.correct[:, None, None] & ~heads, losses,
                           np.ones((n, 1, 5), np.int64), int(heads.sum()))  # fmt: skip
    assert heads[:, 0, 4].sum() < module.LEAST_RAN
    per_run = [rise[heads[:, 0, h], 0, h].mean() for h in range(4)]
    wanted = spearmanr(heads[:, 0, :4].mean(axis=0), per_run).statistic
    estimate = found.rank_correlation()
    assert estimate is not None
    assert estimate.value == pytest.approx(wanted) == pytest.approx(0.4)
    assert estimate.low <= estimate.value <= estimate.high
    # Every run of head 0 was right with it and is wrong without.
    drop = found.effect(0, 0).accuracy_drop
    rate = heads[:, 0, 0].mean()
    assert drop.value == pytest.approx(rate)
    half = 1.96 * math.sqrt(rate * (1 - rate) / n)
    assert (drop.low, drop.high) == pytest.approx((rate - half, rate + half), abs=0.01)


def test_rank_correlation_is_none_where_it_means_nothing() -> None:
    heads = np.ones((30, 1, 4), bool)
    own = records(heads, np.full(30, 0.3))
    losses = np.broadcast_to(np.array([0.1, 0.2, 0.3, 0.4], np.float32), (30, 1, 4))
    of = np.ones((30, 1, 4), np.int64)
    assert HeadImportance(own, of == 1, losses, of, 120).rank_correlation() is None
    few = heads.copy()
    few[:, 0, 1:] = False
    own = records(few, np.full(30, 0.3))
    assert HeadImportance(own, of == 1, losses, of, 30).rank_correlation() is None

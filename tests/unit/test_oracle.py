from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch

from budgetformer import BudgetFormer, Checkpoint, predict
from budgetformer.oracle import n_choices, oracle_heads
from budgetformer.policies import fixed_heads, given_k

TEXT = "what a boring story; what an awful actor"


def loss_of(checkpoint: Checkpoint, heads: tuple[tuple[int, ...], ...], label: str) -> float:
    masks = [torch.tensor([[h in layer for h in range(4)]]) for layer in heads]
    trace = predict(checkpoint, TEXT, policy=fixed_heads(masks))
    return -math.log(trace.probabilities[label])


@pytest.mark.parametrize("k", [(2, 3), (1, 1), (4, 4)])
@pytest.mark.parametrize("label", ["negative", "positive"])
def test_exact_is_the_best_of_all(checkpoint: Checkpoint, k: tuple[int, int], label: str) -> None:
    choice = oracle_heads(checkpoint, predict(checkpoint, TEXT), k, label)
    losses = {
        heads: loss_of(checkpoint, heads, label)
        for heads in itertools.product(*(itertools.combinations(range(4), n) for n in k))
    }
    assert choice.exact and choice.n_tried == len(losses) == n_choices(checkpoint.config, k)
    best = min(losses, key=lambda heads: losses[heads])
    assert choice.heads == best and choice.loss == pytest.approx(losses[best], abs=1e-4)
    routed = predict(checkpoint, TEXT, policy=given_k(torch.tensor([list(k)])))
    assert choice.router_heads == tuple(layer.heads for layer in routed.layers)
    assert choice.router_loss == pytest.approx(losses[choice.router_heads], abs=1e-4)
    assert choice.regret >= 0 and choice.label == label
    assert -math.log(choice.probabilities[label]) == pytest.approx(choice.loss)


@pytest.mark.parametrize("limit", [1, 2, 7, 13, 30])
def test_greedy_stays_in_its_limit_and_never_loses(checkpoint: Checkpoint, limit: int) -> None:
    trace, calls = predict(checkpoint, TEXT), list[tuple[int, int]]()
    exact = oracle_heads(checkpoint, trace, (2, 2))
    choice = oracle_heads(
        checkpoint, trace, (2, 2), limit=limit, progress=lambda *done: calls.append(done)
    )
    assert not choice.exact and choice.n_tried <= limit and choice.label == trace.label
    assert exact.loss - 1e-6 <= choice.loss <= choice.router_loss
    assert all(len(heads) == 2 for heads in choice.heads)
    assert calls[-1] == (choice.n_tried, limit)
    assert loss_of(checkpoint, choice.heads, trace.label) == pytest.approx(choice.loss, abs=1e-4)


def test_defaults_are_the_traces_own(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, TEXT)
    choice = oracle_heads(checkpoint, trace)
    assert choice.k == tuple(layer.k for layer in trace.layers)
    assert choice.router_heads == tuple(layer.heads for layer in trace.layers)
    assert choice.router_loss == pytest.approx(
        -math.log(trace.probabilities[trace.label]), abs=1e-5
    )


def test_wrong_input(checkpoint: Checkpoint, make_model: Callable[..., BudgetFormer]) -> None:
    trace = predict(checkpoint, TEXT)
    for k in ((1,), (0, 1), (1, 5)):
        with pytest.raises(ValueError, match="expected 2 k"):
            oracle_heads(checkpoint, trace, k)
    with pytest.raises(ValueError, match="no class"):
        oracle_heads(checkpoint, trace, label="none")
    with pytest.raises(ValueError, match="limit"):
        oracle_heads(checkpoint, trace, limit=0)
    tokenizer = checkpoint.tokenizer
    dense = Checkpoint(make_model(vocab_size=tokenizer.vocab_size, routed=False), tokenizer)
    with pytest.raises(ValueError, match="dense"):
        oracle_heads(dense, predict(dense, TEXT))

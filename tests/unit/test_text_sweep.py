from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from budgetformer import BudgetFormer, Checkpoint, predict
from budgetformer.cost import flops
from budgetformer.policies import all_heads, given_k
from budgetformer.text_sweep import SweepPoint, TextSweep, sufficient_k, text_sweep


def points(labels: str) -> tuple[SweepPoint, ...]:
    return tuple(SweepPoint(k, ((0,),), {}, label, 0) for k, label in enumerate(labels, 1))


@pytest.mark.parametrize(
    ("labels", "k"), [("aaaa", 1), ("baaa", 2), ("abaa", 3), ("aaba", 4), ("bbba", 4), ("a", 1)]
)
def test_sufficient_k_must_last(labels: str, k: int) -> None:
    assert sufficient_k(points(labels)) == k


def test_overspend_compares_totals() -> None:
    own = SweepPoint(None, ((0, 1, 2), (1, 3)), {}, "a", 0)
    sweep = TextSweep(points("baaa"), own, "a", 2)
    assert sweep.own_k == 2.5 and sweep.overspend == 0.5 and sweep.keeps_full_label


def test_each_point_is_a_prediction(checkpoint: Checkpoint) -> None:
    text = "what a boring story; what an awful actor"
    trace = predict(checkpoint, text)
    sweep = text_sweep(checkpoint, trace)
    n = len(trace.encoding.ids)
    for k, point in enumerate(sweep.points, 1):
        alone = predict(checkpoint, text, policy=given_k(torch.tensor([[k, k]])))
        assert point.k == k and point.label == alone.label
        assert point.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert point.heads == tuple(layer.heads for layer in alone.layers)
        assert point.flops == flops(checkpoint.config, n, [k, k]).model
    assert len(sweep.points) == 4
    assert sweep.full_label == predict(checkpoint, text, policy=all_heads()).label
    assert sweep.own.heads == tuple(layer.heads for layer in trace.layers)
    assert sweep.own.probabilities == trace.probabilities
    ks = [layer.k for layer in trace.layers]
    assert sweep.own.flops == flops(checkpoint.config, n, ks).model
    assert sweep.overspend == pytest.approx(sum(ks) / 2 - sweep.sufficient_k)


def test_dense(checkpoint: Checkpoint, make_model: Callable[..., BudgetFormer]) -> None:
    tokenizer = checkpoint.tokenizer
    dense = Checkpoint(make_model(vocab_size=tokenizer.vocab_size, routed=False), tokenizer)
    with pytest.raises(ValueError, match="dense"):
        text_sweep(dense, predict(dense, "good"))

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from budgetformer import BudgetFormer
from budgetformer.budget import Selection
from budgetformer.internals import head_outputs, layer_inputs
from budgetformer.tokenizer import Batch


def batch() -> Batch:
    ids = torch.randint(50, (3, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(7) < torch.tensor([[7], [4], [2]])
    return Batch(ids, mask, torch.zeros_like(ids))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("output_scale", ["sqrt", "none"])
def test_outputs_add_up_to_what_the_executor_gives(
    make_model: Callable[..., BudgetFormer], norm: str, output_scale: str
) -> None:
    model = make_model(norm=norm, output_scale=output_scale)
    data = batch()
    inputs = layer_inputs(model, data)
    decisions = model(*data).layers
    for layer, (x, decision) in enumerate(zip(inputs, decisions, strict=True)):
        attention = model.layers[layer].attention
        found = head_outputs(model, layer, x, data.mask, [0, 1, 2, 3])
        routing = model.layers[layer].route(x, data.mask)
        assert torch.allclose(routing.budget, decision.routing.budget, atol=1e-6)
        for skip in (True, False):
            got = attention(x, data.mask, Selection(decision.selection.heads), skip)
            for b in range(3):
                heads = [h for h in range(4) if decision.selection.heads[b, h]]
                scale = math.sqrt(4 / len(heads)) if output_scale == "sqrt" else 1.0
                wanted = scale * sum(found.outputs[b, h] for h in heads) + attention.out_bias
                assert torch.allclose(got[b], wanted, atol=1e-4)


def test_weights_are_distributions_without_padding(
    make_model: Callable[..., BudgetFormer],
) -> None:
    model, data = make_model(), batch()
    x = layer_inputs(model, data)[1]
    weights = head_outputs(model, 1, x, data.mask, [2, 0]).weights
    assert weights.shape == (3, 2, 7, 7)
    assert torch.allclose(weights.sum(dim=-1), torch.ones(3, 2, 7), atol=1e-6)
    for b, n in enumerate((7, 4, 2)):
        assert not weights[b, :, :, n:].any() and (weights[b, :, :, :n] > 0).all()
    # One entry by hand: softmax over the four real keys of q·k/√d_head.
    attention = model.layers[1].attention
    qkv = [
        (attention.qkv_weight[2] @ x[1, t] + attention.qkv_bias[2]).detach().double()
        for t in range(4)
    ]
    logits = [float(qkv[3][:4] @ qkv[u][4:8]) / 2 for u in range(4)]
    top = max(logits)
    powers = [math.exp(v - top) for v in logits]
    wanted = [p / sum(powers) for p in powers]
    assert weights[1, 0, 3, :4].tolist() == pytest.approx(wanted, abs=1e-5)

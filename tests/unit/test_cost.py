from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from budgetformer import BudgetFormer, ModelConfig
from budgetformer.cost import dense_flops, flops, full_flops
from budgetformer.policies import fixed_heads

Make = Callable[..., BudgetFormer]


def explicit(model: BudgetFormer, ids: torch.Tensor, heads: list[list[int]]) -> torch.Tensor:
    """The model on one text, head by head, with every matrix product written out."""
    config, first = model.config, model.layers[0]
    x = model.embedding(model.embedding.token(ids))[0]  # (T, D)
    for layer, chosen in zip(model.layers, heads, strict=True):
        inner = layer.attention_norm(x) if config.norm == "pre" else x
        if config.routed:
            given = torch.ones(1) if config.budgets == "shared" and layer is not first else None
            layer.router(inner.unsqueeze(0), torch.ones(1, len(inner), dtype=torch.bool), given)
        attention, out = layer.attention, layer.attention.out_bias.expand_as(x)
        for h in chosen:
            qkv = inner @ attention.qkv_weight[h].T + attention.qkv_bias[h]
            query, key, value = qkv.chunk(3, dim=-1)
            weights = torch.softmax(query @ key.T / math.sqrt(config.d_head), dim=-1)
            scale = math.sqrt(config.n_heads / len(chosen))
            out = out + scale * (weights @ value) @ attention.out_weight[h]
        x = x + out
        if config.norm == "pre":
            x = x + layer.feed_forward(layer.feed_forward_norm(x))
        else:
            x = layer.attention_norm(x)
            x = layer.feed_forward_norm(x + layer.feed_forward(x))
    pooled: torch.Tensor = model.classifier(model.final_norm(x).mean(dim=0, keepdim=True))
    return pooled


@given(st.data())
def test_the_closed_form_is_what_pytorch_counts(make_model: Make, data: st.DataObject) -> None:
    n_heads, n_layers = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    model = make_model(
        n_heads=n_heads,
        n_layers=n_layers,
        d_model=n_heads * data.draw(st.integers(1, 5)),
        d_ff=data.draw(st.integers(1, 20)),
        d_router=data.draw(st.integers(1, 9)),
        labels=[f"c{i}" for i in range(data.draw(st.integers(2, 5)))],
        norm=data.draw(st.sampled_from(["pre", "post"])),
        routed=data.draw(st.booleans()),
        budgets=data.draw(st.sampled_from(["layer", "shared", "static"])),
    )
    heads = [
        sorted(data.draw(st.sets(st.integers(0, n_heads - 1), min_size=1))) for _ in range(n_layers)
    ]
    n_tokens = data.draw(st.integers(2, 12))
    ids = torch.arange(n_tokens).unsqueeze(0)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        logits = explicit(model, ids, heads)
    counted = flops(model.config, n_tokens, [len(chosen) for chosen in heads])
    assert counted.model == counter.get_total_flops()
    # What was counted is what the model computes.
    masks = [torch.tensor([[h in chosen for h in range(n_heads)]]) for chosen in heads]
    with torch.no_grad():
        wanted = model(ids, torch.ones_like(ids, dtype=torch.bool), policy=fixed_heads(masks))
    assert torch.allclose(logits, wanted.logits, atol=1e-4, rtol=1e-4)


def test_by_hand() -> None:
    config = ModelConfig(100, ("a", "b"), n_layers=1, n_heads=2, d_model=4, d_ff=3, d_router=5)
    counted = flops(config, 10, [1])
    # d_head 2, T 10: scores 2·10·10·2, mixing the same.
    assert counted.attention_core == 400 + 400
    # Q, K, V: 3·2·10·4·2; output 2·10·2·4.
    assert counted.attention == 800 + 480 + 160
    # Feed-forward 2·(2·10·4·3); router 2·4·5 + 2·5 + 2·4·2.
    assert counted.layers == 1440 + 480 + 66
    assert counted.model == 1986 + 2 * 4 * 2


def test_full_and_dense() -> None:
    config = ModelConfig(100, ("a", "b"), n_layers=3, n_heads=2, d_model=4, d_ff=3, d_router=5)
    full, dense = full_flops(config, 10), dense_flops(config, 10)
    assert full == flops(config, 10, [2, 2, 2])
    assert full.layers - dense.layers == full.model - dense.model == 3 * 66
    assert (full.attention, full.attention_core) == (dense.attention, dense.attention_core)
    twin = ModelConfig(
        100, ("a", "b"), n_layers=3, n_heads=2, d_model=4, d_ff=3, d_router=5, routed=False
    )
    assert full_flops(twin, 10) == dense_flops(twin, 10) == dense


@pytest.mark.parametrize("heads", [[1], [1, 2, 3], [9, 1], [-1, 1]])
def test_what_does_not_fit_is_refused(heads: list[int]) -> None:
    with pytest.raises(ValueError, match="head"):
        flops(ModelConfig(100, ("a", "b"), n_layers=2, n_heads=8), 10, heads)

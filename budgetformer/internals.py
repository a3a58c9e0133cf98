"""What the layers of a model see and what their heads make of it, beside the forward pass.

Nothing is hooked: a layer is run again from its input. Tensors in, tensors out; what screens show
of it stands in attention_maps.py, routing_view.py and ablation.py.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from budgetformer.model import BudgetFormer, Layer, LayerOutput
from budgetformer.policies import Policy
from budgetformer.tokenizer import Batch


class HeadOutputs(NamedTuple):
    """What some heads of one layer do with the layer's input."""

    weights: Float[Tensor, "B k T T"]
    """Attention probabilities, queries by keys; rows sum to 1, columns of padding are 0."""
    outputs: Float[Tensor, "B k T D"]
    """Each head's share of the attention's output, before the scale √(H/k) and the bias."""


class LayerRun(NamedTuple):
    """One layer of a forward pass: what its router and its attention read, and what it decided."""

    read: Float[Tensor, "B T D"]
    decision: LayerOutput


@torch.no_grad()
def layer_runs(model: BudgetFormer, batch: Batch, policy: Policy | None = None) -> list[LayerRun]:
    """Run a model and return its layers, first layer first."""
    runs = []
    real = None if bool(batch.mask.all()) else batch.mask
    x = model.embedding(model.embedding.token(batch.ids), batch.segments)
    outputs = model.run_layers(x, real, policy or model.own_policy, skip=True)
    for index, (y, decision) in enumerate(outputs):
        layer = _layer(model, index)
        runs.append(LayerRun(layer.attention_norm(x) if layer.pre_norm else x, decision))
        x = y
    return runs


def layer_inputs(
    model: BudgetFormer, batch: Batch, policy: Policy | None = None
) -> list[Float[Tensor, "B T D"]]:
    """Return what the router and the attention of each layer read, first layer first."""
    return [run.read for run in layer_runs(model, batch, policy)]


@torch.no_grad()
def head_outputs(
    model: BudgetFormer,
    layer: int,
    x: Float[Tensor, "B T D"],
    mask: Bool[Tensor, "B T"],
    heads: list[int],
) -> HeadOutputs:
    """Compute attention probabilities and outputs of heads, written out as the formula has it.

    A = softmax(Q·Kᵀ/√d_head), output = A·V·W_out (arXiv 1706.03762).
    """
    attention = _layer(model, layer).attention
    weight, bias = attention.qkv_weight[heads], attention.qkv_bias[heads]  # (k, 3·d_head, D)
    qkv = torch.einsum("btd,ked->bkte", x, weight) + bias[None, :, None, :]
    query, key, value = qkv.chunk(3, dim=-1)  # (B, k, T, d_head) each
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5  # (B, k, T, T)
    weights = F.softmax(scores.masked_fill(~mask[:, None, None, :], float("-inf")), dim=-1)
    return HeadOutputs(weights, weights @ value @ attention.out_weight[heads])


def _layer(model: BudgetFormer, index: int) -> Layer:
    layer = model.layers[index]
    assert isinstance(layer, Layer)
    return layer

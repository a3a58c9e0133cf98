"""Budgeted multi-head attention in two forms that give the same output.

The masked form computes every head and multiplies it by its gate: it trains, and it is the
reference. The skipping form computes the projections, scores and output projection of the
executed heads only: it is what inference runs.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from budgetformer.budget import Selection
from budgetformer.config import OutputScale


class BudgetedAttention(nn.Module):
    """Multi-head self-attention that runs a chosen set of heads for each example.

    Weights are stored head by head, so that one head's projection is a view and never a copy.
    """

    def __init__(self, d_model: int, n_heads: int, output_scale: OutputScale) -> None:
        """Initialise as torch.nn.Linear does, with D inputs."""
        super().__init__()
        d_head = d_model // n_heads
        self.output_scale = output_scale
        bound = 1 / math.sqrt(d_model)
        self.qkv_weight = nn.Parameter(torch.empty(n_heads, 3 * d_head, d_model))
        self.qkv_bias = nn.Parameter(torch.zeros(n_heads, 3 * d_head))
        self.out_weight = nn.Parameter(torch.empty(n_heads, d_head, d_model))
        self.out_bias = nn.Parameter(torch.zeros(d_model))
        nn.init.uniform_(self.qkv_weight, -bound, bound)
        nn.init.uniform_(self.out_weight, -bound, bound)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"],
        selection: Selection,
        skip: bool = True,
    ) -> Float[Tensor, "B T D"]:
        """Attend with the selected heads.

        Args:
            x: the layer's input.
            mask: True at real tokens.
            selection: the heads of each example; a gate forces the masked form.
            skip: False runs the masked form without a gate, as a reference.
        """
        key_mask = None if bool(mask.all()) else mask[:, None, None, :]  # (B, 1, 1, T)
        scale = self._scale(selection).to(x.dtype)  # (B,)
        if selection.gate is not None or not skip:
            gate = selection.heads if selection.gate is None else selection.gate
            return self._masked(x, key_mask, gate.to(x.dtype) * scale.unsqueeze(-1))
        if bool((selection.heads == selection.heads[0]).all()):
            return self._shared(x, key_mask, selection.heads[0], scale)
        return self._grouped(x, key_mask, selection.heads, scale)

    def _scale(self, selection: Selection) -> Float[Tensor, " B"]:
        k = selection.executed_heads
        if self.output_scale == "none":
            return torch.ones_like(k, dtype=torch.float32)
        return torch.sqrt(selection.heads.shape[1] / k)

    def _masked(
        self,
        x: Float[Tensor, "B T D"],
        key_mask: Bool[Tensor, "B 1 1 T"] | None,
        gate: Float[Tensor, "B H"],
    ) -> Float[Tensor, "B T D"]:
        """Compute every head and multiply its output by its gate."""
        heads = self._attend(x, self.qkv_weight, self.qkv_bias, key_mask)  # (B, H, T, d_head)
        gated = heads * gate[:, :, None, None]
        return self._merge(gated, self.out_weight) + self.out_bias

    def _shared(
        self,
        x: Float[Tensor, "B T D"],
        key_mask: Bool[Tensor, "B 1 1 T"] | None,
        heads: Bool[Tensor, " H"],
        scale: Float[Tensor, " B"],
    ) -> Float[Tensor, "B T D"]:
        """All examples run the same heads (always so for a single text): one smaller attention."""
        chosen = heads.nonzero().squeeze(-1)  # (k,)
        out = self._attend(x, self.qkv_weight[chosen], self.qkv_bias[chosen], key_mask)
        merged = self._merge(out, self.out_weight[chosen])
        return merged * scale[:, None, None] + self.out_bias

    def _grouped(
        self,
        x: Float[Tensor, "B T D"],
        key_mask: Bool[Tensor, "B 1 1 T"] | None,
        heads: Bool[Tensor, "B H"],
        scale: Float[Tensor, " B"],
    ) -> Float[Tensor, "B T D"]:
        """Group the batch by head: one projection a head over the examples that run it."""
        out = torch.zeros_like(x)
        for head in heads.any(dim=0).nonzero().squeeze(-1).tolist():
            rows = heads[:, head].nonzero().squeeze(-1)  # (n,)
            attended = self._attend(
                x[rows],
                self.qkv_weight[head : head + 1],
                self.qkv_bias[head : head + 1],
                None if key_mask is None else key_mask[rows],
            )  # (n, 1, T, d_head)
            merged = self._merge(attended, self.out_weight[head : head + 1])
            out = out.index_add(0, rows, merged * scale[rows, None, None])
        return out + self.out_bias

    @staticmethod
    def _attend(
        x: Float[Tensor, "B T D"],
        qkv_weight: Float[Tensor, "k three_d_head D"],
        qkv_bias: Float[Tensor, "k three_d_head"],
        key_mask: Bool[Tensor, "B 1 1 T"] | None,
    ) -> Float[Tensor, "B k T d_head"]:
        """Project to queries, keys and values of k heads and attend within each."""
        k = qkv_weight.shape[0]
        qkv = F.linear(x, qkv_weight.flatten(0, 1), qkv_bias.flatten())  # (B, T, k·3·d_head)
        query, key, value = (
            qkv.view(*x.shape[:2], k, 3, -1).permute(3, 0, 2, 1, 4).unbind(0)
        )  # (B, k, T, d_head) each
        # Under autocast the projections run in bf16, but on CPUs bf16 attention is the slower one.
        with torch.autocast(x.device.type, enabled=False):
            return F.scaled_dot_product_attention(
                query.to(x.dtype), key.to(x.dtype), value.to(x.dtype), attn_mask=key_mask
            )

    @staticmethod
    def _merge(
        heads: Float[Tensor, "B k T d_head"], out_weight: Float[Tensor, "k d_head D"]
    ) -> Float[Tensor, "B T D"]:
        """Concatenate k heads and project them back to the model's width, without the bias."""
        concatenated = heads.transpose(1, 2).flatten(2)  # (B, T, k·d_head)
        return concatenated @ out_weight.flatten(0, 1)

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

from budgetformer.budget import Selection
from budgetformer.config import OutputScale
from budgetformer.executor import HeadWeights, all_heads, run_heads


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
        mask: Bool[Tensor, "B T"] | None,
        selection: Selection,
        skip: bool = True,
    ) -> Float[Tensor, "B T D"]:
        """Attend with the selected heads.

        Args:
            x: the layer's input.
            mask: True at real tokens; None without padding.
            selection: the heads of each example; a gate forces the masked form.
            skip: False runs the masked form without a gate, as a reference.
        """
        weights = HeadWeights(self.qkv_weight, self.qkv_bias, self.out_weight, self.out_bias)
        scaled = self.output_scale == "sqrt"
        if selection.gate is None and skip:
            return run_heads(x, mask, selection.heads, weights, scaled)
        gate = (selection.heads if selection.gate is None else selection.gate).to(x.dtype)
        if scaled:
            gate = gate * torch.sqrt(gate.shape[1] / selection.executed_heads).unsqueeze(1)
        return all_heads(x, None if mask is None else mask[:, None, None, :], weights, gate)

"""How heads are chosen: a policy turns a layer's routing into the heads it runs.

Every intervention is a policy handed to the model's forward pass, so a model that many users share
is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from budgetformer.budget import (
    Routing,
    Selection,
    executed_heads,
    top_heads,
    training_selection,
)
from budgetformer.config import Rounding

Policy = Callable[[int, Routing], Selection]
"""(layer index, routing) -> selection."""


def predicted(rounding: Rounding = "floor") -> Policy:
    """The model's own choice: the top-k of p with k from the predicted budget."""

    def choose(layer: int, routing: Routing) -> Selection:
        k = executed_heads(routing.budget, routing.scores.shape[1], rounding)
        return Selection(top_heads(routing.scores, k))

    return choose


def all_heads() -> Policy:
    """Every head, as in an ordinary Transformer."""

    def choose(layer: int, routing: Routing) -> Selection:
        return Selection(torch.ones_like(routing.scores, dtype=torch.bool))

    return choose


def fixed_heads(heads: Sequence[Bool[Tensor, "B H"]]) -> Policy:
    """Exactly these heads, one mask a layer; a mask of one row serves the whole batch."""

    def choose(layer: int, routing: Routing) -> Selection:
        return Selection(heads[layer].expand(routing.scores.shape[0], -1))

    return choose


def exploring(tau: float, noise: float, generator: torch.Generator) -> Policy:
    """The training choice: hard heads with the soft gate's gradient, at temperature tau."""

    def choose(layer: int, routing: Routing) -> Selection:
        return training_selection(routing, tau, noise, generator)

    return choose

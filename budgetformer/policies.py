"""How heads are chosen: a policy turns a layer's routing into the heads it runs.

Every intervention is a policy handed to the model's forward pass, so a model that many users share
is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from budgetformer.budget import (
    Routing,
    Selection,
    executed_heads,
    top_heads,
    training_selection,
)
from budgetformer.config import Choice, Rounding

Policy = Callable[[int, Routing], Selection]
"""(layer index, routing) -> selection."""
Order = Literal["top", "bottom", "random"]
"""Which k heads run: the best-scored, the worst-scored, or any."""


def predicted(rounding: Rounding = "floor") -> Policy:
    """The model's own choice: the top-k of p with k from the predicted budget."""

    def choose(layer: int, routing: Routing) -> Selection:
        k = executed_heads(routing.budget, routing.scores.shape[1], rounding)
        return Selection(top_heads(routing.scores, k))

    return choose


def capped(limit: int, rounding: Rounding = "floor") -> Policy:
    """The model's own choice, but at most `limit` heads a layer: the top min(k, limit) of p.

    Raises:
        ValueError: if the limit is below 1.
    """
    if limit < 1:
        raise ValueError(f"expected a limit of at least 1 head a layer, got {limit}")

    def choose(layer: int, routing: Routing) -> Selection:
        k = executed_heads(routing.budget, routing.scores.shape[1], rounding)
        return Selection(top_heads(routing.scores, k.clamp(max=limit)))

    return choose


def all_heads() -> Policy:
    """Every head, as in an ordinary Transformer."""

    def choose(layer: int, routing: Routing) -> Selection:
        return Selection(torch.ones_like(routing.scores, dtype=torch.bool))

    return choose


def first_heads(k: int) -> Policy:
    """The first k heads of each layer, as in a narrower Transformer."""

    def choose(layer: int, routing: Routing) -> Selection:
        n_heads = routing.scores.shape[1]
        first = torch.arange(n_heads, device=routing.scores.device) < k
        return Selection(first.expand(routing.scores.shape[0], -1))

    return choose


def given_k(
    k: Int[Tensor, "B L"], order: Order = "top", generator: torch.Generator | None = None
) -> Policy:
    """Run k heads in each layer whatever the budget says.

    Args:
        k: heads for each example and layer, at least 1; one row serves the whole batch.
        order: which heads: the best-scored, the worst-scored, or random ones.
        generator: where "random" draws from.

    Raises:
        ValueError: if order is "random" and there is no generator.
    """
    if order == "random" and generator is None:
        raise ValueError("random heads need a generator")

    def choose(layer: int, routing: Routing) -> Selection:
        scores = routing.scores
        if order == "bottom":
            scores = -scores
        elif order == "random":
            scores = torch.rand(scores.shape, generator=generator)
        return Selection(top_heads(scores, k[:, layer].expand(scores.shape[0])))

    return choose


def fixed_heads(heads: Sequence[Bool[Tensor, "_ H"]]) -> Policy:
    """Exactly these heads, one mask a layer; a mask of one row serves the whole batch."""

    def choose(layer: int, routing: Routing) -> Selection:
        return Selection(heads[layer].expand(routing.scores.shape[0], -1))

    return choose


def ablated(
    base: Policy, off: Bool[Tensor, "B L H"], offset: Float[Tensor, "B L D"] | None = None
) -> Policy:
    """Take the output of heads out of what another policy chose.

    The heads still count as executed, so the others keep the scale √(H/k) that they had.

    Args:
        base: the policy that chooses the heads.
        off: the heads whose output becomes 0, for each example and layer.
        offset: what stands in for them, added to the attention's output at every token.
    """

    def choose(layer: int, routing: Routing) -> Selection:
        selection = base(layer, routing)
        if not bool(off[:, layer].any()):
            return selection
        kept = (selection.heads & ~off[:, layer]).to(routing.scores.dtype)
        return Selection(selection.heads, kept, None if offset is None else offset[:, layer])

    return choose


def exploring(
    tau: float,
    noise: float,
    generator: torch.Generator,
    given_k: Callable[[Int[Tensor, " B"]], Int[Tensor, " B"]] | None = None,
    choice: Choice = "top",
) -> Policy:
    """The training choice: hard heads with the soft gate's gradient; see training_selection."""

    def choose(layer: int, routing: Routing) -> Selection:
        return training_selection(routing, tau, noise, generator, given_k, choice)

    return choose

"""The router: how many heads an input gets, and which.

    x̄ = Σ_t M_t X_t / Σ_t M_t        summary of the layer's input over real tokens
    s = sigmoid(MLP₂(x̄)) ∈ (0, 1)    budget: the fraction of heads wanted
    z = linear(x̄) ∈ R^H              head scores;  p = softmax(z/τ)
    k = max(1, ⌊s·H⌋)                 executed heads: the top-k of p

Source: arXiv 2604.22583. How s and p gate the heads in training is not published; the soft top-k
gate below is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from budgetformer.config import Choice, ModelConfig, Rounding

# s·H is nudged before rounding, so that a budget of exactly k/H gives k in floating point too.
ROUNDING_SLACK = 1e-5
# A bracket of some 50 shrinks to 5e-5; the Newton step after it squares that.
BISECTION_STEPS = 20


class Routing(NamedTuple):
    """What the router of one layer says about each example."""

    budget: Float[Tensor, " B"]
    """s in (0, 1)."""
    scores: Float[Tensor, "B H"]
    """z, real numbers without noise."""
    temperature: float = 1.0
    """τ, above 0."""

    @property
    def probabilities(self) -> Float[Tensor, "B H"]:
        """The head distribution p = softmax(z/τ): reported; the choice of heads needs z alone."""
        return torch.softmax(self.scores / self.temperature, dim=-1)


class Selection(NamedTuple):
    """The heads that one layer runs for each example."""

    heads: Bool[Tensor, "B H"]
    """True for executed heads; at least one an example."""
    gate: Float[Tensor, "B H"] | None = None
    """Weights: 1 for executed heads, 0 for the others, with a gradient in training; 0 too for a
    head that an ablation takes out."""
    offset: Float[Tensor, "B D"] | None = None
    """Added to the attention's output at every token: what an ablation puts in a head's place."""

    @property
    def executed_heads(self) -> Int[Tensor, " B"]:
        """k, the number of executed heads of each example."""
        return self.heads.sum(dim=1)


def masked_mean(
    x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None
) -> Float[Tensor, "B D"]:
    """Average over real tokens only: x̄ = Σ_t M_t X_t / Σ_t M_t (arXiv 2604.22583).

    Without a mask every token is real.
    """
    if mask is None:
        return x.mean(dim=1)
    weights = mask.unsqueeze(-1).to(x.dtype)
    return (x * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


class Router(nn.Module):
    """Budget predictor f_θ and head scorer g_φ of one layer (arXiv 2604.22583)."""

    def __init__(self, config: ModelConfig, scores_only: bool = False) -> None:
        """Start open: the last bias is +1, so that the first budgets are near 0.73.

        Args:
            config: the model's shape.
            scores_only: the budget comes from another layer.
        """
        super().__init__()
        self.temperature = config.temperature
        self.static = config.budgets == "static"
        self.fixed_budget = config.fixed_heads / config.n_heads
        d_model, d_router, n_heads = config.d_model, config.d_router, config.n_heads
        if not scores_only:
            self.budget_hidden = nn.Linear(d_model, d_router)
            self.budget_out = nn.Linear(d_router, 1)
            nn.init.constant_(self.budget_out.bias, 1.0)
        self.scorer = nn.Linear(d_model, n_heads)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"] | None,
        budget: Float[Tensor, " B"] | None = None,
    ) -> Routing:
        """Return s and z for the input of a layer; s is the given budget where there is one."""
        if not torch.is_autocast_enabled(x.device.type):
            return self._route(x, mask, budget)
        # One vector an example costs next to nothing, and bf16 would be too coarse for s.
        with torch.autocast(x.device.type, enabled=False):
            return self._route(x, mask, budget)

    def _route(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"] | None,
        budget: Float[Tensor, " B"] | None,
    ) -> Routing:
        summary = masked_mean(x, mask)  # (B, D)
        if self.static:
            summary = summary * 0  # only the biases are left, and they know no input
        if budget is None:
            hidden = nn.functional.gelu(self.budget_hidden(summary))  # (B, d_router)
            budget = torch.sigmoid(self.budget_out(hidden)).squeeze(-1)  # (B,)
        scores = self.scorer(summary)  # (B, H)
        if self.fixed_budget:
            budget = torch.full_like(budget, self.fixed_budget)
        return Routing(budget, scores, self.temperature)


def executed_heads(
    budget: Float[Tensor, " B"], n_heads: int, rounding: Rounding = "floor"
) -> Int[Tensor, " B"]:
    """Turn budgets into numbers of heads: k = max(1, ⌊s·H⌋), or with s·H rounded otherwise."""
    wanted = budget * n_heads
    if rounding == "floor":
        rounded = torch.floor(wanted + ROUNDING_SLACK)
    elif rounding == "ceil":
        rounded = torch.ceil(wanted - ROUNDING_SLACK)
    else:
        rounded = torch.floor(wanted + 0.5)
    return rounded.long().clamp(1, n_heads)


def top_heads(scores: Float[Tensor, "B H"], k: Int[Tensor, " B"]) -> Bool[Tensor, "B H"]:
    """Mark each example's k best-scored heads; among equal scores the lower index wins."""
    order = scores.argsort(dim=-1, descending=True, stable=True)  # (B, H)
    rank = order.argsort(dim=-1)  # the inverse of a permutation sorts it
    return rank < k.unsqueeze(-1)


def soft_top_k(
    scores: Float[Tensor, "B H"], budget: Float[Tensor, " B"], tau: float
) -> Float[Tensor, "B H"]:
    """Return gates in (0, 1) that sum to s·H: m_h = sigmoid(z_h/τ - λ).

    λ is found by bisection, then moved by one Newton step that carries the gradient; at the root
    that step's derivative is the implicit one, so s and z get exact gradients.
    """
    logits = scores / tau
    wanted = budget * scores.shape[1]  # (B,)
    with torch.no_grad():
        # Beyond these ends every gate is within 1e-9 of 0 or of 1.
        low = logits.min(dim=1).values - 21
        high = logits.max(dim=1).values + 21
        for _ in range(BISECTION_STEPS):
            middle = (low + high) / 2
            too_many = torch.sigmoid(logits - middle.unsqueeze(-1)).sum(dim=1) > wanted
            low, high = torch.where(too_many, middle, low), torch.where(too_many, high, middle)
        start = (low + high) / 2
    gate = torch.sigmoid(logits - start.unsqueeze(-1))
    slope = (gate * (1 - gate)).sum(dim=1).detach().clamp(min=1e-6)
    shift = start + (gate.sum(dim=1) - wanted) / slope
    return torch.sigmoid(logits - shift.unsqueeze(-1))


def training_selection(
    routing: Routing,
    tau: float,
    noise: float,
    generator: torch.Generator,
    given_k: Callable[[Int[Tensor, " B"]], Int[Tensor, " B"]] | None = None,
    choice: Choice = "top",
) -> Selection:
    """Choose heads as inference does, with the soft gate's gradient (straight-through).

    s·H is rounded up or down at random so that E[k] = s·H, and the scores get Gaussian noise of
    standard deviation `noise` so that every head is tried.

    Args:
        routing: what the router says.
        tau: temperature of the soft gate.
        noise: standard deviation of the noise on the scores.
        generator: where rounding and noise draw from.
        given_k: turns the rounded s·H into another k, within [1, H] after clamping; the gate then
            has the gradient of the scores only, since s did not decide.
        choice: which k heads; all but "top" are controls.
    """
    n_heads = routing.scores.shape[1]
    shape, device = routing.scores.shape, routing.scores.device
    if choice == "bottom":
        routing = routing._replace(scores=-routing.scores)
    elif choice == "random":
        routing = routing._replace(scores=torch.rand(shape, generator=generator, device=device))
    elif choice == "shuffled":
        order = torch.randperm(shape[0], generator=generator, device=device)
        routing = routing._replace(budget=routing.budget[order])
    noisy = routing.scores + noise * torch.randn(shape, generator=generator, device=device)
    chance = torch.rand(shape[:1], generator=generator, device=device)
    k = torch.floor(routing.budget.detach() * n_heads + chance).long()
    budget = routing.budget
    if given_k is not None:
        k = given_k(k)
        budget = (k.clamp(1, n_heads) / n_heads).clamp(max=1 - 0.5 / n_heads)
    heads = top_heads(noisy, k.clamp(1, n_heads))
    soft = soft_top_k(noisy, budget, tau)
    return Selection(heads, heads.to(soft.dtype) + soft - soft.detach())

"""What training minimises: L = L_task + L_budget + L_entropy (arXiv 2604.22583), plus two of ours.

Ours are the alignment of s with difficulty and the distillation from a dense teacher. Every term
is an average over examples and layers, in nats where it is an entropy or a log-likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from budgetformer.budget import Routing
from budgetformer.config import TrainConfig
from budgetformer.model import ModelOutput

# The part of a training that comes before s has to be right.
TRIAL = 1 / 3


@dataclass(frozen=True)
class Schedule:
    """The values that move during training, at one moment of it."""

    tau: float
    """Temperature of the head scores, falling geometrically."""
    noise: float
    """Standard deviation of the noise on head scores, falling linearly to 0."""
    budget_weight: float
    """Weight of the hinge (and of the alignment), rising over the first third."""
    utility_weight: float
    """0 in the first third, while every number of heads is tried, then 1."""
    entropy_weight: float
    """Weight of the head entropy: positive rewards it (explore), negative punishes it (exploit)."""


def schedule(config: TrainConfig, temperature: float, progress: float) -> Schedule:
    """Return the schedule at a progress in [0, 1]; temperature is the model's own τ."""
    return Schedule(
        tau=config.tau_start * (temperature / config.tau_start) ** progress,
        noise=config.score_noise * (1 - progress),
        budget_weight=min(1.0, progress / TRIAL),
        utility_weight=float(progress >= TRIAL),
        entropy_weight=config.entropy_weight * math.cos(math.pi * progress),
    )


def budget_hinge(budget: Float[Tensor, " B"], s_min: float, s_max: float) -> Float[Tensor, " B"]:
    """L_budget = max(0, s - s_max)² + max(0, s_min - s)² (arXiv 2604.22583)."""
    return F.relu(budget - s_max).square() + F.relu(s_min - budget).square()


def head_entropy(probabilities: Float[Tensor, "B H"]) -> Float[Tensor, " B"]:
    """Entropy of the head distribution p in nats, in [0, ln H]."""
    entropy: Tensor = torch.special.entr(probabilities).sum(dim=-1)
    return entropy


def rank_targets(
    difficulty: Float[Tensor, " B"], s_min: float, s_max: float
) -> Float[Tensor, " B"]:
    """s* = s_min + (s_max - s_min)·(rank of the difficulty within the batch, 0 to 1)."""
    n = difficulty.shape[0]
    rank = difficulty.argsort().argsort().to(difficulty.dtype) / max(1, n - 1)
    return s_min + (s_max - s_min) * rank


def distillation(
    logits: Float[Tensor, "B C"], teacher: Float[Tensor, "B C"], temperature: float
) -> Float[Tensor, ""]:
    """T²·KL(teacher ‖ student) at temperature T (Hinton et al., arXiv 1503.02531)."""
    return temperature**2 * F.kl_div(
        F.log_softmax(logits / temperature, dim=-1),
        F.log_softmax(teacher / temperature, dim=-1),
        log_target=True,
        reduction="batchmean",
    )


def utility(
    budget: Float[Tensor, " B"], gain: Float[Tensor, " B"], price: float
) -> Float[Tensor, ""]:
    """Mean of s·(price - gain): its gradient raises s where one more head pays for itself.

    Args:
        budget: s of one layer.
        gain: nats of this example's loss that one more head saved, measured between two passes.
        price: nats that a head costs.
    """
    return (budget * (price - gain)).mean()


def training_loss(
    output: ModelOutput,
    labels: Int[Tensor, " B"],
    config: TrainConfig,
    now: Schedule,
    teacher: Float[Tensor, "B C"] | None = None,
    less: ModelOutput | None = None,
) -> tuple[Float[Tensor, ""], dict[str, float]]:
    """Return the objective's loss and its terms, unweighted, by name.

    Args:
        output: the model's answer under the exploring policy.
        labels: class indices.
        config: which objective, and its weights.
        now: the schedule at this step.
        teacher: a dense model's logits for the same batch, to distil from.
        less: the model's answer with fewer heads, for the utility objective.
    """
    logits = output.logits.float()
    task_losses = F.cross_entropy(logits, labels, reduction="none")
    loss = task_losses.mean()
    terms = {"task": loss}
    if less is not None:
        fewer = F.cross_entropy(less.logits.float(), labels, reduction="none")
        loss = (loss + fewer.mean()) / 2
    if teacher is not None:
        terms["distillation"] = distillation(logits, teacher, config.distill_temperature)
        loss = torch.lerp(loss, terms["distillation"], config.distill_weight)
    if config.objective == "dense":
        return loss, _numbers(terms)
    routings = [layer.routing for layer in output.layers]
    terms["budget"] = _mean(_hinge(routing, config) for routing in routings)
    terms["entropy"] = _mean(head_entropy(routing.probabilities).mean() for routing in routings)
    loss = loss + now.budget_weight * config.budget_weight * terms["budget"]
    loss = loss - now.entropy_weight * terms["entropy"]
    if config.objective == "aligned":
        target = rank_targets(task_losses.detach(), config.s_min, config.s_max)
        terms["alignment"] = _mean(
            (routing.budget - target).square().mean() for routing in routings
        )
        loss = loss + now.budget_weight * config.align_weight * terms["alignment"]
    if less is not None:
        gain = (fewer - task_losses).detach() / _extra_heads(output, less)
        terms["gain"] = gain.mean()
        terms["utility"] = _mean(utility(r.budget, gain, config.head_price) for r in routings)
        n_heads = routings[0].scores.shape[1]
        loss = loss + now.utility_weight * n_heads * terms["utility"]
    return loss, _numbers(terms)


def _numbers(terms: dict[str, Tensor]) -> dict[str, float]:
    return {name: float(value.detach()) for name, value in terms.items()}


def _hinge(routing: Routing, config: TrainConfig) -> Float[Tensor, ""]:
    """The paper bounds each s; on the batch mean, examples may trade heads among themselves."""
    budget = routing.budget
    if config.objective != "paper":
        budget = budget.mean(dim=0, keepdim=True)
    return budget_hinge(budget, config.s_min, config.s_max).mean()


def _extra_heads(more: ModelOutput, less: ModelOutput) -> Float[Tensor, " B"]:
    """Heads that one pass ran and the other did not, over all layers; at least 1."""
    difference = [
        m.selection.executed_heads - f.selection.executed_heads
        for m, f in zip(more.layers, less.layers, strict=True)
    ]
    return torch.stack(difference).sum(dim=0).clamp(min=1).float()


def _mean(values: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(values)).mean()

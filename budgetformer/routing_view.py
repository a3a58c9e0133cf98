"""How the router came to its choice for one input, and how near that was to another.

s·H becomes k by rounding, so a small change of s changes nothing until a boundary is passed; and
the k-th head leads the next one by a margin that may be small. Both are given here in numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from budgetformer.budget import ROUNDING_SLACK, masked_mean
from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig, Rounding
from budgetformer.internals import layer_inputs
from budgetformer.trace import LayerTrace, Trace, held_heads

NEAR_BOUNDARY_HEADS = 0.05
"""s·H this near to a boundary is flagged, in heads."""
NEAR_TIE_RATIO = 0.9
"""A next head with at least this share of the k-th head's p is flagged."""


@dataclass(frozen=True)
class Boundary:
    """How near one layer was to running other heads."""

    budget: float
    """s."""
    wanted: float
    """s·H, in heads."""
    k: int
    """Heads that the budget gives: not those that ran, where heads were forced."""
    up: float | None
    """Δs > 0 from which on there is one head more; None where there is none, or s is fixed."""
    down: float | None
    """Δs ≤ 0 from which on there is one head less; None at a single head, or where s is fixed."""
    near_boundary: bool
    """Whether the nearer of the two is within NEAR_BOUNDARY_HEADS of s·H."""
    last: int
    """The k-th head by score."""
    next: int | None
    """The (k+1)-th; None when all heads run."""
    score_gap: float | None
    """z of the k-th minus z of the (k+1)-th."""
    probability_gap: float | None
    """p of the k-th minus p of the (k+1)-th."""
    near_tie: bool
    """Whether the (k+1)-th has at least NEAR_TIE_RATIO of the p of the k-th."""


@dataclass(frozen=True)
class Sharpness:
    """How decided head scores are at a temperature."""

    temperature: float
    """τ."""
    probabilities: tuple[float, ...]
    """p = softmax(z/τ)."""
    entropy: float
    """-Σ p ln p in nats, in [0, ln H]."""
    effective_heads: float
    """exp(entropy), in [1, H]: as many equally likely heads would be as undecided."""


@dataclass(frozen=True)
class HeadStep:
    """One head on its way into the choice."""

    head: int
    """From 0."""
    score: float
    """z."""
    probability: float
    """p at the asked temperature."""
    rank: int
    """1 for the best-scored; among equals the lower index is first."""
    executed: bool
    """Whether it ran."""


@dataclass(frozen=True)
class RouterSteps:
    """One layer's routing, step by step: x̄ → s → s·H → k, x̄ → z → p → heads."""

    layer: int
    """From 0."""
    n_tokens: int
    """Real tokens that x̄ averages over."""
    summary: tuple[float, ...]
    """x̄, D numbers."""
    summary_norm: float
    """Length of x̄."""
    budget_logit: float
    """What the MLP says; s is its sigmoid. ±inf where s is 0 or 1 in floating point."""
    budget: float
    """s."""
    wanted: float
    """s·H."""
    rounding: Rounding
    """How s·H became k."""
    k: int
    """Heads that ran."""
    sharpness: Sharpness
    """p and how decided it is."""
    heads: tuple[HeadStep, ...]
    """Every head, by index."""


def boundaries(trace: Trace, config: ModelConfig, limit: int | None = None) -> tuple[Boundary, ...]:
    """Tell how near each layer was to gaining or losing a head and to swapping its last one.

    Args:
        trace: a prediction.
        config: of the model that made it.
        limit: the most heads a layer that it was allowed; None for all.

    Raises:
        ValueError: for a dense model, which has no budget.
    """
    require_routed(config)
    most = min(limit or config.n_heads, config.n_heads)
    return tuple(_boundary(layer, config, most) for layer in trace.layers)


def k_change(
    budget: float, n_heads: int, rounding: Rounding, limit: int | None = None
) -> tuple[int, float | None, float | None]:
    """Return k of a budget and the Δs to one head more and one head less; None where none is.

    Exactly at a boundary, floor and nearest give the larger k and ceil the smaller one; so one of
    the two Δs is reached there and the other just beyond. The slack of the model's rounding is part
    of the boundary. With a limit there are never more heads than that.
    """
    most = n_heads if limit is None else min(limit, n_heads)
    wanted = budget * n_heads
    if rounding == "floor":
        k, shift = math.floor(wanted + ROUNDING_SLACK), -ROUNDING_SLACK
    elif rounding == "ceil":
        k, shift = math.ceil(wanted - ROUNDING_SLACK), ROUNDING_SLACK - 1
    else:
        k, shift = math.floor(wanted + 0.5), -0.5
    k = min(max(k, 1), most)
    up = None if k == most else (k + 1 + shift) / n_heads - budget
    down = None if k == 1 else (k + shift) / n_heads - budget
    return k, up, down


def sharpness(scores: Sequence[float], temperature: float) -> Sharpness:
    """Return p = softmax(z/τ) with its entropy; any τ gives the same top-k.

    Raises:
        ValueError: for a temperature that is not above 0.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"expected a temperature above 0, got {temperature}")
    top = max(scores)
    powers = [math.exp((z - top) / temperature) for z in scores]
    p = tuple(power / sum(powers) for power in powers)
    entropy = max(0.0, -sum(q * math.log(q) for q in p if q > 0))
    return Sharpness(temperature, p, entropy, math.exp(entropy))


def router_steps(
    checkpoint: Checkpoint, trace: Trace, layer: int, temperature: float | None = None
) -> RouterSteps:
    """Return one layer's routing step by step, with this input's numbers.

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction to look into; the heads that it ran below the layer stay.
        layer: from 0.
        temperature: τ at which p is shown; the model's own when None. The heads stay.

    Raises:
        ValueError: for a dense model, an unknown layer or a temperature that is not above 0.
    """
    config = checkpoint.config
    require_routed(config)
    if not 0 <= layer < config.n_layers:
        raise ValueError(f"layer {layer} is none of the model's {config.n_layers}")
    said = trace.layers[layer]
    shown = sharpness(said.scores, temperature if temperature is not None else config.temperature)
    summary = _summary(checkpoint, trace, layer)
    ranks = {head: rank for rank, head in enumerate(_ranking(said.scores), 1)}
    return RouterSteps(
        layer=layer,
        n_tokens=len(trace.encoding.ids),
        summary=tuple(summary),
        summary_norm=math.hypot(*summary),
        budget_logit=_logit(said.budget),
        budget=said.budget,
        wanted=said.budget * config.n_heads,
        rounding=config.rounding,
        k=said.k,
        sharpness=shown,
        heads=tuple(
            HeadStep(head, z, p, ranks[head], head in said.heads)
            for head, (z, p) in enumerate(zip(said.scores, shown.probabilities, strict=True))
        ),
    )


def require_routed(config: ModelConfig) -> None:
    """Refuse a dense model.

    Raises:
        ValueError: for a dense model.
    """
    if not config.routed:
        raise ValueError("a dense model runs every head: it has no budget and no head scores")


def _boundary(layer: LayerTrace, config: ModelConfig, most: int) -> Boundary:
    k, up, down = k_change(layer.budget, config.n_heads, config.rounding, most)
    if config.constant_budget:
        up = down = None
    nearest = min((abs(change) for change in (up, down) if change is not None), default=math.inf)
    order, z, p = _ranking(layer.scores), layer.scores, layer.head_probabilities
    last, following = order[k - 1], None if k == config.n_heads else order[k]
    return Boundary(
        budget=layer.budget,
        wanted=layer.budget * config.n_heads,
        k=k,
        up=up,
        down=down,
        near_boundary=nearest * config.n_heads <= NEAR_BOUNDARY_HEADS,
        last=last,
        next=following,
        score_gap=None if following is None else z[last] - z[following],
        probability_gap=None if following is None else p[last] - p[following],
        near_tie=following is not None
        and z[following] - z[last] >= config.temperature * math.log(NEAR_TIE_RATIO),
    )


def _ranking(scores: Sequence[float]) -> list[int]:
    """Heads, best-scored first; among equals the lower index wins, as in top_heads."""
    return sorted(range(len(scores)), key=lambda head: -scores[head])


def _summary(checkpoint: Checkpoint, trace: Trace, layer: int) -> list[float]:
    batch = checkpoint.tokenizer.batch([trace.encoding])
    inputs = layer_inputs(checkpoint.model, batch, held_heads(trace))
    summary: list[float] = masked_mean(inputs[layer], batch.mask)[0].tolist()
    return summary


def _logit(budget: float) -> float:
    if budget in (0.0, 1.0):
        return math.copysign(math.inf, budget - 0.5)
    return math.log(budget / (1 - budget))

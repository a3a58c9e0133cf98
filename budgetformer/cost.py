"""FLOPs of a forward pass in closed form, 2 per multiply-add.

Counted are all matrix products: projections, scores, mixing, feed-forward, router and classifier.
Element-wise work (softmax, normalisation, activations, biases, pooling) is left out, as PyTorch's
FlopCounterMode does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from budgetformer.config import ModelConfig


@dataclass(frozen=True)
class Flops:
    """FLOPs of one example, by scope; each scope holds the one before it."""

    attention_core: int
    """Q·Kᵀ and A·V of the executed heads, all layers: what the paper's savings count."""
    attention: int
    """The core and the input and output projections of the executed heads."""
    layers: int
    """Attention, router and feed-forward of all layers."""
    model: int
    """All layers and the classifier."""


def flops(config: ModelConfig, n_tokens: int, executed_heads: Sequence[int]) -> Flops:
    """Count one example's FLOPs.

    Args:
        config: the model's shape; a dense one has no router.
        n_tokens: T, special tokens included, padding not.
        executed_heads: k of each layer, in [0, H].

    Raises:
        ValueError: if the number of layers or a k does not fit the shape.
    """
    if len(executed_heads) != config.n_layers:
        raise ValueError(f"expected {config.n_layers} head counts, got {len(executed_heads)}")
    for k in executed_heads:
        if not 0 <= k <= config.n_heads:
            raise ValueError(f"executed heads must be in [0, {config.n_heads}], got {k}")
    d_model, d_head = config.d_model, config.d_head
    heads = sum(executed_heads)
    core = heads * 4 * n_tokens**2 * d_head  # Q·Kᵀ and A·V
    projections = heads * 8 * n_tokens * d_model * d_head  # Q, K, V and output
    feed_forward = 4 * n_tokens * d_model * config.d_ff
    layers = core + projections + config.n_layers * feed_forward + _routers(config)
    classifier = 2 * d_model * len(config.labels)
    return Flops(core, core + projections, layers, layers + classifier)


def full_flops(config: ModelConfig, n_tokens: int) -> Flops:
    """Count one example's FLOPs with every head running."""
    return flops(config, n_tokens, [config.n_heads] * config.n_layers)


def dense_flops(config: ModelConfig, n_tokens: int) -> Flops:
    """Count one example's FLOPs in the dense twin: all heads, no router."""
    routers = _routers(config)
    full = full_flops(config, n_tokens)
    return Flops(full.attention_core, full.attention, full.layers - routers, full.model - routers)


def _routers(config: ModelConfig) -> int:
    """FLOPs of all layers' budget predictors and head scorers, on one summary vector each."""
    if not config.routed:
        return 0
    predictor = 2 * (config.d_model * config.d_router + config.d_router)
    scorer = 2 * config.d_model * config.n_heads
    predictors = 1 if config.budgets == "shared" else config.n_layers
    return predictors * predictor + config.n_layers * scorer

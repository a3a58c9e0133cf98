"""One text at every number of heads: how few would have done, and how many the model spent."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig
from budgetformer.cost import flops
from budgetformer.policies import given_k
from budgetformer.routing_view import require_routed
from budgetformer.trace import Trace, predict_under


@dataclass(frozen=True)
class SweepPoint:
    """One text with a number of heads."""

    k: int | None
    """Heads of each layer; None for the model's own choice, which may differ between layers."""
    heads: tuple[tuple[int, ...], ...]
    """Heads that ran, layer by layer."""
    probabilities: dict[str, float]
    """Probability of every class."""
    label: str
    """The most probable class."""
    flops: int
    """Closed form, whole model, this text's length; see cost.py."""


@dataclass(frozen=True)
class TextSweep:
    """One text at k = 1 … H in all layers, each time the router's best-scored heads."""

    points: tuple[SweepPoint, ...]
    """k = 1 … H."""
    own: SweepPoint
    """The model's own choice."""
    full_label: str
    """The label with all heads."""
    sufficient_k: int
    """Smallest k from which on, for every larger k too, the label is that of all heads. A k that
    gets there by luck and loses it again with one head more does not count."""

    @property
    def own_k(self) -> float:
        """Heads of the model's own choice, a mean over layers."""
        return sum(len(heads) for heads in self.own.heads) / len(self.own.heads)

    @property
    def overspend(self) -> float:
        """Heads a layer, on average, beyond the sufficient k; negative where the model saved more.

        It compares totals, so one layer's surplus can make up for another's saving.
        """
        return self.own_k - self.sufficient_k

    @property
    def keeps_full_label(self) -> bool:
        """Whether the model's own choice gives the label of all heads."""
        return self.own.label == self.full_label


def text_sweep(checkpoint: Checkpoint, trace: Trace) -> TextSweep:
    """Run a text with every number of heads, k = 1 … H in all layers, in one batch.

    Args:
        checkpoint: the model that made the trace.
        trace: the model's own prediction, which the sweep is compared with.

    Raises:
        ValueError: for a dense model, which has no head scores to choose by.
    """
    config = checkpoint.config
    require_routed(config)
    ks = torch.arange(1, config.n_heads + 1).unsqueeze(1).expand(-1, config.n_layers)  # (H, L)
    traces = predict_under(
        checkpoint, trace, config.n_heads, lambda rows: given_k(ks[rows.start : rows.stop])
    )
    points = tuple(_point(run, config, k) for k, run in enumerate(traces, 1))
    return TextSweep(points, _point(trace, config, None), points[-1].label, sufficient_k(points))


def sufficient_k(points: tuple[SweepPoint, ...]) -> int:
    """Return the smallest k whose label, and that of every larger k, is the last point's."""
    k = len(points)
    while k > 1 and points[k - 2].label == points[-1].label:
        k -= 1
    return k


def _point(trace: Trace, config: ModelConfig, k: int | None) -> SweepPoint:
    cost = flops(config, len(trace.encoding.ids), [layer.k for layer in trace.layers]).model
    heads = tuple(layer.heads for layer in trace.layers)
    return SweepPoint(k, heads, trace.probabilities, trace.label, cost)

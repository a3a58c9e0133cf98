"""The best heads at a given k, found by trying: what the router's choice costs against them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product

import torch

from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig
from budgetformer.policies import Policy, fixed_heads, given_k
from budgetformer.progress import Progress
from budgetformer.trace import Trace, predict_under

Heads = tuple[tuple[int, ...], ...]
"""Heads of each layer, ascending."""


@dataclass(frozen=True)
class OracleChoice:
    """The heads with the lowest loss that were found, against the router's at equal k."""

    k: tuple[int, ...]
    """Heads of each layer."""
    label: str
    """The class whose loss is compared."""
    exact: bool
    """True when every choice was tried; False for the greedy search, which may miss the best."""
    heads: Heads
    """The best heads found."""
    loss: float
    """Their negative log-likelihood of the class, in nats."""
    probabilities: dict[str, float]
    """Class probabilities with them."""
    router_heads: Heads
    """The router's best-scored heads at the same k."""
    router_loss: float
    """And their loss."""
    n_tried: int
    """Choices that were run."""

    @property
    def regret(self) -> float:
        """How much loss the router's heads cost beyond the best found, in nats, at least 0."""
        return self.router_loss - self.loss


def oracle_heads(
    checkpoint: Checkpoint,
    trace: Trace,
    k: Sequence[int] | None = None,
    label: str | None = None,
    limit: int = 256,
    progress: Progress | None = None,
) -> OracleChoice:
    """Search the heads with the lowest loss at a given k in each layer.

    All choices of all layers together are tried where they are at most `limit`. Else the search is
    greedy: from the router's heads on, it replaces one layer's heads by the best of all its choices
    (by the best swap of one head, where these are more than half the limit left), layer by layer,
    until a round changes nothing or the limit is reached.

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction to look into.
        k: heads of each layer; those of the trace when None.
        label: the class whose loss counts; the trace's when None.
        limit: most choices to run.
        progress: called after each batch.

    Raises:
        ValueError: for a k or label that the model does not have, or a limit below 1.
    """
    config = checkpoint.config
    k = tuple(layer.k for layer in trace.layers) if k is None else tuple(k)
    label = trace.label if label is None else label
    _require(config, k, label, limit)
    search = _Search(checkpoint, trace, label, limit, progress)
    routed = predict_under(checkpoint, trace, 1, lambda _: given_k(torch.tensor([k])))[0]
    router = tuple(layer.heads for layer in routed.layers)
    search.run([router])
    router_loss = search.best_loss
    exact = n_choices(config, k) <= limit
    if exact:
        every = product(*(combinations(range(config.n_heads), n) for n in k))
        search.run([heads for heads in every if heads != router])
    else:
        _greedy(search, config.n_heads)
    return OracleChoice(
        k,
        label,
        exact,
        search.best,
        search.best_loss,
        search.best_probabilities,
        router,
        router_loss,
        search.n_tried,
    )


def n_choices(config: ModelConfig, k: Sequence[int]) -> int:
    """Return how many choices of heads there are at this k: Π C(H, k) over layers."""
    return math.prod(math.comb(config.n_heads, n) for n in k)


class _Search:
    """Runs choices of heads and keeps the best."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        trace: Trace,
        label: str,
        limit: int,
        progress: Progress | None,
    ) -> None:
        self.checkpoint, self.trace, self.label = checkpoint, trace, label
        self.limit, self.progress = limit, progress
        self.n_tried, self.best_loss = 0, math.inf
        self.best: Heads = ()
        self.best_probabilities: dict[str, float] = {}

    @property
    def left(self) -> int:
        return self.limit - self.n_tried

    def run(self, choices: Sequence[Heads]) -> bool:
        """Try choices; return whether one is better than all before."""
        masks = _masks(choices, self.checkpoint.config)

        def policy_for(rows: range) -> Policy:
            return fixed_heads([mask[rows.start : rows.stop] for mask in masks])

        def progress(done: int, _: int) -> None:
            if self.progress:
                self.progress(self.n_tried + done, self.limit)

        runs = predict_under(self.checkpoint, self.trace, len(choices), policy_for, progress)
        before = self.best_loss
        for heads, run in zip(choices, runs, strict=True):
            # Probabilities underflow to 0 only far beyond any loss that is compared here.
            loss = -math.log(max(run.probabilities[self.label], 1e-45))
            if loss < self.best_loss:
                self.best, self.best_loss = heads, loss
                self.best_probabilities = run.probabilities
        self.n_tried += len(choices)
        return self.best_loss < before


def _greedy(search: _Search, n_heads: int) -> None:
    improved = True
    while improved and search.left:
        improved = False
        for layer in range(len(search.best)):
            choices = _neighbours(search.best, layer, n_heads, search.left)
            improved |= search.run(list(islice(choices, search.left)))


def _neighbours(heads: Heads, layer: int, n_heads: int, left: int) -> Iterator[Heads]:
    """Yield choices that differ from this one in one layer only: all of them, or single swaps."""
    mine, others = heads[layer], [h for h in range(n_heads) if h not in heads[layer]]
    if math.comb(n_heads, len(mine)) <= left // 2:
        candidates: Iterator[tuple[int, ...]] = combinations(range(n_heads), len(mine))
    else:
        candidates = (tuple(sorted({*mine} - {out} | {new})) for out in mine for new in others)
    for candidate in candidates:
        if candidate != mine:
            yield (*heads[:layer], candidate, *heads[layer + 1 :])


def _masks(choices: Sequence[Heads], config: ModelConfig) -> list[torch.Tensor]:
    """Masks (N, H), one a layer."""
    masks = [
        torch.zeros(len(choices), config.n_heads, dtype=torch.bool) for _ in range(config.n_layers)
    ]
    for row, choice in enumerate(choices):
        for mask, heads in zip(masks, choice, strict=True):
            mask[row, list(heads)] = True
    return masks


def _require(config: ModelConfig, k: tuple[int, ...], label: str, limit: int) -> None:
    if not config.routed:
        raise ValueError("a dense model has no router whose heads could be compared")
    if len(k) != config.n_layers or not all(1 <= n <= config.n_heads for n in k):
        raise ValueError(f"expected {config.n_layers} k in [1, {config.n_heads}], got {k}")
    if label not in config.labels:
        raise ValueError(f"the model has no class {label!r}; it has {', '.join(config.labels)}")
    if limit < 1:
        raise ValueError(f"expected a limit of at least 1, got {limit}")

"""Two predictions side by side: what can be compared, and by how much they differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch

from budgetformer.checkpoint import Checkpoint
from budgetformer.trace import Trace, held_heads

ROUNDS = 15


@dataclass(frozen=True)
class LayerDifference:
    """One layer in two predictions; changes are second minus first."""

    budget_change: float
    """Δs."""
    k_change: int
    """Δk, in heads."""
    both: tuple[int, ...]
    """Heads that ran in both."""
    only_first: tuple[int, ...]
    """Heads that ran in the first only."""
    only_second: tuple[int, ...]
    """Heads that ran in the second only."""
    overlap: float | None
    """Jaccard index of the two sets of heads, in [0, 1]; None where the layers have other numbers
    of heads."""


@dataclass(frozen=True)
class PairTimes:
    """Shortest times of forward passes that took turns: what else a machine does only adds."""

    first_ms: float
    """Of the first prediction, router included."""
    second_ms: float
    """Of the second."""
    rounds: int
    """Passes of each."""


def layer_differences(first: Trace, second: Trace) -> tuple[LayerDifference, ...]:
    """Compare the layers that both predictions have, from the first layer on."""
    differences = []
    for a, b in zip(first.layers, second.layers, strict=False):
        ran_a, ran_b = set(a.heads), set(b.heads)
        same_shape = len(a.scores) == len(b.scores)
        differences.append(
            LayerDifference(
                budget_change=b.budget - a.budget,
                k_change=b.k - a.k,
                both=tuple(sorted(ran_a & ran_b)),
                only_first=tuple(sorted(ran_a - ran_b)),
                only_second=tuple(sorted(ran_b - ran_a)),
                overlap=jaccard(ran_a, ran_b) if same_shape else None,
            )
        )
    return tuple(differences)


def jaccard(first: Collection[int], second: Collection[int]) -> float:
    """Return how much of two sets is shared: size of the intersection over that of the union.

    Raises:
        ValueError: for two empty sets, which have no union.
    """
    union = {*first, *second}
    if not union:
        raise ValueError("the overlap of two empty sets is undefined")
    return len({*first} & {*second}) / len(union)


@torch.inference_mode()
def time_pair(
    first: tuple[Checkpoint, Trace], second: tuple[Checkpoint, Trace], rounds: int = ROUNDS
) -> PairTimes:
    """Run two predictions again, with the heads they ran, in turns, and take the time.

    Args:
        first: a model and its prediction.
        second: the same of the other.
        rounds: passes of each.
    """
    runs = [_pass(*first), _pass(*second)]
    pairs = [tuple(run() for run in runs) for _ in range(rounds)]
    return PairTimes(min(pair[0] for pair in pairs), min(pair[1] for pair in pairs), rounds)


def _pass(checkpoint: Checkpoint, trace: Trace) -> Callable[[], float]:
    batch, heads = checkpoint.tokenizer.batch([trace.encoding]), held_heads(trace)

    def run() -> float:
        start = time.perf_counter()
        checkpoint.model(*batch, policy=heads)
        return 1000 * (time.perf_counter() - start)

    return run

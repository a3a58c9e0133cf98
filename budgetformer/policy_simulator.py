"""How to spend a given average number of heads: the router's way against simpler ones.

Every policy acts on the budgets of the model's own run, so that all of them can be brought to the
same average k̄ before any of them runs:

    adaptive   k = max(1, ⌊min(1, s·c)·H⌋), rounded as the model rounds, with the c that gives k̄
    capped     k = min(k, m), a part of the examples with m + 1 instead of m, so that k̄ is hit
    fixed      the same k for everyone in each layer, as many as adaptive has there on average
    shuffled   adaptive's k, dealt to other examples
    random     adaptive's k, with random heads instead of the router's

At the model's own average, adaptive is the model itself (c = 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from budgetformer.adaptivity import same_average
from budgetformer.budget import executed_heads
from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig
from budgetformer.data import Examples
from budgetformer.evaluate import Records, evaluate_ids
from budgetformer.intervals import Estimate, paired_difference, wilson_interval
from budgetformer.progress import Progress, counted
from budgetformer.sweep import by_row, mean_flops

Way = Literal["adaptive", "capped", "fixed", "shuffled", "random"]
WAYS: tuple[Way, ...] = ("adaptive", "capped", "fixed", "shuffled", "random")
BISECTION_STEPS = 60

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """One policy over the sample."""

    way: Way
    """Which of WAYS."""
    mean_k: float
    """Heads a layer that it ran, on average."""
    accuracy: Estimate
    """Fraction right with its 95 % interval (Wilson)."""
    flops_per_example: float
    """Closed form, mean over examples; see cost.py."""
    minus_adaptive: Estimate | None
    """Accuracy minus adaptive's on the same examples, with its 95 % interval (paired bootstrap);
    None for adaptive itself."""


@dataclass(frozen=True)
class Simulation:
    """All policies at one average."""

    wanted: float
    """The average k̄ that was asked for."""
    factor: float
    """c, by which the budgets were multiplied."""
    cap: int | None
    """m of "capped"; None where no cap is needed, since the model spends no more than that."""
    n: int
    """Examples."""
    outcomes: tuple[Outcome, ...]
    """One a policy, adaptive first."""


def scale_budgets(budgets: NDArray[np.float32], wanted: float, config: ModelConfig) -> float:
    """Find the factor c with which the average k comes closest to what is wanted, by bisection.

    Args:
        budgets: s of each layer in the model's own run, (N, L).
        wanted: average heads a layer, in [1, H].
        config: the model's.

    Raises:
        ValueError: for an average that no number of heads can have.
    """
    if not 1 <= wanted <= config.n_heads:
        raise ValueError(f"expected an average of 1 to {config.n_heads} heads, got {wanted:g}")

    def average(factor: float) -> float:
        return float(scaled_k(budgets, factor, config).mean())

    if average(1.0) == wanted:
        return 1.0
    # At the one end every layer runs one head, at the other all of them.
    low, high = 0.0, 1.001 / float(budgets.min())
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if average(middle) <= wanted else (low, middle)
    return min((low, high), key=lambda factor: abs(average(factor) - wanted))


def scaled_k(budgets: NDArray[np.float32], factor: float, config: ModelConfig) -> Counts:
    """Return k of budgets times a factor, clipped to (0, 1], (N, L)."""
    scaled = torch.from_numpy(np.minimum(1.0, budgets.astype(np.float64) * factor))
    k = executed_heads(scaled.flatten().float(), config.n_heads, config.rounding)
    return np.asarray(k.numpy().reshape(budgets.shape), np.int64)


def capped_k(k: Counts, wanted: float, generator: np.random.Generator) -> tuple[Counts, int | None]:
    """Cap k at m, and at m + 1 for a random part of the examples, so that the average is hit.

    Args:
        k: of the model's own run, (N, L).
        wanted: average heads a layer.
        generator: where the part is drawn from.

    Returns:
        The capped k, and m; k as it is and None where its average is no larger.
    """
    if k.mean() <= wanted:
        return k, None
    cap = 1
    while np.minimum(k, cap + 1).mean() <= wanted:
        cap += 1
    looser = np.minimum(k, cap + 1)
    capped = np.minimum(k, cap)
    # Example by example, as long as there is room.
    gain = (looser - capped).sum(axis=1)
    order = generator.permutation(len(k))
    room = wanted * k.size - capped.sum()
    lucky = order[np.cumsum(gain[order]) <= room + 1e-9]
    capped[lucky] = looser[lucky]
    return capped, cap


def simulate(
    checkpoint: Checkpoint,
    examples: Examples,
    own: Records,
    wanted: float,
    seed: int = 0,
    batch_size: int = 32,
    progress: Progress | None = None,
) -> Simulation:
    """Run every policy at one average.

    Args:
        checkpoint: the model.
        examples: the sample, with labels in the model's numbers.
        own: the model's own run over it.
        wanted: average heads a layer, in [1, H].
        seed: of everything that is drawn.
        batch_size: examples a batch.
        progress: called after each batch, with examples run and to run.

    Raises:
        ValueError: for an average that no number of heads can have, or a model without a router.
    """
    config, generator = checkpoint.config, np.random.default_rng(seed)
    if not config.routed:
        raise ValueError("this model has no router: there are no budgets to spend otherwise")
    factor = scale_budgets(own.budgets, wanted, config)
    adaptive = scaled_k(own.budgets, factor, config)
    capped, cap = capped_k(own.executed_heads, wanted, generator)
    plans: dict[Way, Counts] = {
        "adaptive": adaptive,
        "capped": capped,
        "fixed": same_average(adaptive, generator),
        "shuffled": adaptive[generator.permutation(len(adaptive))],
        "random": adaptive,
    }
    inputs = checkpoint.tokenizer.encode_ids(examples.texts, examples.text_pairs, config.max_len)
    advance = counted(progress, len(plans) * len(inputs))

    def run(way: Way) -> Records:
        return evaluate_ids(
            checkpoint.model,
            checkpoint.tokenizer,
            inputs,
            examples.labels,
            batch_size,
            by_row(torch.from_numpy(plans[way]), "random" if way == "random" else "top", seed),
            advance,
        )

    runs = {way: run(way) for way in plans}
    outcomes = [
        _outcome(way, records, runs["adaptive"], config, seed) for way, records in runs.items()
    ]
    return Simulation(wanted, factor, cap, len(inputs), tuple(outcomes))


def _outcome(
    way: Way, records: Records, adaptive: Records, config: ModelConfig, seed: int
) -> Outcome:
    n_right, n = int(records.correct.sum()), len(records.labels)
    difference = None
    if way != "adaptive":
        difference = Estimate(
            *paired_difference(records.correct.astype(float), adaptive.correct.astype(float), seed)
        )
    return Outcome(
        way,
        float(records.executed_heads.mean()),
        Estimate(n_right / n, *wilson_interval(n_right, n)),
        mean_flops(records, config),
        difference,
    )

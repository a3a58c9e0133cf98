"""A trained model under forced budgets and other policies: what its own choice is worth.

All policies see the same examples, so their accuracies are compared in pairs. "shuffled" gives
every example the budget of another: same average heads, same distribution, no match to the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig
from budgetformer.cost import dense_flops, flops
from budgetformer.data import Examples
from budgetformer.evaluate import Records, RowPolicy, evaluate_ids
from budgetformer.intervals import wilson_interval
from budgetformer.policies import Order, Policy, capped, given_k


@dataclass(frozen=True)
class SweepRow:
    """One policy over the whole data."""

    policy: str
    """"adaptive", "all", "shuffled", "random-heads", "bottom-heads", "fixed", "random", "bottom" or
    "capped"; see `sweep`."""
    budget: float
    """Mean of s for adaptive policies, k/H for fixed ones."""
    executed_heads_frac: float
    """Mean of k/H."""
    accuracy: float
    """Fraction right."""
    flops_per_example: float
    """Closed form, mean over examples; see cost.py."""
    ci_low: float
    """Lower end of the accuracy's 95 % interval (Wilson)."""
    ci_high: float
    """Upper end."""
    k: int | None = None
    """Heads a layer of "fixed", "random" and "bottom", and the limit of "capped"."""

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON-ready data."""
        return asdict(self)


def sweep(
    checkpoint: Checkpoint, examples: Examples, seed: int = 0, batch_size: int = 32
) -> Iterator[SweepRow]:
    """Yield a row for each policy, the model's own first.

    fixed, random and bottom run k = 1 … H heads in every layer; shuffled, random and bottom also
    run at the model's own budgets ("shuffled", "random-heads", "bottom-heads"). capped is the
    model's own choice with at most k = 1 … H heads a layer.
    A dense model has no scores: it gets its own row only.
    """
    config = checkpoint.config
    tokenizer = checkpoint.tokenizer
    inputs = tokenizer.encode_ids(examples.texts, examples.text_pairs, config.max_len)

    def run(policy_for: RowPolicy | None) -> Records:
        return evaluate_ids(
            checkpoint.model, tokenizer, inputs, examples.labels, batch_size, policy_for
        )

    own = run(None)
    yield _row("adaptive" if config.routed else "all", float(own.budgets.mean()), own, config)
    if not config.routed:
        return
    own_k = torch.from_numpy(own.executed_heads)
    shuffled_k = own_k[torch.from_numpy(np.random.default_rng(seed).permutation(len(own_k)))]
    mean_budget = float(own.budgets.mean())
    yield _row("shuffled", mean_budget, run(by_row(shuffled_k)), config)
    worse: tuple[Order, ...] = ("random", "bottom")
    for order in worse:
        name = f"{order}-heads"
        records = run(by_row(own_k, order, seed))
        yield _row(name, mean_budget, records, config)
    for k in range(1, config.n_heads + 1):
        same_k = torch.full((1, config.n_layers), k)
        # All heads are all heads in any order.
        orders: tuple[Order, ...] = ("top", *worse) if k < config.n_heads else ("top",)
        for order in orders:
            records = run(by_row(same_k.expand(len(inputs), -1), order, seed))
            name = "fixed" if order == "top" else order
            yield _row(name, k / config.n_heads, records, config, k)
    for limit in range(1, config.n_heads + 1):
        # A limit that no layer of any example reaches changes nothing.
        records = own if limit >= int(own_k.max()) else run(_at_most(limit, config))
        yield _row("capped", float(records.budgets.mean()), records, config, limit)


def by_row(k: torch.Tensor, order: Order = "top", seed: int = 0) -> RowPolicy:
    """Give each row its own k: (N, L) heads for N examples and L layers."""
    generator = torch.Generator().manual_seed(seed)

    def policy_for(rows: Sequence[int]) -> Policy:
        return given_k(k[list(rows)], order, generator)

    return policy_for


def _at_most(limit: int, config: ModelConfig) -> RowPolicy:
    policy = capped(limit, config.rounding)
    return lambda rows: policy


def mean_flops(records: Records, config: ModelConfig) -> float:
    """Average closed-form FLOPs over examples, each at its own length and heads."""
    per_example = [
        flops(config, int(n), [int(k) for k in ks]).model
        for n, ks in zip(records.n_tokens, records.executed_heads, strict=True)
    ]
    return float(np.mean(per_example))


def mean_dense_flops(records: Records, config: ModelConfig) -> float:
    """Average closed-form FLOPs of the dense twin over the same examples."""
    return float(np.mean([dense_flops(config, int(n)).model for n in records.n_tokens]))


def _row(
    policy: str, budget: float, records: Records, config: ModelConfig, k: int | None = None
) -> SweepRow:
    low, high = wilson_interval(int(records.correct.sum()), len(records.labels))
    return SweepRow(
        policy,
        budget,
        float(records.executed_fractions.mean()),
        float(records.correct.mean()),
        mean_flops(records, config),
        low,
        high,
        k,
    )

"""What a data set loses when one head is taken out, head by head, beside how often it is chosen.

A head's output becomes 0, or its mean over reference texts, wherever the model had chosen it; the
other heads keep their scale √(H/k). Taking a head out changes nothing for an example that did not
run it, so only the examples that ran it are run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from budgetformer.ablation import Replacement, mean_outputs
from budgetformer.budget import Routing, Selection
from budgetformer.checkpoint import Checkpoint
from budgetformer.data import Examples
from budgetformer.evaluate import Records, RowPolicy, evaluate, evaluate_ids
from budgetformer.intervals import (
    BOOTSTRAP_SAMPLES,
    Estimate,
    bootstrap_interval,
    paired_difference,
)
from budgetformer.policies import Policy, ablated, fixed_heads
from budgetformer.progress import Progress, counted
from budgetformer.relation import spearman

REFERENCE_TEXTS = 64
"""Texts at most over which a head's mean output is taken."""
LEAST_RAN = 20
"""A head that fewer examples ran has no place in the correlation of effects per run."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HeadEffect:
    """One head of one layer, taken out wherever it had run."""

    layer: int
    """From 0."""
    head: int
    """From 0."""
    n_ran: int
    """Examples that ran it, of all."""
    accuracy_drop: Estimate
    """Accuracy with the head minus without it over all examples, with its paired interval."""
    loss_rise: float
    """Mean loss without the head minus with it over the examples that ran it, in nats; NaN where
    none did."""
    label_changes: int
    """Examples whose most probable class is another one without the head."""


@dataclass(frozen=True, eq=False)
class HeadImportance:
    """Every head taken out in turn over the same N examples."""

    own: Records
    """The model's own run."""
    correct: NDArray[np.bool_]
    """Whether an example is right without a head, (N, L, H)."""
    losses: NDArray[np.float32]
    """Loss without a head in nats, (N, L, H)."""
    predicted: NDArray[np.int64]
    """Most probable class without a head, (N, L, H)."""
    n_runs: int
    """Examples that were run again, all heads together."""

    def effect(self, layer: int, head: int, seed: int = 0) -> HeadEffect:
        """Return what one head is worth.

        Args:
            layer: from 0.
            head: from 0.
            seed: of the bootstrap over examples that gives the accuracy's 95 % interval.
        """
        own = self.own
        ran = own.heads[:, layer, head]
        rise = self.losses[ran, layer, head] - own.losses[ran]
        drop = (0.0, 0.0, 0.0)
        if ran.any():
            before, after = own.correct.astype(float), self.correct[:, layer, head].astype(float)
            drop = paired_difference(before, after, seed)
        changed = self.predicted[:, layer, head] != own.probabilities.argmax(axis=1)
        return HeadEffect(
            layer,
            head,
            int(ran.sum()),
            Estimate(*drop),
            float(rise.mean(dtype=np.float64)) if ran.any() else float("nan"),
            int(changed.sum()),
        )

    def effects(self) -> list[HeadEffect]:
        """Return every head's worth, by layer and head."""
        _, n_layers, n_heads = self.losses.shape
        return [self.effect(i, head) for i in range(n_layers) for head in range(n_heads)]

    def rank_correlation(self, seed: int = 0) -> Estimate | None:
        """Relate how often a head is chosen to the loss that its absence costs per run (Spearman).

        Heads that fewer than LEAST_RAN examples ran are left out. The interval is a percentile
        bootstrap over examples: the heads are all there are.

        Returns:
            None where fewer than three heads are left, or all rates are equal.
        """
        runs = self.own.heads.reshape(len(self.losses), -1)
        rises = (self.losses - self.own.losses[:, None, None]).reshape(runs.shape)
        kept = runs.sum(axis=0) >= LEAST_RAN
        ran = runs[:, kept].astype(np.float64)
        rise = rises[:, kept].astype(np.float64)

        def statistic(rows: NDArray[np.int64]) -> float:
            weight = np.bincount(rows, minlength=len(ran)).astype(np.float64)
            count = weight @ ran
            with np.errstate(invalid="ignore"):
                per_run = (weight @ rise) / count
            return spearman(count, per_run) if (count > 0).all() else float("nan")

        if kept.sum() < 3:
            return None
        value = statistic(np.arange(len(ran)))
        if np.isnan(value):
            return None
        return Estimate(
            value, *bootstrap_interval(statistic, len(ran), BOOTSTRAP_SAMPLES // 2, seed)
        )


def head_importance(
    checkpoint: Checkpoint,
    examples: Examples,
    replacement: Replacement = "zero",
    reroute: bool = False,
    batch_size: int = 32,
    progress: Progress | None = None,
) -> HeadImportance:
    """Take out every head of every layer in turn.

    Args:
        checkpoint: the model.
        examples: with labels in the model's numbers.
        replacement: "zero", or "mean": the head's mean output over the tokens of the first
            REFERENCE_TEXTS examples stands in for it, at the scale that its layer had.
        reroute: let the layers above choose their heads again; else every layer keeps the heads of
            the model's own run, and the head is all that differs.
        batch_size: examples a batch.
        progress: called after each batch with the examples run and those to run.

    Raises:
        ValueError: as `evaluate` does.
    """
    own = evaluate(checkpoint, examples, batch_size)
    config, tokenizer = checkpoint.config, checkpoint.tokenizer
    inputs = tokenizer.encode_ids(examples.texts, examples.text_pairs, config.max_len)
    filler = _Filler(checkpoint, examples, own) if replacement == "mean" else None
    above = checkpoint.model.own_policy if reroute else None
    shape = own.heads.shape
    correct = np.broadcast_to(own.correct[:, None, None], shape).copy()
    losses = np.broadcast_to(own.losses[:, None, None], shape).copy()
    labels = own.probabilities.argmax(axis=1)
    predicted = np.broadcast_to(labels[:, None, None], shape).copy()
    total = int(own.heads.sum())
    advance = counted(progress, total)
    for layer, head in np.ndindex(*shape[1:]):
        ran = np.flatnonzero(own.heads[:, layer, head])
        if not len(ran):
            continue
        part = evaluate_ids(
            checkpoint.model,
            tokenizer,
            [inputs[i] for i in ran],
            [examples.labels[i] for i in ran],
            batch_size,
            _without(own, ran, layer, head, filler, above),
            advance,
        )
        correct[ran, layer, head] = part.correct
        losses[ran, layer, head] = part.losses
        predicted[ran, layer, head] = part.probabilities.argmax(axis=1)
    return HeadImportance(own, correct, losses, predicted, total)


class _Filler:
    """Mean outputs of heads, at the scale that each example's layers had."""

    def __init__(self, checkpoint: Checkpoint, examples: Examples, own: Records) -> None:
        reference = examples.first(REFERENCE_TEXTS)
        pairs = reference.text_pairs
        inputs = zip(reference.texts, pairs, strict=True) if pairs else zip(reference.texts)
        self.means = torch.from_numpy(mean_outputs(checkpoint, list(inputs)))  # (L, H, D)
        self.scale = torch.ones(own.executed_heads.shape)  # (N, L)
        if checkpoint.config.output_scale == "sqrt":
            k = torch.from_numpy(own.executed_heads)
            self.scale = torch.sqrt(checkpoint.config.n_heads / k)

    def offset(self, examples: Tensor, layer: int, head: int) -> Float[Tensor, "B L D"]:
        """Return what is added to each layer's attention in the place of one head."""
        n_layers, _, d_model = self.means.shape
        offset = torch.zeros(len(examples), n_layers, d_model)
        offset[:, layer] = self.scale[examples, layer, None] * self.means[layer, head]
        return offset


def _without(
    own: Records,
    ran: NDArray[np.int64],
    layer: int,
    head: int,
    filler: _Filler | None,
    above: Policy | None,
) -> RowPolicy:
    """Give a batch the heads of its own run, one of them taken out.

    Args:
        own: the model's own run.
        ran: the examples that ran the head; a batch holds positions in this list.
        layer: of the head.
        head: within the layer.
        filler: what stands in for the head; nothing when None.
        above: how the layers above choose; as in the model's own run when None.
    """
    heads = torch.from_numpy(own.heads)
    off = torch.zeros(heads.shape[1:], dtype=torch.bool)
    off[layer, head] = True

    def policy_for(rows: Sequence[int]) -> Policy:
        examples = torch.from_numpy(ran[list(rows)])
        held = fixed_heads(list(heads[examples].unbind(dim=1)))

        def base(index: int, routing: Routing) -> Selection:
            return above(index, routing) if above and index > layer else held(index, routing)

        offset = None if filler is None else filler.offset(examples, layer, head)
        return ablated(base, off.expand(len(examples), -1, -1), offset)

    return policy_for

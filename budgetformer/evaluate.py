"""Predictions over a data set: one record an example, and the figures that sum them up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from budgetformer.checkpoint import Checkpoint
from budgetformer.data import Examples
from budgetformer.model import BudgetFormer
from budgetformer.policies import Policy
from budgetformer.tokenizer import TokenIds, Tokenizer

RowPolicy = Callable[[Sequence[int]], Policy]
"""Row numbers of a batch -> policy for that batch."""


@dataclass(frozen=True)
class Records:
    """What a model said about N examples, in their order."""

    labels: NDArray[np.int64]
    """Gold class indices, (N,)."""
    probabilities: NDArray[np.float32]
    """Class probabilities, (N, C)."""
    losses: NDArray[np.float32]
    """Negative log-likelihood of the gold class in nats, (N,)."""
    n_tokens: NDArray[np.int64]
    """Tokens read, special tokens included, (N,)."""
    budgets: NDArray[np.float32]
    """s of each layer, (N, L)."""
    heads: NDArray[np.bool_]
    """Executed heads, (N, L, H)."""

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether the most probable class is the gold one, (N,)."""
        return np.asarray(self.probabilities.argmax(axis=1) == self.labels)

    @property
    def margins(self) -> NDArray[np.float32]:
        """Most probable class minus the second, (N,)."""
        ordered = np.sort(self.probabilities, axis=1)
        return np.asarray(ordered[:, -1] - ordered[:, -2])

    @property
    def mean_budgets(self) -> NDArray[np.float32]:
        """Mean of s over layers, (N,)."""
        return np.asarray(self.budgets.mean(axis=1))

    @property
    def executed_heads(self) -> NDArray[np.int64]:
        """The k of each layer, (N, L)."""
        return np.asarray(self.heads.sum(axis=2))

    @property
    def executed_fractions(self) -> NDArray[np.float64]:
        """Executed heads over all heads, (N,)."""
        return np.asarray(self.heads.mean(axis=(1, 2)))


def evaluate(
    checkpoint: Checkpoint,
    examples: Examples,
    batch_size: int = 32,
    policy_for: RowPolicy | None = None,
    after_batch: Callable[[int], None] | None = None,
) -> Records:
    """Run a checkpoint over examples, batched by length.

    Args:
        checkpoint: the model and its tokenizer.
        examples: what to classify.
        batch_size: examples a batch.
        policy_for: gives the policy for the rows of a batch; the model's own choice when None.
        after_batch: called with the number of examples of each batch that is done.

    Raises:
        ValueError: if there are no examples, or pairs where the model reads single texts (and the
            reverse).
    """
    check_segments(checkpoint, examples)
    tokenizer = checkpoint.tokenizer
    inputs = tokenizer.encode_ids(examples.texts, examples.text_pairs, checkpoint.config.max_len)
    return evaluate_ids(
        checkpoint.model, tokenizer, inputs, examples.labels, batch_size, policy_for, after_batch
    )


def check_segments(checkpoint: Checkpoint, examples: Examples) -> None:
    """Refuse pairs where a model reads single texts, and the reverse.

    Raises:
        ValueError: if the two do not fit.
    """
    if (examples.text_pairs is None) != (checkpoint.config.n_segments == 1):
        wanted = "single texts" if checkpoint.config.n_segments == 1 else "text pairs"
        raise ValueError(f"the model reads {wanted}, the examples are none")


@torch.inference_mode()
def evaluate_ids(
    model: BudgetFormer,
    tokenizer: Tokenizer,
    inputs: Sequence[TokenIds],
    labels: Sequence[int],
    batch_size: int = 32,
    policy_for: RowPolicy | None = None,
    after_batch: Callable[[int], None] | None = None,
) -> Records:
    """Run a model over encoded inputs; the records keep the examples' order."""
    if not inputs:
        raise ValueError("there are no examples to evaluate")
    config = model.config
    n, gold = len(inputs), torch.tensor(labels)
    logits = torch.empty(n, len(config.labels))
    budgets = torch.empty(n, config.n_layers)
    heads = torch.empty(n, config.n_layers, config.n_heads, dtype=torch.bool)
    for rows in length_batches(inputs, batch_size):
        batch = tokenizer.batch([inputs[row] for row in rows])
        output = model(*batch, policy=policy_for(rows) if policy_for else None)
        logits[rows] = output.logits.float()
        budgets[rows] = torch.stack([layer.routing.budget for layer in output.layers], dim=1)
        heads[rows] = torch.stack([layer.selection.heads for layer in output.layers], dim=1)
        if after_batch:
            after_batch(len(rows))
    return Records(
        labels=gold.numpy(),
        probabilities=logits.softmax(dim=-1).numpy(),
        losses=F.cross_entropy(logits, gold, reduction="none").numpy(),
        n_tokens=np.array([len(row.ids) for row in inputs]),
        budgets=budgets.numpy(),
        heads=heads.numpy(),
    )


def length_batches(inputs: Sequence[TokenIds], batch_size: int) -> Iterator[list[int]]:
    """Yield row numbers in batches of similar length, so that little padding is computed."""
    order = sorted(range(len(inputs)), key=lambda row: len(inputs[row].ids))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def summarise(records: Records) -> dict[str, float | int | None]:
    """Return the figures of an evaluation; None where one is undefined (all right, constant s).

    mean_budget is the mean of s; executed_heads_frac the mean of k/H: with the floor at one head
    they differ. spearman_budget_loss is the rank correlation of s with the loss, and
    auroc_budget_error the probability that a wrong example has a larger s than a right one.
    """
    budget, wrong = records.mean_budgets, ~records.correct
    return {
        "n": len(records.labels),
        "accuracy": float(records.correct.mean()),
        "loss": float(records.losses.mean()),
        "mean_budget": float(budget.mean()),
        "executed_heads_frac": float(records.executed_fractions.mean()),
        "executed_heads_std": float(records.executed_fractions.std()),
        "spearman_budget_loss": _spearman(budget, records.losses),
        "auroc_budget_error": _auroc(wrong, budget),
        "mean_tokens": float(records.n_tokens.mean()),
    }


def _spearman(x: NDArray[np.float32], y: NDArray[np.float32]) -> float | None:
    from scipy.stats import spearmanr

    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(spearmanr(x, y).statistic)


def _auroc(positive: NDArray[np.bool_], score: NDArray[np.float32]) -> float | None:
    from sklearn.metrics import roc_auc_score

    if positive.all() or not positive.any() or np.ptp(score) == 0:
        return None
    return float(roc_auc_score(positive, score))

"""What the routers of a model read and answer over many inputs: summaries x̄, p, s and heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from budgetformer.budget import masked_mean
from budgetformer.checkpoint import Checkpoint
from budgetformer.data import Examples
from budgetformer.evaluate import length_batches
from budgetformer.internals import layer_runs
from budgetformer.progress import Progress
from budgetformer.tokenizer import TokenIds


@dataclass(frozen=True, eq=False)
class RouterStates:
    """The model's own run over N examples, seen from its routers."""

    summaries: NDArray[np.float32]
    """x̄ = Σ_t M_t X_t / Σ_t M_t of each layer's input (arXiv 2604.22583), (N, L, D)."""
    probabilities: NDArray[np.float32]
    """p = softmax(z/τ) of every head, (N, L, H)."""
    heads: NDArray[np.bool_]
    """Executed heads, (N, L, H)."""

    def strongest(self, layer: int, head: int, most: int) -> NDArray[np.int64]:
        """Return the examples that ran a head, those with the largest p first.

        Args:
            layer: from 0.
            head: from 0.
            most: how many at most.
        """
        p = self.probabilities[:, layer, head]
        order = np.argsort(-p, kind="stable")
        return np.asarray(order[self.heads[order, layer, head]][:most], np.int64)


@torch.inference_mode()
def router_states(
    checkpoint: Checkpoint,
    examples: Examples,
    batch_size: int = 32,
    progress: Progress | None = None,
) -> RouterStates:
    """Run a model over examples and keep what its routers saw and said.

    Args:
        checkpoint: the model; a dense one has summaries, and p is the same for every head.
        examples: what to read.
        batch_size: examples a batch.
        progress: called after each batch.
    """
    config, tokenizer, model = checkpoint.config, checkpoint.tokenizer, checkpoint.model
    inputs: Sequence[TokenIds] = tokenizer.encode_ids(
        examples.texts, examples.text_pairs, config.max_len
    )
    n, n_layers = len(inputs), config.n_layers
    summaries = torch.empty(n, n_layers, config.d_model)
    probabilities = torch.empty(n, n_layers, config.n_heads)
    heads = torch.empty(n, n_layers, config.n_heads, dtype=torch.bool)
    done = 0
    for rows in length_batches(inputs, batch_size):
        batch = tokenizer.batch([inputs[row] for row in rows])
        for layer, (read, decision) in enumerate(layer_runs(model, batch)):
            summaries[rows, layer] = masked_mean(read, batch.mask)
            probabilities[rows, layer] = decision.routing.probabilities
            heads[rows, layer] = decision.selection.heads
        done += len(rows)
        if progress:
            progress(done, n)
    return RouterStates(summaries.numpy(), probabilities.numpy(), heads.numpy())

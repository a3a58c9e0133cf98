"""Does a text's answer hang on its company? The same text alone, padded, and in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from budgetformer.checkpoint import Checkpoint
from budgetformer.tokenizer import Batch

EXTRA_PADDING = 64


@dataclass(frozen=True)
class Company:
    """N texts, each run alone, padded by itself, and in one batch with the others."""

    n_tokens: NDArray[np.int64]
    """Of each text, (N,)."""
    padding: dict[str, NDArray[np.int64]]
    """For "padded" and "batch": tokens of padding beside each text, (N,)."""
    same_heads: dict[str, NDArray[np.bool_]]
    """For "padded" and "batch": whether exactly the heads of the run alone ran, (N,)."""
    budget_difference: dict[str, NDArray[np.float64]]
    """Largest |Δs| over layers against the run alone, (N,)."""
    probability_difference: dict[str, NDArray[np.float64]]
    """Largest |Δp| over classes against the run alone, (N,)."""


@torch.inference_mode()
def in_company(
    checkpoint: Checkpoint, texts: Sequence[str], text_pairs: Sequence[str] | None = None
) -> Company:
    """Run texts in three ways and compare what comes out.

    Args:
        checkpoint: the model.
        texts: a few dozen at most: they go into one batch.
        text_pairs: the second texts, for pair tasks.

    Raises:
        ValueError: if there is no text.
    """
    if not texts:
        raise ValueError("there is no text to run")
    tokenizer, max_len = checkpoint.tokenizer, checkpoint.config.max_len
    inputs = tokenizer.encode_ids(texts, text_pairs, max_len)
    lengths = np.array([len(row.ids) for row in inputs])
    alone = [_run(checkpoint, tokenizer.batch([row])) for row in inputs]
    padding = [min(EXTRA_PADDING, max_len - int(n)) for n in lengths]
    padded = [
        _run(checkpoint, _padded(tokenizer.batch([row]), n, tokenizer.pad_id))
        for row, n in zip(inputs, padding, strict=True)
    ]
    together = _run(checkpoint, tokenizer.batch(inputs))
    runs = {
        "padded": tuple(torch.cat(parts) for parts in zip(*padded, strict=True)),
        "batch": together,
    }
    p, s, heads = (torch.cat(parts) for parts in zip(*alone, strict=True))
    return Company(
        n_tokens=lengths,
        padding={"padded": np.array(padding), "batch": lengths.max() - lengths},
        same_heads={
            name: (run[2] == heads).all(dim=2).all(dim=1).numpy() for name, run in runs.items()
        },
        budget_difference={
            name: (run[1] - s).abs().amax(dim=1).double().numpy() for name, run in runs.items()
        },
        probability_difference={
            name: (run[0] - p).abs().amax(dim=1).double().numpy() for name, run in runs.items()
        },
    )


def _run(checkpoint: Checkpoint, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return class probabilities (B, C), s (B, L) and executed heads (B, L, H)."""
    output = checkpoint.model(*batch)
    return (
        output.logits.softmax(dim=-1),
        torch.stack([layer.routing.budget for layer in output.layers], dim=1),
        torch.stack([layer.selection.heads for layer in output.layers], dim=1),
    )


def _padded(batch: Batch, n: int, pad_id: int) -> Batch:
    return Batch(
        F.pad(batch.ids, (0, n), value=pad_id),
        F.pad(batch.mask, (0, n), value=False),
        F.pad(batch.segments, (0, n)),
    )

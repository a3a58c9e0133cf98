"""How heads look at texts: how far, how sharply, and at which of the special places.

Averaged over the tokens that look, then over the texts that ran the head, each text weighing the
same. Beside each number stands what attention spread evenly over the same texts would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from budgetformer.checkpoint import Checkpoint
from budgetformer.data import Examples
from budgetformer.internals import head_outputs, layer_runs
from budgetformer.progress import Progress
from budgetformer.tokenizer import TokenIds

MEASURES = ("distance", "entropy", "cls", "sep", "self", "previous", "next")
"""In the order of the last axis: mean |i − j| in tokens; entropy of a row in bits; shares of
attention to [CLS], to [SEP], to the looking token itself, to the one before and the one after."""

MOSTLY = 0.3
"""Share of attention from which a single place names a head."""
SPREAD = 0.9
"""Share of the even entropy from which a head spreads over the text."""
NEAR = 0.5
"""Share of the even distance below which a head looks nearby."""


@dataclass(frozen=True, eq=False)
class Signatures:
    """Attention of every head of a model over a sample of texts."""

    n_texts: int
    """Texts in the sample."""
    n_ran: NDArray[np.int64]
    """Texts that ran a head, (L, H)."""
    values: NDArray[np.float64]
    """MEASURES of each head, averaged over the texts that ran it; NaN where none did, (L, H, 7)."""
    even: NDArray[np.float64]
    """The same where attention is spread evenly over all tokens of the same texts, (L, H, 7)."""


@torch.inference_mode()
def signatures(
    checkpoint: Checkpoint, examples: Examples, progress: Progress | None = None
) -> Signatures:
    """Measure the heads that a model runs for each of some texts.

    Args:
        checkpoint: the model.
        examples: the sample.
        progress: called after each text.

    Raises:
        ValueError: if there are no examples.
    """
    if not len(examples):
        raise ValueError("there are no examples to look at")
    config, tokenizer, model = checkpoint.config, checkpoint.tokenizer, checkpoint.model
    shape = (config.n_layers, config.n_heads)
    n_ran = np.zeros(shape, np.int64)
    total, even = np.zeros((*shape, len(MEASURES))), np.zeros((*shape, len(MEASURES)))
    inputs = tokenizer.encode_ids(examples.texts, examples.text_pairs, config.max_len)
    for done, row in enumerate(inputs, 1):
        batch = tokenizer.batch([row])
        places = _places(row, tokenizer.cls_id, tokenizer.sep_id)
        flat = _measure(places.new_full((1, *places.shape[1:]), 1 / len(row.ids)), places)[0]
        for layer, (read, decision) in enumerate(layer_runs(model, batch)):
            heads = decision.selection.heads[0].nonzero()[:, 0].tolist()
            weights = head_outputs(model, layer, read, batch.mask, heads).weights[0]
            total[layer, heads] += _measure(weights, places)
            even[layer, heads] += flat
            n_ran[layer, heads] += 1
        if progress:
            progress(done, len(inputs))
    ran = np.where(n_ran > 0, n_ran, np.nan)[..., None]
    return Signatures(len(inputs), n_ran, total / ran, even / ran)


def _places(row: TokenIds, cls_id: int, sep_id: int) -> Float[Tensor, "6 T T"]:
    """Return what attention from each token (row) to each (column) counts for; not the entropy."""
    ids = torch.as_tensor(row.ids)
    position = torch.arange(len(ids), dtype=torch.float32)
    step = position[None, :] - position[:, None]
    return torch.stack(
        [
            step.abs(),
            (ids == cls_id).float().expand_as(step),
            (ids == sep_id).float().expand_as(step),
            (step == 0).float(),
            (step == -1).float(),
            (step == 1).float(),
        ]
    )


def _measure(
    weights: Float[Tensor, "k T T"], places: Float[Tensor, "6 T T"]
) -> NDArray[np.float64]:
    """Average MEASURES over the tokens that look, (k, 7)."""
    sums = torch.einsum("kij,pij->kp", weights, places) / weights.shape[1]
    bits = torch.special.entr(weights).sum(dim=2).mean(dim=1) / np.log(2)
    measured = torch.cat([sums[:, :1], bits[:, None], sums[:, 1:]], dim=1)
    return np.asarray(measured.double().numpy())


def describe(values: Sequence[float], even: Sequence[float]) -> str:
    """Put a head's signature into a few words, by what stands out most against even attention.

    Args:
        values: MEASURES of the head.
        even: the same for attention spread evenly.
    """
    at = dict(zip(MEASURES, values, strict=True))
    names = {
        "cls": "looks at [CLS]",
        "sep": "looks at [SEP]",
        "self": "looks at the token itself",
        "previous": "looks at the token before",
        "next": "looks at the token after",
    }
    place = max(names, key=lambda name: at[name])
    if at[place] >= MOSTLY:
        return names[place]
    if at["entropy"] >= SPREAD * dict(zip(MEASURES, even, strict=True))["entropy"]:
        return "spreads over the text"
    near = at["distance"] < NEAR * dict(zip(MEASURES, even, strict=True))["distance"]
    return "looks nearby" if near else "picks out tokens"

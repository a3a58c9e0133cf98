"""One executed head taken out: what a prediction owes to it.

The head's output becomes 0, or its mean; the other heads keep their scale √(H/k), so nothing but
this head's contribution changes. That is not the same as not choosing the head: then another takes
its place, or the scale changes (see interventions.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from budgetformer.budget import Routing, Selection
from budgetformer.checkpoint import Checkpoint
from budgetformer.internals import head_outputs, layer_inputs
from budgetformer.policies import Policy, ablated, all_heads
from budgetformer.progress import Progress
from budgetformer.trace import Trace, encode, held_heads, predict_under

Replacement = Literal["zero", "mean"]
"""What stands in for the head: nothing, or its mean output over tokens."""


@dataclass(frozen=True)
class Ablation:
    """A prediction with one head taken out."""

    layer: int
    """From 0."""
    head: int
    """From 0."""
    replacement: Replacement
    """What stood in for it."""
    label: str
    """The label before."""
    before: dict[str, float]
    """Probability of every class before."""
    after: dict[str, float]
    """And after."""
    label_after: str
    """The label after."""
    k_after: tuple[int, ...]
    """Heads that ran in each layer, this one included."""

    @property
    def changes(self) -> dict[str, float]:
        """Δp of every class, after minus before."""
        return {label: self.after[label] - p for label, p in self.before.items()}

    @property
    def change(self) -> float:
        """Δp of the label before."""
        return self.changes[self.label]

    @property
    def label_changed(self) -> bool:
        """Whether the label is another one now."""
        return self.label_after != self.label


def ablate(
    checkpoint: Checkpoint,
    trace: Trace,
    heads: Sequence[tuple[int, int]] | None = None,
    replacement: Replacement = "zero",
    means: NDArray[np.float32] | None = None,
    reroute: bool = False,
    progress: Progress | None = None,
) -> list[Ablation]:
    """Take out heads one at a time, in batches.

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction to look into, with whatever heads it ran.
        heads: (layer, head) of executed heads; every executed head when None.
        replacement: "zero", or "mean": the head's output at every token becomes its mean over this
            text's tokens, so that what differs between tokens is lost and the level stays.
        means: the mean to use instead, (L, H, D) from `mean_outputs`.
        reroute: let the layers above choose their heads again, by the model's own policy; else they
            keep those of the trace.
        progress: called after each batch.

    Returns:
        One a head, in the order asked for, or by layer and head.

    Raises:
        ValueError: for a head that did not run, or means without "mean".
    """
    if replacement not in ("zero", "mean") or (means is not None and replacement != "mean"):
        raise ValueError(f"expected zero, or mean with or without means, got {replacement!r}")
    executed = [(i, head) for i, layer in enumerate(trace.layers) for head in layer.heads]
    heads = executed if heads is None else list(heads)
    for layer, head in heads:
        if (layer, head) not in executed:
            raise ValueError(f"head {head} of layer {layer} did not run, so nothing hangs on it")
    if not heads:
        return []
    config = checkpoint.config
    off = torch.zeros(len(heads), config.n_layers, config.n_heads, dtype=torch.bool)
    for row, (layer, head) in enumerate(heads):
        off[row, layer, head] = True
    offset = None
    if replacement == "mean":
        offset = _offsets(checkpoint, trace, off, _own_means(checkpoint, trace, means))

    def policy_for(rows: range) -> Policy:
        part = slice(rows.start, rows.stop)
        base = held_heads(trace)
        if reroute:
            base = _held_up_to(trace, off[part], checkpoint.model.own_policy)
        return ablated(base, off[part], None if offset is None else offset[part])

    runs = predict_under(checkpoint, trace, len(heads), policy_for, progress)
    return [
        Ablation(
            layer,
            head,
            replacement,
            trace.label,
            trace.probabilities,
            run.probabilities,
            run.label,
            tuple(said.k for said in run.layers),
        )
        for (layer, head), run in zip(heads, runs, strict=True)
    ]


@torch.inference_mode()
def mean_outputs(
    checkpoint: Checkpoint, inputs: Sequence[tuple[str, ...]], progress: Progress | None = None
) -> NDArray[np.float32]:
    """Average every head's output over all tokens of reference texts, (L, H, D).

    All heads run for that, in every layer: a head that is seldom chosen gets a mean too.

    Args:
        checkpoint: the model.
        inputs: a text or two each; at least one.
        progress: called after each text.

    Raises:
        ValueError: without texts, or as `encode` does.
    """
    if not inputs:
        raise ValueError("a mean needs at least one text")
    total, n_tokens = np.zeros(()), 0
    for done, texts in enumerate(inputs, 1):
        encoding = encode(checkpoint, *texts)
        batch = checkpoint.tokenizer.batch([encoding])
        x = layer_inputs(checkpoint.model, batch, all_heads())
        sums = [_layer_means(checkpoint, i, x[i], batch.mask) for i in range(len(x))]
        total = total + len(encoding.ids) * torch.stack(sums).double().numpy()
        n_tokens += len(encoding.ids)
        if progress:
            progress(done, len(inputs))
    return np.asarray(total / n_tokens, dtype=np.float32)


def _own_means(
    checkpoint: Checkpoint, trace: Trace, means: NDArray[np.float32] | None
) -> Float[Tensor, "L H D"]:
    """Mean outputs over the trace's own tokens, unless others are given."""
    if means is not None:
        return torch.from_numpy(np.ascontiguousarray(means, dtype=np.float32))
    batch = checkpoint.tokenizer.batch([trace.encoding])
    x = layer_inputs(checkpoint.model, batch, held_heads(trace))
    return torch.stack([_layer_means(checkpoint, i, x[i], batch.mask) for i in range(len(x))])


def _layer_means(
    checkpoint: Checkpoint, layer: int, x: Float[Tensor, "1 T D"], mask: Bool[Tensor, "1 T"]
) -> Float[Tensor, "H D"]:
    """Mean output of each head over the tokens of one text."""
    # One head at a time: all heads' T × T maps of a long text would take gigabytes.
    return torch.cat(
        [
            head_outputs(checkpoint.model, layer, x, mask, [head]).outputs.mean(dim=2)[0]
            for head in range(checkpoint.config.n_heads)
        ]
    )


def _offsets(
    checkpoint: Checkpoint,
    trace: Trace,
    off: Bool[Tensor, "N L H"],
    means: Float[Tensor, "L H D"],
) -> Float[Tensor, "N L D"]:
    """What is added in the place of the heads, at the scale that their layer had."""
    offset = torch.einsum("nlh,lhd->nld", off.to(means.dtype), means)
    if checkpoint.config.output_scale == "none":
        return offset
    k = torch.tensor([layer.k for layer in trace.layers])
    return offset * torch.sqrt(checkpoint.config.n_heads / k)[None, :, None]


def _held_up_to(trace: Trace, off: Bool[Tensor, "N L H"], above: Policy) -> Policy:
    """Hold the trace's heads up to each row's ablated layer; the layers above choose anew."""
    held = held_heads(trace)
    touched = off.any(dim=2).long().argmax(dim=1)  # (N,)

    def choose(layer: int, routing: Routing) -> Selection:
        kept, new = held(layer, routing).heads, above(layer, routing).heads
        return Selection(torch.where((layer <= touched).unsqueeze(1), kept, new))

    return choose

"""A target as a function: of token vectors, of token ids, of the heads' gates.

The hard top-k makes the model discontinuous in its input. With the heads held at those of the text
everything is smooth, s and z too: those of a layer depend on the heads of earlier layers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from budgetformer.attribution_targets import Target
from budgetformer.budget import Routing, Selection
from budgetformer.checkpoint import Checkpoint
from budgetformer.model import ModelOutput
from budgetformer.policies import Policy, fixed_heads
from budgetformer.progress import Progress
from budgetformer.trace import Trace

TOKENS_PER_BATCH = 4096
"""Passes over one text are batched up to this many tokens, which bounds the memory."""


class TargetFunction:
    """One target of one input, ready to be evaluated; it changes nothing on the model."""

    def __init__(self, checkpoint: Checkpoint, trace: Trace, target: Target | None) -> None:
        """Prepare the input.

        Args:
            checkpoint: the model that made the trace.
            trace: the input; the heads it ran are those that are held.
            target: the number to explain; the predicted class's logit when None.

        Raises:
            ValueError: for a target that the model does not have.
        """
        self.target = Target.logit(trace.label) if target is None else target
        self.target.check(checkpoint.config)
        self._model, self._labels = checkpoint.model, checkpoint.config.labels
        self._mask_id = checkpoint.tokenizer.mask_id
        self.ids, self._mask, self._segments = checkpoint.tokenizer.batch([trace.encoding])
        special = torch.tensor([trace.encoding.special])
        self.baseline_ids = torch.where(special, self.ids, self._mask_id)  # (1, T)
        n_layers, n_heads = checkpoint.config.n_layers, checkpoint.config.n_heads
        self.heads = torch.zeros(n_layers, n_heads, dtype=torch.bool)
        for row, layer in zip(self.heads, trace.layers, strict=True):
            row[list(layer.heads)] = True
        self.held: Policy = fixed_heads([row.unsqueeze(0) for row in self.heads])
        self.rows_per_batch = max(1, TOKENS_PER_BATCH // self.ids.shape[1])

    def embed(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Look up the vectors of tokens, without positions: where gradients are taken."""
        vectors: Tensor = self._model.embedding.token(ids)
        return vectors

    def at_tokens(self, tokens: Float[Tensor, "B T D"]) -> Float[Tensor, " B"]:
        """Evaluate at token vectors, heads held; differentiable."""
        n = tokens.shape[0]
        mask, segments = self._mask.expand(n, -1), self._segments.expand(n, -1)
        return self._read(self._model.forward_tokens(tokens, mask, segments, self.held))

    def at_gates(self, gates: Float[Tensor, "B L H"]) -> Float[Tensor, " B"]:
        """Evaluate the text with each head's output times its gate; differentiable.

        The routers see the gated outputs, but heads and output scale stay those of the text.
        """
        n = gates.shape[0]
        output = self._model(
            self.ids.expand(n, -1),
            self._mask.expand(n, -1),
            self._segments.expand(n, -1),
            _gated(self.heads, gates),
        )
        # No head runs before the first layer's router; this gives its gradient: zero.
        return self._read(output) + 0 * gates.sum(dim=(1, 2))

    @torch.inference_mode()
    def at_ids(
        self,
        ids: Int[Tensor, "B T"],
        policy: Policy | None,
        progress: Progress | None = None,
    ) -> list[float]:
        """Evaluate at token ids, in batches.

        Args:
            ids: variants of the text, all as long as it is.
            policy: how heads are chosen, for a batch of any size; the model's own choice when None.
            progress: told after each batch how many variants are done.
        """
        values: list[float] = []
        for start in range(0, len(ids), self.rows_per_batch):
            rows = ids[start : start + self.rows_per_batch]
            n = len(rows)
            mask, segments = self._mask.expand(n, -1), self._segments.expand(n, -1)
            values += self._read(self._model(rows, mask, segments, policy)).tolist()
            if progress is not None:
                progress(len(values), len(ids))
        return values

    def masked(self, positions: Sequence[Iterable[int]]) -> Int[Tensor, "B T"]:
        """Copy the text's ids once a row, with [MASK] at the row's positions."""
        ids = self.ids.repeat(len(positions), 1)
        for row, masked in zip(ids, positions, strict=True):
            row[torch.tensor(list(masked), dtype=torch.long)] = self._mask_id
        return ids

    def _read(self, output: ModelOutput) -> Float[Tensor, " B"]:
        target = self.target
        if target.kind == "mean_budget":
            return torch.stack([layer.routing.budget for layer in output.layers]).mean(dim=0)
        if target.layer is not None:
            routing = output.layers[target.layer].routing
            return routing.budget if target.head is None else routing.scores[:, target.head]
        assert target.label is not None
        logit = output.logits[:, self._labels.index(target.label)]
        if target.other is None:
            return logit
        return logit - output.logits[:, self._labels.index(target.other)]


def integrate(
    function: Callable[[Tensor], Tensor],
    point: Tensor,
    baseline: Tensor,
    n_steps: int,
    rows_per_batch: int,
) -> Tensor:
    """Integrate the gradient from baseline to point (arXiv 1703.01365), Gauss-Legendre, by captum.

    Args:
        function: batch of points -> their values, (B,).
        point: where the path ends, with a batch dimension of 1.
        baseline: where it starts, of the same shape.
        n_steps: points on the path.
        rows_per_batch: points evaluated at once.

    Returns:
        Contributions in the shape of point; they sum to function(point) - function(baseline).

    Raises:
        ValueError: if n_steps is below 1.
    """
    from captum.attr import IntegratedGradients

    if n_steps < 1:
        raise ValueError(f"n_steps is {n_steps}; it must be at least 1")
    values: Tensor = IntegratedGradients(function).attribute(
        point, baseline, n_steps=n_steps, internal_batch_size=rows_per_batch
    )
    return values


def _gated(heads: Bool[Tensor, "L H"], gates: Float[Tensor, "B L H"]) -> Policy:
    def choose(layer: int, routing: Routing) -> Selection:
        chosen = heads[layer].expand(gates.shape[0], -1)
        return Selection(chosen, gates[:, layer])

    return choose

"""Which words a prediction hangs on: integrated gradients through captum.

The hard top-k makes the model discontinuous in its input, so the heads are held at those that the
text itself got; along the path from the baseline nothing jumps. The baseline replaces every word
by [MASK], a token that training used for "no word here", and keeps [CLS], [SEP] and the positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from budgetformer.checkpoint import Checkpoint
from budgetformer.policies import fixed_heads
from budgetformer.trace import Trace

BASELINE = "every word replaced by [MASK]"
STEPS_PER_BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Attribution:
    """A number for each token; a word's number is the sum over its pieces."""

    target: str
    """What is attributed."""
    token_values: tuple[float, ...]
    """One value for each token of the encoding, in units of the target."""
    word_values: tuple[float, ...]
    """One value for each of the trace's words."""
    value: float
    """The target at the text."""
    baseline_value: float
    """The target at the baseline."""

    @property
    def completeness_error(self) -> float:
        """Sum of the values minus (value - baseline value): 0 for an exact integral."""
        return sum(self.token_values) - (self.value - self.baseline_value)


def integrated_gradients(
    checkpoint: Checkpoint, trace: Trace, label: str | None = None, n_steps: int = 32
) -> Attribution:
    """Attribute a class's logit to the tokens (Sundararajan et al., arXiv 1703.01365).

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction to explain; its executed heads are held fixed.
        label: the class whose logit is attributed; the predicted one when None.
        n_steps: points of the Gauss-Legendre rule; more make the completeness error smaller.

    Raises:
        ValueError: for a label that the model does not have.
    """
    from captum.attr import IntegratedGradients

    labels, tokenizer = checkpoint.config.labels, checkpoint.tokenizer
    label = trace.label if label is None else label
    if label not in labels:
        raise ValueError(f"the model has no class {label!r}; it has {', '.join(labels)}")
    target = labels.index(label)
    batch = tokenizer.batch([trace.encoding])
    special = torch.tensor([trace.encoding.special])
    baseline_ids = torch.where(special, batch.ids, tokenizer.mask_id)
    policy = fixed_heads([_head_mask(layer.heads, len(layer.scores)) for layer in trace.layers])
    model = checkpoint.model

    def logit(tokens: Tensor) -> Tensor:
        mask = batch.mask.expand(tokens.shape[0], -1)
        segments = batch.segments.expand(tokens.shape[0], -1)
        logits: Tensor = model.forward_tokens(tokens, mask, segments, policy).logits
        return logits[:, target]

    tokens, baseline = model.embedding.token(batch.ids), model.embedding.token(baseline_ids)
    values = IntegratedGradients(logit).attribute(
        tokens,
        baseline,
        n_steps=n_steps,
        internal_batch_size=max(1, STEPS_PER_BATCH_TOKENS // len(trace.encoding.ids)),
    )
    with torch.no_grad():
        value, baseline_value = logit(torch.cat([tokens, baseline])).tolist()
    token_values = tuple(values.sum(dim=-1)[0].tolist())
    word_values = tuple(sum(token_values[i] for i in word.tokens) for word in trace.words)
    return Attribution(f"logit of {label}", token_values, word_values, value, baseline_value)


def _head_mask(heads: tuple[int, ...], n_heads: int) -> Tensor:
    mask = torch.zeros(1, n_heads, dtype=torch.bool)
    mask[0, list(heads)] = True
    return mask

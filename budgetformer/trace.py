"""One forward pass as plain data: what the model decided about one text, ready for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from budgetformer.checkpoint import Checkpoint
from budgetformer.policies import Policy
from budgetformer.tokenizer import Encoding, Word, words


@dataclass(frozen=True)
class LayerTrace:
    """What one layer decided."""

    budget: float
    """s in (0, 1); 1 for a dense layer."""
    k: int
    """Executed heads."""
    heads: tuple[int, ...]
    """Indices of the executed heads, ascending."""
    scores: tuple[float, ...]
    """z of every head."""
    head_probabilities: tuple[float, ...]
    """p of every head; they sum to 1."""


@dataclass(frozen=True)
class Trace:
    """A prediction with everything that led to it."""

    texts: tuple[str, ...]
    """The text, or the two texts of a pair, as typed."""
    encoding: Encoding
    """What the model read."""
    label: str
    """The most probable class."""
    probabilities: dict[str, float]
    """Probability of every class."""
    layers: tuple[LayerTrace, ...]
    """The layers' decisions, first layer first."""

    @property
    def mean_budget(self) -> float:
        """Mean of s over layers."""
        return sum(layer.budget for layer in self.layers) / len(self.layers)

    @property
    def executed_heads_frac(self) -> float:
        """Executed heads over all heads."""
        n_heads = len(self.layers[0].scores)
        return sum(layer.k for layer in self.layers) / (n_heads * len(self.layers))

    @property
    def words(self) -> list[Word]:
        """The words that the model read, as typed."""
        return words(self.encoding, *self.texts)

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as JSON-ready data."""
        return {
            "label": self.label,
            "probabilities": self.probabilities,
            "n_tokens": len(self.encoding.ids),
            "truncated": self.encoding.truncated,
            "mean_budget": self.mean_budget,
            "executed_heads_frac": self.executed_heads_frac,
            "layers": [
                {
                    "budget": layer.budget,
                    "k": layer.k,
                    "heads": list(layer.heads),
                    "head_probabilities": list(layer.head_probabilities),
                }
                for layer in self.layers
            ],
        }


def encode(checkpoint: Checkpoint, text: str, text_pair: str | None = None) -> Encoding:
    """Encode an input for a checkpoint, cut to the model's length.

    Raises:
        ValueError: for a text without a readable character, or one text where the model wants two
            (and the reverse).
    """
    if checkpoint.config.n_segments == 2 and text_pair is None:
        raise ValueError("this model compares two texts: give the second one too")
    if checkpoint.config.n_segments == 1 and text_pair is not None:
        raise ValueError("this model reads a single text: leave the second one out")
    encoding = checkpoint.tokenizer.encode(text, text_pair, checkpoint.config.max_len)
    for segment, part in enumerate((text,) if text_pair is None else (text, text_pair)):
        if not any(
            s == segment and not special
            for s, special in zip(encoding.segments, encoding.special, strict=True)
        ):
            name = "second text" if segment else "text"
            raise ValueError(f"the {name} {part[:20]!r} has nothing to read: type at least a word")
    return encoding


@torch.inference_mode()
def predict(
    checkpoint: Checkpoint,
    text: str,
    text_pair: str | None = None,
    policy: Policy | None = None,
) -> Trace:
    """Classify one text, or one pair, and trace every decision.

    Args:
        checkpoint: the model and its tokenizer.
        text: what to classify; what does not fit is cut, see `Encoding.cut`.
        text_pair: the second text, for models of text pairs.
        policy: how heads are chosen; the model's own choice when None.

    Raises:
        ValueError: as `encode` does.
    """
    encoding = encode(checkpoint, text, text_pair)
    output = checkpoint.model(*checkpoint.tokenizer.batch([encoding]), policy=policy)
    probabilities = output.logits.softmax(dim=-1)[0].tolist()
    labels = checkpoint.config.labels
    layers = tuple(
        LayerTrace(
            budget=float(layer.routing.budget[0]),
            k=int(layer.selection.executed_heads[0]),
            heads=tuple(layer.selection.heads[0].nonzero().squeeze(-1).tolist()),
            scores=tuple(layer.routing.scores[0].tolist()),
            head_probabilities=tuple(layer.routing.probabilities[0].tolist()),
        )
        for layer in output.layers
    )
    return Trace(
        texts=(text,) if text_pair is None else (text, text_pair),
        encoding=encoding,
        label=labels[max(range(len(labels)), key=probabilities.__getitem__)],
        probabilities=dict(zip(labels, probabilities, strict=True)),
        layers=layers,
    )

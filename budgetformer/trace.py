"""One forward pass as plain data: what the model decided about one text, ready for JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from budgetformer.checkpoint import Checkpoint
from budgetformer.policies import Policy, fixed_heads
from budgetformer.progress import Progress
from budgetformer.tokenizer import Encoding, Word, words

BATCH_TOKENS = 8192


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
        return self.executed_heads / (n_heads * len(self.layers))

    @property
    def executed_heads(self) -> int:
        """Executed heads of all layers together."""
        return sum(layer.k for layer in self.layers)

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
    texts = (text,) if text_pair is None else (text, text_pair)
    return _traces(checkpoint, [texts], [encode(checkpoint, text, text_pair)], policy)[0]


def predict_many(
    checkpoint: Checkpoint,
    inputs: Sequence[tuple[str, ...]],
    policy: Policy | None = None,
    progress: Progress | None = None,
) -> list[Trace]:
    """Classify texts, or pairs, in batches of similar length; the traces keep their order.

    Args:
        checkpoint: the model and its tokenizer.
        inputs: a text or two each.
        policy: how heads are chosen, the same for every input; the model's own choice when None.
        progress: called after each batch.

    Raises:
        ValueError: as `encode` does.
    """
    encodings = [encode(checkpoint, *texts) for texts in inputs]
    # Longest first, so that the first row of a batch says how many fit.
    order = sorted(range(len(inputs)), key=lambda row: -len(encodings[row].ids))
    traces: list[Trace | None] = [None] * len(inputs)
    done = 0
    while done < len(order):
        rows = order[done : done + rows_at_once(len(encodings[order[done]].ids))]
        texts, batch = [inputs[row] for row in rows], [encodings[row] for row in rows]
        for row, trace in zip(rows, _traces(checkpoint, texts, batch, policy), strict=True):
            traces[row] = trace
        done += len(rows)
        if progress:
            progress(done, len(order))
    return [trace for trace in traces if trace is not None]


def predict_under(
    checkpoint: Checkpoint,
    trace: Trace,
    n: int,
    policy_for: Callable[[range], Policy],
    progress: Progress | None = None,
) -> list[Trace]:
    """Classify a trace's input n times, each time with other heads, in batches.

    Args:
        checkpoint: the model that made the trace.
        trace: whose input is read again.
        n: how many times.
        policy_for: gives the policy for rows of 0 … n - 1; its row b serves the b-th of them.
        progress: called after each batch.
    """
    size, traces = rows_at_once(len(trace.encoding.ids)), list[Trace]()
    for start in range(0, n, size):
        rows = range(start, min(start + size, n))
        texts, encodings = [trace.texts] * len(rows), [trace.encoding] * len(rows)
        traces += _traces(checkpoint, texts, encodings, policy_for(rows))
        if progress:
            progress(len(traces), n)
    return traces


def held_heads(trace: Trace) -> Policy:
    """Return the policy that runs exactly the heads that a trace ran."""
    masks = []
    for layer in trace.layers:
        mask = torch.zeros(1, len(layer.scores), dtype=torch.bool)
        mask[0, list(layer.heads)] = True
        masks.append(mask)
    return fixed_heads(masks)


def rows_at_once(n_tokens: int) -> int:
    """Return how many inputs of this length go into one batch."""
    return max(1, BATCH_TOKENS // n_tokens)


@torch.inference_mode()
def _traces(
    checkpoint: Checkpoint,
    inputs: Sequence[tuple[str, ...]],
    encodings: Sequence[Encoding],
    policy: Policy | None,
) -> list[Trace]:
    """Run one batch."""
    output = checkpoint.model(*checkpoint.tokenizer.batch(encodings), policy=policy)
    probabilities = output.logits.softmax(dim=-1).tolist()
    labels = checkpoint.config.labels
    budgets = torch.stack([layer.routing.budget for layer in output.layers], dim=1).tolist()
    heads = torch.stack([layer.selection.heads for layer in output.layers], dim=1).tolist()
    scores = torch.stack([layer.routing.scores for layer in output.layers], dim=1).tolist()
    p = torch.stack([layer.routing.probabilities for layer in output.layers], dim=1).tolist()
    traces = []
    for row, (texts, encoding) in enumerate(zip(inputs, encodings, strict=True)):
        layers = tuple(
            LayerTrace(
                budget=budget,
                k=sum(runs),
                heads=tuple(head for head, ran in enumerate(runs) if ran),
                scores=tuple(z),
                head_probabilities=tuple(q),
            )
            for budget, runs, z, q in zip(
                budgets[row], heads[row], scores[row], p[row], strict=True
            )
        )
        label = labels[max(range(len(labels)), key=probabilities[row].__getitem__)]
        by_label = dict(zip(labels, probabilities[row], strict=True))
        traces.append(Trace(texts, encoding, label, by_label, layers))
    return traces

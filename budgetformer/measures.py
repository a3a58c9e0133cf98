"""What can be read off each example of a scored set: its difficulty, its budget, its size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetformer.records import ScoredSet

SMALLEST_ON_A_LOG_AXIS = 1e-6


@dataclass(frozen=True)
class Measure:
    """A number of each example."""

    name: str
    """For the address of a page."""
    label: str
    """For people."""
    help: str
    """One sentence on what it is."""
    values: Callable[[ScoredSet], NDArray[Any]]
    """Scored set -> (N,)."""
    harder: int = 0
    """+1 where a larger value is a harder example, −1 where a smaller one is, 0 where neither."""
    log: bool = False
    """Whether an axis of it is logarithmic: most examples lie close to 0."""


LOSS = Measure(
    "loss", "Loss of the model", "−ln of the probability of the gold class, in nats.",
    lambda scored: scored.records.losses, 1, True,
)  # fmt: skip
MARGIN = Measure(
    "margin", "Margin", "Probability of the first class minus that of the second.",
    lambda scored: scored.records.margins, -1,
)  # fmt: skip
ENTROPY = Measure(
    "entropy", "Entropy", "How undecided the class probabilities are, in nats.",
    lambda scored: scored.entropies, 1, True,
)  # fmt: skip
TOKENS = Measure(
    "tokens", "Tokens", "How long the text is, in tokens read.",
    lambda scored: scored.records.n_tokens, 1,
)  # fmt: skip


def difficulties(scored: ScoredSet) -> list[Measure]:
    """List the measures of difficulty that a set has; length is one that must be ruled out."""
    found = [LOSS, MARGIN, ENTROPY]
    if "dense" in scored.references:
        found += [
            Measure(
                "dense_loss", "Loss of the dense twin",
                "The loss of the same kind of model with all heads on: not the model's own doubt.",
                lambda s: s.references["dense"].losses, 1, True,
            ),
            Measure(
                "dense_entropy", "Entropy of the dense twin",
                "How undecided the dense twin is, in nats.",
                lambda s: s.references["dense"].entropies, 1, True,
            ),
        ]  # fmt: skip
    if "linear" in scored.references:
        found.append(
            Measure(
                "linear_loss", "Loss of a linear model",
                "The loss of TF-IDF and logistic regression: a judge without attention.",
                lambda s: s.references["linear"].losses, 1, True,
            )
        )  # fmt: skip
    return [*found, TOKENS]


def budgets(scored: ScoredSet) -> list[Measure]:
    """List what a model spends on an example: s, its mean and by layer, and heads that ran."""
    mean = Measure(
        "s", "Mean budget s", "Mean over layers of the share of heads that a layer asks for.",
        lambda s: s.records.mean_budgets,
    )  # fmt: skip
    layers = [
        Measure(
            f"s{layer + 1}", f"Budget s of layer {layer + 1}",
            "The share of its heads that this layer asks for.",
            lambda s, at=layer: s.records.budgets[:, at],  # type: ignore[misc]
        )
        for layer in range(scored.source.n_layers)
    ]  # fmt: skip
    heads = Measure(
        "heads", "Heads run", "Share of all heads that ran.",
        lambda s: s.records.executed_fractions,
    )  # fmt: skip
    return [mean, *(layers if len(layers) > 1 else []), heads]


def everything(scored: ScoredSet) -> list[Measure]:
    """List all measures, for filters."""
    flops = Measure(
        "mflops", "MFLOPs", "Operations of the whole model in millions, by formula.",
        lambda s: s.flops / 1e6,
    )  # fmt: skip
    return [*budgets(scored), *difficulties(scored), flops]


def on_axis(measure: Measure, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return values as they can be drawn: a logarithmic axis has no 0."""
    numbers = np.asarray(values, float)
    return np.maximum(numbers, SMALLEST_ON_A_LOG_AXIS) if measure.log else numbers

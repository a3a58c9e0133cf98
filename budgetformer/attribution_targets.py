"""What can be asked about: the number of the model that an attribution explains.

Layers and heads count from 0 in the library, as in a trace, and from 1 in names and messages, as
on a screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from budgetformer.config import ModelConfig

Kind = Literal["logit", "contrast", "budget", "mean_budget", "score"]


@dataclass(frozen=True)
class Target:
    """One number that the model computes from a text; make it with a constructor below.

    Explaining s and z, as opposed to a class, is ours; contrasts are those of Yin and Neubig
    (arXiv 2202.10419).
    """

    kind: Kind
    """Which of the numbers."""
    label: str | None = None
    """The class, of a logit or a contrast."""
    other: str | None = None
    """The class that a contrast subtracts."""
    layer: int | None = None
    """The layer, from 0, of a budget or a score."""
    head: int | None = None
    """The head, from 0, of a score."""

    @classmethod
    def logit(cls, label: str) -> Target:
        """The class's logit: its score before the softmax."""
        return cls("logit", label=label)

    @classmethod
    def contrast(cls, label: str, other: str) -> Target:
        """Logit of label minus logit of other: the logarithm of the odds between the two."""
        return cls("contrast", label=label, other=other)

    @classmethod
    def budget(cls, layer: int) -> Target:
        """The budget s in (0, 1) of one layer, counted from 0."""
        return cls("budget", layer=layer)

    @classmethod
    def mean_budget(cls) -> Target:
        """The mean of s over layers."""
        return cls("mean_budget")

    @classmethod
    def score(cls, layer: int, head: int) -> Target:
        """The score z of one head, before the softmax over heads; both counted from 0."""
        return cls("score", layer=layer, head=head)

    @property
    def name(self) -> str:
        """What a person calls it; layers and heads count from 1."""
        if self.kind == "logit":
            return f"logit of {self.label}"
        if self.kind == "contrast":
            return f"{self.label} − {self.other}"
        if self.kind == "mean_budget":
            return "mean budget s"
        assert self.layer is not None  # the constructors see to it
        if self.kind == "budget":
            return f"budget s of layer {self.layer + 1}"
        assert self.head is not None
        return f"score z of head {self.head + 1} in layer {self.layer + 1}"

    def check(self, config: ModelConfig) -> None:
        """Check that a model computes this number.

        Raises:
            ValueError: for a class, layer or head that the model does not have; for a contrast of a
                class with itself; for a budget or score of a dense model; for a budget of a model
                whose number of heads is fixed.
        """
        if self.kind in ("logit", "contrast"):
            self._check_classes(config)
        else:
            self._check_router(config)

    def _check_classes(self, config: ModelConfig) -> None:
        for label in (self.label, self.other):
            if label is not None and label not in config.labels:
                raise ValueError(
                    f"the model has no class {label!r}; it has {', '.join(config.labels)}"
                )
        if self.label == self.other:
            raise ValueError(f"a contrast needs two classes, not {self.label!r} twice")

    def _check_router(self, config: ModelConfig) -> None:
        if not config.routed:
            raise ValueError(
                f"a dense model has no {self.name}: it has no router and no budget, all heads run"
            )
        if config.budgets == "static" or (config.constant_budget and self.kind != "score"):
            raise ValueError(f"no word moves the {self.name}: it is the same for every input")
        if self.layer is not None:
            _check_index("layer", self.layer, config.n_layers)
        if self.head is not None:
            _check_index("head", self.head, config.n_heads)


def _check_index(what: str, index: int, count: int) -> None:
    if not 0 <= index < count:
        raise ValueError(f"the model has no {what} {index + 1}; it has {what}s 1 to {count}")

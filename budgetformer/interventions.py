"""What a user forces on one prediction, as a value: compare it, put it into a URL, run it.

    predict(checkpoint, text, policy=Intervention(budgets=(0.5,) * 4).policy(checkpoint.config))

For each layer, in this order:

1. k is the given one, or follows from the forced budget, or from the model's own budget, with the
   model's rounding; a limit holds for all three.
2. Heads forced out never run and heads forced in always do. k stays: a head that is forced in
   takes the place of the last of the others, and the place of one that is forced out goes to the
   next. Only where k is too small for the heads forced in, or too large for what is left, it gives
   way.
3. The places that are left go to the heads that `order` puts first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from budgetformer.budget import Routing, Selection, executed_heads, top_heads
from budgetformer.config import ModelConfig
from budgetformer.policies import Policy

HeadOrder = Literal["top", "bottom", "random", "sample"]
"""Best-scored heads first, worst-scored first, any order, or drawn by p without replacement."""

FIRST = 1e9  # beyond any score


@dataclass(frozen=True)
class Intervention:
    """Changes to how heads are chosen; the empty one is the model's own choice.

    A field of layers is empty, or has one entry for each layer, where None and () change nothing.

    Raises:
        ValueError: for a value out of its range, naming it.
    """

    budgets: tuple[float | None, ...] = ()
    """Forced s of each layer, in [0, 1]."""
    k: tuple[int | None, ...] = ()
    """Given number of heads of each layer, at least 1; it goes before a forced budget."""
    heads_in: tuple[tuple[int, ...], ...] = ()
    """Heads of each layer that run whatever their scores are."""
    heads_out: tuple[tuple[int, ...], ...] = ()
    """Heads of each layer that do not run."""
    order: HeadOrder = "top"
    """Which heads come first."""
    temperature: float | None = None
    """τ of p = softmax(z/τ), above 0; the model's own when None. It changes no top-k, only how p is
    shown and what "sample" draws: near 0 that is the top-k, for large τ any heads."""
    seed: int = 0
    """Of "random" and "sample": one draw a layer, the same for every text."""

    def __post_init__(self) -> None:
        for name in ("budgets", "k"):
            object.__setattr__(self, name, _layers(name, getattr(self, name)))
        for name in ("heads_in", "heads_out"):
            layers = _layers(name, getattr(self, name))
            object.__setattr__(self, name, tuple(_head_set(name, heads) for heads in layers))
        for s in self.budgets:
            _require(s is None or (_is_number(s) and 0 <= s <= 1), "a budget in [0, 1]", s)
        for k in self.k:
            _require(k is None or (_is_count(k) and k >= 1), "a k of at least 1", k)
        _require(
            self.order in get_args(HeadOrder), "an order of top, bottom, random, sample", self.order
        )
        tau = self.temperature
        _require(tau is None or (_is_number(tau) and 0 < tau < FIRST), "a temperature above 0", tau)
        _require(_is_count(self.seed) and 0 <= self.seed < 2**31, "a seed of at least 0", self.seed)
        for layer, (wanted, unwanted) in enumerate(
            zip(self.heads_in, self.heads_out, strict=False)
        ):
            both = set(wanted) & set(unwanted)
            if both:
                raise ValueError(f"layer {layer}: head {min(both)} is forced both in and out")

    @property
    def empty(self) -> bool:
        """Whether the model's own choice stands."""
        forced = (*self.budgets, *self.k, *self.heads_in, *self.heads_out)
        return self.order == "top" and all(value is None or value == () for value in forced)

    def policy(self, config: ModelConfig, limit: int | None = None) -> Policy:
        """Return the policy for a model of this shape.

        Args:
            config: the model's shape.
            limit: most heads a layer, whatever asks for more; None for no limit.

        Raises:
            ValueError: if layers or heads do not fit the model, if a layer would have no head left,
                or if a dense model, which has neither budget nor scores, is asked for more than
                heads forced out.
        """
        self._require_fit(config)
        scores = [
            _ranks(self.order, self.seed, layer, config.n_heads) for layer in range(config.n_layers)
        ]

        def choose(layer: int, routing: Routing) -> Selection:
            heads_in = self.heads_in[layer] if self.heads_in else ()
            heads_out = self.heads_out[layer] if self.heads_out else ()
            k = self._k(layer, routing, config).clamp(max=limit or config.n_heads)
            k = k.clamp(max(1, len(heads_in)), config.n_heads - len(heads_out))
            preference = self._preference(routing.scores, scores[layer], config.temperature)
            preference[:, list(heads_in)] = FIRST
            preference[:, list(heads_out)] = -FIRST
            return Selection(top_heads(preference, k))

        return choose

    def to_dict(self) -> dict[str, Any]:
        """Return what differs from the defaults, ready for JSON."""
        default = Intervention()
        return {
            name: value for name, value in asdict(self).items() if value != getattr(default, name)
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Intervention:
        """Read what `to_dict` wrote, by whatever way it came.

        Raises:
            ValueError: for an unknown field or a value out of its range.
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"an intervention is a set of fields, not {values!r}")
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"an intervention has no field {sorted(map(str, unknown))[0]!r}")
        return cls(**values)

    def to_json(self) -> str:
        """Return it as one short line, for a URL."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Intervention:
        """Read what `to_json` wrote.

        Raises:
            ValueError: for anything else.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{text[:40]!r} is not an intervention: {error}") from error
        return cls.from_dict(values)

    def _k(self, layer: int, routing: Routing, config: ModelConfig) -> Tensor:
        """Return the k of each example, (B,)."""
        given = self.k[layer] if self.k else None
        if given is not None:
            return torch.full_like(routing.budget, given).long()
        forced = self.budgets[layer] if self.budgets else None
        budget = routing.budget if forced is None else torch.full_like(routing.budget, forced)
        return executed_heads(budget, config.n_heads, config.rounding)

    def _preference(
        self,
        scores: Float[Tensor, "B H"],
        drawn: Float[Tensor, " H"],
        temperature: float,
    ) -> Float[Tensor, "B H"]:
        """Larger for heads that come earlier; always a tensor of its own."""
        if self.order == "top":
            return scores.clone()
        if self.order == "bottom":
            return -scores
        drawn = drawn.to(scores)
        if self.order == "random":
            return drawn.expand_as(scores).clone()
        # The largest k of log p + Gumbel noise are k draws by p without replacement.
        return scores / (self.temperature or temperature) + drawn

    def _require_fit(self, config: ModelConfig) -> None:
        for name in ("budgets", "k", "heads_in", "heads_out"):
            n = len(getattr(self, name))
            if n not in (0, config.n_layers):
                raise ValueError(f"{name} has {n} layers, the model {config.n_layers}")
        _require(
            all(k is None or k <= config.n_heads for k in self.k),
            f"k in [1, {config.n_heads}]",
            self.k,
        )
        for heads in (*self.heads_in, *self.heads_out):
            _require(
                all(h < config.n_heads for h in heads), f"heads in [0, {config.n_heads})", heads
            )
        for layer, heads in enumerate(self.heads_out):
            if len(heads) == config.n_heads:
                raise ValueError(f"layer {layer} needs a head: not all can be forced out")
        asked = any(value is not None for value in (*self.budgets, *self.k))
        if not config.routed and (asked or self.order != "top"):
            raise ValueError("a dense model has no budget and no head scores to change")


def _ranks(order: HeadOrder, seed: int, layer: int, n_heads: int) -> Float[Tensor, " H"]:
    """One draw a head: uniform for "random", Gumbel noise for "sample"."""
    generator = torch.Generator().manual_seed(seed * 1009 + layer)
    uniform = torch.rand(n_heads, generator=generator, dtype=torch.float64).clamp(min=1e-12)
    return uniform if order == "random" else -torch.log(-torch.log(uniform))


def _layers(name: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise ValueError(f"{name} is a list with an entry for each layer, not {values!r}")
    return tuple(values)


def _head_set(name: str, heads: Any) -> tuple[int, ...]:
    heads = _layers(name, heads)
    _require(all(_is_count(h) and h >= 0 for h in heads), "head numbers", heads)
    return tuple(sorted(set(heads)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(holds: bool, wanted: str, value: object) -> None:
    if not holds:
        raise ValueError(f"expected {wanted}, got {value!r}")

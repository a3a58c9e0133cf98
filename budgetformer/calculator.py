"""What a Transformer encoder of any shape would cost, with all heads on and with a share of them.

FLOP = L·(share·(8·T·D² + 4·T²·D) + 4·T·D·D_ff) + routers + classifier       see cost.py

kWh a year = FLOP / (FLOP a second) · texts a day · 365 · watts / 3.6e6
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from budgetformer.config import ModelConfig
from budgetformer.cost import dense_flops, flops, full_flops
from budgetformer.energy import JOULES_PER_KWH

DAYS = 365
# Bounds of what is asked for, so that a slip of the finger is no overflow.
MOST = {"n_layers": 200, "n_heads": 256, "d_model": 32_768, "d_ff": 131_072, "n_tokens": 131_072}


@dataclass(frozen=True)
class Load:
    """A shape, its heads and its work.

    Raises:
        ValueError: for a value out of its range, naming it.
    """

    n_layers: int
    n_heads: int
    d_model: int
    d_ff: int
    n_tokens: int
    """Tokens of a text, T."""
    heads_share: float
    """Executed heads over all heads, in (0, 1]."""
    texts_a_day: float

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            value = getattr(self, name)
            if not 1 <= value <= most:
                raise ValueError(f"{name} must be in [1, {most:,}], got {value:,}")
        if not 0 < self.heads_share <= 1:
            raise ValueError(f"the share of heads must be in (0, 1], got {self.heads_share}")
        if not 0 <= self.texts_a_day < math.inf:
            raise ValueError(f"texts a day must be at least 0, got {self.texts_a_day}")
        self.config  # noqa: B018 - a shape that does not fit is refused here

    @property
    def config(self) -> ModelConfig:
        """A model of two classes and this shape; its vocabulary costs no FLOP."""
        return ModelConfig(
            vocab_size=1,
            labels=("a", "b"),
            n_layers=self.n_layers,
            n_heads=self.n_heads,
            d_model=self.d_model,
            d_ff=self.d_ff,
            max_len=max(8, self.n_tokens),
        )

    @property
    def flops(self) -> float:
        """FLOPs of a text with this share of the heads: linear between no head and all of them."""
        none = flops(self.config, self.n_tokens, [0] * self.n_layers).model
        full = full_flops(self.config, self.n_tokens).model
        return none + self.heads_share * (full - none)

    @property
    def dense_flops(self) -> float:
        """FLOPs of a text in an ordinary Transformer: all heads, no router."""
        return float(dense_flops(self.config, self.n_tokens).model)

    @property
    def k(self) -> int:
        """The whole number of heads a layer that is nearest to the share, for timing."""
        return min(self.n_heads, max(1, round(self.heads_share * self.n_heads)))

    def layer_flops(self) -> tuple[float, float]:
        """Return the FLOPs of what `timing.bench_shape` times: one layer, all heads and k heads."""
        one = ModelConfig(**{**self.config.__dict__, "n_layers": 1})
        return (
            float(dense_flops(one, self.n_tokens).model),
            float(flops(one, self.n_tokens, [self.k]).model),
        )


@dataclass(frozen=True)
class Year:
    """What the work of a year takes."""

    seconds: float
    kwh: float
    carbon_kg: float
    """Kilograms of CO₂ equivalent."""


def year(seconds_a_text: float, texts_a_day: float, watts: float, g_per_kwh: float) -> Year:
    """Return a year's time, energy and emissions: power × time × the grid's carbon intensity.

    Args:
        seconds_a_text: time of one text.
        texts_a_day: how many.
        watts: power while the machine works.
        g_per_kwh: grams of CO₂ equivalent a kilowatt-hour.

    Raises:
        ValueError: for a negative value.
    """
    for name, value in (
        ("seconds", seconds_a_text), ("texts", texts_a_day), ("watts", watts), ("g/kWh", g_per_kwh),
    ):  # fmt: skip
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} must be at least 0, got {value}")
    seconds = seconds_a_text * texts_a_day * DAYS
    kwh = seconds * watts / JOULES_PER_KWH
    return Year(seconds, kwh, kwh * g_per_kwh / 1e3)

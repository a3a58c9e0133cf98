"""Wall-clock time of the skipping model beside its dense twin, on one thread of this machine.

The two run in turn, so that whatever else the machine does meets both, and medians are compared.
The limit of a speed-up is the ratio of the closed-form FLOPs of the whole models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch

from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig
from budgetformer.cost import dense_flops, flops, full_flops
from budgetformer.data import Examples
from budgetformer.evaluate import check_segments, evaluate_ids, length_batches
from budgetformer.model import BudgetFormer
from budgetformer.policies import fixed_heads
from budgetformer.sweep import mean_dense_flops, mean_flops

MIN_REPEATS = 5
# One layer of this many is timed in some seconds, and its weights take 0.5 GB.
MOST_FLOPS, MOST_WEIGHTS = 5e10, 2**27
MIN_SAMPLE_MS = 2.0  # shorter calls are timed several at a time

# (batch, length, (D, H), part of the heads): about a minute.
DEFAULT_GRID = tuple(product((1, 8), (64, 256, 512), ((128, 8), (256, 16)), (1 / 8, 1 / 2)))


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """The skipping model beside its dense twin."""

    dense_ms: float
    """Median of the dense twin, from token ids to logits."""
    sparse_ms: float
    """Median of the skipping model, router included."""
    limit: float
    """Closed-form FLOPs of the dense twin over those of the skipping model."""

    @property
    def speedup(self) -> float:
        """How many times as fast as the dense twin."""
        return self.dense_ms / self.sparse_ms

    @property
    def fraction_of_limit(self) -> float:
        """Speed-up over its limit."""
        return self.speedup / self.limit

    def __str__(self) -> str:
        return (
            f"dense {self.dense_ms:8.2f} ms  sparse {self.sparse_ms:8.2f} ms  "
            f"speed-up {self.speedup:.2f} of {self.limit:.2f} ({self.fraction_of_limit:.2f})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON-ready data."""
        return {
            **asdict(self),
            "speedup": self.speedup,
            "fraction_of_limit": self.fraction_of_limit,
        }


@dataclass(frozen=True, kw_only=True)
class Timing(SpeedUp):
    """One shape, measured."""

    batch: int
    length: int
    d_model: int
    n_heads: int
    k: int

    def __str__(self) -> str:
        return (
            f"B {self.batch:2}  T {self.length:3}  D {self.d_model}  "
            f"k {self.k:2} of {self.n_heads:2}  {super().__str__()}"
        )


@dataclass(frozen=True, kw_only=True)
class TextTiming(SpeedUp):
    """Real texts with the model's own budgets, measured; the times are those of all texts."""

    n_texts: int
    batch: int
    mean_tokens: float
    executed_heads_frac: float

    def __str__(self) -> str:
        return (
            f"{self.n_texts} texts of {self.mean_tokens:.0f} tokens, {self.batch} at a time, "
            f"{self.executed_heads_frac:.1%} of the heads  {super().__str__()}"
        )


@dataclass(frozen=True)
class Latency:
    """Percentiles of the time of one forward pass, in milliseconds, measured."""

    p50_ms: float
    p90_ms: float
    p99_ms: float


def bench(
    grid: Sequence[tuple[int, int, tuple[int, int], float]] = DEFAULT_GRID, seconds: float = 2.0
) -> Iterator[Timing]:
    """Time two-layer models with random weights, each example with k random heads a layer."""
    for batch, length, (d_model, n_heads), part in grid:
        config = ModelConfig(
            vocab_size=1000,
            labels=("a", "b"),
            d_model=d_model,
            n_heads=n_heads,
            d_ff=4 * d_model,
            max_len=length,
        )
        k = max(1, int(part * n_heads))
        yield time_shape(*twins(config), batch, length, k, seconds)


def bench_checkpoint(checkpoint: Checkpoint, seconds: float = 4.0) -> Iterator[Timing]:
    """Time a checkpoint at its own length and number of heads, as its metrics.json has them."""
    config, figures = checkpoint.config, checkpoint.metrics.get("validation", {})
    length = min(config.max_len, round(figures.get("mean_tokens") or config.max_len))
    part = figures.get("executed_heads_frac") or 1 / 2
    k = min(config.n_heads, max(1, round(part * config.n_heads)))
    dense = dense_twin(checkpoint.model)
    for batch in (1, 8, 32):
        yield time_shape(checkpoint.model, dense, batch, length, k, seconds)


def bench_shape(
    n_heads: int, d_model: int, d_ff: int, length: int, k: int, seconds: float = 2.0
) -> Timing:
    """Time one layer of any shape on one text, with random weights and k random heads.

    Layers of one shape are alike, so the FLOPs a second of one are those of many.

    Raises:
        ValueError: for a shape that is none, or one too large to be timed in passing.
    """
    config = ModelConfig(
        vocab_size=2,
        labels=("a", "b"),
        n_layers=1,
        n_heads=n_heads,
        d_model=d_model,
        d_ff=d_ff,
        max_len=max(8, length),
    )
    if not 1 <= k <= n_heads:
        raise ValueError(f"k must be in [1, {n_heads}], got {k}")
    if length < 1:
        raise ValueError(f"the length must be at least 1 token, got {length}")
    cost = full_flops(config, length).model
    if cost > MOST_FLOPS or (4 * d_model + 2 * d_ff) * d_model > MOST_WEIGHTS:
        raise ValueError(
            f"a layer of {cost / 1e9:,.0f} GFLOP is too large to be timed in passing: the most is "
            f"{MOST_FLOPS / 1e9:,.0f} GFLOP and {MOST_WEIGHTS:,} weights"
        )
    return time_shape(*twins(config), 1, length, k, seconds)


def time_shape(
    model: BudgetFormer,
    dense: BudgetFormer,
    batch: int,
    length: int,
    k: int,
    seconds: float,
    seed: int = 0,
) -> Timing:
    """Time a model and its dense twin on random ids, each example with k random heads a layer."""
    config, generator = model.config, torch.Generator().manual_seed(seed)
    ids = torch.randint(config.vocab_size, (batch, length), generator=generator)
    mask = torch.ones(batch, length, dtype=torch.bool)
    heads = [
        torch.rand(batch, config.n_heads, generator=generator).argsort(dim=1) < k
        for _ in range(config.n_layers)
    ]
    policy = fixed_heads(heads)
    dense_ms, sparse_ms = medians_ms(
        [lambda: dense(ids, mask), lambda: model(ids, mask, policy=policy)], seconds
    )
    limit = dense_flops(config, length).model / flops(config, length, [k] * config.n_layers).model
    return Timing(
        batch=batch,
        length=length,
        d_model=config.d_model,
        n_heads=config.n_heads,
        k=k,
        dense_ms=dense_ms,
        sparse_ms=sparse_ms,
        limit=limit,
    )


def time_texts(
    checkpoint: Checkpoint, examples: Examples, batch_size: int = 32, seconds: float = 10.0
) -> TextTiming:
    """Time a model on texts with its own budgets, in batches of similar length.

    Raises:
        ValueError: if there is no text, or the texts do not fit the model.
    """
    check_segments(checkpoint, examples)
    model, tokenizer, config = checkpoint.model, checkpoint.tokenizer, checkpoint.config
    dense = dense_twin(model)
    inputs = tokenizer.encode_ids(examples.texts, examples.text_pairs, config.max_len)
    records = evaluate_ids(model, tokenizer, inputs, examples.labels, batch_size)
    batches = [
        tokenizer.batch([inputs[row] for row in rows])
        for rows in length_batches(inputs, batch_size)
    ]

    def read_all(reader: BudgetFormer) -> None:
        for batch in batches:
            reader(*batch)

    dense_ms, sparse_ms = medians_ms([lambda: read_all(dense), lambda: read_all(model)], seconds)
    return TextTiming(
        n_texts=len(inputs),
        batch=batch_size,
        mean_tokens=float(records.n_tokens.mean()),
        executed_heads_frac=float(records.executed_fractions.mean()),
        dense_ms=dense_ms,
        sparse_ms=sparse_ms,
        limit=mean_dense_flops(records, config) / mean_flops(records, config),
    )


def dense_twin(model: BudgetFormer) -> BudgetFormer:
    """Return the model without its router, all heads running, on the same weights."""
    dense = BudgetFormer.without_weights(replace(model.config, routed=False, fixed_heads=0))
    dense.load_state_dict(model.state_dict(), strict=False, assign=True)
    return dense.eval().requires_grad_(False)


def medians_ms(functions: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """Run functions in turn for some seconds, on one thread, and return their median times."""
    with one_thread(), torch.inference_mode():
        calls = [_calls_a_sample(function) for function in functions]
        samples: list[list[float]] = [[] for _ in functions]
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(samples[0]) < MIN_REPEATS:
            for function, n, found in zip(functions, calls, samples, strict=True):
                found.append(_sample_ms(function, n))
    return [float(np.median(found)) for found in samples]


def latency(
    checkpoint: Checkpoint,
    texts: Sequence[str],
    repeats: int = 100,
    text_pairs: Sequence[str] | None = None,
) -> Latency:
    """Time single texts, or pairs, from ids to logits, on one thread; they are taken in turn.

    Raises:
        ValueError: if there is no text.
    """
    if not texts:
        raise ValueError("there are no texts to time")
    tokenizer, model = checkpoint.tokenizer, checkpoint.model
    inputs = tokenizer.encode_ids(texts, text_pairs, checkpoint.config.max_len)
    batches = [tokenizer.batch([row]) for row in inputs]
    with one_thread(), torch.inference_mode():
        for batch in batches[:MIN_REPEATS]:
            model(*batch)
        found = []
        for i in range(repeats):
            batch = batches[i % len(batches)]
            start = time.perf_counter()
            model(*batch)
            found.append((time.perf_counter() - start) * 1e3)
    return Latency(*(float(p) for p in np.percentile(found, (50, 90, 99))))


def twins(config: ModelConfig) -> tuple[BudgetFormer, BudgetFormer]:
    """Return a model with random weights and its dense twin."""
    with torch.random.fork_rng(devices=[]):
        model = BudgetFormer(config).eval().requires_grad_(False)
    return model, dense_twin(model)


def _calls_a_sample(function: Callable[[], object]) -> int:
    """Warm up, then say how many calls make a sample that the clock can tell."""
    for _ in range(2):
        function()
    return max(1, round(MIN_SAMPLE_MS / _sample_ms(function, 1)))


def _sample_ms(function: Callable[[], object], n: int) -> float:
    start = time.perf_counter()
    for _ in range(n):
        function()
    return (time.perf_counter() - start) / n * 1e3


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

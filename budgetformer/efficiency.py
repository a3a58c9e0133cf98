"""What accuracy costs: the files that `sweep --save` and `measure --save` leave beside a model.

    sweep.json     accuracy, heads and FLOPs under every policy, on a whole split
    measured.json  time, memory, energy and CO₂ on a stated machine; see measure.py

Read here for whoever shows them. No model is run and no weights are loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from budgetformer.config import ModelConfig, from_dict, read_json
from budgetformer.sweep import SweepRow

SWEEP, MEASURED = "sweep.json", "measured.json"
CONFIG, METRICS = "config.json", "metrics.json"
# Beyond this the weights have changed since the sweep; another processor's rounding moves less.
ACCURACY_SLACK = 0.002
QUIET_LOAD = 1.2

Kind = Literal["adaptive", "static", "dense"]


@dataclass(frozen=True)
class SavedSweep:
    """One model's sweep.json, with what is needed to read it."""

    name: str
    """The model's folder."""
    config: ModelConfig
    data: str
    """The data set."""
    split: str
    n: int
    """Examples."""
    rows: tuple[SweepRow, ...]
    """In the order of `sweep`; the model's own choice first."""
    accuracy_on_file: float | None
    """Of the same split in metrics.json, if it is there."""

    @property
    def kind(self) -> Kind:
        """Whether heads are chosen for each input, the same for all inputs, or all of them run."""
        if not self.config.routed and not self.config.fixed_heads:
            return "dense"
        return "static" if self.config.constant_budget else "adaptive"

    @property
    def own(self) -> SweepRow:
        """The model's own choice."""
        return self.rows[0]

    @property
    def full_flops(self) -> float:
        """FLOPs an example with every head on, router included where there is one."""
        return max(row.flops_per_example for row in self.rows)

    @property
    def outdated(self) -> bool:
        """Whether metrics.json says another accuracy, so that the weights must have changed."""
        said = self.accuracy_on_file
        return said is not None and abs(said - self.own.accuracy) > ACCURACY_SLACK

    def series(self, policy: str) -> tuple[SweepRow, ...]:
        """Return a policy's rows by k; where every head runs, "random" and "bottom" are "fixed"."""
        rows = [row for row in self.rows if row.policy == policy]
        if policy in ("random", "bottom") and rows:
            rows += [row for row in self.series("fixed") if row.k == self.config.n_heads]
        return tuple(sorted(rows, key=lambda row: row.k or 0))

    def row(self, policy: str, k: int | None = None) -> SweepRow | None:
        """Return one row; None where it was not measured."""
        return next((row for row in self.rows if (row.policy, row.k) == (policy, k)), None)

    def flops_share(self, row: SweepRow) -> float:
        """Return a row's FLOPs over those with every head on."""
        return row.flops_per_example / self.full_flops

    def same_examples(self, other: SavedSweep) -> bool:
        """Whether another sweep was made on the same examples."""
        return (self.data, self.split, self.n) == (other.data, other.split, other.n)


def read_sweep(folder: Path) -> SavedSweep | None:
    """Read a model's sweep.json; None where there is none.

    Raises:
        ValueError: for a file that is damaged, naming it and what is wrong.
    """
    path = folder / SWEEP
    if not path.is_file():
        return None
    values = read_json(path)
    config = from_dict(ModelConfig, read_json(folder / CONFIG))
    try:
        data, split, n = str(values["data"]), str(values["split"]), int(values["n"])
        rows = tuple(_row(row) for row in values["rows"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {type(error).__name__} {error}") from error
    if not rows:
        raise ValueError(f"{path} has no rows: run `sweep --save` again")
    said = read_json(folder / METRICS).get(split) if (folder / METRICS).is_file() else None
    same = isinstance(said, dict) and (said.get("data"), said.get("n")) == (data, n)
    return SavedSweep(
        folder.name, config, data, split, n, rows, said.get("accuracy") if said and same else None
    )


def companions(
    sweep: SavedSweep, others: Sequence[SavedSweep]
) -> tuple[SavedSweep | None, tuple[SavedSweep, ...]]:
    """Return a model's dense twin and its static controls, all measured on the same examples.

    The dense twin is the folder <name>-dense. A static control is any model of the same shape that
    gives every input the same budget.
    """
    same = [other for other in others if other.name != sweep.name and sweep.same_examples(other)]
    twin = next((other for other in same if other.name == f"{sweep.name}-dense"), None)
    statics = [
        other
        for other in same
        if other.kind == "static" and _shape(other.config) == _shape(sweep.config)
    ]
    return twin, tuple(statics)


@dataclass(frozen=True)
class Machine:
    """Where something was measured."""

    processor: str
    cores: int
    threads: int
    """Threads that the model ran on."""
    torch: str
    system: str
    load: float
    """Processes that wanted to run just before, on average over a minute; 0 is a quiet machine."""

    @property
    def quiet(self) -> bool:
        """Whether nothing else ran to speak of; a measurement just before may still count as 1."""
        return self.load <= QUIET_LOAD

    def __str__(self) -> str:
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.processor}, {threads} of {cores}, torch {self.torch}"


@dataclass(frozen=True)
class Measured:
    """What one model took, on stated texts and a stated machine."""

    texts: str
    """Which texts, in words."""
    n_texts: int
    mean_tokens: float
    executed_heads_frac: float
    """Mean of k/H on these texts."""
    date: str
    """Year, month and day."""
    machine: Machine
    p50_ms: float
    """Median time of one text from ids to logits; measured."""
    p90_ms: float
    p99_ms: float
    memory_length: int
    """Tokens of the text whose memory was measured: the longest."""
    resident_bytes: int
    """Held before that pass: Python, torch and the weights; measured."""
    forward_bytes: int
    """What the pass added at its peak; measured."""
    energy_j: float
    """Joules for 1,000 texts, processor and memory."""
    emissions_g: float
    """Grams of CO₂ equivalent for 1,000 texts."""
    seconds: float
    """Time that 1,000 texts took while energy was watched."""
    country: str
    """ISO code of the country whose electricity is assumed."""
    energy_source: Literal["measured", "estimated"]

    @property
    def watts(self) -> float:
        """Mean power while the model ran."""
        return self.energy_j / self.seconds


def measured_from_dict(values: dict[str, Any]) -> Measured:
    """Build what was measured from JSON data.

    Raises:
        ValueError: if a field is missing or a figure is no positive number.
    """
    try:
        machine = Machine(**values["machine"])
        found = Measured(**{**values, "machine": machine})
        numbers = [found.p50_ms, found.p90_ms, found.p99_ms, found.energy_j, found.emissions_g]
        if not all(math.isfinite(x) and x > 0 for x in [*numbers, found.seconds]):
            raise ValueError("a time or an energy is not above 0")
    except (KeyError, TypeError) as error:
        raise ValueError(f"{type(error).__name__} {error}") from error
    return found


def read_measured(folder: Path) -> Measured | None:
    """Read a model's measured.json; None where there is none.

    Raises:
        ValueError: for a file that is damaged, naming it and what is wrong.
    """
    path = folder / MEASURED
    if not path.is_file():
        return None
    try:
        return measured_from_dict(read_json(path))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _row(values: dict[str, Any]) -> SweepRow:
    known = {field.name for field in fields(SweepRow)}
    row = SweepRow(**{name: value for name, value in values.items() if name in known})
    for name in ("executed_heads_frac", "accuracy", "ci_low", "ci_high"):
        if not 0 <= getattr(row, name) <= 1:
            raise ValueError(f"{name} must be in [0, 1], got {getattr(row, name)!r}")
    if not row.flops_per_example > 0:
        raise ValueError(f"flops_per_example must be above 0, got {row.flops_per_example!r}")
    return row


def _shape(config: ModelConfig) -> tuple[int, ...]:
    return config.n_layers, config.n_heads, config.d_model, config.d_ff

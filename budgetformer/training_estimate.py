"""How long a training will take: a few of its steps are run, and what they took is added up.

Nothing is kept of it. The steps are real ones, of short, middling and long batches alike.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from budgetformer.data import Dataset
from budgetformer.evaluate import evaluate_ids
from budgetformer.train import Run, Trainer

STEPS_MEASURED, ROWS_MEASURED = 8, 96
# Measuring ends here, on a slow machine or with a large model.
LONGEST_S = 20.0


@dataclass(frozen=True)
class Estimate:
    """What was measured, and what follows from it."""

    seconds: float
    """Estimate of the whole training: preparation, steps and validations."""
    prepare_s: float
    """Measured: vocabulary, model and encoding of the texts; 0 for what was read from disk."""
    step_ms: float
    """Measured: mean of the steps that were run."""
    n_measured: int
    """How many steps were run for it."""
    n_steps: int
    """Steps of the training."""
    validation_s: float
    """Estimate of one validation, from a part of it."""
    train_rows: int
    parameters: int

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-ready data."""
        return asdict(self)


def estimate(dataset: Dataset, run: Run) -> Estimate:
    """Measure some steps and a part of a validation.

    Raises:
        ValueError: if the data, the model or a checkpoint do not fit, as the training itself does.
    """
    import torch

    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng():
        began = time.perf_counter()
        trainer = Trainer(dataset, run, Path(folder) / "run", resume=False)
        prepare_s = time.perf_counter() - began
        step_s = _time_steps(trainer)
        rows = len(trainer.validation_inputs)
        validation_s = _time_validation(trainer)
    mean_s = sum(step_s) / len(step_s)
    # One validation after each epoch, and one of the checkpoint at the end.
    validations = (run.train.epochs + 1) * validation_s * rows
    return Estimate(
        seconds=prepare_s + mean_s * trainer.n_steps + validations,
        prepare_s=prepare_s,
        step_ms=1000 * mean_s,
        n_measured=len(step_s),
        n_steps=trainer.n_steps,
        validation_s=validation_s * rows,
        train_rows=len(trainer.rows),
        parameters=sum(p.numel() for p in trainer.model.parameters()),
    )


def _time_steps(trainer: Trainer) -> list[float]:
    """Time batches from the shortest to the longest, after one that warms up."""

    def length(rows: list[int]) -> int:
        return max(len(trainer.inputs[row].ids) for row in rows)

    batches = sorted(trainer._epoch_batches(0), key=length)
    n = min(STEPS_MEASURED, len(batches))
    # The middles of n equal parts: their mean stands for all.
    chosen = [batches[(2 * i + 1) * len(batches) // (2 * n)] for i in range(n)]
    trainer._train_step(chosen[n // 2])
    seconds: list[float] = []
    # From both ends inwards, so that a stop halfway has seen short and long ones.
    for i in sorted(range(n), key=lambda i: min(i, n - 1 - i)):
        began = time.perf_counter()
        trainer._train_step(chosen[i])
        seconds.append(time.perf_counter() - began)
        if sum(seconds) > LONGEST_S and len(seconds) % 2 == 0:
            break
    return seconds


def _time_validation(trainer: Trainer) -> float:
    """Time some validation rows; return the seconds a row."""
    trainer.model.eval()
    every = max(1, len(trainer.validation_inputs) // ROWS_MEASURED)
    order = sorted(
        range(len(trainer.validation_inputs)), key=lambda i: len(trainer.validation_inputs[i].ids)
    )[every // 2 :: every]
    began = time.perf_counter()
    evaluate_ids(
        trainer.model,
        trainer.tokenizer,
        [trainer.validation_inputs[i] for i in order],
        [trainer.validation.labels[i] for i in order],
    )
    return (time.perf_counter() - began) / len(order)

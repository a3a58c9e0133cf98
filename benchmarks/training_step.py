"""Time a training step of each objective beside the dense twin's, on one thread.

    OMP_NUM_THREADS=1 python benchmarks/training_step.py --out step.json

Goal: an aligned step takes at most 1.10 times a dense one. The utility objective runs two passes,
so it takes about twice as long. The steps are those of `train`, on the same batches in turn.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from budgetformer.config import Objective, TrainConfig, write_json
from budgetformer.data import load_dataset
from budgetformer.measure import this_machine
from budgetformer.train import Run, Trainer

GOAL = 1.10
OBJECTIVES: tuple[Objective, ...] = ("dense", "aligned", "paper", "utility")
# Name: fields of the model, batch size. Lengths are those of the reviews, cut at max_len.
SHAPES = {
    "D 128, 2 layers, T 64": ({"max_len": 64}, 32),
    "D 128, 2 layers, T 256": ({"max_len": 256}, 16),
    "D 384, 3 layers, T 128": (
        {"max_len": 128, "d_model": 384, "d_ff": 1536, "n_heads": 12, "n_layers": 3},
        16,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=15, help="of each objective (default: 15)")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    found = [compare(name, *SHAPES[name], args.steps) for name in SHAPES]
    if args.out:
        measured = {"machine": asdict(this_machine()), "goal": GOAL, "rows": found}
        write_json(args.out, measured)
    return 0 if all(row["aligned_ratio"] <= GOAL for row in found) else 1


def compare(
    name: str, shape: dict[str, int], batch_size: int, n_steps: int
) -> dict[str, float | str]:
    """Return milliseconds a step, and how they compare with dense."""
    dataset = load_dataset("imdb")
    with tempfile.TemporaryDirectory() as folder:
        steps: dict[str, Callable[[list[int]], object]] = {}
        for objective in OBJECTIVES:
            config = TrainConfig(
                objective=objective, batch_size=batch_size, limit=64 * batch_size, vocab_size=4000
            )
            # A single epoch's middle: the hinge, the alignment and both utility passes are on.
            run = Run("imdb", replace(config, epochs=1), dict(shape))
            trainer = Trainer(dataset, run, Path(folder) / objective, resume=False)
            trainer.step = trainer.n_steps // 2
            steps[objective] = trainer._train_step
            batches = trainer._epoch_batches(0)
        times: dict[str, list[float]] = {objective: [] for objective in OBJECTIVES}
        for i in range(n_steps + 2):
            for objective, step in steps.items():
                start = time.perf_counter()
                step(batches[i % len(batches)])
                times[objective].append(time.perf_counter() - start)
    # Batches differ in length, so a ratio is taken batch by batch; two of them warm up.
    seconds = {objective: np.array(found[2:]) for objective, found in times.items()}
    row: dict[str, float | str] = {"shape": f"{name}, B {batch_size}"}
    for objective, found in seconds.items():
        row[f"{objective}_ms"] = round(float(np.median(found)) * 1e3, 2)
        row[f"{objective}_ratio"] = round(float(np.median(found / seconds["dense"])), 3)
    print(row, flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())

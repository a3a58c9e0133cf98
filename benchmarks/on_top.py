"""What bfloat16, int8 weights and torch.compile would add on top of skipping, and what they change.

    OMP_NUM_THREADS=1 python benchmarks/on_top.py --out on_top.json

Each shipped model reads its own test texts with its own budgets, 32 of similar length at a time,
as it is and in each of these ways in turn; medians are compared. An option would have to be faster
without changing labels. torch.compile needs a C++ compiler, bfloat16 a processor with instructions
for it. Models whose data set is not on this machine are left out.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import warnings
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.shipped_speed import shipped
from budgetformer.checkpoint import Checkpoint
from budgetformer.config import write_json
from budgetformer.data import Examples
from budgetformer.evaluate import Records, evaluate
from budgetformer.measure import this_machine
from budgetformer.timing import one_thread

AS_IT_IS = "as it is"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=256, help="texts of each (default: 256)")
    parser.add_argument("--rounds", type=int, default=5, help="times each way runs (default: 5)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    # torch.ao announces its move to another package with every call.
    warnings.filterwarnings("ignore", module="torch")
    rows = []
    for name, checkpoint, examples in shipped(args.names, args.n):
        for row in compare(checkpoint, examples, args.rounds):
            rows.append({"model": name, **row})
            print(rows[-1], flush=True)
    if args.out:
        write_json(args.out, {"machine": asdict(this_machine()), "rows": rows})


def compare(checkpoint: Checkpoint, examples: Examples, rounds: int) -> list[dict[str, Any]]:
    """Time each way in turn, round by round, after one round to get warm."""
    ways = {
        AS_IT_IS: checkpoint,
        "bfloat16": checkpoint,
        "int8 weights": int8(checkpoint),
        "torch.compile": compiled(checkpoint),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    records: dict[str, Records] = {}
    for _ in range(1 + rounds):
        for name, model in ways.items():
            start = time.perf_counter()
            with one_thread(), autocast(name == "bfloat16"):
                records[name] = evaluate(model, examples)
            seconds[name].append(time.perf_counter() - start)
    took = {name: median(times[1:]) for name, times in seconds.items()}
    plain = records.pop(AS_IT_IS)
    return [
        {
            "option": name,
            "n_texts": len(examples),
            "speedup": took[AS_IT_IS] / took[name],
            "labels_changed": int((labels(found) != labels(plain)).sum()),
            "heads_changed": float((found.heads != plain.heads).any(axis=2).mean()),
        }
        for name, found in records.items()
    ]


def autocast(enabled: bool) -> Any:
    return torch.autocast("cpu", torch.bfloat16) if enabled else nullcontext()


def int8(checkpoint: Checkpoint) -> Checkpoint:
    """Quantise the weights of all linear layers; numbers between them are quantised as they come.

    The executor's own products keep single precision: they take heads from one array of weights.
    """
    quantised = copy.deepcopy(checkpoint)
    torch.ao.quantization.quantize_dynamic(quantised.model, {nn.Linear}, inplace=True)
    return quantised


def compiled(checkpoint: Checkpoint) -> Checkpoint:
    """Compile what every token passes whichever heads run: feed-forward and normalisation."""
    faster = copy.deepcopy(checkpoint)
    for layer in faster.model.layers:
        layer._feed = torch.compile(layer._feed, dynamic=True)
    return faster


def labels(records: Records) -> Any:
    return records.probabilities.argmax(axis=1)


if __name__ == "__main__":
    main()

"""The shipped models on their own test texts with their own budgets, beside their dense twins.

    OMP_NUM_THREADS=1 python benchmarks/shipped_speed.py --out shipped.json
    OMP_NUM_THREADS=1 python benchmarks/shipped_speed.py --bfloat16 --out bfloat16.json

Texts are read 32 at a time, those of similar length together. Goal: 0.85 of the limit, which is the
ratio of closed-form FLOPs. With --bfloat16 instead: what matrix products in it add on top, and how
many labels and choices of heads change; only a processor with instructions for it gains. Models
whose data set is not on this machine are left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from budgetformer.checkpoint import METRICS, Checkpoint
from budgetformer.config import read_json, write_json
from budgetformer.data import Examples, load_dataset
from budgetformer.evaluate import Records, evaluate
from budgetformer.measure import spread, this_machine
from budgetformer.own_data import is_local
from budgetformer.timing import one_thread, time_texts

GOAL = 0.85
CHECKPOINTS = Path(__file__).resolve().parent.parent / "checkpoints"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=512, help="texts of each (default: 512)")
    parser.add_argument("--seconds", type=float, default=20.0, help="a model (default: 20)")
    parser.add_argument("--bfloat16", action="store_true", help="measure what that would add")
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    rows = []
    for path in sorted(CHECKPOINTS.glob(f"*/{METRICS}")):
        name, data = path.parent.name, read_json(path).get("test", {}).get("data", "")
        if (args.names and name not in args.names) or not is_local(data):
            continue
        checkpoint = Checkpoint.from_pretrained(path.parent)
        if not checkpoint.config.routed:
            continue
        test = load_dataset(data).split_for("test", checkpoint.config.labels)
        examples = spread(test, args.n)
        found = (
            bfloat16(checkpoint, examples)
            if args.bfloat16
            else time_texts(checkpoint, examples, seconds=args.seconds).to_dict()
        )
        rows.append({"model": name, **found})
        print(rows[-1], flush=True)
    if args.out:
        measured = {"machine": asdict(this_machine()), "goal": GOAL, "rows": rows}
        write_json(args.out, measured)
    return 0 if all(row.get("fraction_of_limit", GOAL) >= GOAL for row in rows) else 1


def bfloat16(checkpoint: Checkpoint, examples: Examples) -> dict[str, Any]:
    """Say how much faster matrix products in bfloat16 are, and what they change."""

    def timed(enabled: bool) -> tuple[Records, float]:
        with one_thread(), torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            start = time.perf_counter()
            records = evaluate(checkpoint, examples)
            return records, time.perf_counter() - start

    timed(True)  # both have been warm before they are timed
    (plain, plain_s), (half, half_s) = timed(False), timed(True)
    changed = plain.probabilities.argmax(axis=1) != half.probabilities.argmax(axis=1)
    return {
        "n_texts": len(examples),
        "speedup": plain_s / half_s,
        "labels_changed": int(changed.sum()),
        "heads_changed": float((plain.heads != half.heads).any(axis=2).mean()),
    }


if __name__ == "__main__":
    sys.exit(main())

"""The shipped models on their own test texts with their own budgets, beside their dense twins.

    OMP_NUM_THREADS=1 python benchmarks/shipped_speed.py --out shipped.json

Texts are read 32 at a time, those of similar length together. Goal: 0.85 of the limit, which is the
ratio of closed-form FLOPs. Models whose data set is not on this machine are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from budgetformer.checkpoint import METRICS, Checkpoint
from budgetformer.config import read_json, write_json
from budgetformer.data import Examples, load_dataset
from budgetformer.measure import spread, this_machine
from budgetformer.own_data import is_local
from budgetformer.timing import time_texts

GOAL = 0.85
CHECKPOINTS = Path(__file__).resolve().parent.parent / "checkpoints"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=512, help="texts of each (default: 512)")
    parser.add_argument("--seconds", type=float, default=20.0, help="a model (default: 20)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    rows = []
    for name, checkpoint, examples in shipped(args.names, args.n):
        found = time_texts(checkpoint, examples, seconds=args.seconds)
        rows.append({"model": name, **found.to_dict()})
        print(rows[-1], flush=True)
    if args.out:
        measured = {"machine": asdict(this_machine()), "goal": GOAL, "rows": rows}
        write_json(args.out, measured)
    return 0 if all(row["fraction_of_limit"] >= GOAL for row in rows) else 1


def shipped(names: Sequence[str], n: int) -> Iterator[tuple[str, Checkpoint, Examples]]:
    """Yield each shipped model with budgets, or those named, with n of its test texts."""
    for path in sorted(CHECKPOINTS.glob(f"*/{METRICS}")):
        name, data = path.parent.name, read_json(path).get("test", {}).get("data", "")
        if (names and name not in names) or not is_local(data):
            continue
        checkpoint = Checkpoint.from_pretrained(path.parent)
        if checkpoint.config.routed:
            test = load_dataset(data).split_for("test", checkpoint.config.labels)
            yield name, checkpoint, spread(test, n)


if __name__ == "__main__":
    sys.exit(main())

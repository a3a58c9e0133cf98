"""bench: time skipping against the dense twin."""

from __future__ import annotations

import argparse

from budgetformer.commands.shared import print_json

HELP = "time skipping against the dense twin"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--model", help="checkpoint folder or Hub id; random models when left out")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Time a model, or random ones of many shapes."""
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.timing import bench, bench_checkpoint

    rows = []
    timings = bench_checkpoint(Checkpoint.from_pretrained(args.model)) if args.model else bench()
    for row in timings:
        rows.append(row.to_dict())
        if not args.json:
            print(row, flush=True)
    if args.json:
        print_json({"rows": rows})

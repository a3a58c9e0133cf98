"""bench: time skipping against the dense twin."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from budgetformer.commands.shared import positive, print_json

if TYPE_CHECKING:
    from budgetformer.timing import TextTiming

HELP = "time skipping against the dense twin"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--model", help="checkpoint folder or Hub id; random models when left out")
    parser.add_argument(
        "--data", help="time the model on this data set's texts, with its own budgets"
    )
    parser.add_argument("--split", default="test", help="split of the data set (default: test)")
    parser.add_argument(
        "--n", type=positive, default=200, help="texts, evenly over the split (default: 200)"
    )
    parser.add_argument(
        "--shape",
        type=_shape,
        metavar="H,D,D_FF,T,K",
        help="one layer of this shape instead: heads, width, feed-forward, tokens, heads that run",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Time a model, or random ones of many shapes."""
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.timing import SpeedUp, bench, bench_checkpoint, bench_shape

    if args.model and args.shape:
        raise ValueError("give --model or --shape, not both")
    if args.data and not args.model:
        raise ValueError("--data needs a --model that reads it")
    rows = []
    timings: Iterable[SpeedUp] = bench()
    if args.data:
        timings = [_texts(args)]
    elif args.model:
        timings = bench_checkpoint(Checkpoint.from_pretrained(args.model))
    elif args.shape:
        timings = [bench_shape(*args.shape)]
    for row in timings:
        rows.append(row.to_dict())
        if not args.json:
            print(row, flush=True)
    if args.json:
        print_json({"rows": rows})


def _texts(args: argparse.Namespace) -> TextTiming:
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.data import load_dataset
    from budgetformer.measure import spread
    from budgetformer.timing import time_texts

    checkpoint = Checkpoint.from_pretrained(args.model)
    split = load_dataset(args.data).split_for(args.split, checkpoint.config.labels)
    return time_texts(checkpoint, spread(split, args.n))


def _shape(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(","))
    if len(numbers) != 5:
        raise argparse.ArgumentTypeError(f"expected five numbers H,D,D_FF,T,K, got {text!r}")
    return numbers

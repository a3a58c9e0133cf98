"""bench: time skipping against the dense twin."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from budgetformer.commands.shared import add_sample, print_json, sample

HELP = "time skipping against the dense twin"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--model", help="checkpoint folder or Hub id; random models when left out")
    parser.add_argument(
        "--data", help="time the model on this data set's texts, with its own budgets"
    )
    add_sample(parser)
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
    from budgetformer.timing import SpeedUp, bench, bench_checkpoint, bench_shape, time_texts

    if args.model and args.shape:
        raise ValueError("give --model or --shape, not both")
    if args.data and not args.model:
        raise ValueError("--data needs a --model that reads it")
    rows = []
    timings: Iterable[SpeedUp] = bench()
    if args.model:
        checkpoint = Checkpoint.from_pretrained(args.model)
        timings = (
            [time_texts(checkpoint, sample(args, checkpoint))]
            if args.data
            else bench_checkpoint(checkpoint)
        )
    elif args.shape:
        timings = [bench_shape(*args.shape)]
    for row in timings:
        rows.append(row.to_dict())
        if not args.json:
            print(row, flush=True)
    if args.json:
        print_json({"rows": rows})


def _shape(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(","))
    if len(numbers) != 5:
        raise argparse.ArgumentTypeError(f"expected five numbers H,D,D_FF,T,K, got {text!r}")
    return numbers

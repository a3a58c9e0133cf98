"""What several commands need: common arguments, loading, output."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from budgetformer.config import json_ready

if TYPE_CHECKING:
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.data import Dataset, Examples


def add_model_and_data(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what to measure on what."""
    parser.add_argument("--model", required=True, help="checkpoint folder or Hub id")
    parser.add_argument("--data", required=True, help="data set name, file, folder or Hub id")
    parser.add_argument("--split", default="test", help="split to measure on (default: test)")
    parser.add_argument("--limit", type=count, default=0, help="only the first LIMIT rows")


def add_sample(parser: argparse.ArgumentParser) -> None:
    """Add --split and --n: some texts, evenly over a split."""
    parser.add_argument("--split", default="test", help="split of the data set (default: test)")
    parser.add_argument(
        "--n", type=positive, default=200, help="texts, evenly over the split (default: 200)"
    )


def sample(args: argparse.Namespace, checkpoint: Checkpoint) -> Examples:
    """Load the texts that --data, --split and --n name."""
    from budgetformer.data import load_dataset
    from budgetformer.measure import spread

    split = load_dataset(args.data).split_for(args.split, checkpoint.config.labels)
    return spread(split, args.n)


def refuse_saving_a_part(args: argparse.Namespace) -> None:
    """Refuse --save with --limit: what lies beside a model is of a whole split.

    Raises:
        ValueError: if both are given.
    """
    if args.save and args.limit:
        raise ValueError("--save keeps figures of the whole split: leave --limit out")


def model_and_examples(args: argparse.Namespace) -> tuple[Checkpoint, Dataset, Examples]:
    """Load what they name: the model, its data set and the rows to measure on."""
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.data import load_dataset

    checkpoint = Checkpoint.from_pretrained(args.model)
    dataset = load_dataset(args.data)
    examples = dataset.split_for(args.split, checkpoint.config.labels).first(args.limit)
    return checkpoint, dataset, examples


def count(text: str) -> int:
    """Read a whole number of at least 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {number}")
    return number


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def print_json(values: dict[str, Any]) -> None:
    """Print one JSON object on a line of its own."""
    print(json.dumps(json_ready(values), ensure_ascii=False), flush=True)

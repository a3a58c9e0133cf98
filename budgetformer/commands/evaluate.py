"""evaluate: measure a model on a data set."""

from __future__ import annotations

import argparse

from budgetformer.commands.shared import (
    add_model_and_data,
    model_and_examples,
    positive,
    print_json,
    refuse_saving_a_part,
)
from budgetformer.config import write_json

HELP = "measure a model on a data set"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_model_and_data(parser)
    parser.add_argument("--batch-size", type=positive, default=32, help="(default: 32)")
    parser.add_argument("--save", action="store_true", help="keep the figures in metrics.json")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Measure a model."""
    from budgetformer.card import write_card
    from budgetformer.checkpoint import METRICS
    from budgetformer.evaluate import evaluate, summarise
    from budgetformer.sweep import mean_dense_flops, mean_flops

    refuse_saving_a_part(args)
    checkpoint, _, examples = model_and_examples(args)
    records = evaluate(checkpoint, examples, args.batch_size)
    figures = {
        **summarise(records),
        "flops_per_example": mean_flops(records, checkpoint.config),
        "dense_flops_per_example": mean_dense_flops(records, checkpoint.config),
    }
    if args.save:
        assert checkpoint.path is not None
        metrics = {**checkpoint.metrics, args.split: {"data": args.data, **figures}}
        write_json(checkpoint.path / METRICS, metrics)
        write_card(checkpoint.path, checkpoint.config, metrics)
    if args.json:
        print_json(figures)
    else:
        for name, value in figures.items():
            print(f"{name:25}{_shown(value)}")


def _shown(value: float | int | None) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if value < 1000 else f"{value:.4g}"

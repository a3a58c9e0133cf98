"""adaptivity: does s follow difficulty, and pay?"""

from __future__ import annotations

import argparse
import json

from budgetformer.commands.shared import (
    add_model_and_data,
    count,
    model_and_examples,
    refuse_saving_a_part,
)
from budgetformer.config import write_json

HELP = "does s follow difficulty, and pay?"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_model_and_data(parser)
    parser.add_argument("--reference", help="dense checkpoint whose loss is a second difficulty")
    parser.add_argument("--seed", type=count, default=0, help="of shuffles and bootstrap")
    parser.add_argument("--save", action="store_true", help="keep the figures in adaptivity.json")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Report what the budgets follow, and whether they pay."""
    import numpy as np

    from budgetformer.adaptivity import ADAPTIVITY, by_need, linear_reference, report
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.evaluate import evaluate
    from budgetformer.known_need import NAME, need

    refuse_saving_a_part(args)
    checkpoint, dataset, examples = model_and_examples(args)
    train = dataset.split_for("train", checkpoint.config.labels)
    references = {"linear": linear_reference(train, examples)}
    if args.reference:
        references["dense"] = evaluate(Checkpoint.from_pretrained(args.reference), examples)
    found = report(checkpoint, examples, references, args.seed)
    if dataset.name == NAME:
        found["need"] = by_need(checkpoint, examples, np.array([need(t) for t in examples.texts]))
    if args.save:
        assert checkpoint.path is not None
        write_json(checkpoint.path / ADAPTIVITY, found)
    print(json.dumps(found, indent=None if args.json else 2))

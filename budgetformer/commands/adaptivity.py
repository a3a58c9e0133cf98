"""adaptivity: does s follow difficulty, and pay?"""

from __future__ import annotations

import argparse
import json

from budgetformer.commands.shared import add_model_and_data, count, model_and_examples

HELP = "does s follow difficulty, and pay?"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_model_and_data(parser)
    parser.add_argument("--reference", help="dense checkpoint whose loss is a second difficulty")
    parser.add_argument("--seed", type=count, default=0, help="of shuffles and bootstrap")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Report what the budgets follow, and whether they pay."""
    import numpy as np

    from budgetformer.adaptivity import by_need, linear_reference, report
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.evaluate import evaluate
    from budgetformer.known_need import NAME, need

    checkpoint, dataset, examples = model_and_examples(args)
    train = dataset.split_for("train", checkpoint.config.labels)
    references = {"linear": linear_reference(train, examples)}
    if args.reference:
        references["dense"] = evaluate(Checkpoint.from_pretrained(args.reference), examples)
    found = report(checkpoint, examples, references, args.seed)
    if dataset.name == NAME:
        found["need"] = by_need(checkpoint, examples, np.array([need(t) for t in examples.texts]))
    print(json.dumps(found, indent=None if args.json else 2))

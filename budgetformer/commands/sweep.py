"""sweep: run a model under forced budgets and policies."""

from __future__ import annotations

import argparse
from typing import Any

from budgetformer.commands.shared import (
    add_model_and_data,
    count,
    model_and_examples,
    print_json,
    refuse_saving_a_part,
)
from budgetformer.config import write_json

HELP = "run a model under forced budgets and policies"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_model_and_data(parser)
    parser.add_argument("--seed", type=count, default=0, help="of random and shuffled policies")
    parser.add_argument("--save", action="store_true", help="keep the rows in sweep.json")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run a model under each policy."""
    from budgetformer.efficiency import SWEEP
    from budgetformer.sweep import sweep

    refuse_saving_a_part(args)
    checkpoint, _, examples = model_and_examples(args)
    rows: list[dict[str, Any]] = []
    for row in sweep(checkpoint, examples, args.seed):
        rows.append(row.to_dict())
        if not args.json:
            print(
                f"{row.policy:13} {row.k or '':2} s {row.budget:.3f}  "
                f"heads {row.executed_heads_frac:.3f}  "
                f"accuracy {row.accuracy:.4f} [{row.ci_low:.4f}, {row.ci_high:.4f}]  "
                f"{row.flops_per_example / 1e6:.1f} MFLOPs",
                flush=True,
            )
    if args.save:
        assert checkpoint.path is not None
        about = {"data": args.data, "split": args.split, "n": len(examples), "seed": args.seed}
        write_json(checkpoint.path / SWEEP, {**about, "rows": rows})
    if args.json:
        print_json({"rows": rows})

"""measure: time, memory, energy and CO₂ of a model on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from budgetformer.commands.shared import add_sample, print_json, sample
from budgetformer.config import write_json

HELP = "time, memory, energy and CO₂ of a model on this machine"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--model", required=True, help="checkpoint folder or Hub id")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--data", help="data set name, file, folder or Hub id")
    which.add_argument(
        "--texts", help="a file with a text a line instead; a pair has a tab between its two"
    )
    add_sample(parser)
    parser.add_argument(
        "--country", default="FRA", help="whose electricity, three letters (default: FRA)"
    )
    parser.add_argument("--save", action="store_true", help="keep the figures in measured.json")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a step done, the figures last"
    )
    parser.epilog = (
        "Times are from ids to logits, one text at a time on one thread. Energy is that of the "
        "whole machine meanwhile: let nothing else run."
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Measure a model."""
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.efficiency import MEASURED
    from budgetformer.measure import measure, own_texts, to_dict

    if args.save and not args.data:
        raise ValueError("--save keeps figures that others can repeat: name the texts with --data")
    checkpoint = Checkpoint.from_pretrained(args.model)
    if args.data:
        examples = sample(args, checkpoint)
        texts = f"{len(examples)} texts spread over the {args.split} split of {args.data}"
    else:
        examples = own_texts(Path(args.texts), checkpoint.config.n_segments).first(args.n)
        texts = f"{len(examples)} texts of {Path(args.texts).name}"

    def report(done: int, total: int) -> None:
        if args.json:
            print_json({"done": done, "total": total})
        elif sys.stderr.isatty():
            print(f"step {done} of {total}", file=sys.stderr, flush=True)

    found = measure(checkpoint, examples, texts, args.country, progress=report)
    if args.save:
        assert checkpoint.path is not None
        write_json(checkpoint.path / MEASURED, to_dict(found))
    if args.json:
        print_json(to_dict(found))
        return
    print(f"{found.machine} ({found.date}, load {found.machine.load:g})")
    print(f"{texts}, {found.mean_tokens:.0f} tokens on average")
    print(f"time      {found.p50_ms:.2f} / {found.p90_ms:.2f} / {found.p99_ms:.2f} ms (p50/90/99)")
    print(f"memory    {found.forward_bytes / 2**20:.1f} MiB a pass, {found.memory_length} tokens")
    print(f"energy    {found.energy_j:.1f} J a 1,000 texts, {found.energy_source}")
    print(f"CO₂       {found.emissions_g:.4f} g a 1,000 texts, {found.country}")

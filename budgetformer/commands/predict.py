"""predict: classify texts and show the heads that ran."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from budgetformer.commands.shared import print_json

if TYPE_CHECKING:
    from budgetformer.trace import Trace

HELP = "classify texts and show the heads that ran"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="a text; - reads lines from stdin")
    parser.add_argument("--model", required=True, help="checkpoint folder or Hub id")
    parser.add_argument("--text-pair", help="the second text, for models of text pairs")
    parser.add_argument("--json", action="store_true", help="one JSON object a text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Classify texts."""
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.trace import predict

    checkpoint = Checkpoint.from_pretrained(args.model)

    def show(trace: Trace) -> None:
        heads = "  ".join(
            f"layer {i}: s {layer.budget:.3f}, heads {', '.join(str(h + 1) for h in layer.heads)}"
            for i, layer in enumerate(trace.layers, start=1)
        )
        print(f"{trace.label}  {trace.probabilities[trace.label]:.3f}  {heads}")

    for source, text in _texts(args.texts):
        try:
            trace = predict(checkpoint, text, args.text_pair)
        except ValueError as error:
            raise ValueError(f"{source}{error}") from error
        if args.json:
            print_json(trace.to_dict())
        else:
            show(trace)


def _texts(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each text behind the place it came from, as an error names it."""
    for argument in arguments:
        if argument == "-":
            for number, line in enumerate(sys.stdin, start=1):
                yield f"line {number} of standard input: ", line.rstrip("\r\n")
        else:
            yield "", argument

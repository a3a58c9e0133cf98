"""Command line: one module a command, in budgetformer.commands.

Results go to standard output; with --json each is one JSON object a line. Words for people count
layers and heads from 1, as the app does; JSON counts from 0, as lists do. Errors go to standard
error in one line. The exit code is 0 only for success.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from budgetformer.commands import (
    adaptivity,
    bench,
    evaluate,
    measure,
    predict,
    push,
    score,
    sweep,
    train,
)

COMMANDS = {
    "predict": predict,
    "evaluate": evaluate,
    "sweep": sweep,
    "adaptivity": adaptivity,
    "bench": bench,
    "measure": measure,
    "score": score,
    "train": train,
    "push": push,
}
EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors take one line and whose options are written out."""

    def __init__(self, **settings: Any) -> None:
        """Take argparse's settings."""
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Print the message and leave."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    args = _parser().parse_args(arguments)
    try:
        args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has left. Python flushes once more on leaving: to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except (ValueError, OSError) as error:
        print(f"budgetformer: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("budgetformer: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="budgetformer",
        description="Text classification with an attention-head budget for each input.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add(commands.add_parser(name, help=command.HELP))
    return parser

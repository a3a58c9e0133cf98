"""push: upload a model and its card to the Hub."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from budgetformer.commands.shared import print_json

HELP = "upload a model and its card to the Hub"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--model", required=True, help="checkpoint folder")
    parser.add_argument("--repo", required=True, help="where to: user/name")
    parser.add_argument("--private", action="store_true", help="only its owner may see it")
    parser.add_argument("--license", help="such as mit (default: what the card says)")
    parser.add_argument("--language", help="of the texts, such as en (default: the card's)")
    parser.add_argument("--json", action="store_true", help="one JSON object: what was uploaded")
    parser.epilog = (
        "The token is that of HF_TOKEN, or of a login with `hf auth login`. The repository is made "
        "where there is none. The card gets the header that the Hub reads, with the measured "
        "accuracy; the model's own README.md stays as it is."
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Upload a model."""
    from budgetformer.hub import push

    done = push(Path(args.model), args.repo, args.private, args.license, args.language)
    if args.json:
        print_json(asdict(done))
        return
    print(f"{done.url}  {'private' if done.private else 'public'}, {', '.join(done.files)}")
    if done.license is None:
        print("The card names no licence, so others may not use the model: see --license.")

"""score: what a model says about every example of a split, kept in one file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetformer.commands.shared import add_model_and_data, print_json, refuse_saving_a_part

if TYPE_CHECKING:
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.data import Dataset, Examples
    from budgetformer.scoring import Judge

HELP = "score every example of a split, into one file"
SECONDS_ON_A_SCREEN, SECONDS_IN_A_LOG = 0.5, 10.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_model_and_data(parser)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", help="the Parquet file to write")
    where.add_argument(
        "--save", action="store_true", help="write records.parquet into the model's folder"
    )
    parser.add_argument(
        "--reference",
        help="dense checkpoint whose loss is a second difficulty (default: the folder "
        "<model>-dense beside the model, if there is one; none for no reference)",
    )
    parser.add_argument(
        "--linear",
        action="store_true",
        help="also judge by TF-IDF and logistic regression, fitted on the training split",
    )
    parser.add_argument("--no-texts", action="store_true", help="leave the texts out of the file")
    parser.add_argument("--json", action="store_true", help="one JSON object a report of progress")
    parser.epilog = (
        "--split all takes a file as it stands: every row, in its order. A run that was stopped "
        "goes on where it was when the same command is given again."
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Score a split."""
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.evaluate import summarise
    from budgetformer.records import SHIPPED, read_scored
    from budgetformer.scoring import score

    checkpoint = Checkpoint.from_pretrained(args.model)
    assert checkpoint.path is not None
    out = checkpoint.path / SHIPPED if args.save else Path(args.out)
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise ValueError(f"{out} cannot be written: give a file in a folder that exists")
    refuse_saving_a_part(args)
    dataset, examples = _examples(args, checkpoint)
    references = _references(args, checkpoint, dataset, examples)
    reporter = _Reporter(as_json=args.json)
    score(
        checkpoint,
        examples,
        out,
        args.data,
        args.split,
        references,
        keep_texts=not args.no_texts,
        progress=reporter.report,
    )
    reporter.finish()
    scored = read_scored(out)
    figures = {"out": str(out), **summarise(scored.records)}
    if args.json:
        print_json(figures)
    else:
        print(
            f"{out}: {len(scored):,} examples, accuracy {figures['accuracy']:.4f}, mean s "
            f"{figures['mean_budget']:.3f}, heads run {figures['executed_heads_frac']:.1%}"
        )


def _examples(args: argparse.Namespace, checkpoint: Checkpoint) -> tuple[Dataset | None, Examples]:
    from budgetformer.data import load_dataset
    from budgetformer.own_data import WHOLE, whole_table

    config = checkpoint.config
    if args.split == WHOLE:
        table = whole_table(Path(args.data), config.labels, config.n_segments)
        return None, table.first(args.limit)
    dataset = load_dataset(args.data)
    return dataset, dataset.split_for(args.split, config.labels).first(args.limit)


def _references(
    args: argparse.Namespace, checkpoint: Checkpoint, dataset: Dataset | None, examples: Examples
) -> dict[str, Judge]:
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.scoring import linear_judge

    references: dict[str, Judge] = {}
    assert checkpoint.path is not None
    folder = checkpoint.path.resolve()
    twin = folder.with_name(f"{folder.name}-dense")
    if args.reference and args.reference != "none":
        references["dense"] = Checkpoint.from_pretrained(args.reference)
    elif args.reference is None and (twin / "config.json").is_file():
        references["dense"] = Checkpoint.from_pretrained(twin)
    if args.linear:
        if dataset is None or "train" not in dataset.splits:
            raise ValueError("--linear needs a data set with a training split to fit on")
        train = dataset.split_for("train", checkpoint.config.labels)
        references["linear"] = linear_judge(train, examples)
    return references


class _Reporter:
    """Progress: words on standard error, or JSON on standard output."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.start = time.monotonic()
        self.last = -SECONDS_IN_A_LOG
        self.first: int | None = None

    def report(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first, self.start = done, now
        read_at_once = self.as_json or sys.stderr.isatty()
        pause = SECONDS_ON_A_SCREEN if read_at_once else SECONDS_IN_A_LOG
        if now - self.last < pause and done < total:
            return
        self.last = now
        if self.as_json:
            print_json({"done": done, "total": total})
            return
        line = f"{done:,} of {total:,} passes of the model"
        speed = (done - self.first) / max(now - self.start, 1e-9)
        if speed:
            line += f", {speed:,.0f} a second, {(total - done) / speed:,.0f} s left"
        self._write(line)

    def finish(self) -> None:
        if not self.as_json and sys.stderr.isatty():
            print(file=sys.stderr)

    @staticmethod
    def _write(line: str) -> None:
        # On a terminal one line that changes, in a log one line after the other.
        ends: dict[str, Any] = {"end": ""} if sys.stderr.isatty() else {}
        start = "\r\033[K" if sys.stderr.isatty() else ""
        print(start + line, file=sys.stderr, flush=True, **ends)

"""Command line: predict, evaluate, sweep, adaptivity, bench and train.

Results go to standard output; with --json each is one JSON object a line. Words for people count
layers and heads from 1, as the app does; JSON counts from 0, as lists do. Errors go to standard
error in one line. The exit code is 0 only for success.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_type_hints

from budgetformer.config import (
    ModelConfig,
    TrainConfig,
    choices,
    field_docs,
    from_dict,
    json_ready,
    read_json,
    write_json,
)

if TYPE_CHECKING:
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.data import Dataset, Examples

PRESETS = Path(__file__).parent.parent / "configs"
# These follow from the data and the objective.
DERIVED = {"vocab_size", "labels", "n_segments", "routed"}
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
    _add_predict(commands.add_parser("predict", help="classify texts and show the heads that ran"))
    _add_evaluate(commands.add_parser("evaluate", help="measure a model on a data set"))
    _add_sweep(commands.add_parser("sweep", help="run a model under forced budgets and policies"))
    _add_adaptivity(commands.add_parser("adaptivity", help="does s follow difficulty, and pay?"))
    _add_bench(commands.add_parser("bench", help="time skipping against the dense twin"))
    _add_train(commands.add_parser("train", help="train a model"))
    return parser


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="a text; - reads lines from stdin")
    parser.add_argument("--model", required=True, help="checkpoint folder or Hub id")
    parser.add_argument("--text-pair", help="the second text, for models of text pairs")
    parser.add_argument("--json", action="store_true", help="one JSON object a text")
    parser.set_defaults(run=_predict)


def _add_model_and_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="checkpoint folder or Hub id")
    parser.add_argument("--data", required=True, help="data set name, file, folder or Hub id")
    parser.add_argument("--split", default="test", help="split to measure on (default: test)")
    parser.add_argument("--limit", type=_count, default=0, help="only the first LIMIT rows")


def _add_sweep(parser: argparse.ArgumentParser) -> None:
    _add_model_and_data(parser)
    parser.add_argument("--seed", type=_count, default=0, help="of random and shuffled policies")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=_sweep)


def _add_adaptivity(parser: argparse.ArgumentParser) -> None:
    _add_model_and_data(parser)
    parser.add_argument("--reference", help="dense checkpoint whose loss is a second difficulty")
    parser.add_argument("--seed", type=_count, default=0, help="of shuffles and bootstrap")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=_adaptivity)


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    _add_model_and_data(parser)
    parser.add_argument("--batch-size", type=_positive, default=32, help="(default: 32)")
    parser.add_argument("--save", action="store_true", help="keep the figures in metrics.json")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=_evaluate)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="checkpoint folder or Hub id; random models when left out")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=_bench)


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", help="data set name, file, folder or Hub id")
    parser.add_argument("--out", required=True, help="folder of the new checkpoint")
    parser.add_argument(
        "--preset", help=f"start from a published experiment: {', '.join(_presets())}"
    )
    parser.add_argument("--init", help="BERT-family encoder to start from: minilm, folder, Hub id")
    parser.add_argument("--warm-start", help="checkpoint whose weights to start from")
    parser.add_argument("--teacher", help="dense checkpoint to distil from")
    parser.add_argument("--resume", action="store_true", help="go on with the training in --out")
    parser.add_argument("--threads", type=_positive, default=1, help="torch threads (default: 1)")
    parser.add_argument("--json", action="store_true", help="one JSON object an event")
    for cls, title in ((TrainConfig, "training"), (ModelConfig, "model")):
        group, docs, hints = parser.add_argument_group(title), field_docs(cls), get_type_hints(cls)
        for f in fields(cls):
            if cls is ModelConfig and f.name in DERIVED:
                continue
            assert f.default is not MISSING
            allowed = choices(cls, f.name)
            group.add_argument(
                "--" + f.name.replace("_", "-"),
                dest=f"{title}.{f.name}",
                type=str if allowed else hints[f.name],
                choices=allowed or None,
                help=f"{docs[f.name]} (default: {f.default})".replace("%", "%%"),
            )
    parser.set_defaults(run=_train)


def _predict(args: argparse.Namespace) -> None:
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.trace import Trace, predict

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
            _print_json(trace.to_dict())
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


def _evaluate(args: argparse.Namespace) -> None:
    from budgetformer.card import write_card
    from budgetformer.checkpoint import METRICS
    from budgetformer.evaluate import evaluate, summarise

    if args.save and args.limit:
        raise ValueError("--save keeps figures of the whole split: leave --limit out")
    checkpoint, _, examples = _model_and_examples(args)
    figures = summarise(evaluate(checkpoint, examples, args.batch_size))
    if args.save:
        assert checkpoint.path is not None
        metrics = {**checkpoint.metrics, args.split: {"data": args.data, **figures}}
        write_json(checkpoint.path / METRICS, metrics)
        write_card(checkpoint.path, checkpoint.config, metrics)
    if args.json:
        _print_json(figures)
    else:
        for name, value in figures.items():
            print(f"{name:22}{value:.4f}" if isinstance(value, float) else f"{name:22}{value}")


def _model_and_examples(args: argparse.Namespace) -> tuple[Checkpoint, Dataset, Examples]:
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.data import load_dataset

    checkpoint = Checkpoint.from_pretrained(args.model)
    dataset = load_dataset(args.data)
    examples = dataset.split_for(args.split, checkpoint.config.labels).first(args.limit)
    return checkpoint, dataset, examples


def _sweep(args: argparse.Namespace) -> None:
    from budgetformer.sweep import sweep

    checkpoint, _, examples = _model_and_examples(args)
    rows = []
    for row in sweep(checkpoint, examples, args.seed):
        rows.append(row.to_dict())
        if not args.json:
            print(
                f"{row.policy:13} s {row.budget:.3f}  heads {row.executed_heads_frac:.3f}  "
                f"accuracy {row.accuracy:.4f} [{row.ci_low:.4f}, {row.ci_high:.4f}]  "
                f"{row.flops_per_example / 1e6:.1f} MFLOPs",
                flush=True,
            )
    if args.json:
        _print_json({"rows": rows})


def _adaptivity(args: argparse.Namespace) -> None:
    from budgetformer.adaptivity import linear_reference, report
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.evaluate import evaluate

    checkpoint, dataset, examples = _model_and_examples(args)
    train = dataset.split_for("train", checkpoint.config.labels)
    references = {"linear": linear_reference(train, examples)}
    if args.reference:
        references["dense"] = evaluate(Checkpoint.from_pretrained(args.reference), examples)
    found = report(checkpoint, examples, references, args.seed)
    print(json.dumps(found, indent=None if args.json else 2))


def _bench(args: argparse.Namespace) -> None:
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.timing import bench, bench_checkpoint

    rows = []
    timings = bench_checkpoint(Checkpoint.from_pretrained(args.model)) if args.model else bench()
    for row in timings:
        rows.append(row.to_dict())
        if not args.json:
            print(row, flush=True)
    if args.json:
        _print_json({"rows": rows})


def _train(args: argparse.Namespace) -> None:
    import torch

    from budgetformer.data import load_dataset
    from budgetformer.train import train

    torch.set_num_threads(args.threads)
    run = _run_settings(args)
    for event in train(load_dataset(run.data), run, Path(args.out), args.resume):
        if args.json:
            _print_json(event)
        else:
            print(_event_line(event), flush=True)


def _run_settings(args: argparse.Namespace) -> Any:
    """Combine the preset with the options given; options win."""
    from budgetformer.train import Run

    if args.preset is not None and args.preset not in _presets():
        raise ValueError(f"no preset {args.preset!r}; there are: {', '.join(_presets())}")
    settings = read_json(PRESETS / f"{args.preset}.json") if args.preset else {}
    for name in ("data", "init", "warm_start", "teacher"):
        if getattr(args, name) is not None:
            settings[name] = getattr(args, name)
    if not settings.get("data"):
        raise ValueError("name the training data with --data, or a --preset that has it")
    groups: dict[str, dict[str, Any]] = {
        "training": settings.get("train", {}),
        "model": settings.get("model", {}),
    }
    for key, value in vars(args).items():
        group, _, name = key.partition(".")
        if name and value is not None:
            groups[group][name] = value
    return Run(
        data=settings["data"],
        train=from_dict(TrainConfig, groups["training"]),
        model=groups["model"],
        init=settings.get("init", ""),
        warm_start=settings.get("warm_start", ""),
        teacher=settings.get("teacher", ""),
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {number}")
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _presets() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.json"))


def _event_line(event: dict[str, Any]) -> str:
    parts = (
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in event.items()
        if name != "event"
    )
    return f"{event['event']:6}" + "  ".join(parts)


def _print_json(values: dict[str, Any]) -> None:
    print(json.dumps(json_ready(values), ensure_ascii=False), flush=True)

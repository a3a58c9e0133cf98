"""train: train a model."""

from __future__ import annotations

import argparse
import time
from contextlib import closing, nullcontext
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from budgetformer.commands.shared import positive, print_json
from budgetformer.config import (
    ModelConfig,
    TrainConfig,
    choices,
    field_docs,
    from_dict,
    read_json,
)

PRESETS = Path(__file__).parent.parent.parent / "configs"
# These follow from the data and the objective.
DERIVED = {"vocab_size", "labels", "n_segments", "routed"}


HELP = "train a model"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--data", help="data set name, file, folder or Hub id")
    parser.add_argument("--out", required=True, help="folder of the new checkpoint")
    parser.add_argument(
        "--preset", help=f"start from a published experiment: {', '.join(_presets())}"
    )
    parser.add_argument("--init", help="BERT-family encoder to start from: minilm, folder, Hub id")
    parser.add_argument("--warm-start", help="checkpoint whose weights to start from")
    parser.add_argument("--teacher", help="dense checkpoint to distil from")
    parser.add_argument("--resume", action="store_true", help="go on with the training in --out")
    parser.add_argument(
        "--control",
        action="store_true",
        help="pause, go on and stop as control.json in --out says; the app writes it",
    )
    parser.add_argument(
        "--at-most",
        type=positive,
        metavar="N",
        help="wait until fewer than N trainings of this option run beside --out",
    )
    parser.add_argument(
        "--tensorboard", action="store_true", help="write TensorBoard's event files into --out too"
    )
    parser.add_argument(
        "--estimate", action="store_true", help="run a few steps, say how long all take, keep none"
    )
    parser.add_argument("--threads", type=positive, default=1, help="torch threads (default: 1)")
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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Train a model and print its events."""
    from budgetformer.job_queue import turn

    # Before anything heavy is imported: who waits needs little memory.
    with turn(Path(args.out), args.at_most) if args.at_most else nullcontext(True) as mine:
        if mine:
            _train(args)


def _train(args: argparse.Namespace) -> None:
    import torch

    from budgetformer.control import Control
    from budgetformer.data import load_dataset
    from budgetformer.parallel import launched
    from budgetformer.train import train
    from budgetformer.training_report import TensorBoard

    torch.set_num_threads(args.threads)
    run, out = _run_settings(args), Path(args.out)
    if args.estimate:
        _estimate(run, args.json)
        return
    control, processes = Control(out) if args.control else None, launched()
    with closing(TensorBoard(out)) as tensorboard:
        for event in train(load_dataset(run.data), run, out, args.resume, control, processes):
            if not processes.main:
                continue
            if args.tensorboard:
                tensorboard.write(event)
            if args.json:
                print_json(event)
            else:
                print(_event_line(event), flush=True)


def _estimate(run: Any, as_json: bool) -> None:
    from budgetformer.data import load_dataset
    from budgetformer.training_estimate import estimate

    began = time.perf_counter()
    dataset = load_dataset(run.data)
    load_s = time.perf_counter() - began
    found = estimate(dataset, run)
    if as_json:
        print_json({**found.to_dict(), "load_s": load_s})
    else:
        print(
            f"about {(found.seconds + load_s) / 60:.1f} minutes: {found.n_steps:,} steps of "
            f"{found.step_ms:.0f} ms (measured on {found.n_measured})"
        )


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


def _presets() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.json"))


def _event_line(event: dict[str, Any]) -> str:
    parts = (
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in event.items()
        if name != "event" and not isinstance(value, list | dict)
    )
    return f"{event['event']:6}" + "  ".join(parts)

"""Train small models that differ in one control each, and measure what the budgets are worth.

    python benchmarks/controls.py --data ag_news --limit 4000 --test-limit 2000 --out controls.json
    python benchmarks/controls.py --study scaling … --out scaling.json

Every row is one training: accuracy and executed heads on the test split, the relation of s to the
loss, and accuracy against the same budgets shuffled and against a fixed number of heads at the same
average. Rows that the file already holds are not trained again. The shape and schedule below were
chosen on validation rows; the test split is only measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from budgetformer.adaptivity import pays
from budgetformer.checkpoint import Checkpoint
from budgetformer.config import TrainConfig, write_json
from budgetformer.data import Dataset, load_dataset
from budgetformer.evaluate import evaluate, summarise
from budgetformer.sweep import mean_flops
from budgetformer.train import Run, train

SHAPE = {"n_layers": 2, "n_heads": 8, "d_model": 128, "d_ff": 512, "max_len": 128, "dropout": 0.2}
BASE = TrainConfig(epochs=3, batch_size=16, lr=1e-3, token_dropout=0.2, s_max=0.4, vocab_size=8000)
# name: fields of the training, fields of the model
Variants = dict[str, tuple[dict[str, Any], dict[str, Any]]]
CONTROLS: Variants = {
    "dense": ({"objective": "dense"}, {}),
    "dense, 1 head": ({"objective": "dense"}, {"fixed_heads": 1}),
    "dense, 2 heads": ({"objective": "dense"}, {"fixed_heads": 2}),
    "paper": ({"objective": "paper"}, {}),
    "paper, hinge on the mean": ({"objective": "paper-mean"}, {}),
    "aligned": ({"objective": "aligned"}, {}),
    "aligned, one s for all layers": ({"objective": "aligned"}, {"budgets": "shared"}),
    "utility": ({"objective": "utility"}, {}),
    "trained at 1 head": ({"objective": "paper-mean"}, {"fixed_heads": 1}),
    "trained at 2 heads": ({"objective": "paper-mean"}, {"fixed_heads": 2}),
    "static gates": ({"objective": "paper-mean"}, {"budgets": "static"}),
    "requested budgets": ({"objective": "requested"}, {"fixed_heads": 2}),
    "random heads in training": ({"objective": "aligned", "selection": "random"}, {}),
    "worst heads in training": ({"objective": "aligned", "selection": "bottom"}, {}),
    "shuffled budgets in training": ({"objective": "aligned", "selection": "shuffled"}, {}),
}
# One number moves at a time, under the paper's own losses and range: they leave s free.
PAPER = {"objective": "paper", "s_max": 0.9}
SCALING: Variants = {
    "base": (PAPER, {}),
    "1 layer": (PAPER, {"n_layers": 1}),
    "4 layers": (PAPER, {"n_layers": 4}),
    "4 heads": (PAPER, {"n_heads": 4}),
    "16 heads": (PAPER, {"n_heads": 16}),
    "1,000 rows": ({**PAPER, "limit": 1000}, {}),
    "16,000 rows": ({**PAPER, "limit": 16000}, {}),
}
STUDIES = {"controls": CONTROLS, "scaling": SCALING}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--limit", type=int, default=0, help="training rows; 0 means all")
    parser.add_argument("--test-limit", type=int, default=0, help="test rows; 0 means all")
    parser.add_argument("--study", choices=STUDIES, default="controls")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load_dataset(args.data)
    rows = json.loads(args.out.read_text())["rows"] if args.out.is_file() else []
    done = {(row["variant"], row["seed"]) for row in rows}
    for seed in range(args.seeds):
        for variant, changes in STUDIES[args.study].items():
            if (variant, seed) not in done:
                found = measure(dataset, *changes, seed, args.limit, args.test_limit)
                rows.append({"variant": variant, **found})
                print(json.dumps(rows[-1]), flush=True)
                setting = {"data": args.data, "limit": args.limit, "model": SHAPE}
                write_json(args.out, {**setting, "train": asdict(BASE), "rows": rows})


def measure(
    dataset: Dataset,
    fields: dict[str, Any],
    shape: dict[str, Any],
    seed: int,
    limit: int,
    test_limit: int,
) -> dict[str, Any]:
    """Train and measure one variant: fields of the training and of the model that differ."""
    config = replace(BASE, **{"limit": limit, **fields, "seed": seed})
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        run = Run(dataset.name, config, {**SHAPE, **shape})
        for _ in train(dataset, run, out):
            pass
        seconds = time.perf_counter() - started
        checkpoint = Checkpoint.from_pretrained(out)
    test = dataset.split_for("test", checkpoint.config.labels).first(test_limit)
    records = evaluate(checkpoint, test)
    row = {
        "seed": seed,
        "seconds": round(seconds),
        "flops_per_example": mean_flops(records, checkpoint.config),
        **summarise(records),
    }
    if not checkpoint.config.constant_budget:
        row["pays"] = pays(checkpoint, test, seed)
    return row


if __name__ == "__main__":
    main()

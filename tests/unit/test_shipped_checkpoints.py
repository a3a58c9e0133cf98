from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from scipy.stats import binom

from budgetformer import Checkpoint, load_dataset, predict
from budgetformer.data import DATA_FOLDER_VARIABLE, OFFLINE_TEST_ROWS
from budgetformer.evaluate import evaluate, summarise

FOLDER = Path(__file__).parents[2] / "checkpoints"
ROWS = 300


def shipped() -> list[Path]:
    return sorted(path.parent for path in FOLDER.glob("*/config.json"))


@pytest.mark.parametrize("folder", shipped(), ids=lambda path: path.name)
def test_it_loads(folder: Path) -> None:
    checkpoint = Checkpoint.from_pretrained(folder)
    assert checkpoint.tokenizer.vocab_size == checkpoint.config.vocab_size
    assert not list(folder.glob("*.tmp"))
    texts = ("A plain text.", "Another one.")[: checkpoint.config.n_segments]
    trace = predict(checkpoint, *texts)
    assert sum(trace.probabilities.values()) == pytest.approx(1, abs=1e-5)


def test_all_of_them_are_a_reasonable_download() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 150_000_000


def has_data(name: str) -> bool:
    kept = Path(os.environ.get(DATA_FOLDER_VARIABLE, "data")) / name
    return name in (*OFFLINE_TEST_ROWS, "known-need") or kept.exists()


@pytest.mark.parametrize("folder", shipped(), ids=lambda path: path.name)
def test_the_accuracy_on_file_holds(folder: Path) -> None:
    checkpoint = Checkpoint.from_pretrained(folder)
    test = checkpoint.metrics["test"]
    if not has_data(test["data"]):
        pytest.skip(f"{test['data']} is not in data/ nor where {DATA_FOLDER_VARIABLE} points")
    examples = load_dataset(test["data"]).split_for("test", checkpoint.config.labels)
    assert test["n"] == len(examples)
    figures = summarise(evaluate(checkpoint, examples.first(ROWS)))
    low, high = binom.interval(0.999, ROWS, test["accuracy"])
    accuracy = figures["accuracy"]
    assert isinstance(accuracy, float)
    assert low <= round(accuracy * ROWS) <= high
    # Well above chance, and with heads saved unless the model is dense.
    assert accuracy > 1.5 / len(checkpoint.config.labels)
    if checkpoint.config.routed:
        assert figures["executed_heads_frac"] < 0.6  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("A wonderful film: great acting, a perfect and moving story. I loved it!", "positive"),
        ("The worst film ever: boring, awful acting and a terrible waste of time.", "negative"),
    ],
)
def test_easy_reviews(text: str, label: str) -> None:
    reviewers = [
        path
        for path in shipped()
        if set(json.loads((path / "config.json").read_text())["labels"]) == {"negative", "positive"}
    ]
    assert reviewers
    for folder in reviewers:
        trace = predict(Checkpoint.from_pretrained(folder), text)
        assert trace.label == label, folder.name
        assert trace.probabilities[label] > 0.8, folder.name

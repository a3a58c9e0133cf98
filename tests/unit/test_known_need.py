"""Known-need texts: the rule holds in every text, and nothing simpler gives the label away."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from budgetformer.adaptivity import by_need
from budgetformer.checkpoint import Checkpoint
from budgetformer.data import Dataset, load_dataset
from budgetformer.evaluate import evaluate
from budgetformer.known_need import ANIMALS, N_CLAIMS, NEEDS, NUMBERS, make_text, need

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset("known-need")


def failing_numbers(text: str) -> set[str]:
    """Number words with a claim that does not hold, read off as a person would."""
    words = text.split()
    return {
        word
        for place, word in enumerate(words)
        if word in NUMBERS and words[place + NUMBERS.index(word) + 1] not in ANIMALS
    }


def test_labels_follow_from_the_rule(dataset: Dataset) -> None:
    assert dataset.label_names == ("false", "true")
    for split in dataset.splits.values():
        for text, label in zip(split.texts, split.labels, strict=True):
            assert len(failing_numbers(text)) == 1 - label


def test_in_a_false_text_all_claims_of_one_number_fail() -> None:
    text = make_text(2, False, random.Random(3))
    (number,) = failing_numbers(text)
    words = text.split()
    targets = [words[i + NUMBERS.index(w) + 1] for i, w in enumerate(words) if w == number]
    assert not set(targets) & set(ANIMALS)


def test_need_is_the_number_of_different_number_words(dataset: Dataset) -> None:
    needs = [need(text) for text in dataset.split("test").texts]
    assert set(needs) == set(NEEDS)
    assert need("fern two owl fox two hare one ant") == 2
    for text in dataset.split("test").texts[:200]:
        assert sum(word in NUMBERS for word in text.split()) == N_CLAIMS


def test_splits_share_no_text_and_come_out_the_same_again(dataset: Dataset) -> None:
    texts = [text for split in dataset.splits.values() for text in split.texts]
    assert len(texts) == len(set(texts))
    assert load_dataset("known-need").split("test") == dataset.split("test")


def test_counting_words_does_not_tell_the_label(dataset: Dataset) -> None:
    """The mean number of animals must not differ between labels, at any need: a z-test."""
    train = dataset.split("train")
    counts = np.array([sum(word in ANIMALS for word in text.split()) for text in train.texts])
    labels, needs = np.array(train.labels), np.array([need(text) for text in train.texts])
    for level in NEEDS:
        true, false = (counts[(needs == level) & (labels == label)] for label in (1, 0))
        error = np.sqrt(true.var() / len(true) + false.var() / len(false))
        assert abs(true.mean() - false.mean()) < 4 * error


def test_the_shipped_model_spends_heads_by_need(dataset: Dataset) -> None:
    """Held against the rule itself, on rows that the card's figures rest on."""
    checkpoint = Checkpoint.from_pretrained(ROOT / "checkpoints" / "known-need")
    examples = dataset.split("test").first(600)
    needs = np.array([need(text) for text in examples.texts])
    found = by_need(checkpoint, examples, needs)
    records = evaluate(checkpoint, examples)
    assert found["spearman_budget_need"]["value"] == pytest.approx(
        spearmanr(records.mean_budgets, needs).statistic
    )
    assert found["spearman_budget_need"]["value"] > 0.8
    assert found["accuracy"]["5"] == records.correct[needs == 5].mean() > 0.95
    # One head is enough for the texts that need one, and fails on many that need five.
    fixed = found["accuracy_at_fixed_k"]
    assert fixed["1"]["1"] > 0.98
    assert fixed["1"]["5"] < 0.7 < fixed["3"]["5"] < 0.95 < fixed["7"]["5"]
    assert found["executed_heads_frac"]["1"] < 0.2 < found["executed_heads_frac"]["5"]

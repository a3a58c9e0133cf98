from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from budgetformer import Checkpoint, predict
from budgetformer.data import Examples
from budgetformer.evaluate import Records, evaluate, length_batches, summarise
from budgetformer.policies import Policy, all_heads, fixed_heads

WORDS = ("a", "good", "film", "bad", "the", "story", "boring", "one", "two", "what", "yes", "no")


@pytest.fixture(scope="module")
def examples() -> Examples:
    generator = np.random.default_rng(0)
    texts = tuple(
        " ".join(generator.choice(WORDS, size=int(generator.integers(1, 40)))) for _ in range(70)
    )
    return Examples(texts, tuple(int(i) for i in generator.integers(0, 2, 70)))


def test_records_are_single_predictions(checkpoint: Checkpoint, examples: Examples) -> None:
    records = evaluate(checkpoint, examples, batch_size=16)
    assert len(set(records.n_tokens.tolist())) > 10
    for i, text in enumerate(examples.texts):
        trace = predict(checkpoint, text)
        probabilities = list(trace.probabilities.values())
        assert records.probabilities[i].tolist() == pytest.approx(probabilities, abs=1e-5)
        gold = examples.labels[i]
        assert records.labels[i] == gold
        assert records.losses[i] == pytest.approx(-math.log(probabilities[gold]), abs=1e-4)
        assert records.n_tokens[i] == len(trace.encoding.ids)
        assert records.budgets[i].tolist() == pytest.approx(
            [layer.budget for layer in trace.layers], abs=1e-6
        )
        for row, layer in zip(records.heads[i], trace.layers, strict=True):
            assert tuple(np.flatnonzero(row).tolist()) == layer.heads
        right = trace.label == checkpoint.config.labels[gold]
        assert bool(records.correct[i]) == right


def test_figures_are_those_of_scipy_and_sklearn(checkpoint: Checkpoint, examples: Examples) -> None:
    records = evaluate(checkpoint, examples)
    figures = summarise(records)
    budget = np.array([np.mean(row) for row in records.budgets])
    executed = np.array([np.mean([layer.sum() / 4 for layer in row]) for row in records.heads])
    wrong = records.probabilities.argmax(axis=1) != np.array(examples.labels)
    assert figures == {
        "n": 70,
        "accuracy": pytest.approx(
            accuracy_score(examples.labels, records.probabilities.argmax(axis=1))
        ),
        "loss": pytest.approx(
            log_loss(examples.labels, records.probabilities.astype(float)), rel=1e-5
        ),
        "mean_budget": pytest.approx(budget.mean(), rel=1e-6),
        "executed_heads_frac": pytest.approx(executed.mean()),
        "executed_heads_std": pytest.approx(executed.std()),
        "spearman_budget_loss": pytest.approx(spearmanr(budget, records.losses).statistic),
        "auroc_budget_error": pytest.approx(roc_auc_score(wrong, budget)),
        "mean_tokens": pytest.approx(records.n_tokens.mean()),
    }


def records(**change: object) -> Records:
    values: dict[str, object] = {
        "labels": np.array([0, 1, 1]),
        "probabilities": np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], np.float32),
        "losses": np.array([0.1, 0.9, 0.2], np.float32),
        "n_tokens": np.array([3, 5, 4]),
        "budgets": np.array([[0.1, 0.3], [0.8, 0.8], [0.3, 0.5]], np.float32),
        "heads": np.array([[[1, 0], [1, 0]], [[1, 1], [1, 1]], [[1, 0], [1, 1]]], bool),
    }
    return Records(**{**values, **change})  # type: ignore[arg-type]


def test_figures_by_hand() -> None:
    assert summarise(records()) == {
        "n": 3,
        "accuracy": pytest.approx(2 / 3),
        "loss": pytest.approx(0.4),
        "mean_budget": pytest.approx((0.2 + 0.8 + 0.4) / 3),
        "executed_heads_frac": pytest.approx((0.5 + 1 + 0.75) / 3),
        "executed_heads_std": pytest.approx(math.sqrt((0.25**2 + 0.25**2) / 3)),
        "spearman_budget_loss": pytest.approx(1.0),
        "auroc_budget_error": pytest.approx(1.0),
        "mean_tokens": pytest.approx(4.0),
    }


def test_undefined_figures_are_none() -> None:
    all_right = summarise(records(labels=np.array([0, 0, 1])))
    assert all_right["auroc_budget_error"] is None
    assert all_right["spearman_budget_loss"] == pytest.approx(1.0)
    all_wrong = summarise(records(labels=np.array([1, 1, 0])))
    assert all_wrong["auroc_budget_error"] is None
    constant = summarise(records(budgets=np.ones((3, 2), np.float32)))
    assert constant["auroc_budget_error"] is None and constant["spearman_budget_loss"] is None


def test_one_example(checkpoint: Checkpoint, examples: Examples) -> None:
    figures = summarise(evaluate(checkpoint, examples.first(1)))
    assert figures["n"] == 1 and figures["accuracy"] in (0.0, 1.0)
    assert figures["executed_heads_std"] == 0.0
    assert figures["spearman_budget_loss"] is None and figures["auroc_budget_error"] is None


def test_the_batch_size_does_not_matter(checkpoint: Checkpoint, examples: Examples) -> None:
    one, many = (evaluate(checkpoint, examples, batch_size=n) for n in (1, 70))
    assert np.abs(one.probabilities - many.probabilities).max() < 1e-5
    assert np.abs(one.budgets - many.budgets).max() < 1e-6
    assert np.array_equal(one.heads, many.heads)


def test_a_policy_is_followed(checkpoint: Checkpoint, examples: Examples) -> None:
    figures = summarise(evaluate(checkpoint, examples, policy_for=lambda rows: all_heads()))
    assert figures["executed_heads_frac"] == 1.0 and figures["executed_heads_std"] == 0.0


def test_a_policy_gets_the_rows_of_its_batch(checkpoint: Checkpoint, examples: Examples) -> None:
    generator = torch.Generator().manual_seed(0)
    wanted = torch.rand(70, 4, generator=generator) < 0.5
    wanted[:, 0] |= ~wanted.any(dim=1)

    def policy_for(rows: Sequence[int]) -> Policy:
        return fixed_heads([wanted[list(rows)]] * 2)

    found = evaluate(checkpoint, examples, 16, policy_for)
    for layer in range(2):
        assert np.array_equal(found.heads[:, layer], wanted.numpy())
    assert np.array_equal(found.executed_heads, wanted.sum(dim=1).numpy()[:, None].repeat(2, 1))


def test_no_examples(checkpoint: Checkpoint) -> None:
    with pytest.raises(ValueError, match="no examples"):
        evaluate(checkpoint, Examples((), ()))


def test_pairs(pair_checkpoint: Checkpoint) -> None:
    pairs = Examples(("good film", "bad"), (0, 2), ("a story", "one two " * 30))
    records = evaluate(pair_checkpoint, pairs)
    for i in range(2):
        trace = predict(pair_checkpoint, pairs.texts[i], (pairs.text_pairs or ())[i])
        assert records.probabilities[i].tolist() == pytest.approx(
            list(trace.probabilities.values()), abs=1e-5
        )


def test_batches_are_of_similar_length(checkpoint: Checkpoint, examples: Examples) -> None:
    inputs = checkpoint.tokenizer.encode_ids(examples.texts)
    batches = list(length_batches(inputs, 16))
    assert sorted(row for batch in batches for row in batch) == list(range(70))
    assert [len(batch) for batch in batches] == [16, 16, 16, 16, 6]
    lengths = [len(inputs[row].ids) for batch in batches for row in batch]
    assert lengths == sorted(lengths)


def test_pairs_and_single_texts_are_not_mixed_up(
    checkpoint: Checkpoint, pair_checkpoint: Checkpoint, examples: Examples
) -> None:
    with pytest.raises(ValueError, match="reads text pairs"):
        evaluate(pair_checkpoint, examples)
    with pytest.raises(ValueError, match="reads single texts"):
        evaluate(checkpoint, Examples(("a",), (0,), ("b",)))

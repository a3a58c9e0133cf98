"""Two checkpoints on one slice, against loops and the binomial formula."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from budgetformer import BudgetFormer, Checkpoint, Tokenizer, predict
from budgetformer.checkpoint_diff import compare_checkpoints, jaccard, renumbered, run_other
from budgetformer.data import Examples
from budgetformer.evaluate import Records


def records(n_heads: int = 4, seed: int = 0, n: int = 40) -> Records:
    generator = np.random.default_rng(seed)
    heads = generator.random((n, 2, n_heads)) < 0.5
    heads[..., 0] |= ~heads.any(axis=2)
    return Records(
        labels=np.arange(n) % 3,
        probabilities=generator.dirichlet(np.ones(3), n).astype(np.float32),
        losses=np.ones(n, np.float32),
        n_tokens=np.full(n, 9),
        budgets=generator.random((n, 2)).astype(np.float32),
        heads=np.asarray(heads),
    )


def test_differences_are_those_of_a_loop() -> None:
    a, b = records(seed=1), records(seed=2)
    found = compare_checkpoints(a, b)
    table = {(x, y): 0 for x in (True, False) for y in (True, False)}
    changed = 0
    for i in range(40):
        answers = [int(np.argmax(r.probabilities[i])) for r in (a, b)]
        table[answers[0] == i % 3, answers[1] == i % 3] += 1
        changed += answers[0] != answers[1]
    assert (found.both_right, found.both_wrong) == (table[True, True], table[False, False])
    only = (found.only_first_right, found.only_second_right)
    assert only == (table[True, False], table[False, True])
    assert found.labels_changed == changed
    assert found.accuracy_change.value == pytest.approx((only[1] - only[0]) / 40)
    for layer, diff in enumerate(found.layers):
        shared = []
        for i in range(40):
            x, y = (set(np.flatnonzero(r.heads[i, layer])) for r in (a, b))
            shared.append(len(x & y) / len(x | y))
        assert diff.overlap == pytest.approx(np.mean(shared))
        change = np.mean(b.budgets[:, layer] - a.budgets[:, layer])
        assert diff.budget_change.value == pytest.approx(change, abs=1e-6)
        k = [r.heads[:, layer].sum() / 40 for r in (a, b)]
        assert diff.k_change == pytest.approx(k[1] - k[0])


@pytest.mark.parametrize(("b", "c"), [(3, 9), (5, 5), (0, 6), (0, 0)])
def test_mcnemars_test_is_the_binomials_tails(b: int, c: int) -> None:
    """Exact: twice the probability of a table at least as lopsided, at most 1."""
    n = 30
    right = np.zeros((2, n), bool)
    right[0, :b] = right[1, b : b + c] = right[:, b + c : b + c + 4] = True
    both = [
        Records(
            np.zeros(n, np.int64), np.where(r[:, None], [0.9, 0.1], [0.1, 0.9]).astype(np.float32),
            np.ones(n, np.float32), np.full(n, 5), np.full((n, 1), 0.5, np.float32),
            np.ones((n, 1, 2), bool),
        )
        for r in right
    ]  # fmt: skip
    found = compare_checkpoints(*both)
    tail = sum(math.comb(b + c, i) for i in range(min(b, c) + 1)) / 2 ** (b + c)
    assert found.p_value == pytest.approx(min(1.0, 2 * tail))
    assert (found.only_first_right, found.only_second_right, found.both_right) == (b, c, 4)


def test_other_numbers_of_heads_have_no_overlap() -> None:
    found = compare_checkpoints(records(4), records(6))
    assert [layer.overlap for layer in found.layers] == [None, None]
    assert compare_checkpoints(records(), records()).layers[0].overlap == 1


def test_jaccard_of_no_heads_is_zero() -> None:
    none = np.zeros((1, 3), bool)
    assert jaccard(none, none).tolist() == [0]


def test_examples_must_be_the_same() -> None:
    a = records()
    with pytest.raises(ValueError, match="same examples"):
        compare_checkpoints(a, renumbered(a, ("x", "y", "z"), ("y", "x", "z")))


def test_classes_are_numbered_alike() -> None:
    a = records()
    moved = renumbered(a, ("x", "y", "z"), ("z", "x", "y"))
    for i in range(40):
        old = dict(zip("xyz", a.probabilities[i], strict=True))
        assert dict(zip("zxy", moved.probabilities[i], strict=True)) == old
        assert "zxy"[moved.labels[i]] == "xyz"[a.labels[i]]
    assert np.array_equal(moved.correct, a.correct)
    with pytest.raises(ValueError, match="'w'"):
        renumbered(a, ("x", "y", "z"), ("x", "y", "w"))


def test_a_model_with_other_numbers_for_the_classes(
    make_model: Callable[..., BudgetFormer], tokenizer: Tokenizer
) -> None:
    model = make_model(vocab_size=tokenizer.vocab_size, labels=("c", "a", "b"))
    checkpoint = Checkpoint(model, tokenizer)
    texts, labels = ("a good film", "an awful film", "yes & no", "the story"), (0, 1, 2, 0)
    calls: list[tuple[int, int]] = []
    found = run_other(
        checkpoint, Examples(texts, labels), ("a", "b", "c"), lambda *done: calls.append(done)
    )
    assert calls == [(4, 4)] and found.labels.tolist() == [0, 1, 2, 0]
    for row, text in enumerate(texts):
        said = predict(checkpoint, text).probabilities
        assert found.probabilities[row] == pytest.approx([said[c] for c in "abc"], abs=1e-5)
        assert found.losses[row] == pytest.approx(-math.log(said["abc"[labels[row]]]), abs=1e-4)
    with pytest.raises(ValueError, match="'c'"):
        run_other(checkpoint, Examples(texts, labels), ("a", "b", "z"))

from __future__ import annotations

import pytest
import torch

from budgetformer.budget import Routing, training_selection
from budgetformer.policies import ablated, all_heads, exploring, fixed_heads, given_k, predicted


def routing(budgets: list[float]) -> Routing:
    scores = torch.tensor([[0.1, 0.9, -0.5, 0.3]]).repeat(len(budgets), 1)
    return Routing(torch.tensor(budgets), scores)


@pytest.mark.parametrize(
    ("rounding", "counts"),
    [("floor", [1, 1, 2, 4]), ("nearest", [1, 2, 2, 4]), ("ceil", [1, 2, 3, 4])],
)
def test_predicted(rounding: str, counts: list[int]) -> None:
    # s·H = .4, 1.6, 2.4, 4
    selection = predicted(rounding)(0, routing([0.1, 0.4, 0.6, 1.0]))  # type: ignore[arg-type]
    assert selection.gate is None
    best = [1, 3, 0, 2]
    for row, k in zip(selection.heads.tolist(), counts, strict=True):
        assert [h for h in range(4) if row[h]] == sorted(best[:k])
    assert selection.executed_heads.tolist() == counts


def test_all_heads() -> None:
    selection = all_heads()(0, routing([0.01, 0.5]))
    assert selection.heads.tolist() == [[True] * 4] * 2 and selection.gate is None


def test_fixed_heads() -> None:
    first = torch.tensor([[True, False, False, False]])
    second = torch.tensor([[False, True, False, True], [True, True, True, True]])
    policy = fixed_heads([first, second])
    assert policy(0, routing([0.9, 0.9])).heads.tolist() == first.tolist() * 2
    assert policy(1, routing([0.9, 0.9])).heads.tolist() == second.tolist()


def test_ablated_heads_count_as_executed() -> None:
    off = torch.zeros(2, 2, 4, dtype=torch.bool)
    off[0, 1, 3] = off[1, 1, 2] = True  # head 2 does not run anyway
    offset = torch.arange(12.0).view(2, 2, 3)
    policy = ablated(predicted(), off, offset)
    untouched, touched = policy(0, routing([0.5, 0.75])), policy(1, routing([0.5, 0.75]))
    assert untouched.gate is None and untouched.offset is None
    ran = [[False, True, False, True], [True, True, False, True]]
    assert untouched.heads.tolist() == touched.heads.tolist() == ran
    assert touched.gate is not None and touched.offset is not None
    assert touched.gate.tolist() == [[0, 1, 0, 0], [1, 1, 0, 1]]
    assert touched.offset.tolist() == [[3, 4, 5], [9, 10, 11]]
    assert ablated(predicted(), off)(1, routing([0.5, 0.75])).offset is None


def test_exploring_is_the_training_selection() -> None:
    policy = exploring(0.7, 1.0, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    for layer in range(3):
        got = policy(layer, routing([0.3, 0.6]))
        wanted = training_selection(routing([0.3, 0.6]), 0.7, 1.0, generator)
        assert got.gate is not None and wanted.gate is not None
        assert torch.equal(got.heads, wanted.heads) and torch.equal(got.gate, wanted.gate)


@pytest.mark.parametrize(("order", "ranked"), [("top", [1, 3, 0, 2]), ("bottom", [2, 0, 3, 1])])
def test_given_k(order: str, ranked: list[int]) -> None:
    k = torch.tensor([[1, 4], [3, 2]])
    policy = given_k(k, order)  # type: ignore[arg-type]
    for layer in range(2):
        heads = policy(layer, routing([0.1, 0.9])).heads.tolist()
        for b in range(2):
            assert [h for h in range(4) if heads[b][h]] == sorted(ranked[: k[b, layer]])
    shared = given_k(k[:1], order)(1, routing([0.1, 0.9, 0.5]))  # type: ignore[arg-type]
    assert shared.executed_heads.tolist() == [4, 4, 4]


def test_random_heads() -> None:
    k = torch.full((400, 1), 2)
    policy = given_k(k, "random", torch.Generator().manual_seed(0))
    selection = policy(0, routing([0.5] * 400))
    assert selection.executed_heads.tolist() == [2] * 400
    # Each head half of the time; five standard deviations of the binomial.
    for share in selection.heads.float().mean(dim=0).tolist():
        assert abs(share - 0.5) < 5 * 0.5 / 20
    with pytest.raises(ValueError, match="generator"):
        given_k(k, "random")

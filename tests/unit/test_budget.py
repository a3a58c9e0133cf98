from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from scipy.optimize import brentq

from budgetformer import ModelConfig
from budgetformer.budget import (
    Router,
    Routing,
    Selection,
    executed_heads,
    masked_mean,
    soft_top_k,
    top_heads,
    training_selection,
)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def shape(**fields: Any) -> ModelConfig:
    return ModelConfig(vocab_size=10, labels=("a", "b"), **fields)


def test_shapes_are_checked_in_these_tests() -> None:
    with pytest.raises(TypeCheckError):
        masked_mean(random(2, 3, 4), torch.ones(2, 4, dtype=torch.bool))


def test_masked_mean_is_a_loop_over_real_tokens() -> None:
    x = random(3, 5, 2)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 0, 1]], dtype=torch.bool)
    mean = masked_mean(x, mask)
    for b in range(3):
        for d in range(2):
            real = [float(x[b, t, d]) for t in range(5) if mask[b, t]]
            assert float(mean[b, d]) == pytest.approx(sum(real) / len(real), abs=1e-6)


def test_router_by_hand() -> None:
    router = Router(shape(d_model=3, n_heads=3, d_router=2, temperature=0.5))
    x, mask = random(2, 4, 3), torch.tensor([[True, True, True, True], [True, False, True, False]])
    routing = router(x, mask)
    weights = {name: p.detach().double().numpy() for name, p in router.named_parameters()}
    for b in range(2):
        summary = x[b][mask[b]].double().numpy().mean(axis=0)
        hidden = weights["budget_hidden.weight"] @ summary + weights["budget_hidden.bias"]
        hidden = np.array([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in hidden])
        logit = weights["budget_out.weight"][0] @ hidden + weights["budget_out.bias"][0]
        scores = weights["scorer.weight"] @ summary + weights["scorer.bias"]
        exp = np.exp(scores / 0.5)
        assert routing.budget[b].item() == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-6)
        assert routing.scores[b].tolist() == pytest.approx(scores.tolist(), abs=1e-6)
        assert routing.probabilities[b].tolist() == pytest.approx(
            (exp / exp.sum()).tolist(), abs=1e-6
        )


def test_router_starts_open() -> None:
    router = Router(shape(d_model=4, n_heads=2, d_router=3))
    torch.nn.init.zeros_(router.budget_out.weight)
    budget = router(random(1, 2, 4), torch.ones(1, 2, dtype=torch.bool)).budget
    assert budget.item() == pytest.approx(1 / (1 + math.exp(-1)))


@pytest.mark.parametrize("rounding", ["floor", "nearest", "ceil"])
def test_budgets_of_exactly_k_heads_give_k(rounding: str) -> None:
    for n_heads in range(1, 17):
        budgets = torch.tensor([k / n_heads for k in range(n_heads + 1)])
        through_sigmoid = torch.sigmoid(torch.logit(budgets.double()).float())
        wanted = [max(1, k) for k in range(n_heads + 1)]
        assert executed_heads(budgets, n_heads, rounding).tolist() == wanted  # type: ignore[arg-type]
        assert executed_heads(through_sigmoid, n_heads, rounding).tolist() == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("budget", "floor", "nearest", "ceil"),
    [
        (0.0, 1, 1, 1),
        (0.01, 1, 1, 1),
        (0.124, 1, 1, 1),
        (0.126, 1, 1, 2),
        (0.49, 3, 4, 4),  # s·H = 3.92
        (0.51, 4, 4, 5),  # s·H = 4.08
        (0.4375, 3, 4, 4),  # s·H = 3.5
        (0.4999, 3, 4, 4),  # s·H = 3.9992
        (0.5001, 4, 4, 5),  # s·H = 4.0008
        (0.999, 7, 8, 8),
        (1.0, 8, 8, 8),
    ],
)
def test_rounding_of_eight_heads(budget: float, floor: int, nearest: int, ceil: int) -> None:
    s = torch.tensor([budget])
    assert executed_heads(s, 8).item() == floor
    assert executed_heads(s, 8, "floor").item() == floor
    assert executed_heads(s, 8, "nearest").item() == nearest
    assert executed_heads(s, 8, "ceil").item() == ceil


@given(st.data())
def test_top_heads_is_a_sort(data: st.DataObject) -> None:
    n_heads = data.draw(st.integers(1, 9))
    rows = data.draw(
        st.lists(
            st.tuples(
                # Few values, so that there are ties.
                st.lists(st.integers(-2, 2), min_size=n_heads, max_size=n_heads),
                st.integers(1, n_heads),
            ),
            min_size=1,
            max_size=5,
        )
    )
    scores = torch.tensor([row for row, _ in rows], dtype=torch.float32)
    heads = top_heads(scores, torch.tensor([k for _, k in rows]))
    for b, (row, k) in enumerate(rows):
        best = sorted(range(n_heads), key=lambda h: (-row[h], h))[:k]
        assert heads[b].nonzero().flatten().tolist() == sorted(best)


SCORES = st.lists(st.floats(-8, 8), min_size=1, max_size=12)


@given(SCORES, st.floats(0.01, 0.99), st.floats(0.2, 3))
def test_soft_top_k_sums_to_the_budget(scores: list[float], s: float, tau: float) -> None:
    gate = soft_top_k(torch.tensor([scores]), torch.tensor([s]), tau)[0]
    assert gate.sum().item() == pytest.approx(s * len(scores), abs=1e-4)
    assert 0 <= gate.min().item() <= gate.max().item() <= 1


@given(SCORES, st.floats(0.02, 0.98), st.floats(0.25, 3))
def test_soft_top_k_is_the_root_that_scipy_finds(scores: list[float], s: float, tau: float) -> None:
    logits = np.array(scores) / tau

    def excess(shift: float) -> float:
        return float((1 / (1 + np.exp(-(logits - shift)))).sum() - s * len(scores))

    root = brentq(excess, logits.min() - 30, logits.max() + 30, xtol=1e-13)
    wanted = 1 / (1 + np.exp(-(logits - root)))
    z, budget = (torch.tensor(v, dtype=torch.float64) for v in ([scores], [s]))
    gate = soft_top_k(z, budget, tau)[0]
    assert gate.tolist() == pytest.approx(wanted.tolist(), abs=1e-7)


@given(st.integers(2, 10), st.integers(0, 1000), st.floats(0.05, 0.95), st.floats(0.5, 3))
def test_soft_top_k_gradient_is_a_finite_difference(
    n_heads: int, seed: int, s: float, tau: float
) -> None:
    scores = random(2, n_heads, seed=seed).double().requires_grad_()
    budget = torch.tensor([s, 1 - s], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda z, b: soft_top_k(z, b, tau), (scores, budget), eps=1e-5, atol=1e-5, rtol=1e-4
    )


def test_soft_top_k_closed_forms() -> None:
    equal = soft_top_k(torch.full((1, 5), 3.0), torch.tensor([0.3]), 0.7)
    assert equal[0].tolist() == pytest.approx([0.3] * 5, abs=1e-6)
    # Two heads z = ±a that share one head: λ = 0, so m = sigmoid(±a/τ).
    pair = soft_top_k(torch.tensor([[1.0, -1.0]]), torch.tensor([0.5]), 0.5)
    high = 1 / (1 + math.exp(-2))
    assert pair[0].tolist() == pytest.approx([high, 1 - high], abs=1e-6)


def _routing(budgets: list[float], n_heads: int) -> Routing:
    scores = random(len(budgets), n_heads, seed=3)
    return Routing(torch.tensor(budgets), scores)


def test_training_rounds_budgets_without_bias() -> None:
    n = 4000
    selection = training_selection(
        _routing([0.4] * n, 8), tau=1.0, noise=1.0, generator=torch.Generator().manual_seed(0)
    )
    k = selection.executed_heads
    assert set(k.tolist()) == {3, 4}  # s·H = 3.2
    # Four heads with a chance of 0.2: five standard deviations of the binomial.
    share = (k == 4).float().mean().item()
    assert abs(share - 0.2) < 5 * math.sqrt(0.2 * 0.8 / n)


def test_training_never_runs_less_than_one_head_nor_more_than_all() -> None:
    selection = training_selection(
        _routing([0.001, 0.999] * 50, 4), 1.0, 1.0, torch.Generator().manual_seed(0)
    )
    k = selection.executed_heads
    assert k[0::2].min().item() == 1 and k[1::2].max().item() == 4


def test_training_gate_is_hard_forward_and_soft_backward() -> None:
    routing = _routing([0.3, 0.6], 6)
    budget = routing.budget.clone().requires_grad_()
    scores = routing.scores.clone().requires_grad_()
    weights = random(2, 6, seed=5)
    selection = training_selection(
        Routing(budget, scores), 0.8, 0.0, torch.Generator().manual_seed(1)
    )
    assert selection.gate is not None
    assert torch.allclose(selection.gate, selection.heads.float(), atol=1e-6)
    hard = torch.autograd.grad((selection.gate * weights).sum(), (budget, scores))
    soft = torch.autograd.grad((soft_top_k(scores, budget, 0.8) * weights).sum(), (budget, scores))
    for got, wanted in zip(hard, soft, strict=True):
        assert torch.allclose(got, wanted, atol=1e-6)
        assert got.abs().min() > 0
    # Without noise the heads are those of the plain scores.
    assert torch.equal(selection.heads, top_heads(scores, selection.executed_heads))


def test_noise_tries_every_head_and_follows_the_generator() -> None:
    routing = _routing([0.2], 8)

    def draw(seed: int, noise: float) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.stack(
            [training_selection(routing, 1.0, noise, generator).heads[0] for _ in range(80)]
        )

    assert bool(draw(0, 2.0).any(dim=0).all())
    assert torch.equal(draw(0, 2.0), draw(0, 2.0))
    assert not torch.equal(draw(0, 2.0), draw(1, 2.0))
    assert int(draw(0, 0.0).any(dim=0).sum()) == 2  # s·H = 1.6: the best head, or the best two


def test_a_fixed_number_of_heads_is_every_budget() -> None:
    for n_heads in range(1, 17):
        for fixed in range(1, n_heads + 1):
            router = Router(shape(d_model=2 * n_heads, n_heads=n_heads, fixed_heads=fixed))
            x, mask = random(3, 2, 2 * n_heads), torch.ones(3, 2, dtype=torch.bool)
            budget = router(x, mask).budget
            assert budget.tolist() == pytest.approx([fixed / n_heads] * 3)
            assert executed_heads(budget, n_heads).tolist() == [fixed] * 3


def test_more_and_fewer_heads_in_training() -> None:
    routing = _routing([0.5, 0.5, 0.05, 0.95], 8)  # s·H = 4, 4, 0.4, 7.6
    step = torch.tensor([2, 1, 2, 2])
    large, small = (
        training_selection(routing, 1.0, 1.0, torch.Generator().manual_seed(0), given_k)
        for given_k in (lambda k: k + step, lambda k: k - step)
    )
    assert large.executed_heads.tolist()[:2] == [6, 5] and large.executed_heads[3] == 8
    assert small.executed_heads.tolist()[:3] == [2, 3, 1]
    # The same draws: the larger set of heads holds the smaller.
    assert bool((large.heads | ~small.heads).all())
    budget = torch.full((4,), 0.5, requires_grad=True)
    scores = routing.scores.clone().requires_grad_()
    selection = training_selection(
        Routing(budget, scores),
        1.0,
        0.0,
        torch.Generator().manual_seed(0),
        lambda k: k + torch.tensor([1, -1, 1, -1]),
    )
    assert selection.gate is not None and selection.executed_heads.tolist() == [5, 3, 5, 3]
    weighted = (selection.gate * random(4, 8, seed=9)).sum()
    gradients = torch.autograd.grad(weighted, (budget, scores), allow_unused=True)
    assert gradients[0] is None  # s did not decide
    assert gradients[1].abs().max() > 0


def test_a_static_router_knows_no_input() -> None:
    router = Router(shape(d_model=8, n_heads=4, budgets="static"))
    mask = torch.ones(3, 2, dtype=torch.bool)
    routing = router(random(3, 2, 8), mask)
    hidden = torch.nn.functional.gelu(router.budget_hidden.bias)
    logit = float((router.budget_out.weight[0] @ hidden + router.budget_out.bias[0]).detach())
    assert routing.budget.tolist() == pytest.approx([1 / (1 + math.exp(-logit))] * 3)
    assert torch.equal(routing.scores, router.scorer.bias.expand(3, -1))


def test_a_given_budget_is_the_budget() -> None:
    router = Router(shape(d_model=8, n_heads=4, budgets="shared"), scores_only=True)
    x, mask, given = random(2, 3, 8), torch.ones(2, 3, dtype=torch.bool), torch.tensor([0.3, 0.9])
    assert router(x, mask, given).budget.tolist() == given.tolist()
    assert not [name for name, _ in router.named_parameters() if "budget" in name]


def test_controls_of_the_choice_in_training() -> None:
    routing = _routing([0.25, 0.5, 0.75, 1.0], 8)  # s·H = 2, 4, 6, 8: nothing to round
    generator = torch.Generator()

    def choose(choice: Any, seed: int = 0) -> Selection:
        return training_selection(routing, 1.0, 0.0, generator.manual_seed(seed), choice=choice)

    order = routing.scores.argsort(dim=1, descending=True)
    for row, k in enumerate((2, 4, 6, 8)):
        assert set(choose("top").heads[row].nonzero()[:, 0].tolist()) == set(
            order[row, :k].tolist()
        )
        lowest = set(order[row, 8 - k :].tolist())
        assert set(choose("bottom").heads[row].nonzero()[:, 0].tolist()) == lowest
    assert choose("random").executed_heads.tolist() == [2, 4, 6, 8]
    assert not torch.equal(choose("random", 1).heads, choose("random", 2).heads)
    shuffled = [tuple(choose("shuffled", seed).executed_heads.tolist()) for seed in range(20)]
    assert {tuple(sorted(k)) for k in shuffled} == {(2, 4, 6, 8)} and len(set(shuffled)) > 1

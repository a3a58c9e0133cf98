from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch

from budgetformer import BudgetFormer, Checkpoint, ModelConfig, predict
from budgetformer.budget import Routing
from budgetformer.interventions import Intervention

SCORES = [0.1, 0.9, -0.5, 0.3]  # best first: 1 3 0 2
CONFIG = ModelConfig(vocab_size=9, labels=("a", "b"), n_layers=2, n_heads=4, d_model=8)


def routing(*budgets: float) -> Routing:
    scores = torch.tensor([SCORES]).repeat(len(budgets), 1)
    return Routing(torch.tensor(budgets), scores)


def chosen(change: Intervention, *budgets: float, layer: int = 0) -> list[list[int]]:
    before = routing(*budgets)
    heads = change.policy(CONFIG)(layer, before).heads.tolist()
    assert before.scores.tolist() == routing(*budgets).scores.tolist()  # left as it was
    return [[h for h in range(4) if row[h]] for row in heads]


def test_the_empty_one_is_the_models_own_choice(checkpoint: Checkpoint) -> None:
    assert chosen(Intervention(), 0.1, 0.5, 0.75) == [[1], [1, 3], [0, 1, 3]]
    policy = Intervention().policy(checkpoint.config)
    assert predict(checkpoint, "a good film", policy=policy) == predict(checkpoint, "a good film")
    assert Intervention().empty and Intervention(budgets=(None, None), heads_in=((), ())).empty
    assert not Intervention(order="bottom").empty and not Intervention(heads_out=((), (0,))).empty


@pytest.mark.parametrize(
    ("change", "heads"),
    [
        (Intervention(budgets=(0.5, None)), [1, 3]),
        (Intervention(budgets=(0.0, None)), [1]),
        (Intervention(budgets=(1, None)), [0, 1, 2, 3]),
        (Intervention(budgets=(None, 0.1)), [0, 1, 3]),  # another layer's
        (Intervention(k=(2, None)), [1, 3]),
        (Intervention(k=(1, 4), budgets=(0.9, 0.9)), [1]),  # k goes first
        (Intervention(k=(2, 2), order="bottom"), [0, 2]),
        # k stays 3: head 2 takes the place of 0; without 1 the next one is 2.
        (Intervention(heads_in=((2,), ())), [1, 2, 3]),
        (Intervention(heads_out=((1,), ())), [0, 2, 3]),
        (Intervention(heads_in=((2,), ()), heads_out=((1,), ())), [0, 2, 3]),
        # k gives way only where it has to.
        (Intervention(k=(1, 1), heads_in=((0, 2), ())), [0, 2]),
        (Intervention(k=(4, 4), heads_out=((1, 3), ())), [0, 2]),
        (Intervention(heads_in=((2,), ()), heads_out=((0, 1, 3), ())), [2]),
        (Intervention(k=(1, 1), heads_in=((2,), ()), order="bottom"), [2]),
        (Intervention(temperature=5.0), [0, 1, 3]),
    ],
)
def test_what_is_forced(change: Intervention, heads: list[int]) -> None:
    assert chosen(change, 0.8, 0.8) == [heads, heads]  # s·H = 3.2


@pytest.mark.parametrize(("rounding", "k"), [("floor", 1), ("nearest", 2), ("ceil", 2)])
def test_a_forced_budget_is_rounded_as_the_models(
    make_model: Callable[..., BudgetFormer], rounding: str, k: int
) -> None:
    config = make_model(rounding=rounding).config
    selection = Intervention(budgets=(0.4, 0.4)).policy(config)(1, routing(0.9))
    assert selection.executed_heads.tolist() == [k]


def test_random_heads_come_from_the_seed_only() -> None:
    seen = Counter[int]()
    for seed in range(100):
        change = Intervention(k=(2, 2), order="random", seed=seed)
        first, second = chosen(change, 0.1, 0.9)
        assert first == second == chosen(change, 0.5)[0] and len(first) == 2
        seen.update(first)
    # Each head half of the time; five standard deviations of the binomial.
    assert all(abs(seen[h] / 100 - 0.5) < 5 * 0.5 / 10 for h in range(4))
    layers = [
        chosen(Intervention(k=(2, 2), order="random", seed=seed), 0.5, layer=layer)
        for seed in range(20)
        for layer in (0, 1)
    ]
    assert layers[::2] != layers[1::2]


def test_sampled_heads_follow_p() -> None:
    n, tau = 500, 0.5
    change = [Intervention(k=(1, 1), order="sample", temperature=tau, seed=s) for s in range(n)]
    seen = Counter(chosen(c, 0.5)[0][0] for c in change)
    powers = [math.exp(z / tau) for z in SCORES]
    for head, power in enumerate(powers):
        p = power / sum(powers)
        assert abs(seen[head] / n - p) < 5 * math.sqrt(p * (1 - p) / n)
    cold = Intervention(k=(2, 2), order="sample", temperature=1e-3, seed=7)
    assert chosen(cold, 0.5) == [[1, 3]]


def test_json_both_ways() -> None:
    change = Intervention(
        budgets=(0.25, None),
        k=(None, 3),
        heads_in=((3, 1, 1), ()),
        heads_out=((), (0,)),
        order="sample",
        temperature=0.5,
        seed=4,
    )
    assert change.heads_in == ((1, 3), ())
    assert Intervention.from_json(change.to_json()) == change
    assert Intervention.from_dict(json.loads(json.dumps(change.to_dict()))) == change
    assert Intervention().to_json() == "{}" and Intervention.from_json("{}") == Intervention()
    assert Intervention(k=(1, 2)).to_json() == '{"k":[1,2]}'
    assert hash(change) == hash(Intervention.from_json(change.to_json()))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        "7",
        '"k"',
        "null",
        '{"x":1}',
        '{"k":3}',
        '{"k":"33"}',
        '{"k":{"1":2}}',
        '{"k":[0]}',
        '{"k":[1.5]}',
        '{"k":[true]}',
        '{"budgets":[1.01]}',
        '{"budgets":[NaN]}',
        '{"budgets":["a"]}',
        '{"heads_in":[3]}',
        '{"heads_in":[[-1]]}',
        '{"heads_in":[["a"]]}',
        '{"heads_in":[[1]],"heads_out":[[1]]}',
        '{"order":"best"}',
        '{"order":[]}',
        '{"temperature":0}',
        '{"temperature":-1}',
        '{"temperature":Infinity}',
        '{"seed":-1}',
        '{"seed":1e9}',
        '{"seed":99999999999999999999}',
        "[" * 100_000,
    ],
)
def test_what_is_no_intervention(text: str) -> None:
    with pytest.raises(ValueError):
        Intervention.from_json(text)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (Intervention(k=(1,)), "1 layers"),
        (Intervention(k=(1, 5)), "k in"),
        (Intervention(heads_in=((4,), ())), "heads in"),
        (Intervention(heads_out=((0, 1, 2, 3), ())), "needs a head"),
    ],
)
def test_what_does_not_fit_the_model(change: Intervention, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        change.policy(CONFIG)


def test_a_dense_model_can_only_lose_heads(make_model: Callable[..., BudgetFormer]) -> None:
    config = make_model(routed=False).config
    for change in (
        Intervention(k=(1, 1)),
        Intervention(budgets=(0.5, None)),
        Intervention(order="random"),
    ):
        with pytest.raises(ValueError, match="dense"):
            change.policy(config)
    dense = Routing(torch.ones(2), torch.zeros(2, 4))
    heads = Intervention(heads_out=((2,), ())).policy(config)(0, dense).heads
    assert heads.tolist() == [[True, True, False, True]] * 2

"""A limit on heads a layer: the policy, beside what is forced, at the boundaries, in searches."""

from __future__ import annotations

import itertools

import pytest
import torch

from budgetformer import Checkpoint, predict
from budgetformer.budget import Routing
from budgetformer.interventions import Intervention
from budgetformer.policies import capped, given_k
from budgetformer.rewording import cheapest_wording, dearest_wording
from budgetformer.routing_view import boundaries, k_change

TEXT = "a good film and a boring, awful story; the actors are fine"


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
def test_the_policy_by_hand(limit: int) -> None:
    scores = torch.tensor([[0.1, 0.9, -0.5, 0.3]]).repeat(4, 1)
    routing = Routing(torch.tensor([0.1, 0.5, 0.8, 1.0]), scores)
    best = [1, 3, 0, 2]
    selection = capped(limit)(0, routing)
    # ⌊s·4⌋ = 0, 2, 3, 4, and at least one.
    for row, k in zip(selection.heads.tolist(), (1, 2, 3, 4), strict=True):
        assert [h for h in range(4) if row[h]] == sorted(best[: min(k, limit)])


def test_the_policy_keeps_to_the_rounding_and_refuses_none() -> None:
    scores = torch.zeros(1, 4)
    routing = Routing(torch.tensor([0.6]), scores)
    counts = {name: int(capped(4, name)(0, routing).executed_heads) for name in ("floor", "ceil")}  # type: ignore[arg-type]
    assert counts == {"floor": 2, "ceil": 3}
    with pytest.raises(ValueError, match="at least 1 head a layer, got 0"):
        capped(0)


def test_a_limited_prediction_is_the_one_with_these_heads(checkpoint: Checkpoint) -> None:
    own = predict(checkpoint, TEXT)
    assert max(layer.k for layer in own.layers) > 1
    found = predict(checkpoint, TEXT, policy=capped(1))
    wanted = predict(checkpoint, TEXT, policy=given_k(torch.tensor([[1, 1]])))
    assert found == wanted and found != own
    assert predict(checkpoint, TEXT, policy=capped(4)) == own


def test_a_limit_holds_for_what_is_forced(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    for change, limit in itertools.product(
        (Intervention(budgets=(1.0, 1.0)), Intervention(k=(4, 3)), Intervention(order="bottom")),
        (1, 2),
    ):
        trace = predict(checkpoint, TEXT, policy=change.policy(config, limit))
        assert all(layer.k <= limit for layer in trace.layers), (change, limit)
    # Heads that are forced in stay, even where that is more than the limit.
    change = Intervention(heads_in=((0, 1, 2), ()))
    trace = predict(checkpoint, TEXT, policy=change.policy(config, 1))
    assert trace.layers[0].heads == (0, 1, 2) and trace.layers[1].k == 1
    # And nothing forced is the limit alone.
    alone = predict(checkpoint, TEXT, policy=Intervention().policy(config, 2))
    assert alone == predict(checkpoint, TEXT, policy=capped(2))


@pytest.mark.parametrize(
    ("budget", "limit", "k", "up", "down"),
    [
        (0.9, 2, 2, None, -0.4),  # 3.6 heads: it loses one below 2, and never gains one
        (0.6, 3, 2, 0.15, -0.1),  # 2.4: the limit is out of reach
        (0.9, 1, 1, None, None),
        (0.2, 2, 1, 0.3, None),
    ],
)
def test_boundaries_under_a_limit_by_hand(
    budget: float, limit: int, k: int, up: float | None, down: float | None
) -> None:
    found = k_change(budget, 4, "floor", limit)
    assert found[0] == k
    for value, wanted in zip(found[1:], (up, down), strict=True):
        assert value == (None if wanted is None else pytest.approx(wanted, abs=3e-6))


def test_the_cut_stands_behind_the_last_head_that_ran(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, TEXT, policy=capped(1))
    for boundary, layer in zip(boundaries(trace, checkpoint.config, 1), trace.layers, strict=True):
        order = sorted(range(4), key=lambda head: -layer.scores[head])
        assert layer.heads == (order[0],)
        assert (boundary.k, boundary.last, boundary.next) == (1, order[0], order[1])


def test_searches_keep_to_the_limit(checkpoint: Checkpoint) -> None:
    policy = capped(1)
    trace = predict(checkpoint, TEXT, policy=policy)
    for search in (cheapest_wording, dearest_wording):
        found = search(checkpoint, trace, limit=40, policy=policy)
        alone = predict(checkpoint, *found.end.texts, policy=policy)
        assert [x.heads for x in found.end.layers] == [x.heads for x in alone.layers]
        assert found.end.mean_budget == pytest.approx(alone.mean_budget, abs=1e-5)
        assert found.end.executed_heads == 2
        for step in found.steps:
            assert step.executed_heads == 2

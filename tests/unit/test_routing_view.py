from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from budgetformer import BudgetFormer, Checkpoint, predict
from budgetformer.budget import executed_heads
from budgetformer.interventions import Intervention
from budgetformer.routing_view import boundaries, k_change, router_steps, sharpness
from budgetformer.trace import LayerTrace, Trace


@pytest.mark.parametrize(
    ("budget", "rounding", "k", "up", "down"),
    [
        (0.6, "floor", 2, 0.15, -0.1),  # 2.4 → 3 or below 2
        (0.5, "floor", 2, 0.25, 0.0),  # exactly 2: the least fall loses a head
        (0.1, "floor", 1, 0.4, None),  # 0.4 is 1 by the lower limit; 2 comes at .5
        (0.99, "floor", 3, 0.01, -0.24),
        (1.0, "floor", 4, None, 0.0),
        (0.6, "ceil", 3, 0.15, -0.1),
        (0.5, "ceil", 2, 0.0, -0.25),  # exactly 2: the least rise gains one
        (0.1, "ceil", 1, 0.15, None),
        (0.8, "ceil", 4, None, -0.05),
        (0.6, "nearest", 2, 0.025, -0.225),  # between 1.5 and 2.5
        (0.625, "nearest", 3, 0.25, 0.0),
        (0.05, "nearest", 1, 0.325, None),
    ],
)
def test_boundaries_by_hand(
    budget: float, rounding: str, k: int, up: float | None, down: float | None
) -> None:
    got = k_change(budget, 4, rounding)  # type: ignore[arg-type]
    assert got[0] == k
    for value, wanted in zip(got[1:], (up, down), strict=True):
        # The model's slack of 1e-5 heads is part of a boundary.
        assert value == (None if wanted is None else pytest.approx(wanted, abs=3e-6))


@given(
    st.floats(0.001, 0.999),
    st.integers(1, 12),
    st.sampled_from(["floor", "nearest", "ceil"]),
)
def test_boundaries_are_where_the_models_k_changes(budget: float, n: int, rounding: str) -> None:
    def k_of(s: float) -> int:
        s64 = torch.tensor([s], dtype=torch.float64)
        return int(executed_heads(s64, n, rounding))  # type: ignore[arg-type]

    k, up, down = k_change(budget, n, rounding)  # type: ignore[arg-type]
    assert k == k_of(budget)
    assert (up is None) == (k == n) and (down is None) == (k == 1)
    if up is not None:
        assert up >= -1e-12 and k_of(budget + up + 1e-9) == k + 1
        assert k_of(budget + up - 1e-9) == k or up < 1e-9
    if down is not None:
        assert down <= 1e-12 and k_of(budget + down - 1e-9) == k - 1
        assert k_of(budget + down + 1e-9) == k or down > -1e-9


def made(checkpoint: Checkpoint, budget: float, scores: tuple[float, ...]) -> Trace:
    """A trace whose layers all say this."""
    tau = checkpoint.config.temperature
    p = sharpness(scores, tau).probabilities
    layer = LayerTrace(budget, 1, (0,), scores, p)
    return replace(predict(checkpoint, "a good film"), layers=(layer, layer))


def test_near_ties_and_near_boundaries(checkpoint: Checkpoint) -> None:
    assert checkpoint.config.temperature == 0.25
    far = boundaries(made(checkpoint, 0.6, (0.1, 0.9, -0.5, 0.3)), checkpoint.config)[1]
    assert (far.k, far.last, far.next) == (2, 3, 0) and far.wanted == pytest.approx(2.4)
    assert far.score_gap == pytest.approx(0.2)
    powers = [math.exp(z / 0.25) for z in (0.1, 0.9, -0.5, 0.3)]
    assert far.probability_gap == pytest.approx((powers[3] - powers[0]) / sum(powers))
    assert not far.near_tie and not far.near_boundary
    # p of the next head over p of the last is exp(-gap/τ): .923 and .887.
    for gap, near in ((0.02, True), (0.03, False), (0.0, True)):
        view = boundaries(made(checkpoint, 0.6, (0.3 - gap, 0.9, -0.5, 0.3)), checkpoint.config)[0]
        assert view.near_tie is near
        assert view.last == (0 if gap == 0 else 3)  # the lower index wins
    # 2.04 is within .05 heads of losing one, 2.06 is not; 2.96 is within it of gaining one.
    for budget, near in ((0.51, True), (0.515, False), (0.74, True), (0.5, True), (0.1, False)):
        view = boundaries(made(checkpoint, budget, (0.1, 0.9, -0.5, 0.3)), checkpoint.config)[0]
        assert view.near_boundary is near
    every = boundaries(made(checkpoint, 1.0, (0.1, 0.9, -0.5, 0.3)), checkpoint.config)[0]
    assert (every.next, every.score_gap, every.probability_gap, every.near_tie) == (
        None,
        None,
        None,
        False,
    )


def test_fixed_budgets_do_not_move(checkpoint: Checkpoint) -> None:
    config = replace(checkpoint.config, fixed_heads=2)
    view = boundaries(made(checkpoint, 0.5, (0.1, 0.9, -0.5, 0.3)), config)[0]
    assert view.k == 2 and view.up is view.down is None and not view.near_boundary


def test_sharpness() -> None:
    even = sharpness((1.0, 1.0, 1.0, 1.0), 0.5)
    assert even.probabilities == pytest.approx((0.25,) * 4)
    assert even.entropy == pytest.approx(math.log(4)) and even.effective_heads == pytest.approx(4)
    two = sharpness((math.log(3.0), 0.0), 1.0)
    assert two.probabilities == pytest.approx((0.75, 0.25))
    assert two.entropy == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    cold = sharpness((1000.0, 0.0, -1000.0), 1e-3)
    assert cold.probabilities == (1.0, 0.0, 0.0) and cold.effective_heads == 1.0
    for tau in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="temperature"):
            sharpness((1.0, 0.0), tau)


def test_router_steps(checkpoint: Checkpoint) -> None:
    policy = Intervention(heads_in=((2,), (2,))).policy(checkpoint.config)
    trace = predict(checkpoint, "a good film and a boring story", policy=policy)
    for layer, said in enumerate(trace.layers):
        steps = router_steps(checkpoint, trace, layer, temperature=2.0)
        router = checkpoint.model.layers[layer].router
        summary = torch.tensor(steps.summary)
        # From x̄ on by hand: it leads to the trace's own s and z.
        hidden = torch.nn.functional.gelu(router.budget_hidden(summary))
        logit = router.budget_out(hidden).item()
        assert steps.budget_logit == pytest.approx(logit, abs=1e-4)
        assert steps.budget == said.budget == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-5)
        z = router.scorer(summary).tolist()
        assert [head.score for head in steps.heads] == pytest.approx(z, abs=1e-5)
        assert steps.summary_norm == pytest.approx(float(summary.norm()), rel=1e-5)
        assert (steps.wanted, steps.k) == (pytest.approx(4 * said.budget), said.k)
        powers = [math.exp(v / 2.0) for v in z]
        assert [head.probability for head in steps.heads] == pytest.approx(
            [v / sum(powers) for v in powers], abs=1e-5
        )
        best = sorted(range(4), key=lambda h: -z[h])
        assert [best[head.rank - 1] for head in steps.heads] == [0, 1, 2, 3]
        assert tuple(head.head for head in steps.heads if head.executed) == said.heads
        assert steps.n_tokens == len(trace.encoding.ids)
    own = router_steps(checkpoint, trace, 1)
    assert own.sharpness.probabilities == pytest.approx(trace.layers[1].head_probabilities)
    with pytest.raises(ValueError, match="layer 2"):
        router_steps(checkpoint, trace, 2)


def test_a_dense_model_has_no_routing(
    checkpoint: Checkpoint, make_model: Callable[..., BudgetFormer]
) -> None:
    tokenizer = checkpoint.tokenizer
    dense = Checkpoint(make_model(vocab_size=tokenizer.vocab_size, routed=False), tokenizer)
    trace = predict(dense, "a good film")
    with pytest.raises(ValueError, match="dense"):
        boundaries(trace, dense.config)
    with pytest.raises(ValueError, match="dense"):
        router_steps(dense, trace, 0)

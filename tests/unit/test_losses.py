from __future__ import annotations

import math

import pytest
import torch

from budgetformer import TrainConfig
from budgetformer.budget import Routing, Selection
from budgetformer.losses import (
    Schedule,
    budget_hinge,
    distillation,
    head_entropy,
    rank_targets,
    schedule,
    training_loss,
    utility,
)
from budgetformer.model import LayerOutput, ModelOutput

NOW = Schedule(tau=1.0, noise=0.0, budget_weight=0.5, utility_weight=1.0, entropy_weight=0.01)
# Two examples, two classes, two layers, two heads.
LOGITS = [[2.0, 0.0], [0.0, 1.0]]
LABELS = torch.tensor([0, 0])
TASK = (math.log(1 + math.exp(-2)), math.log(1 + math.e))
BUDGETS = ([0.7, 0.05], [0.3, 0.9])
PROBABILITIES = ([[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]])


def output() -> ModelOutput:
    layers = [
        LayerOutput(
            Routing(
                torch.tensor(budget, requires_grad=True),
                torch.tensor(p).clamp(min=1e-30).log().requires_grad_(),
            ),
            Selection(torch.ones(2, 2, dtype=torch.bool)),
        )
        for budget, p in zip(BUDGETS, PROBABILITIES, strict=True)
    ]
    return ModelOutput(torch.tensor(LOGITS, requires_grad=True), layers)


def test_hinge_by_hand() -> None:
    s = torch.tensor([0.0, 0.05, 0.1, 0.3, 0.5, 0.6, 1.0])
    wanted = [0.01, 0.0025, 0.0, 0.0, 0.0, 0.01, 0.25]
    assert budget_hinge(s, 0.1, 0.5).tolist() == pytest.approx(wanted, abs=1e-7)


def test_entropy_by_hand() -> None:
    p = torch.tensor([[0.25] * 4, [1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    wanted = [math.log(4), 0.0, math.log(2)]
    assert head_entropy(p).tolist() == pytest.approx(wanted, abs=1e-6)


def test_rank_targets_by_hand() -> None:
    targets = rank_targets(torch.tensor([0.3, 2.0, 0.1, 0.9, 0.5]), 0.1, 0.5)
    assert targets.tolist() == pytest.approx([0.2, 0.5, 0.1, 0.4, 0.3])
    assert rank_targets(torch.tensor([7.0]), 0.1, 0.5).tolist() == pytest.approx([0.1])


def test_distillation_by_hand() -> None:
    student, teacher = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    # At T = 2 the logits are ±1 apart: KL = Σ q log(q/p) = (q₂ - q₁)·1 with q = sigmoid(±1).
    q = 1 / (1 + math.exp(-1))
    assert distillation(student, teacher, 2.0).item() == pytest.approx(4 * (2 * q - 1), abs=1e-6)
    assert distillation(student, student, 2.0).item() == pytest.approx(0, abs=1e-7)


def test_schedule_at_known_moments() -> None:
    config = TrainConfig(tau_start=2.0, score_noise=1.5, entropy_weight=0.02)
    start, middle, end = (schedule(config, 0.5, progress) for progress in (0.0, 0.5, 1.0))
    assert start == Schedule(
        tau=2.0, noise=1.5, budget_weight=0.0, utility_weight=0.0, entropy_weight=0.02
    )
    assert middle.tau == pytest.approx(1.0)  # the geometric middle of 2 and 1/2
    assert middle.noise == pytest.approx(0.75)
    assert middle.budget_weight == middle.utility_weight == 1.0
    assert middle.entropy_weight == pytest.approx(0.0, abs=1e-12)
    assert end.tau == pytest.approx(0.5)
    assert end.noise == 0.0
    assert end.entropy_weight == pytest.approx(-0.02)
    assert schedule(config, 0.5, 1 / 6).budget_weight == pytest.approx(0.5)


def entropy() -> float:
    two = math.log(2)
    skewed = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    return ((two + skewed) / 2 + (0 + two) / 2) / 2


@pytest.mark.parametrize(
    ("objective", "hinge"),
    [
        # On each s, in [.1, .5]: .2², .05² and 0, .4².
        ("paper", ((0.04 + 0.0025) / 2 + (0 + 0.16) / 2) / 2),
        # On the means .375 and .6: 0 and .1².
        ("paper-mean", (0 + 0.01) / 2),
        ("aligned", (0 + 0.01) / 2),
    ],
)
def test_objectives_by_hand(objective: str, hinge: float) -> None:
    config = TrainConfig(objective=objective, budget_weight=2.0, align_weight=5.0)  # type: ignore[arg-type]
    loss, terms = training_loss(output(), LABELS, config, NOW)
    task = sum(TASK) / 2
    wanted = task + 0.5 * 2.0 * hinge - 0.01 * entropy()
    assert terms["task"] == pytest.approx(task, abs=1e-6)
    assert terms["budget"] == pytest.approx(hinge, abs=1e-6)
    assert terms["entropy"] == pytest.approx(entropy(), abs=1e-6)
    if objective == "aligned":
        # The second example is the harder: targets .1 and .5.
        alignment = ((0.6**2 + 0.45**2) / 2 + (0.2**2 + 0.4**2) / 2) / 2
        assert terms["alignment"] == pytest.approx(alignment, abs=1e-6)
        wanted += 0.5 * 5.0 * alignment
    else:
        assert "alignment" not in terms
    assert loss.item() == pytest.approx(wanted, abs=1e-6)


def test_the_dense_objective_is_the_task() -> None:
    loss, terms = training_loss(output(), LABELS, TrainConfig(objective="dense"), NOW)
    assert loss.item() == pytest.approx(sum(TASK) / 2, abs=1e-6)
    assert list(terms) == ["task"]


def test_distillation_replaces_its_share_of_the_task() -> None:
    config = TrainConfig(objective="dense", distill_weight=0.25, distill_temperature=1.0)
    teacher = torch.zeros(2, 2)
    loss, terms = training_loss(output(), LABELS, config, NOW, teacher)
    # KL from the uniform q = ½ to p: -ln 2 - ½ Σ ln p.
    kl = [-math.log(2) + (2 * math.log(1 + math.exp(-gap)) + gap) / 2 for gap in (2.0, 1.0)]
    assert terms["distillation"] == pytest.approx(sum(kl) / 2, abs=1e-6)
    wanted = 0.75 * sum(TASK) / 2 + 0.25 * sum(kl) / 2
    assert loss.item() == pytest.approx(wanted, abs=1e-6)


def test_gradients_by_hand() -> None:
    out = output()
    config = TrainConfig(objective="aligned", budget_weight=2.0, align_weight=5.0)
    loss, _ = training_loss(out, LABELS, config, NOW)
    loss.backward()  # type: ignore[no-untyped-call]
    first, second = (layer.routing.budget.grad for layer in out.layers)
    # The loss takes no part in its own target: only (s - s*)² and the hinge pull on s.
    # d/ds of ½·5·(s - s*)²/(2 layers · 2 examples) = 1.25 (s - s*).
    assert first is not None and second is not None
    assert first.tolist() == pytest.approx([1.25 * 0.6, 1.25 * -0.45], abs=1e-6)
    # Layer 2 is over the hinge: ½·2·2·.1/(2 layers) through a mean of 2 examples = .05.
    assert second.tolist() == pytest.approx([1.25 * 0.2 + 0.05, 1.25 * 0.4 + 0.05], abs=1e-6)
    # The task's gradient on logits is (p - onehot)/B and the alignment adds nothing to it.
    p = [1 / (1 + math.exp(2)), 1 / (1 + math.exp(-1))]
    wanted = [[-p[0] / 2, p[0] / 2], [-p[1] / 2, p[1] / 2]]
    assert out.logits.grad is not None
    for got, row in zip(out.logits.grad.tolist(), wanted, strict=True):
        assert got == pytest.approx(row, abs=1e-6)


def test_utility_by_hand() -> None:
    s = torch.tensor([0.5, 0.25], requires_grad=True)
    term = utility(s, torch.tensor([0.3, 0.0]), 0.1)
    assert term.item() == pytest.approx((0.5 * -0.2 + 0.25 * 0.1) / 2)
    (gradient,) = torch.autograd.grad(term, s)
    # Where a head saves more than its price, descent raises s; where it does not, it lowers s.
    assert gradient.tolist() == pytest.approx([-0.1, 0.05])


def test_the_utility_objective_by_hand() -> None:
    config = TrainConfig(objective="utility", head_price=0.05, budget_weight=2.0)
    full, less = output(), output()
    one = torch.tensor([[True, False], [True, False]])
    less = ModelOutput(
        torch.zeros(2, 2, requires_grad=True),
        [LayerOutput(layer.routing, Selection(one)) for layer in less.layers],
    )
    loss, terms = training_loss(full, LABELS, config, NOW, less=less)
    # Without information the loss is ln 2; the second head of each of two layers saved the rest.
    gain = [(math.log(2) - task) / 2 for task in TASK]
    assert terms["gain"] == pytest.approx(sum(gain) / 2, abs=1e-6)
    values = [
        sum(s * (0.05 - g) for s, g in zip(budget, gain, strict=True)) / 2 for budget in BUDGETS
    ]
    assert terms["utility"] == pytest.approx(sum(values) / 2, abs=1e-6)
    # Both passes share the task loss; the hinge on the means is that of "paper-mean", .01/2.
    wanted = (sum(TASK) / 2 + math.log(2)) / 2 + 0.5 * 2.0 * 0.005 - 0.01 * entropy()
    wanted += 2 * sum(values) / 2
    assert loss.item() == pytest.approx(wanted, abs=1e-6)

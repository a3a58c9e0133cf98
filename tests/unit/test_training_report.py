"""What a training reports beside its losses, and its estimate before the start."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from budgetformer import BudgetFormer, Checkpoint, Tokenizer, TrainConfig, load_dataset, predict
from budgetformer.cli import main
from budgetformer.train import Run
from budgetformer.training_estimate import STEPS_MEASURED, estimate
from budgetformer.training_report import N_BINS, answer, routing_report

TINY = {"n_layers": 1, "n_heads": 2, "d_model": 8, "d_ff": 8, "d_router": 4, "max_len": 16}


def test_counts_and_usage_by_hand() -> None:
    generator = torch.Generator().manual_seed(0)
    budgets = torch.rand(50, 3, generator=generator)
    budgets[0] = torch.tensor([0.0, 1.0, 0.5])  # the ends, and an inner edge
    heads = torch.rand(50, 3, 4, generator=generator) < 0.3
    report = routing_report(budgets, heads)
    for layer in range(3):
        counts = [0] * N_BINS
        for s in budgets[:, layer].tolist():
            counts[min(N_BINS - 1, int(s * N_BINS))] += 1
        assert report["budget_counts"][layer] == counts
        for head in range(4):
            ran = sum(heads[row, layer, head].item() for row in range(50))
            assert report["head_usage"][layer][head] == pytest.approx(ran / 50, abs=1e-4)
    json.dumps(report)


def test_an_answer_leaves_a_model_in_training_as_it_is(
    make_model: Callable[..., BudgetFormer], tokenizer: Tokenizer
) -> None:
    model = make_model(vocab_size=tokenizer.vocab_size).train()
    weights = dict(model.named_parameters())
    state = torch.random.get_rng_state()
    said = answer(model, tokenizer, ("a good film",))["answer"]
    assert model.training and all(p.requires_grad for p in model.parameters())
    assert all(p is weights[name] for name, p in model.named_parameters())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert said.pop("texts") == ["a good film"]
    assert said == predict(Checkpoint(model, tokenizer), "a good film").to_dict()
    assert answer(model, tokenizer, ()) == {}


def test_tensorboard_holds_what_the_events_hold(reviews: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    options = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    options += ["--batch-size=4", "--epochs=2", "--vocab-size=200", "--tensorboard", "--json"]
    out = tmp_path / "run"
    assert main(["train", "--data", str(reviews), "--out", str(out), *options]) == 0
    events = [json.loads(line) for line in (out / "events.jsonl").open()]
    written = EventAccumulator(str(out / "tensorboard"))
    written.Reload()
    for kind, group, name in (
        ("step", "train", "loss"), ("step", "train", "tau"), ("epoch", "validation", "accuracy"),
    ):  # fmt: skip
        wanted = [(e["step"], e[name]) for e in events if e["event"] == kind]
        got = [(scalar.step, scalar.value) for scalar in written.Scalars(f"{group}/{name}")]
        assert [step for step, _ in got] == [step for step, _ in wanted] and len(got) >= 2
        assert [value for _, value in got] == pytest.approx([v for _, v in wanted], rel=1e-6)
    assert Checkpoint.from_pretrained(out).config.n_heads == 2


def test_an_estimate_adds_up(reviews: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock that moves on by a second each time somebody looks at it.
    monkeypatch.setattr("time.perf_counter", itertools.count().__next__)
    run = Run("reviews", TrainConfig(epochs=3, batch_size=4, vocab_size=200), dict(TINY))
    data = load_dataset(str(reviews))
    found = estimate(data, run)
    n = len(data.split("train"))
    assert found.train_rows == n and found.n_steps == 3 * -(-n // 4)
    assert found.n_measured == STEPS_MEASURED and found.step_ms == 1000
    # One second to prepare, one a step, and one for each of three validations and the last.
    assert found.validation_s == pytest.approx(1)
    assert found.seconds == pytest.approx(1 + found.n_steps + 4)


def test_an_estimate_leaves_nothing_behind(
    reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    out = tmp_path / "run"
    command = ["train", "--data", str(reviews), "--out", str(out), "--estimate", *options]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seconds"] > found["step_ms"] / 1000 > 0
    assert main(command) == 0
    assert "steps of" in capsys.readouterr().out
    assert not out.exists()

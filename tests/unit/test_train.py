from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from budgetformer import Checkpoint, TrainConfig, load_dataset
from budgetformer.budget import Routing
from budgetformer.data import Dataset, Examples
from budgetformer.evaluate import evaluate, summarise
from budgetformer.losses import schedule
from budgetformer.optimisation import lr_factor, seed_of
from budgetformer.train import Run, Trainer, train

MODEL = {
    "n_layers": 2,
    "n_heads": 4,
    "d_model": 16,
    "d_ff": 32,
    "d_router": 4,
    "max_len": 16,
    "dropout": 0.1,
}
CONFIG = TrainConfig(
    epochs=2, batch_size=16, lr=0.01, vocab_size=200, save_every=1, token_dropout=0.1
)
RUN = Run("reviews", CONFIG, MODEL)
N_STEPS = 18  # 137 rows in batches of 16, twice


@pytest.fixture(scope="module")
def data(reviews: Path) -> Dataset:
    return load_dataset(str(reviews))


@pytest.fixture(scope="module")
def undisturbed(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    list(train(data, RUN, out))
    return out


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same_weights(a: Path, b: Path) -> bool:
    one, two = weights(a), weights(b)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def without_time(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "seconds"}


def test_it_learns(data: Dataset, tmp_path: Path) -> None:
    run = replace(RUN, train=replace(CONFIG, epochs=8, save_every=1000))
    events = list(train(data, run, tmp_path / "run"))
    assert [event["event"] for event in events if event["event"] != "step"] == [
        "start",
        *["epoch"] * 8,
        "end",
    ]
    test = data.split("test")
    records = evaluate(Checkpoint.from_pretrained(tmp_path / "run"), test)
    # Sixteen texts that one word decides; at chance 15 right have a probability of 0.0003.
    assert records.correct.sum() >= 15
    steps = [event for event in events if event["event"] == "step"]
    assert [event["step"] for event in steps] == list(range(20, 73, 20))
    assert steps[-1]["task"] < steps[0]["task"]


def test_what_a_finished_folder_holds(undisturbed: Path, data: Dataset) -> None:
    assert sorted(p.name for p in undisturbed.iterdir()) == [
        "README.md",
        "config.json",
        "events.jsonl",
        "metrics.json",
        "model.safetensors",
        "run.json",
        "tokenizer.json",
    ]
    events = [json.loads(line) for line in (undisturbed / "events.jsonl").open()]
    assert events[0]["event"] == "start" and events[-1]["event"] == "end"
    assert (events[0]["steps"], events[0]["steps_per_epoch"]) == (N_STEPS, 9)
    assert events[0]["train_rows"] == len(data.split("train")) == 137
    saved = Checkpoint.from_pretrained(undisturbed)
    figures = summarise(evaluate(saved, data.split("validation")))
    assert saved.metrics["validation"] == figures
    assert saved.metrics["training"]["rows"] == 137
    assert saved.config.labels == ("negative", "positive")
    assert events[0]["parameters"] == sum(p.numel() for p in saved.model.parameters())


def test_the_same_seed_gives_the_same_weights(
    data: Dataset, undisturbed: Path, tmp_path: Path
) -> None:
    torch.rand(7)  # the caller's own draws do not matter
    list(train(data, RUN, tmp_path / "again"))
    assert same_weights(undisturbed, tmp_path / "again")
    list(train(data, replace(RUN, train=replace(CONFIG, seed=1)), tmp_path / "other"))
    assert not same_weights(undisturbed, tmp_path / "other")


class Interrupted(Exception):
    """What stops a training in these tests."""


def interrupt_before(monkeypatch: pytest.MonkeyPatch, name: str, call: int) -> Callable[[], None]:
    """Make the given call of a Trainer's method raise; returns what undoes it."""
    original, calls = getattr(Trainer, name), iter(range(1, 10_000))

    def stop(self: Trainer, *args: Any) -> Any:
        if next(calls) == call:
            raise Interrupted
        return original(self, *args)

    monkeypatch.setattr(Trainer, name, stop)
    return monkeypatch.undo


@pytest.mark.parametrize("save_every", [1, 4])
@pytest.mark.parametrize("step", [1, 2, 6, 9, 10, 11, 18])
def test_interrupted_and_resumed_is_undisturbed(
    data: Dataset,
    undisturbed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    save_every: int,
) -> None:
    run = replace(RUN, train=replace(CONFIG, save_every=save_every))
    resume = interrupt_before(monkeypatch, "_train_step", step)
    with pytest.raises(Interrupted):
        list(train(data, run, tmp_path / "run"))
    resume()
    events = list(train(data, run, tmp_path / "run", resume=True))
    # The epoch's end saves too.
    saved = [n for n in range(step) if n % save_every == 0 or n % 9 == 0]
    assert events[0]["step"] == saved[-1]
    assert same_weights(undisturbed, tmp_path / "run")
    assert not (tmp_path / "run" / "state.safetensors").exists()


@pytest.mark.parametrize(("name", "call"), [("_validate", 1), ("_validate", 2), ("_finish", 1)])
def test_interrupted_outside_a_step(
    data: Dataset,
    undisturbed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    call: int,
) -> None:
    resume = interrupt_before(monkeypatch, name, call)
    with pytest.raises(Interrupted):
        list(train(data, RUN, tmp_path / "run"))
    resume()
    list(train(data, RUN, tmp_path / "run", resume=True))
    assert same_weights(undisturbed, tmp_path / "run")


def test_interrupted_while_saving_the_state(
    data: Dataset, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    original, calls = os.replace, iter(range(10_000))

    def stop(source: Path, target: Path) -> None:
        if target.name == "state.safetensors" and next(calls) == 5:
            raise Interrupted
        original(source, target)

    monkeypatch.setattr("os.replace", stop)
    with pytest.raises(Interrupted):
        list(train(data, RUN, tmp_path / "run"))
    monkeypatch.undo()
    events = list(train(data, RUN, tmp_path / "run", resume=True))
    assert events[0]["step"] == 5
    assert same_weights(undisturbed, tmp_path / "run")


def test_interrupted_and_resumed_several_times(
    data: Dataset, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for call in (3, 4, 5):
        resume = interrupt_before(monkeypatch, "_train_step", call)
        with pytest.raises(Interrupted):
            list(train(data, RUN, tmp_path / "run", resume=True))
        resume()
    events = list(train(data, RUN, tmp_path / "run", resume=True))
    assert events[0]["step"] == 2 + 3 + 4
    assert same_weights(undisturbed, tmp_path / "run")


def test_closing_the_iteration_stops_the_training(data: Dataset, tmp_path: Path) -> None:
    events = train(data, RUN, tmp_path / "run")
    while next(events)["event"] != "epoch":
        pass
    events.close()  # type: ignore[attr-defined]
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert next(train(data, RUN, tmp_path / "run", resume=True))["event"] == "start"


def test_the_callers_random_state_is_its_own(data: Dataset, tmp_path: Path) -> None:
    before = torch.random.get_rng_state()
    generator = torch.Generator()
    generator.set_state(before)
    for _ in train(data, RUN, tmp_path / "run"):
        # The caller's draws go on as if nothing trained in between.
        assert torch.equal(torch.rand(3), torch.rand(3, generator=generator))


def test_a_folder_with_a_training_is_refused(
    data: Dataset, undisturbed: Path, tmp_path: Path
) -> None:
    before = {p.name: p.read_bytes() for p in undisturbed.iterdir()}
    with pytest.raises(ValueError, match=r"already holds a training"):
        list(train(data, RUN, undisturbed))
    other = replace(RUN, train=replace(CONFIG, lr=0.5))
    with pytest.raises(ValueError, match=r"other settings.*run\.json"):
        list(train(data, other, undisturbed, resume=True))
    with pytest.raises(ValueError, match="finished"):
        list(train(data, RUN, undisturbed, resume=True))
    assert {p.name: p.read_bytes() for p in undisturbed.iterdir()} == before


def test_a_folder_with_a_checkpoint_is_refused(data: Dataset, saved: Path) -> None:
    before = {p.name: p.read_bytes() for p in saved.iterdir()}
    for resume in (False, True):
        with pytest.raises(ValueError, match="already holds a checkpoint"):
            list(train(data, RUN, saved, resume))
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == before


@pytest.mark.parametrize("fault", ["split", "model", "warm start", "teacher"])
def test_a_training_that_cannot_start_leaves_its_folder_free(
    data: Dataset, tmp_path: Path, fault: str
) -> None:
    nowhere = str(tmp_path / "nowhere")
    run, dataset = RUN, data
    if fault == "split":
        dataset = Dataset("d", data.label_names, {"test": data.split("test")})
    elif fault == "model":
        run = replace(RUN, model={**MODEL, "d_model": 17})
    elif fault == "warm start":
        run = replace(RUN, warm_start=nowhere)
    else:
        run = replace(RUN, teacher=nowhere)
    with pytest.raises(ValueError):
        list(train(dataset, run, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_resume_starts_where_there_is_nothing(
    data: Dataset, undisturbed: Path, tmp_path: Path
) -> None:
    assert next(train(data, RUN, tmp_path / "run", resume=True))["step"] == 0


@pytest.mark.parametrize("objective", ["aligned", "utility", "paper", "paper-mean", "dense"])
def test_every_objective_trains(data: Dataset, tmp_path: Path, objective: str) -> None:
    config = replace(CONFIG, objective=objective, epochs=1, batch_size=6)  # type: ignore[arg-type]
    events = list(train(data, replace(RUN, train=config), tmp_path / "run"))
    terms = {"task"} if objective == "dense" else {"task", "budget", "entropy"}
    terms |= {"alignment"} if objective == "aligned" else set()
    step = next(event for event in events if event["event"] == "step")
    assert terms == set(step) & {"task", "budget", "entropy", "alignment"}
    saved = Checkpoint.from_pretrained(tmp_path / "run")
    assert saved.config.routed == (objective != "dense")
    if objective == "dense":
        assert events[-1]["executed_heads_frac"] == 1.0


@pytest.mark.parametrize(
    ("shape", "fields", "k"),
    [
        ({"fixed_heads": 2}, {"objective": "dense"}, {2}),
        ({"fixed_heads": 3}, {"objective": "requested"}, {3}),
        ({"budgets": "shared"}, {"objective": "aligned"}, None),
        ({"budgets": "static"}, {"objective": "paper"}, None),
        ({}, {"objective": "paper", "selection": "random"}, None),
        ({}, {"objective": "paper", "selection": "shuffled"}, None),
    ],
)
def test_every_control_trains(
    data: Dataset, tmp_path: Path, shape: dict[str, Any], fields: dict[str, Any], k: set[int] | None
) -> None:
    run = replace(RUN, train=replace(CONFIG, epochs=1, **fields), model={**MODEL, **shape})
    list(train(data, run, tmp_path / "run"))
    records = evaluate(Checkpoint.from_pretrained(tmp_path / "run"), data.split("test"))
    if k:
        assert set(records.executed_heads.flatten().tolist()) == k
    if shape.get("budgets") == "shared":
        assert (records.budgets == records.budgets[:, :1]).all()
    if shape.get("budgets") == "static":
        assert (records.budgets == records.budgets[:1]).all()
        assert (records.heads == records.heads[:1]).all()


def test_a_requested_budget_needs_one_for_when_nobody_asks(data: Dataset, tmp_path: Path) -> None:
    run = replace(RUN, train=replace(CONFIG, objective="requested"))
    with pytest.raises(ValueError, match="needs fixed_heads"):
        list(train(data, run, tmp_path / "run"))


def test_requested_budgets_are_all_tried(data: Dataset, tmp_path: Path) -> None:
    run = replace(
        RUN, train=replace(CONFIG, objective="requested"), model={**MODEL, "fixed_heads": 1}
    )
    trainer = Trainer(data, run, tmp_path / "run", resume=False)
    n_heads = trainer.model.config.n_heads
    now = schedule(trainer.config, 0.25, 0.0)
    policy, _ = trainer._policies(now, torch.Generator().manual_seed(0), 200)
    x = torch.zeros(200, n_heads)
    k = policy(0, Routing(torch.ones(200), x)).executed_heads
    assert set(k.tolist()) == set(range(1, n_heads + 1))
    # One budget an example, the same in every layer.
    assert torch.equal(policy(1, Routing(torch.ones(200), x)).executed_heads, k)


def test_warm_start_and_teacher(data: Dataset, undisturbed: Path, tmp_path: Path) -> None:
    dense = replace(RUN, train=replace(CONFIG, objective="dense"))
    list(train(data, dense, tmp_path / "dense"))
    start = str(tmp_path / "dense")
    run = replace(RUN, train=replace(CONFIG, epochs=1), warm_start=start, teacher=start)
    trainer = Trainer(data, run, tmp_path / "trial", resume=False)
    # The dense weights come over, whole; the router is new.
    begun, trained = trainer.model.state_dict(), weights(tmp_path / "dense")
    assert {n for n in begun if "router" not in n} == set(trained)
    assert all(torch.equal(begun[name].half(), tensor) for name, tensor in trained.items())
    assert trainer.tokenizer.pieces == Checkpoint.from_pretrained(start).tokenizer.pieces
    list(train(data, run, tmp_path / "run"))
    assert Checkpoint.from_pretrained(tmp_path / "run").config.routed


def test_a_teacher_of_another_kind_is_refused(
    data: Dataset, undisturbed: Path, tmp_path: Path
) -> None:
    other = replace(RUN, train=replace(CONFIG, vocab_size=100), teacher=str(undisturbed))
    with pytest.raises(ValueError, match="differs in its vocabulary"):
        list(train(data, other, tmp_path / "run"))
    renamed = Dataset("d", ("bad", "good"), data.splits)
    with pytest.raises(ValueError, match="differs in its labels"):
        list(train(renamed, replace(RUN, teacher=str(undisturbed)), tmp_path / "run"))


def test_a_warm_start_of_another_shape_is_refused(
    data: Dataset, undisturbed: Path, tmp_path: Path
) -> None:
    run = replace(RUN, model={**MODEL, "n_heads": 2}, warm_start=str(undisturbed))
    with pytest.raises(ValueError, match="another shape"):
        list(train(data, run, tmp_path / "run"))


def test_one_row_is_enough_to_run(data: Dataset, tmp_path: Path) -> None:
    run = replace(RUN, train=replace(CONFIG, limit=1, epochs=1))
    events = list(train(data, run, tmp_path / "run"))
    assert events[0]["train_rows"] == 1 and events[0]["steps"] == 1
    assert events[-1]["event"] == "end"


def test_pairs_train(tmp_path: Path) -> None:
    rows = Examples(
        tuple(f"a man number {i % 7}" for i in range(40)),
        tuple(i % 2 for i in range(40)),
        tuple("is good" if i % 2 else "is bad" for i in range(40)),
    )
    data = Dataset("pairs", ("no", "yes"), {"train": rows, "validation": rows.first(8)})
    list(train(data, replace(RUN, train=replace(CONFIG, epochs=1)), tmp_path / "run"))
    assert Checkpoint.from_pretrained(tmp_path / "run").config.n_segments == 2


def test_events_hold_numbers_that_json_has(data: Dataset, tmp_path: Path) -> None:
    run = replace(RUN, train=replace(CONFIG, lr=1e30, batch_size=4, epochs=1))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    try:
        list(train(data, run, tmp_path / "run"))
    except ValueError as error:  # a training that diverges may also say so
        assert "\n" not in str(error)
    for name in ("events.jsonl",):
        for line in (tmp_path / "run" / name).open():
            json.loads(line, parse_constant=refuse)


def test_every_row_is_read_once_an_epoch(data: Dataset, tmp_path: Path) -> None:
    trainer = Trainer(data, RUN, tmp_path / "run", resume=False)
    first, second = trainer._epoch_batches(0), trainer._epoch_batches(1)
    for batches in (first, second):
        assert sorted(row for batch in batches for row in batch) == list(range(137))
        assert sorted(len(batch) for batch in batches) == [9, *[16] * 8]
    assert first != second
    assert trainer._epoch_batches(0) == first


def test_token_dropout_spares_special_tokens(data: Dataset, tmp_path: Path) -> None:
    run = replace(RUN, train=replace(CONFIG, token_dropout=0.4))
    trainer = Trainer(data, run, tmp_path / "run", resume=False)
    tokenizer = trainer.tokenizer
    batch = tokenizer.batch(trainer.inputs)
    dropped = trainer._drop_tokens(batch.ids, torch.Generator().manual_seed(0))
    special = torch.isin(
        batch.ids, torch.tensor([tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id])
    )
    assert torch.equal(dropped[special], batch.ids[special])
    share = (dropped[~special] == tokenizer.mask_id).float().mean().item()
    n = int((~special).sum())
    assert abs(share - 0.4) < 5 * (0.4 * 0.6 / n) ** 0.5
    kept = ~special & (dropped != tokenizer.mask_id)
    assert torch.equal(dropped[kept], batch.ids[kept])


@pytest.mark.parametrize(("router_lr", "routers"), [(0.0, 0.01), (0.05, 0.05)])
def test_weight_decay_is_on_matrices_only_and_routers_have_a_rate_of_their_own(
    data: Dataset, tmp_path: Path, router_lr: float, routers: float
) -> None:
    run = replace(RUN, train=replace(CONFIG, router_lr=router_lr))
    trainer = Trainer(data, run, tmp_path / "run", resume=False)
    groups = {id(p): group for group in trainer.optimizer.param_groups for p in group["params"]}
    assert len(groups) == sum(len(g["params"]) for g in trainer.optimizer.param_groups)
    for name, parameter in trainer.model.named_parameters():
        group = groups[id(parameter)]
        assert group["weight_decay"] == (0.0 if "bias" in name or "norm" in name else 0.01), name
        assert group["peak_lr"] == (routers if ".router." in name else 0.01), name


@pytest.mark.parametrize(
    ("progress", "factor"), [(0.0, 0), (0.05, 0.5), (0.1, 1), (0.55, 0.5), (1.0, 0)]
)
def test_learning_rate(progress: float, factor: float) -> None:
    assert lr_factor(progress, 0.1) == pytest.approx(factor)


def test_learning_rate_without_warm_up() -> None:
    assert lr_factor(0.0, 0.0) == 1 and lr_factor(0.5, 0.0) == 0.5


def test_seeds_never_meet() -> None:
    purposes = ("weights", "order", "dropout", "noise")
    seeds = {seed_of(s, p, i) for s in range(20) for p in purposes for i in range(500)}
    assert len(seeds) == 20 * 4 * 500

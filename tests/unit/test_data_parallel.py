"""Training on several processes gives what one process gives."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from budgetformer import TrainConfig, load_dataset
from budgetformer.control import write_wishes
from budgetformer.data import Dataset
from budgetformer.parallel import Processes, SeveralProcesses, launched
from budgetformer.train import Run, Trainer, train

ROOT = Path(__file__).parents[2]
MODEL = {
    "n_layers": 2,
    "n_heads": 4,
    "d_model": 16,
    "d_ff": 32,
    "d_router": 4,
    "max_len": 16,
    "dropout": 0.0,
}
# 129 rows: the last batch of each epoch has one row, fewer than there are processes.
CONFIG = TrainConfig(epochs=3, batch_size=16, lr=0.01, vocab_size=200, limit=129)
N_STEPS = 27
PAUSE_AT = 5


@pytest.fixture(scope="module")
def data(reviews: Path) -> Dataset:
    return load_dataset(str(reviews))


class Threads(SeveralProcesses):
    """Processes that are threads: their messages meet in a list."""

    def __init__(self, rank: int, size: int, messages: list[Any], barrier: threading.Barrier):
        super().__init__(rank, size, torch.device("cpu"))
        self.messages, self.barrier = messages, barrier

    def exchange(self, message: torch.Tensor) -> list[torch.Tensor]:
        self.messages[self.rank] = message.clone()
        self.barrier.wait(timeout=60)
        everyone = list(self.messages)
        self.barrier.wait(timeout=60)
        return everyone

    def gather(self, message: torch.Tensor) -> torch.Tensor:
        return torch.cat(self.exchange(message))

    def total(self, message: torch.Tensor) -> torch.Tensor:
        return torch.stack(self.exchange(message)).sum(dim=0)


def in_threads(size: int, act: Callable[[Processes], Any]) -> list[Any]:
    """Run an action in each of several connected threads; return what each returned or raised."""
    messages, barrier = [None] * size, threading.Barrier(size)
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            results[rank] = act(Threads(rank, size, messages, barrier))
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [1, 2, 5, 7, 16])
def test_shares_are_even_and_complete(size: int, n: int) -> None:
    processes = SeveralProcesses(0, size, torch.device("cpu"))
    shares = [processes.share(n, rank) for rank in range(size)]
    assert [row for share in shares for row in share] == list(range(n))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_whole_is_every_row_in_its_place(n: int) -> None:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(n, 2, 3, generator=generator)
    flags = torch.rand(n, generator=generator) < 0.5

    def act(processes: Processes) -> tuple[torch.Tensor, ...]:
        assert isinstance(processes, SeveralProcesses)
        mine = processes.share(n)
        rows = slice(mine.start, max(mine.stop, mine.start + 1))
        own = numbers[rows].requires_grad_()
        whole, said = processes.whole([own, flags[rows]], n)
        (gradient,) = torch.autograd.grad(whole.sum(), own)
        # Each row has its gradient in one process, and a row run only to fill a batch in none.
        assert torch.equal(gradient, torch.ones_like(own) * (len(mine) > 0))
        return whole.detach(), said

    for whole, said in in_threads(3, act):
        assert torch.equal(whole, numbers)
        assert torch.equal(said, flags) and said.dtype == torch.bool


def same(ours: Any, theirs: Any, rel: float, absolute: float) -> bool:
    """Compare numbers, also in lists, and anything else for equality."""
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(
            same(*pair, rel, absolute) for pair in zip(ours, theirs, strict=True)
        )
    if isinstance(ours, float):
        return bool(ours == pytest.approx(theirs, rel=rel, abs=absolute))
    return bool(ours == theirs)


def step(trainer: Trainer, rows: list[int]) -> tuple[dict[str, Any], list[torch.Tensor | None]]:
    terms = trainer._train_step(rows)
    return terms, [None if p.grad is None else p.grad.clone() for p in trainer.model.parameters()]


@pytest.mark.parametrize("objective", ["aligned", "utility", "paper-mean", "requested", "dense"])
@pytest.mark.parametrize("rows", [[3], [1, 8], [0, 5, 2, 9, 4]])
def test_three_processes_have_the_gradient_of_one(
    data: Dataset, tmp_path: Path, objective: str, rows: list[int]
) -> None:
    # Noise and token dropout stay on: they are drawn for the whole batch.
    config = replace(CONFIG, objective=objective)  # type: ignore[arg-type]
    fixed = {"fixed_heads": 2} if objective == "requested" else {}
    run = Run("reviews", config, {**MODEL, **fixed})
    weights = Trainer(data, run, tmp_path / "start", resume=False).model.state_dict()

    def act(processes: Processes, name: str = "three") -> Any:
        trainer = Trainer(data, run, tmp_path / name, resume=False, processes=processes)
        trainer.model.load_state_dict(weights)  # threads share the generator of initial weights
        trainer.step = 20  # past the first third, where each term has its weight
        return step(trainer, rows)

    terms, gradients = act(Processes(), "one")
    assert gradients and terms["task"] > 0
    for result in in_threads(3, act):
        assert not isinstance(result, BaseException), result
        assert result[0].keys() == terms.keys()
        for name, value in terms.items():
            assert same(result[0][name], value, 1e-5, 1e-6), name
        for one, three in zip(gradients, result[1], strict=True):
            assert (one is None) == (three is None)
            if one is not None and three is not None:
                # Sums of a few dozen numbers of size 0.1, in another order: some 1e-7.
                torch.testing.assert_close(three, one, rtol=1e-4, atol=1e-6)


def test_the_teacher_answers_for_the_whole_batch(data: Dataset, tmp_path: Path) -> None:
    run = Run("reviews", replace(CONFIG, objective="dense"), MODEL)
    list(train(data, replace(run, train=replace(run.train, epochs=1)), tmp_path / "teacher"))
    run = Run("reviews", CONFIG, MODEL, teacher=str(tmp_path / "teacher"))

    weights = Trainer(data, run, tmp_path / "start", resume=False).model.state_dict()

    def act(processes: Processes, name: str = "three") -> float:
        trainer = Trainer(data, run, tmp_path / name, resume=False, processes=processes)
        trainer.model.load_state_dict(weights)
        return float(step(trainer, [0, 5, 2, 9, 4])[0]["distillation"])

    one = act(Processes(), "one")
    assert one > 0
    assert in_threads(3, act) == [pytest.approx(one, rel=1e-5)] * 3


def test_bf16_steps_agree_as_far_as_bf16_does(data: Dataset, tmp_path: Path) -> None:
    run = Run("reviews", replace(CONFIG, precision="bf16"), MODEL)
    weights = Trainer(data, run, tmp_path / "start", resume=False).model.state_dict()

    def act(processes: Processes, name: str = "three") -> float:
        trainer = Trainer(data, run, tmp_path / name, resume=False, processes=processes)
        trainer.model.load_state_dict(weights)
        return float(step(trainer, [0, 5, 2, 9, 4])[0]["loss"])

    # bf16 has 8 bits.
    assert in_threads(3, act) == [pytest.approx(act(Processes(), "one"), rel=2**-7)] * 3


@pytest.mark.parametrize("n", [1, 2, 7])
def test_validation_is_shared_out_and_put_together(data: Dataset, tmp_path: Path, n: int) -> None:
    few = replace(data, splits={**data.splits, "validation": data.split("validation").first(n)})
    run = Run("reviews", CONFIG, MODEL)
    weights = Trainer(few, run, tmp_path / "start", resume=False).model.state_dict()

    def act(processes: Processes, name: str = "three") -> dict[str, Any]:
        trainer = Trainer(few, run, tmp_path / name, resume=False, processes=processes)
        trainer.model.load_state_dict(weights)
        return trainer._validate()

    one = act(Processes(), "one")
    assert one["n"] == n
    for three in in_threads(3, act):
        assert three.keys() == one.keys()
        assert all(same(three[name], value, 1e-5, 1e-6) for name, value in one.items())


def test_one_process_on_a_device_trains_as_without(data: Dataset, tmp_path: Path) -> None:
    run = Run("reviews", CONFIG, MODEL)
    alone = Trainer(data, run, tmp_path / "alone", resume=False)
    device = SeveralProcesses(0, 1, torch.device("cpu"))
    device.gather = device.total = lambda message: message  # type: ignore[method-assign]
    on_device = Trainer(data, run, tmp_path / "device", resume=False, processes=device)
    for rows in ([0, 1, 2], [3, 4]):
        assert step(alone, rows)[0] == step(on_device, rows)[0]
    assert alone._validate() == on_device._validate()


def test_dropout_differs_between_processes_and_steps(data: Dataset, tmp_path: Path) -> None:
    run = Run("reviews", replace(CONFIG, token_dropout=0.0), {**MODEL, "dropout": 0.5})
    trainer = Trainer(data, run, tmp_path / "run", resume=False)
    seeds = []

    def seed(value: int) -> None:
        seeds.append(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("budgetformer.train.seed_torch", seed)
        for rank in range(3):
            trainer.processes = SeveralProcesses(rank, 3, torch.device("cpu"))
            patch.setattr(trainer.processes, "forward", lambda *a: trainer.model(*a[1], a[2]))
            patch.setattr(trainer.processes, "add_gradients", lambda model: None)
            for trainer.step in (4, 5):
                trainer._train_step([0, 1])
    assert len(set(seeds)) == 6


def test_an_error_of_the_first_process_is_one_of_all(data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    run = Run("reviews", CONFIG, MODEL)
    first, second = in_threads(
        2, lambda processes: Trainer(data, run, tmp_path / "run", False, processes=processes)
    )
    assert isinstance(first, ValueError) and "already holds a checkpoint" in str(first)
    assert isinstance(second, ValueError) and "first process" in str(second)


def test_what_mixes_a_batch_before_the_loss_is_refused(data: Dataset, tmp_path: Path) -> None:
    run = Run("reviews", replace(CONFIG, selection="shuffled"), MODEL)
    processes = SeveralProcesses(0, 2, torch.device("cpu"))
    with pytest.raises(ValueError, match="single process"):
        Trainer(data, run, tmp_path / "run", False, processes=processes)


def test_without_a_launcher_there_is_one_process() -> None:
    code = (
        "import sys, budgetformer.train; from budgetformer.parallel import launched, Processes; "
        "assert type(launched()) is Processes; assert 'accelerate' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={}, check=True)


def test_a_launch_that_starts_one_process_of_two_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("accelerate")
    # What `accelerate launch --cpu --num_processes 2` puts into the environment.
    for name, value in {
        "ACCELERATE_MIXED_PRECISION": "no",
        "ACCELERATE_USE_CPU": "True",
        "MASTER_ADDR": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="--multi_gpu"):
        launched()


def launch(reviews: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """Start the command line on two processes."""
    launcher = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --num_machines 1"
    quiet = "--mixed_precision no --dynamo_backend no --main_process_port 0 -m budgetformer train"
    settings = {
        **MODEL,
        **{name: getattr(CONFIG, name) for name in ("epochs", "batch_size", "lr", "vocab_size")},
        "limit": CONFIG.limit,
    }
    given = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    return subprocess.Popen(
        [
            *(sys.executable, *launcher.split(), *quiet.split(), "--data", str(reviews)),
            *("--out", str(out), "--json", "--control", *given, *options),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def events_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    return (json.loads(line) for line in process.stdout)


@pytest.mark.timeout(900)  # six interpreters that import torch, on a machine that may be busy
def test_two_launched_processes_killed_and_resumed_train_as_one(
    reviews: Path, data: Dataset, tmp_path: Path
) -> None:
    pytest.importorskip("accelerate")
    import psutil

    one, two = tmp_path / "one", tmp_path / "two"
    run = Run(str(reviews), CONFIG, MODEL)
    expected = list(train(data, run, one))

    two.mkdir()
    write_wishes(two, pause_at=PAUSE_AT)
    first = launch(reviews, two)
    events = list(islice(events_of(first), 3))
    assert [event["event"] for event in events] == ["start", "step", "pause"]
    workers = psutil.Process(first.pid).children()
    assert len(workers) == 2
    # Killed while it waits for the first one, which the launcher then takes down.
    workers[1].kill()
    _, errors = first.communicate(timeout=300)
    assert first.returncode != 0, errors
    (two / "control.json").unlink()
    assert (two / "state.safetensors").is_file()

    second = launch(reviews, two, "--resume")
    events = list(events_of(second))
    _, errors = second.communicate(timeout=300)
    assert second.returncode == 0, errors
    assert events[0]["step"] == PAUSE_AT
    assert events[-1]["step"] == expected[-1]["step"] == N_STEPS
    assert [e["event"] for e in events] == [e["event"] for e in expected]
    for ours, theirs in zip(events[1:], expected[1:], strict=True):
        assert ours.keys() == theirs.keys()
        for name in ours.keys() - {"seconds"}:
            # fp32 sums in another order, carried through 27 steps of Adam.
            assert same(ours[name], theirs[name], 1e-3, 1e-4), name

    assert sorted(p.name for p in two.iterdir()) == sorted(p.name for p in one.iterdir())
    mine, theirs_ = load_file(two / "model.safetensors"), load_file(one / "model.safetensors")
    assert mine.keys() == theirs_.keys()
    for name, tensor in mine.items():
        wanted = theirs_[name].float()
        if name.endswith("qkv_bias"):
            # A bias on keys adds one number to all scores of a query, which the softmax ignores.
            # Its gradient is rounding noise, and Adam makes steps of up to lr of it.
            keys = slice(4, 8)
            torch.testing.assert_close(
                tensor[:, keys].float(), wanted[:, keys], rtol=0, atol=N_STEPS * CONFIG.lr
            )
            tensor, wanted = tensor.clone(), wanted.clone()
            tensor[:, keys] = wanted[:, keys] = 0
        # The file's fp16 has 11 bits: neighbours differ by up to 1e-3.
        torch.testing.assert_close(tensor.float(), wanted, rtol=2e-3, atol=1e-4)

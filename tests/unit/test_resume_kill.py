"""Trainings that end without warning, and go on as if nothing had happened."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import random
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from budgetformer import TrainConfig, load_dataset
from budgetformer.data import Dataset
from budgetformer.runs import read_history
from budgetformer.train import Run, train

MODEL = {
    "n_layers": 2,
    "n_heads": 4,
    "d_model": 16,
    "d_ff": 32,
    "d_router": 4,
    "max_len": 16,
    "dropout": 0.1,
}
# 137 rows make 23 steps an epoch; a state is saved after 3, 6, …, 21, 23.
CONFIG = TrainConfig(epochs=4, batch_size=6, lr=0.01, vocab_size=200, save_every=3)
RUN = Run("reviews", CONFIG, MODEL)
N_STEPS, N_KILLS = 92, 12
# Forked, a child need not import torch again: a life takes a second instead of five.
FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def data(reviews: Path) -> Dataset:
    # What a training imports when it needs it; a child of this process has it already.
    for module in ("torch._dynamo", "scipy.stats", "sklearn.metrics"):
        importlib.import_module(module)
    return load_dataset(str(reviews))


def life(target: Callable[..., None], *args: Any) -> multiprocessing.Process:
    """Start a process that trains."""
    process = FORK.Process(target=target, args=args)
    process.start()
    return process


def go_on(data: Dataset, out: Path) -> None:
    torch.set_num_threads(1)
    for _ in train(data, RUN, out, resume=True):
        pass


@pytest.fixture(scope="module")
def undisturbed(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A finished run and the seconds that it took."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    started = time.monotonic()
    process = life(go_on, data, out)
    process.join()
    assert process.exitcode == 0
    return out, time.monotonic() - started


def without_time(events: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [{k: v for k, v in event.items() if k != "seconds"} for event in events]


def assert_the_same(out: Path, wanted: Path) -> None:
    """Compare weights, figures and reports bit for bit."""
    mine, theirs = load_file(out / "model.safetensors"), load_file(wanted / "model.safetensors")
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    metrics = [json.loads((folder / "metrics.json").read_text()) for folder in (out, wanted)]
    assert metrics[0] == metrics[1]
    got, expected = read_history(out), read_history(wanted)
    assert without_time(got.steps) == without_time(expected.steps)
    assert without_time(got.epochs) == without_time(expected.epochs)


def test_killed_at_many_moments(
    data: Dataset, undisturbed: tuple[Path, float], tmp_path: Path
) -> None:
    wanted, seconds = undisturbed
    out, moments = tmp_path / "run", random.Random(12)
    steps, kills, finished = [], 0, 0
    while kills < N_KILLS:
        process = life(go_on, data, out)
        process.join(moments.uniform(0.02, 0.4) * seconds)
        process.kill()
        process.join()
        if process.exitcode == 0:
            # It came to its end before the kill: compare it, and start over.
            finished += 1
            os.rename(out, tmp_path / f"finished {finished}")
            assert_the_same(tmp_path / f"finished {finished}", wanted)
            continue
        assert process.exitcode == -signal.SIGKILL
        kills += 1
        if (out / "events.jsonl").exists():
            last = read_history(out).last
            steps.append(last["step"] if last else 0)
    assert len(set(steps)) > N_KILLS / 3  # the kills came at different moments
    process = life(go_on, data, out)
    process.join()
    assert process.exitcode == 0
    assert_the_same(out, wanted)
    assert not list(out.glob("*.tmp"))


# Reports come at steps 20, 40, …; the save after the one is at step 21, after the other at 42.
@pytest.mark.parametrize(("after", "kept", "failed"), [(20, 18, 21), (40, 39, 42)])
def test_a_full_disk_leaves_the_last_state(
    data: Dataset,
    undisturbed: tuple[Path, float],
    tmp_path: Path,
    after: int,
    kept: int,
    failed: int,
) -> None:
    wanted, _ = undisturbed
    out, said = tmp_path / "run", tmp_path / "said"

    def run_out_of_room() -> None:
        torch.set_num_threads(1)
        try:
            for event in train(data, replace(RUN), out, resume=True):
                if event["event"] == "step" and event["step"] >= after:
                    # An event still fits, a state does not.
                    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
        except OSError as error:
            said.write_text(str(error))

    process = life(run_out_of_room)
    process.join()
    message = said.read_text()
    assert f"the state of step {failed} could not be saved" in message
    assert f"the state of step {kept} is still there" in message
    assert "File too large" in message
    assert not list(out.glob("*.tmp"))
    process = life(go_on, data, out)
    process.join()
    assert process.exitcode == 0
    assert_the_same(out, wanted)

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app import jobs
from budgetformer import cli
from budgetformer.config import ModelConfig, TrainConfig, from_dict, read_json
from budgetformer.control import read_wishes
from budgetformer.job_queue import SLOTS, Job, born, write_job
from tests.app.explore import bodies, figure, numbers, plain, seen
from tests.conftest import HOSTILE, ROOT

LONG_S = 240.0
TINY = {
    "n_layers": 1, "n_heads": 2, "d_model": 8, "d_ff": 8, "d_router": 4, "max_len": 16,
    "epochs": 2, "vocab_size": 200, "batch_size": 16,
}  # fmt: skip


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of trainings."""
    monkeypatch.setenv("BUDGETFORMER_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("BUDGETFORMER_MAX_TRAININGS", raising=False)
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny data set, mine."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "mine").mkdir()
    rows = [f"{'good' if i % 2 else 'bad'} film {i},{'yes' if i % 2 else 'no'}" for i in range(120)]
    (folder / "mine" / "rows.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="session")
def trained(reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training of that data set, with a report of every step."""
    import budgetformer.train as library
    from budgetformer.control import Control, write_wishes
    from budgetformer.data import load_dataset

    out = tmp_path_factory.mktemp("trained") / "one"
    out.mkdir()
    write_wishes(out, texts=("a good film",))
    train = {
        name: value for name, value in TINY.items() if name in TrainConfig.__dataclass_fields__
    }
    model = {name: value for name, value in TINY.items() if name not in train}
    run = library.Run("mine", from_dict(TrainConfig, train), model)
    before, library.REPORT_EVERY = library.REPORT_EVERY, 1
    try:
        for _ in library.train(load_dataset(str(reviews / "mine")), run, out, control=Control(out)):
            pass
    finally:
        library.REPORT_EVERY = before
    return out


@pytest.fixture
def one(trained: Path, runs: Path) -> Path:
    shutil.copytree(trained, runs / "one")
    return runs / "one"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for a training's."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def unfinish(folder: Path, keep: str, pid: int = 0, turn: bool = False) -> None:
    """Turn a finished training into one whose last report is the first of a kind."""
    for name in ("config.json", "model.safetensors", "metrics.json", "README.md"):
        (folder / name).unlink()
    events = [json.loads(line) for line in (folder / "events.jsonl").open()]
    last = next(i for i, event in enumerate(events) if event["event"] == keep)
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    job = Job(pid, born(pid) if pid else "", time.time() - 60, ("--data", "mine"))
    (folder / "events.jsonl").write_text("".join(lines[: last + 1]))
    write_job(folder, job)
    if turn:
        (folder.parent / SLOTS).mkdir(exist_ok=True)
        (folder.parent / SLOTS / "0").write_text(f"{job.pid} {job.born}")


def say(folder: Path, event: str) -> None:
    """Let a training report."""
    last = json.loads((folder / "events.jsonl").read_text().splitlines()[-1])
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps({"event": event, "step": last["step"]}) + "\n")


def open_page(part: str = "start", **query: str) -> AppTest:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=60)
    for key, value in {"train_part": part, **query}.items():
        at.query_params[key] = value
    return at.switch_page("../pages/train.py").run()


def field(at: AppTest, name: str) -> Any:
    kinds = (at.number_input, at.selectbox, at.text_input, at.toggle)
    return next(w for kind in kinds for w in kind if w.key == f"train_set_{name}")


def button(at: AppTest, label: str) -> Any:
    return next(b for b in at.button if b.label == label)


def said(at: AppTest) -> str:
    return "\n".join(m.value for m in at.markdown) + "\n".join(c.value for c in at.caption)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_the_form_starts_from_the_quick_preset() -> None:
    at = open_page()
    assert not at.exception
    preset = read_json(ROOT / "configs" / "quick.json")
    for name, value in {**preset["train"], **preset["model"]}.items():
        assert field(at, name).value == pytest.approx(value)
    assert field(at, "n_layers").value == 2  # not in the preset: the default
    assert not button(at, "Start").disabled
    command = at.code[0].value
    assert command.startswith("python -m budgetformer train --data rotten_tomatoes")
    assert f"--lr {preset['train']['lr']}" in command


def test_every_field_can_be_set_and_explains_itself() -> None:
    at = open_page()
    for cls in (TrainConfig, ModelConfig):
        for f in fields(cls):
            if f.name not in ("vocab_size", "labels", "n_segments", "routed") or cls is TrainConfig:
                widget = field(at, f.name)
                assert f"`{f.name}`" in widget.label and len(widget.help) > 10


@pytest.mark.parametrize(
    ("name", "value"),
    [("epochs", 0), ("lr", 0.0), ("d_model", 127), ("s_max", 1.5), ("max_len", 2), ("warmup", 1.0)],
)
def test_a_wrong_value_is_named_before_the_start(name: str, value: float) -> None:
    at = open_page()
    field(at, name).set_value(value).run()
    assert name in plain(at) and str(value) in plain(at)
    assert button(at, "Start").disabled
    assert not at.exception


def test_a_preset_fills_in_the_fields() -> None:
    at = open_page()
    at.button_group(key="train_preset").set_value("imdb-dense").run()
    assert field(at, "objective").value == "dense" and field(at, "max_len").value == 512
    assert next(s for s in at.selectbox if s.key == "train_data_ready").value == "imdb"
    at.button_group(key="train_preset").set_value("quick").run()
    assert field(at, "objective").value == "aligned" and field(at, "max_len").value == 64


def test_no_path_of_the_server_is_a_data_set() -> None:
    at = open_page()
    at.button_group(key="train_data_kind").set_value("hub").run()
    next(t for t in at.text_input if t.key == "train_data_hub").set_value("/etc/passwd").run()
    assert "is no name of a data set" in plain(at)
    assert button(at, "Start").disabled


def test_started_here_is_trained_as_from_the_command_line(
    reviews: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUDGETFORMER_DATA", str(reviews))
    # The test is not about waiting for a process of low priority.
    monkeypatch.setattr(
        jobs, "command", lambda *words, **_: [sys.executable, "-m", "budgetformer", *words]
    )
    at = open_page()
    at.selectbox(key="train_data_ready").set_value("mine")
    for name, value in {**TINY, "seed": 3}.items():
        field(at, name).set_value(value)
    at.text_input(key="train_name").set_value("from the page")
    at.run()
    button(at, "Start").click().run()
    assert not at.exception
    # The page has turned to the training.
    assert at.session_state["train_part"] == "watch"
    assert next(s for s in at.selectbox if s.key == "train_run").value == "from the page"
    wait_until(lambda: jobs.state("from the page").status not in ("waiting", "starting", "running"))
    state = jobs.state("from the page")
    assert state.status == "finished", state.log
    options = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    out = tmp_path / "from the command line"
    command = ["train", "--preset", "quick", "--data", "mine", "--seed", "3", *options]
    assert cli.main([*command, "--out", str(out)]) == 0
    digests = {
        hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        for folder in (runs / "from the page", out)
    }
    assert len(digests) == 1
    # It is a model as any other now.
    from app import loaders

    assert "runs/from the page" in loaders.model_names()


def test_a_name_is_given_once(one: Path) -> None:
    at = open_page()
    at.text_input(key="train_name").set_value("one").run()
    button(at, "Start").click().run()
    assert "there is a training one already" in plain(at)
    at.text_input(key="train_name").set_value("../away").run()
    button(at, "Start").click().run()
    assert "cannot be a model's name" in plain(at)


def test_no_training_yet() -> None:
    assert "There is no training yet" in open_page("watch").info[0].value
    assert "nothing to compare" in open_page("compare").info[0].value


def test_a_finished_training_is_shown(one: Path) -> None:
    at = open_page("watch")
    assert not at.exception
    assert "It is finished." in said(at)
    events = [json.loads(line) for line in (one / "events.jsonl").open()]
    steps = [event for event in events if event["event"] == "step"]
    epochs = [event for event in events if event["event"] == "epoch"]
    assert f"right on {epochs[-1]['accuracy']:.1%} of {epochs[-1]['n']} validation" in seen(at)
    spec, alt = figure(at, "train_curve_loss")
    lines = {line["name"]: line for line in spec["data"]}
    assert set(lines) == {"loss", "task", "budget", "alignment", "validation"}
    assert numbers(lines["loss"]["y"]) == pytest.approx([step["loss"] for step in steps])
    assert numbers(lines["validation"]["x"]).tolist() == [epoch["step"] for epoch in epochs]
    assert f"loss from {steps[0]['loss']:.3g} to {steps[-1]['loss']:.3g}" in alt
    # The scrubber stands at the last epoch; the one before is another moment.
    spec, _ = figure(at, "train_moment_heads")
    usage = np.array(epochs[-1]["head_usage"])
    assert numbers(spec["data"][0]["z"]).ravel() == pytest.approx(usage.ravel())
    at.select_slider[0].set_value("Epoch 1").run()
    spec, _ = figure(at, "train_moment_budgets")
    counts = epochs[0]["budget_counts"][0]
    assert numbers(spec["data"][0]["y"]) == pytest.approx([n / sum(counts) for n in counts])
    # And what it said to the text that was asked.
    assert steps[-1]["answer"]["label"] in seen(at)
    assert [b.label for b in at.button] == ["Use it on the page Explore"]


def test_a_running_training_can_be_paused_and_stepped(
    one: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    unfinish(one, "epoch", sleeper.pid, turn=True)
    at = open_page("watch")
    assert "It is running." in said(at)
    assert button(at, "One batch").disabled
    button(at, "Pause").click().run()
    assert read_wishes(one).wish == "pause"
    say(one, "pause")
    at.run()
    assert "It is paused." in said(at) and not button(at, "One batch").disabled
    say(one, "answer")  # to a text that was asked meanwhile
    assert jobs.state("one").status == "paused"
    n_steps = jobs.state("one").history.step
    button(at, "One batch").click().run()
    assert (read_wishes(one).wish, read_wishes(one).pause_at) == ("run", n_steps + 1)
    # Another visitor sees the same, and may go on.
    other = open_page("watch")
    button(other, "Play").click().run()
    assert (read_wishes(one).wish, read_wishes(one).pause_at) == ("run", None)
    other.text_input[0].set_value(HOSTILE).run()
    assert read_wishes(one).texts == (HOSTILE.strip(),)
    button(other, "Stop").click().run()
    assert read_wishes(one).wish == "stop"
    say(one, "stop")
    other.run()
    assert "It is stopped." in said(other)
    assert not other.exception and HOSTILE not in bodies(other)


def test_waiting_and_starting(one: Path, sleeper: subprocess.Popen[bytes]) -> None:
    unfinish(one, "start", sleeper.pid)
    os.utime(one / "events.jsonl", (0, 0))  # of an earlier process
    at = open_page("watch")
    assert "It waits for its turn." in said(at) and "number 1 in line" in said(at)
    (one.parent / SLOTS).mkdir(exist_ok=True)
    (one.parent / SLOTS / "0").write_text(f"{sleeper.pid} {born(sleeper.pid)}")
    at.run()
    assert "It is starting." in said(at)
    # Nothing is lost that is not saved yet: its process ends at once.
    button(at, "Stop").click().run()
    wait_until(lambda: sleeper.poll() is not None)
    assert jobs.state("one").status == "stopped"


def test_a_training_that_was_killed_can_be_resumed(
    one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinish(one, "epoch")
    launched: list[list[str]] = []
    monkeypatch.setattr(jobs, "_launch", lambda folder, options: launched.append(options))
    at = open_page("watch")
    assert "It was interrupted." in said(at) and "Nothing since the last saved state" in said(at)
    button(at, "Resume").click().run()
    assert launched == [["--data", "mine"]]


def test_a_failed_training_says_why(one: Path) -> None:
    unfinish(one, "step")
    (one / "stderr.log").write_text(f"budgetformer: No space left on device {HOSTILE}\n")
    at = open_page("watch")
    assert "It has failed." in said(at)
    assert "No space left on device" in plain(at)
    assert HOSTILE not in said(at) + bodies(at)


def test_a_real_failure_says_why(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        jobs, "command", lambda *words, **_: [sys.executable, "-m", "budgetformer", *words]
    )
    jobs.start("lost", {"data": "nowhere.csv", "train": {}, "model": {}})
    wait_until(lambda: jobs.state("lost").status == "failed")
    assert "nowhere.csv does not exist" in jobs.state("lost").reason


def test_trainings_are_compared(one: Path, runs: Path) -> None:
    shutil.copytree(one, runs / "two")
    at = open_page("compare", train_compare="two,one")
    assert not at.exception
    spec, _ = figure(at, "train_compare_curves")
    assert [line["name"] for line in spec["data"]] == ["two", "one"]
    epochs = [json.loads(line) for line in (one / "events.jsonl").open() if '"epoch"' in line]
    epochs = [event for event in epochs if event["event"] == "epoch"]
    assert numbers(spec["data"][0]["y"]) == pytest.approx([e["accuracy"] for e in epochs])
    assert seen(at).count(f"{epochs[-1]['loss']:.3f}") == 2


def test_how_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs.most_at_once() == 1
    monkeypatch.setenv("BUDGETFORMER_MAX_TRAININGS", "3")
    assert jobs.most_at_once() == 3
    monkeypatch.setenv("BUDGETFORMER_MAX_TRAININGS", "0")
    with pytest.raises(ValueError, match="BUDGETFORMER_MAX_TRAININGS must be"):
        jobs.most_at_once()

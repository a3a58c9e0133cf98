"""A training that is told to pause, to take a step, to answer, to stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from budgetformer import Checkpoint, TrainConfig, load_dataset, predict
from budgetformer.control import CONTROL, Control, Wishes, read_wishes, write_wishes
from budgetformer.data import Dataset
from budgetformer.runs import read_history
from budgetformer.train import Run, train

MODEL = {"n_layers": 2, "n_heads": 4, "d_model": 16, "d_ff": 32, "d_router": 4, "max_len": 16}
CONFIG = TrainConfig(epochs=2, batch_size=16, lr=0.01, vocab_size=200, save_every=1000)
RUN = Run("reviews", CONFIG, MODEL)  # 9 steps an epoch


@pytest.fixture(scope="module")
def data(reviews: Path) -> Dataset:
    return load_dataset(str(reviews))


@pytest.fixture(scope="module")
def undisturbed(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    list(train(data, RUN, out))
    return out


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def controlled(data: Dataset, out: Path, patience_s: float = 60) -> Iterator[dict[str, Any]]:
    return train(data, RUN, out, resume=True, control=Control(out, patience_s))


def kinds(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(event["event"], event["step"]) for event in events]


def same(a: Path, b: Path) -> bool:
    one, two = load_file(a / "model.safetensors"), load_file(b / "model.safetensors")
    return all(torch.equal(one[name], two[name]) for name in one) and one.keys() == two.keys()


def test_pausing_stepping_and_going_on_change_nothing(
    data: Dataset, undisturbed: Path, out: Path
) -> None:
    # Each event is the next of a generator, so nothing here depends on the clock.
    events = controlled(data, out)
    assert next(events)["event"] == "start"
    write_wishes(out, pause_at=3)
    assert kinds([next(events), next(events)]) == [("step", 3), ("pause", 3)]
    # Paused, all is saved, although save_every is far away.
    assert (out / "state.safetensors").is_file()
    write_wishes(out, pause_at=4)
    assert kinds([next(events) for _ in range(3)]) == [("go", 3), ("step", 4), ("pause", 4)]
    # To the end of the epoch: its validation comes before the pause.
    write_wishes(out, pause_at=9)
    assert kinds([next(events) for _ in range(4)]) == [
        ("go", 4),
        ("epoch", 9),
        ("step", 9),
        ("pause", 9),
    ]
    write_wishes(out, pause_at=None)
    assert kinds(list(events)) == [("go", 9), ("epoch", 18), ("end", 18)]
    assert same(out, undisturbed)


def test_stopped_and_resumed(data: Dataset, undisturbed: Path, out: Path) -> None:
    events = controlled(data, out)
    next(events)
    write_wishes(out, pause_at=5)
    assert next(events)["step"] == 5 and next(events)["event"] == "pause"
    write_wishes(out, wish="stop")
    assert kinds(list(events)) == [("stop", 5)]
    assert not (out / "model.safetensors").exists()
    write_wishes(out, wish="run", pause_at=None)
    assert kinds(list(controlled(data, out)))[0] == ("start", 5)
    assert same(out, undisturbed)
    # The history tells one training, without the repetition of "start".
    assert [event["step"] for event in read_history(out).epochs] == [9, 18]


def test_who_pauses_for_long_leaves_and_comes_back(
    data: Dataset, undisturbed: Path, out: Path
) -> None:
    write_wishes(out, pause_at=2)
    assert kinds(list(controlled(data, out, patience_s=0))) == [
        ("start", 0),
        ("step", 2),
        ("pause", 2),
        ("leave", 2),
    ]
    write_wishes(out, wish="run", pause_at=None)
    assert kinds(list(controlled(data, out)))[0] == ("start", 2)
    assert same(out, undisturbed)


def test_the_model_answers_as_it_does_when_it_is_finished(data: Dataset, out: Path) -> None:
    text = "a good film"
    write_wishes(out, texts=(text,))
    events = list(controlled(data, out))
    answered = [event for event in events if "answer" in event]
    assert [event["event"] for event in answered] == ["epoch", "epoch"]
    last = answered[-1]["answer"]
    assert last["texts"] == [text]
    # The checkpoint holds half precision, the answer came before that rounding.
    saved = predict(Checkpoint.from_pretrained(out), text)
    assert last["label"] == saved.label
    assert last["probabilities"] == pytest.approx(saved.probabilities, abs=2e-3)
    assert [layer["budget"] for layer in last["layers"]] == pytest.approx(
        [layer.budget for layer in saved.layers], abs=2e-3
    )
    assert read_history(out).answers[-1]["answer"] == last


def test_answering_changes_nothing(data: Dataset, undisturbed: Path, out: Path) -> None:
    write_wishes(out, texts=("a bad film",))
    list(controlled(data, out))
    assert same(out, undisturbed)


def test_a_paused_model_answers_a_new_text_at_once(data: Dataset, out: Path) -> None:
    write_wishes(out, pause_at=2)
    events = controlled(data, out)
    assert [next(events)["event"] for _ in range(3)] == ["start", "step", "pause"]
    write_wishes(out, texts=("a boring story",))
    event = next(events)
    assert kinds([event]) == [("answer", 2)]
    assert set(event["answer"]["probabilities"]) == {"negative", "positive"}
    write_wishes(out, texts=("one", "two"))
    assert "single text" in next(events)["answer"]["refused"]
    write_wishes(out, wish="stop")
    assert next(events)["event"] == "stop"


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"wish": "fly", "pause_at": null, "texts": []}', '{"wish": "run"}',
     '{"wish": "run", "pause_at": "x", "texts": []}'],
)  # fmt: skip
def test_a_damaged_file_lets_the_training_go_on(out: Path, content: str) -> None:
    (out / CONTROL).write_text(content)
    assert read_wishes(out) == Wishes() == Control(out).look()


def test_changes_keep_the_rest(out: Path) -> None:
    write_wishes(out, texts=("a",), pause_at=7)
    write_wishes(out, wish="pause")
    assert json.loads((out / CONTROL).read_text()) == {
        "wish": "pause",
        "pause_at": 7,
        "texts": ["a"],
    }


def test_halting() -> None:
    assert not Wishes().halts(10**9)
    assert [Wishes(pause_at=3).halts(step) for step in (2, 3, 4)] == [False, True, True]
    assert Wishes("pause").halts(0) and Wishes("stop").halts(0)
    assert replace(Wishes("stop"), texts=("a",)).stops

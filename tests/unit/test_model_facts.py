"""Facts of a model come from its files alone, and no file can break the list."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetformer import BudgetFormer, Checkpoint
from budgetformer.library import Entry, Kind
from budgetformer.model_facts import LONGEST_CARD, Facts, measured_on, read_facts

ROOT = Path(__file__).parents[2]


def facts(folder: Path, kind: Kind = "uploaded") -> Facts:
    return read_facts(Entry(folder.name, kind, folder))


@pytest.mark.parametrize(("weights", "numbers"), [("fp16", "16-bit"), ("int8", "8-bit")])
def test_parameters_are_counted_by_the_header(
    checkpoint: Checkpoint, tmp_path: Path, weights: Any, numbers: str
) -> None:
    checkpoint.save_pretrained(tmp_path, weights)
    found = facts(tmp_path)
    assert found.parameters == sum(p.numel() for p in checkpoint.model.parameters())
    assert found.numbers == numbers
    assert found.config == checkpoint.config
    assert found.size_bytes == sum(p.stat().st_size for p in tmp_path.iterdir())
    assert found.problem == ""


def test_a_shipped_model() -> None:
    folder = ROOT / "checkpoints" / "imdb"
    found, metrics = facts(folder, "shipped"), json.loads((folder / "metrics.json").read_text())
    model = Checkpoint.from_pretrained(folder).model
    assert isinstance(model, BudgetFormer)
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert found.measured is not None
    assert found.measured.split == "test" and found.measured.data == "imdb"
    assert found.measured.accuracy == metrics["test"]["accuracy"]
    assert found.measured.n == metrics["test"]["n"]
    assert found.measured.executed_heads_frac == metrics["test"]["executed_heads_frac"]
    assert (found.data, found.rows, found.seed) == ("imdb", metrics["training"]["rows"], 0)
    assert found.objective == "aligned" and found.init == found.teacher == ""
    assert found.since == ""  # a checkout's date says nothing
    assert found.card == (folder / "README.md").read_text()
    assert set(found.metrics) == {"validation", "test"}


def test_a_run_without_figures_tells_its_settings(saved: Path) -> None:
    (saved / "metrics.json").unlink()
    run = {"data": "a.csv", "train": {"seed": 7, "objective": "utility"}, "warm_start": "w",
           "teacher": "t", "init": "minilm"}  # fmt: skip
    (saved / "run.json").write_text(json.dumps(run))
    found = facts(saved, "trained")
    assert (found.data, found.seed, found.objective) == ("a.csv", 7, "utility")
    assert (found.init, found.warm_start, found.teacher) == ("minilm", "w", "t")
    assert found.rows is None and found.measured is None and found.metrics == {}
    assert found.since.endswith(" UTC") and found.since[:2] == "20"


def test_when_it_came(saved: Path) -> None:
    source = {"added": "2026-03-01T14:30:59+02:00", "commit": "abc", "hub": "u/m"}
    (saved / "source.json").write_text(json.dumps(source))
    assert facts(saved, "hub").since == "2026-03-01 12:30 UTC"
    assert facts(saved, "hub").commit == "abc"
    (saved / "source.json").write_text('{"added": "yesterday"}')
    assert facts(saved, "hub").since == ""


def test_validation_stands_in_for_test() -> None:
    validation = {"n": 10, "accuracy": 0.5}
    found = measured_on({"validation": validation})
    assert found is not None and (found.split, found.n, found.accuracy) == ("validation", 10, 0.5)
    assert found.executed_heads_frac is None
    for bad in ({"n": 10}, {"n": "10", "accuracy": 0.5}, {"n": 10, "accuracy": "0.5"}, [], None,
                {"n": 10, "accuracy": 1.5}, {"n": -1, "accuracy": 0.5}, {"n": True, "accuracy": 1},
                {"n": 10, "accuracy": float("nan")}, {"n": 10, "accuracy": 10**400}):  # fmt: skip
        found = measured_on({"test": bad, "validation": validation})
        assert found is not None and found.split == "validation"
        assert measured_on({"test": bad}) is None


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("config.json", b"{", "config.json"),
        ("config.json", b"[" * 100_000, "config.json"),
        ("config.json", b'{"vocab_size": 1' + b"0" * 400 + b"}", "config.json"),
        ("model.safetensors", b"", "model.safetensors"),
        ("model.safetensors", b"\xff" * 100, "model.safetensors"),
        ("model.safetensors", b"\x02" + b"\0" * 7 + b"{}", "model.safetensors"),
        ("model.safetensors", b"\x02" + b"\0" * 7 + b"[]", "model.safetensors"),
        ("model.safetensors", b"\x0a" + b"\0" * 7 + b'{"a": [1]}', "model.safetensors"),
    ],
)
def test_a_damaged_file_is_a_problem_not_an_error(
    saved: Path, name: str, content: bytes, problem: str
) -> None:
    (saved / name).write_bytes(content)
    assert problem in facts(saved).problem


def test_a_long_card_is_cut(saved: Path) -> None:
    (saved / "README.md").write_bytes(b"\xff" + b"x" * (LONGEST_CARD * 2))
    card = facts(saved).card
    assert len(card) < LONGEST_CARD + 50 and card.endswith("(cut here)")


def test_a_folder_that_is_gone(saved: Path) -> None:
    shutil.rmtree(saved)
    assert "cannot read" in facts(saved).problem


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["n", "accuracy", "test", "training", "train", "seed", "data", "shape"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(["metrics.json", "run.json", "source.json", "config.json"]), JSON)
def test_any_json_gives_facts(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: object
) -> None:
    folder = tmp_path_factory.mktemp("facts")
    (folder / name).write_text(json.dumps(value))
    found = facts(folder, "hub")
    assert all(isinstance(v, float) for split in found.metrics.values() for v in split.values())
    assert isinstance(found.data, str) and isinstance(found.seed, int | None)

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from budgetformer.config import (
    ModelConfig,
    TrainConfig,
    choices,
    field_docs,
    from_dict,
    read_json,
    to_dict,
    write_json,
)

MODEL = {"vocab_size": 10, "labels": ["a", "b"]}


def test_json_roundtrip(tmp_path: Path) -> None:
    config = ModelConfig(10, ("ja", "nein\u2028é"), n_heads=4, norm="post", rounding="ceil")
    write_json(tmp_path / "c.json", to_dict(config))
    assert from_dict(ModelConfig, read_json(tmp_path / "c.json")) == config
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]


def test_head_width() -> None:
    assert ModelConfig(10, ("a", "b"), n_heads=8, d_model=128).d_head == 16


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocab_size", 0),
        ("labels", ["a"]),
        ("labels", ["a", "a"]),
        ("labels", "ab"),
        ("n_layers", 0),
        ("n_layers", 2.5),
        ("n_layers", "2"),
        ("n_layers", True),
        ("n_heads", 0),
        ("n_heads", 3),
        ("d_model", 100),
        ("d_ff", -1),
        ("max_len", 7),
        ("n_segments", 3),
        ("dropout", 1),
        ("dropout", -0.1),
        ("dropout", float("nan")),
        ("dropout", "0.1"),
        ("temperature", 0),
        ("temperature", float("inf")),
        ("norm", "middle"),
        ("norm", None),
        ("rounding", "round"),
        ("output_scale", "linear"),
        ("routed", "no"),
        ("fixed_heads", 9),
        ("fixed_heads", -1),
    ],
)
def test_model_values_out_of_range_are_named(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        from_dict(ModelConfig, {**MODEL, field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("objective", "mine"),
        ("epochs", 0),
        ("epochs", 1.5),
        ("batch_size", 0),
        ("lr", 0),
        ("lr", -1.0),
        ("lr", float("nan")),
        ("lr", float("inf")),
        ("weight_decay", -0.1),
        ("weight_decay", float("nan")),
        ("warmup", 1.0),
        ("clip_norm", 0),
        ("token_dropout", 1.0),
        ("s_min", 0),
        ("s_min", 0.5),
        ("s_max", 1.1),
        ("budget_weight", -1),
        ("entropy_weight", -1),
        ("align_weight", -1),
        ("tau_start", 0),
        ("score_noise", -1),
        ("distill_weight", 1.1),
        ("distill_temperature", 0),
        ("vocab_size", 99),
        ("seed", -1),
        ("limit", -1),
        ("save_every", 0),
    ],
)
def test_training_values_out_of_range_are_named(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field):
        from_dict(TrainConfig, {field: value})


def test_whole_numbers_serve_as_real_ones() -> None:
    assert from_dict(ModelConfig, {**MODEL, "dropout": 0, "temperature": 1}).dropout == 0


def test_unknown_and_missing_fields_are_named() -> None:
    with pytest.raises(ValueError, match="'n_head'"):
        from_dict(ModelConfig, {**MODEL, "n_head": 4})
    with pytest.raises(ValueError, match="labels"):
        from_dict(ModelConfig, {"vocab_size": 10})


@pytest.mark.parametrize("content", ["", "{", "[1]", '"x"', "\xff\xfe", '{"a": 1'])
def test_damaged_json_names_the_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=r"config\.json"):
        read_json(path)


def test_missing_json_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.json"):
        read_json(tmp_path / "nowhere.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert read_json(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_numbers_that_json_lacks_become_null(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": float("-inf")}})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    values = json.loads(path.read_text(), parse_constant=refuse)
    assert values == {"a": None, "b": [None, 1.5], "c": {"d": None}}


@pytest.mark.parametrize("cls", [ModelConfig, TrainConfig])
def test_every_field_is_documented(cls: type[ModelConfig] | type[TrainConfig]) -> None:
    docs = field_docs(cls)
    assert list(docs) == [f.name for f in fields(cls)]
    assert all(len(text) > 5 and "\n" not in text for text in docs.values())


def test_choices() -> None:
    assert choices(ModelConfig, "norm") == ("pre", "post")
    assert choices(ModelConfig, "rounding") == ("floor", "nearest", "ceil")
    assert choices(TrainConfig, "objective") == (
        "aligned",
        "utility",
        "paper",
        "paper-mean",
        "requested",
        "dense",
    )
    assert choices(TrainConfig, "lr") == ()


def test_help_texts_survive_optimised_python() -> None:
    code = (
        "from budgetformer.config import *\n"
        "print(field_docs(TrainConfig)['lr'], choices(ModelConfig, 'norm'))\n"
        "try:\n    ModelConfig(10, ('a',))\nexcept ValueError as error:\n    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-OO", "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    assert "linear warm-up" in result.stdout
    assert "('pre', 'post')" in result.stdout
    assert "labels must be at least two" in result.stdout

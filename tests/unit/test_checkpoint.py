from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from budgetformer import BudgetFormer, Checkpoint, Tokenizer, predict
from budgetformer.checkpoint import pack, save_tensors, unpack

FILES = ["config.json", "metrics.json", "model.safetensors", "tokenizer.json"]
ROOT = Path(__file__).parents[2]


def test_roundtrip(checkpoint: Checkpoint, tmp_path: Path) -> None:
    metrics = {"test": {"accuracy": 0.5, "none": None}, "größe": ["é"]}
    Checkpoint(checkpoint.model, checkpoint.tokenizer, metrics).save_pretrained(tmp_path / "a")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == FILES
    loaded = Checkpoint.from_pretrained(tmp_path / "a")
    assert loaded.config == checkpoint.config
    assert loaded.metrics == metrics
    assert loaded.path == tmp_path / "a"
    for name, tensor in loaded.model.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, checkpoint.model.state_dict()[name].half().float())
    # What was loaded is written again without a change.
    loaded.save_pretrained(tmp_path / "b")
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    again = Checkpoint.from_pretrained(str(tmp_path / "b"))
    assert predict(again, "a good film").to_dict() == predict(loaded, "a good film").to_dict()


def test_a_loaded_model_is_frozen(saved: Path) -> None:
    model = Checkpoint.from_pretrained(saved).model
    assert not model.training
    assert not any(p.requires_grad for p in model.parameters())


def test_loading_draws_nothing(saved: Path) -> None:
    before = torch.random.get_rng_state()
    Checkpoint.from_pretrained(saved)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_weights_are_half_precision_and_readable(saved: Path) -> None:
    with safe_open(saved / "model.safetensors", "pt") as file:
        assert all(file.get_tensor(name).dtype == torch.float16 for name in file.keys())  # noqa: SIM118
    for name in FILES:
        assert stat.S_IMODE((saved / name).stat().st_mode) & 0o444 == 0o444


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(ValueError, match=name):
        Checkpoint.from_pretrained(saved)


def test_figures_may_lack(saved: Path) -> None:
    (saved / "metrics.json").unlink()
    assert Checkpoint.from_pretrained(saved).metrics == {}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0, 0.3, 0.6])
def test_a_truncated_file_is_named(saved: Path, name: str, share: float) -> None:
    content = (saved / name).read_bytes()
    (saved / name).write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match=name):
        Checkpoint.from_pretrained(saved)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"\xff\xfe\x00\x00", b"null", b"[]", b'{"a": ', b"NaN"])
def test_nonsense_is_named(saved: Path, name: str, content: bytes) -> None:
    (saved / name).write_bytes(content)
    with pytest.raises(ValueError, match=name):
        Checkpoint.from_pretrained(saved)


@pytest.mark.parametrize(
    "change",
    [
        {"colour": "blue"},
        {"labels": None},
        {"labels": ["one"]},
        {"labels": {"a": 1}},
        {"n_layers": 1.5},
        {"n_layers": "2"},
        {"n_heads": 0},
        {"dropout": None},
        {"norm": ["pre"]},
        {"temperature": 0},
    ],
)
def test_a_wrong_field_names_field_and_file(saved: Path, change: dict[str, object]) -> None:
    values = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**values, **change}))
    with pytest.raises(ValueError, match=r"config\.json") as error:
        Checkpoint.from_pretrained(saved)
    assert "\n" not in str(error.value)
    assert next(iter(change)) in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"d_model": 10**6},
        {"d_ff": 8},
        {"n_layers": 1},
        {"n_layers": 3},
        {"routed": False},
        {"norm": "post"},
    ],
)
def test_weights_of_another_shape_are_named(saved: Path, change: dict[str, object]) -> None:
    values = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**values, **change}))
    with pytest.raises(ValueError, match=r"model\.safetensors.*shape") as error:
        Checkpoint.from_pretrained(saved)
    assert "\n" not in str(error.value)


def test_lacking_and_foreign_weights_are_named(saved: Path) -> None:
    path = saved / "model.safetensors"
    tensors = load_file(path)
    kept = tensors.pop("classifier.bias")
    save_file(tensors, path)
    with pytest.raises(ValueError, match=r"model\.safetensors.*classifier\.bias"):
        Checkpoint.from_pretrained(saved)
    save_file({**tensors, "classifier.bias": kept, "extra.weight": kept.clone()}, path)
    with pytest.raises(ValueError, match=r"model\.safetensors.*extra\.weight"):
        Checkpoint.from_pretrained(saved)


def test_a_tokenizer_bigger_than_the_model_is_refused(saved: Path) -> None:
    Tokenizer.train([f"word{i} " * 3 for i in range(400)], 1000).save_pretrained(saved)
    with pytest.raises(ValueError, match=r"tokenizer has \d+ pieces, the model only"):
        Checkpoint.from_pretrained(saved)


def test_a_pickle_is_not_opened(saved: Path) -> None:
    (saved / "model.safetensors").rename(saved / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"model\.safetensors is missing"):
        Checkpoint.from_pretrained(saved)


@pytest.mark.parametrize("name", ["no/such/folder", "nowhere", "./here", "", "/abs/path"])
def test_no_folder_and_no_hub_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as error:
        Checkpoint.from_pretrained(name)
    assert "\n" not in str(error.value)
    assert name == "" or name in str(error.value)


def test_a_hub_name_without_a_network_is_one_line(tmp_path: Path) -> None:
    code = (
        "from budgetformer import Checkpoint\n"
        "try:\n    Checkpoint.from_pretrained('someone/some-model')\n"
        "except ValueError as error:\n    print(error)\n"
    )
    # Nothing listens on this port.
    env = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=env,
        timeout=120,
        check=True,
    )
    assert result.stdout.count("\n") == 1
    assert "'someone/some-model'" in result.stdout and "Hub" in result.stdout


def test_loading_starts_no_compiler() -> None:
    # It takes as long to import as torch itself, and drawing initial weights imports it.
    code = (
        "import sys\n"
        "from budgetformer import Checkpoint\n"
        "Checkpoint.from_pretrained('checkpoints/known-need')\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_an_interrupted_save_leaves_the_old_files_whole(
    checkpoint: Checkpoint,
    saved: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_model: Callable[..., BudgetFormer],
) -> None:
    before = {p.name: p.read_bytes() for p in saved.iterdir()}

    def full_disk(*args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full_disk)
    other = make_model(seed=5, vocab_size=checkpoint.tokenizer.vocab_size, labels=("x", "y"))
    with pytest.raises(OSError, match="no space"):
        Checkpoint(other, checkpoint.tokenizer).save_pretrained(saved)
    assert {name: (saved / name).read_bytes() for name in before} == before


def test_a_write_cut_short_leaves_the_old_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.safetensors"
    save_tensors({"a": torch.ones(3)}, path, {"step": "1"})

    def cut(tensors: object, target: Path, metadata: object = None) -> None:
        Path(target).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("budgetformer.checkpoint.save_file", cut)
    with pytest.raises(OSError, match="no space"):
        save_tensors({"a": torch.zeros(3)}, path, {"step": "2"})
    assert torch.equal(load_file(path)["a"], torch.ones(3))


def test_a_folder_with_blanks_and_umlauts(saved: Path, tmp_path: Path) -> None:
    moved = tmp_path / "Ein Ordner, größer 中文"
    shutil.move(saved, moved)
    assert predict(Checkpoint.from_pretrained(moved), "good").label in ("negative", "positive")


def test_an_impossible_size_names_the_file(saved: Path) -> None:
    values = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**values, "d_model": 10**12}))
    with pytest.raises(ValueError, match=r"config\.json") as error:
        Checkpoint.from_pretrained(saved)
    assert "\n" not in str(error.value)


def test_int8_moves_no_weight_by_more_than_half_a_step(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    checkpoint.save_pretrained(tmp_path / "a", weights="int8")
    loaded = Checkpoint.from_pretrained(tmp_path / "a")
    for name, tensor in loaded.model.state_dict().items():
        original = checkpoint.model.state_dict()[name]
        if original.ndim < 2 or name.endswith("bias"):
            assert torch.equal(tensor, original.half().float())
            continue
        step = original.abs().max(dim=-1, keepdim=True).values / 127
        assert ((tensor - original).abs() <= step * 0.5001).all()
    # Written again, the very same numbers come back.
    loaded.save_pretrained(tmp_path / "b", weights="int8")
    again = Checkpoint.from_pretrained(tmp_path / "b")
    for name, tensor in again.model.state_dict().items():
        assert torch.allclose(tensor, loaded.model.state_dict()[name], rtol=1e-6, atol=0)


def test_int8_rows_by_hand() -> None:
    packed = pack({"w.weight": torch.tensor([[12.7, -6.36, 0.0], [0.0, 0.0, 0.0]])}, "int8")
    assert packed["w.weight"].tolist() == [[127, -64, 0], [0, 0, 0]]
    assert packed["w.weight"].dtype == torch.int8
    assert packed["w.weight.scale"].flatten().tolist() == pytest.approx([0.1, 0.0], abs=1e-6)
    assert unpack(packed)["w.weight"][0].tolist() == pytest.approx([12.7, -6.4, 0.0])
    assert unpack(packed)["w.weight"][1].tolist() == [0.0, 0.0, 0.0]

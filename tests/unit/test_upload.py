"""Nothing from elsewhere is used unchecked, and what is refused leaves nothing behind."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from budgetformer import BudgetFormer, Checkpoint, Tokenizer, predict, upload
from budgetformer.archive import NEEDED, pack
from budgetformer.library import Library
from budgetformer.upload import check, receive


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "checkpoints", tmp_path / "runs", tmp_path / "models")


def edit(path: Path, change: Callable[[dict[str, Any]], None] | dict[str, Any]) -> None:
    values = json.loads(path.read_text())
    if callable(change):
        change(values)
    else:
        values.update(change)
    path.write_text(json.dumps(values))


def refusal(folder: Path) -> str:
    with pytest.raises(ValueError) as error:
        check(folder)
    reason = str(error.value)
    assert "\n" not in reason and len(reason) <= 300
    assert str(folder) not in reason
    return reason


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("weights", ["fp16", "int8"])
@pytest.mark.parametrize("pair", [False, True])
def test_a_good_model_is_taken_in(
    checkpoint: Checkpoint,
    pair_checkpoint: Checkpoint,
    library: Library,
    tmp_path: Path,
    weights: Any,
    pair: bool,
) -> None:
    model = pair_checkpoint if pair else checkpoint
    model.save_pretrained(tmp_path / "m", weights)
    added = receive(library, io.BytesIO(pack(tmp_path / "m", "m")), "größe")
    assert (added.name, added.replaced, added.left_out) == ("models/größe", None, ())
    folder = library.entry("models/größe").folder
    for name in NEEDED:
        assert (folder / name).read_bytes() == (tmp_path / "m" / name).read_bytes()
    assert [p.name for p in library.uploaded.iterdir()] == ["größe"]
    texts = ("a good film", "a film")[: 1 + pair]
    here, there = (Checkpoint.from_pretrained(f) for f in (folder, tmp_path / "m"))
    assert predict(here, *texts).to_dict() == predict(there, *texts).to_dict()
    # A download of it, uploaded again, is the same.
    again = receive(library, io.BytesIO(pack(folder, "x")), "again")
    before, after = (everything(library.entry(n).folder) for n in (added.name, again.name))
    del before["source.json"], after["source.json"]
    assert before == after


def test_a_taken_name(library: Library, saved: Path) -> None:
    content = pack(saved, "m")
    receive(library, io.BytesIO(content), "m")
    with pytest.raises(ValueError, match="the name m is taken"):
        receive(library, io.BytesIO(content), "m")
    replaced = receive(library, io.BytesIO(content), "m", replace=True).replaced
    assert replaced is not None
    assert library.restore(replaced) == "models/m-2"
    assert library.names() == ["models/m", "models/m-2"]


def test_a_refused_upload_leaves_nothing_and_keeps_what_was_there(
    library: Library, saved: Path
) -> None:
    receive(library, io.BytesIO(pack(saved, "m")), "m")
    before = everything(library.uploaded)
    edit(saved / "config.json", {"labels": ["a"]})
    for replace, name in ((False, "n"), (True, "m")):
        with pytest.raises(ValueError, match="labels"):
            receive(library, io.BytesIO(pack(saved, "m")), name, replace)
        with pytest.raises(ValueError, match="zip"):
            receive(library, io.BytesIO(b"nonsense"), name, replace)
    assert everything(library.uploaded) == before
    assert library.names() == ["models/m"]


def test_a_full_disk_is_one_line(
    library: Library, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(upload.archive, "unpack", full)
    with pytest.raises(ValueError, match="cannot be stored here: No space left"):
        receive(library, io.BytesIO(pack(saved, "m")), "m")
    assert list(library.uploaded.iterdir()) == []


@pytest.mark.parametrize("name", list(upload.MOST))
def test_a_huge_shape_is_refused_before_a_model_is_made(
    saved: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*_: object) -> None:
        raise AssertionError("a model was made")

    monkeypatch.setattr(upload, "BudgetFormer", made)
    for value in (upload.MOST[name] + 1, 10**12, 10**400):
        edit(saved / "config.json", {name: value})
        assert name in refusal(saved)


def test_shapes_that_are_too_large_together(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 64 heads on 4,096 tokens: 64 · 4096² · 4 bytes are 4.3 GB of attention maps.
    edit(saved / "config.json", {"n_heads": 64, "d_model": 64, "max_len": 4_096})
    assert "too much memory" in refusal(saved)
    monkeypatch.setattr(upload, "MOST_PARAMETERS", 5_000)
    edit(saved / "config.json", {"n_heads": 4, "d_model": 16, "max_len": 32})
    assert "parameters; at most 5,000" in refusal(saved)


def test_every_bound_allows_bert_base() -> None:
    base = {"vocab_size": 30_522, "n_layers": 12, "n_heads": 12, "d_model": 768, "d_ff": 3_072,
            "max_len": 512}  # fmt: skip
    assert all(value <= upload.MOST[name] for name, value in base.items())
    assert upload.MOST_PAIRS >= 12 * 512**2


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ("positive", "list of texts"),
        ({"a": 1}, "list of texts"),
        ([1, 2], "list of texts"),
        (["a", None], "list of texts"),
        (["a", ""], "0 characters"),
        (["a", "  "], "characters"),
        (["a", "b" * 101], "101 characters"),
        (["a", "b\x00"], "control character U+0000"),
        (["a", "b\n"], "control character U+000A"),
        (["a", "\u202eevitisop"], "control character U+202E"),
        (["a", "\ud800"], "control character U+D800"),
        (["a", "a"], "all different"),
        (["a"], "at least two"),
        ([f"label {i}" for i in range(1001)], "1,001 labels"),
    ],
)
def test_labels(saved: Path, labels: object, reason: str) -> None:
    edit(saved / "config.json", {"labels": labels})
    assert reason in refusal(saved)


def test_labels_in_any_language_and_with_markup_are_only_text(saved: Path) -> None:
    labels = ["<img src=x onerror=alert(1)> $5 **b**", "👩‍👩‍👧 தமிழ் 中文"]
    edit(saved / "config.json", {"labels": labels})
    assert check(saved).config.labels == tuple(labels)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[1]", "JSON object, not list"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": ' + b"[" * 30 + b"]" * 30 + b"}", "nested more than 20 deep"),
        (b'{"a": ' + b"[" * 99_999, "nested more than 20 deep"),
        (b'{"a": 1' + b"0" * 5_000 + b"}", "not valid JSON"),
    ],
)
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "metrics.json", "sweep.json"])
def test_json_that_is_none(saved: Path, name: str, content: bytes, reason: str) -> None:
    (saved / name).write_bytes(content)
    found = refusal(saved)
    assert reason in found and name in found


def test_json_of_any_other_shape_is_no_fault(saved: Path) -> None:
    (saved / "metrics.json").write_text('{"test": {"accuracy": "high", "n": [1e999]}}')
    check(saved)


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_file(saved: Path, name: str) -> None:
    (saved / name).unlink()
    assert refusal(saved) == f"{name} is missing"


def test_a_card_that_is_no_text(saved: Path) -> None:
    (saved / "README.md").write_bytes(b"\xff\xfe")
    assert "no UTF-8" in refusal(saved)
    (saved / "README.md").write_text("<script>alert(1)</script>")
    check(saved)


def test_weights_of_another_shape_are_refused_before_they_are_read(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise AssertionError("weights were read")

    monkeypatch.setattr(Checkpoint, "from_pretrained", read)
    path = saved / "model.safetensors"
    good = load_file(path)
    bias, integers = good["classifier.bias"], good["classifier.weight"].to(torch.int8)
    for bad, reason in (
        ({**good, "classifier.bias": torch.zeros(3).half()}, "classifier.bias has the shape (3,)"),
        ({k: v for k, v in good.items() if k != "classifier.bias"}, "classifier.bias is missing"),
        ({**good, "extra": torch.zeros(1)}, "'extra', which the model has not"),
        ({**good, "classifier.bias": bias.double()}, "stored as F64"),
        ({**good, "classifier.bias": bias.to(torch.int8)}, "stored as I8"),
        ({**good, "classifier.bias.scale": torch.ones(1)}, "'classifier.bias.scale', which"),
        ({**good, "classifier.weight": integers}, "lacks its scale"),
        (
            {
                **good,
                "classifier.weight": integers,
                "classifier.weight.scale": torch.ones(2, 16),
            },
            "lacks its scale",
        ),
    ):  # fmt: skip
        save_file(bad, path)
        assert reason in refusal(saved)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("weights", ["fp16", "int8"])
def test_weights_that_are_no_numbers(
    checkpoint: Checkpoint, tmp_path: Path, number: float, weights: Any
) -> None:
    checkpoint.save_pretrained(tmp_path, weights)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    name = "classifier.weight.scale" if weights == "int8" else "layers.1.attention_norm.bias"
    tensors[name].view(-1)[-1] = number
    save_file(tensors, path)
    reason = refusal(tmp_path)
    assert "NaN or infinite" in reason and name.removesuffix(".scale") in reason


def test_finite_weights_that_overflow(saved: Path) -> None:
    path = saved / "model.safetensors"
    tensors = {k: v.float() for k, v in load_file(path).items()}
    tensors["classifier.weight"].fill_(3e38)
    save_file(tensors, path)
    assert "NaN or infinity" in refusal(saved)


@pytest.mark.parametrize(
    "content",
    [b"", b"x" * 7, b"\xff" * 64, (2**22 + 1).to_bytes(8, "little") + b"{}",
     (2).to_bytes(8, "little") + b"{}", (9).to_bytes(8, "little") + b'{"a": {}}'],
)  # fmt: skip
def test_weights_that_are_damaged(saved: Path, content: bytes) -> None:
    (saved / "model.safetensors").write_bytes(content)
    assert "model.safetensors" in refusal(saved)


def test_offsets_beyond_the_file(saved: Path) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    assert "model.safetensors is damaged" in refusal(saved)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("normalizer", {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}),
        ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated",
                           "invert": False}),
        ("pre_tokenizer", None),
        ("post_processor", {"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 2]}),
        ("added_tokens", [{"id": 9, "content": "the", "special": False}]),
        ("truncation", {"max_length": 2}),
        ("decoder", {"type": "WordPiece"}),
    ],
)  # fmt: skip
def test_a_tokenizer_of_another_kind(saved: Path, part: str, value: object) -> None:
    edit(saved / "tokenizer.json", {part: value})
    assert f"its {part} is not that of" in refusal(saved)


def test_a_vocabulary_that_does_not_fit(saved: Path, checkpoint: Checkpoint) -> None:
    path, good = saved / "tokenizer.json", (saved / "tokenizer.json").read_text()
    size = checkpoint.config.vocab_size

    def attempt(change: Callable[[dict[str, Any]], None]) -> str:
        path.write_text(good)
        edit(path, lambda values: change(values["model"]))
        return refusal(saved)

    assert f"0 to {size - 1}" in attempt(lambda m: m["vocab"].update(film=size))
    assert "whole numbers" in attempt(lambda m: m["vocab"].update(film=-1))
    assert "whole numbers" in attempt(lambda m: m["vocab"].update(film=1.5))
    assert "whole numbers" in attempt(lambda m: m["vocab"].update(film=True))
    assert "share an id" in attempt(lambda m: m["vocab"].update(new=0))
    assert "special token [MASK]" in attempt(lambda m: m["vocab"].pop("[MASK]"))
    assert "no vocabulary" in attempt(lambda m: m.pop("vocab"))
    assert "its model is not" in attempt(lambda m: m.update(max_input_chars_per_word=10**9))
    assert "its model is not" in attempt(lambda m: m.update(type="BPE"))


def test_a_model_that_fails_on_a_text(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a shape\ndoes not fit")

    monkeypatch.setattr(upload, "predict", fail)
    assert refusal(saved) == "the model cannot answer a text: a shape does not fit"


def test_a_long_reason_is_cut(saved: Path) -> None:
    edit(saved / "config.json", {"x" * 10_000: 1})
    assert len(refusal(saved)) == 300


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10**6),
    st.just(10**400),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.text(max_size=3), max_size=3),
)


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from([
    "vocab_size", "labels", "n_layers", "n_heads", "d_model", "d_ff", "d_router", "max_len",
    "n_segments", "norm", "dropout", "temperature", "rounding", "output_scale", "budgets",
    "fixed_heads", "routed", "unheard-of",
]), VALUES, min_size=1, max_size=3))  # fmt: skip
def test_any_configuration_is_taken_or_refused_in_one_line(
    checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    checkpoint.save_pretrained(folder)
    edit(folder / "config.json", changes)
    try:
        answer = predict(check(folder), "a film")
    except ValueError as error:
        assert "\n" not in str(error) and len(str(error)) <= 300
    else:
        assert sum(answer.probabilities.values()) == pytest.approx(1, abs=1e-5)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=6),
       st.booleans())  # fmt: skip
def test_flipped_bytes_in_weights(
    checkpoint: Checkpoint,
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, int]],
    in_header: bool,
) -> None:
    folder = tmp_path_factory.mktemp("flipped")
    checkpoint.save_pretrained(folder)
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    for place, value in changes:
        content[place % (600 if in_header else len(content))] = value
    path.write_bytes(bytes(content))
    try:
        check(folder)
    except ValueError as error:
        assert "\n" not in str(error)


def test_nothing_is_drawn_from_the_global_generator(saved: Path) -> None:
    before = torch.random.get_rng_state()
    check(saved)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_dense_and_a_shared_model(
    make_model: Callable[..., BudgetFormer], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    for number, shape in enumerate(({"routed": False}, {"budgets": "shared"}, {"norm": "post"})):
        model = make_model(vocab_size=tokenizer.vocab_size, **shape)
        Checkpoint(model, tokenizer).save_pretrained(tmp_path / str(number))
        check(tmp_path / str(number))

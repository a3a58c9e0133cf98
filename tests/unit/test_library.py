"""Folders of models: one set of names, moves that are whole, a trash that gives back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetformer.library import Library, free_name, suggested_name, valid_name


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "checkpoints", tmp_path / "runs", tmp_path / "models")


def put(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    for name, content in {"config": "{}", **files}.items():
        (folder / f"{name}.json").write_text(content)
    return folder


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_one_list_of_four_kinds(library: Library) -> None:
    assert library.names() == []
    for folder in ("checkpoints/b", "checkpoints/a", "runs/mine", "models/theirs"):
        put(library.shipped.parent / folder)
    put(library.uploaded / ".hub" / "someone" / "model@refs%2Fpr%2F1")
    put(library.uploaded / ".hub" / "someone" / "model")
    assert [(entry.name, entry.kind) for entry in library.entries()] == [
        ("a", "shipped"),
        ("b", "shipped"),
        ("runs/mine", "trained"),
        ("models/theirs", "uploaded"),
        ("someone/model", "hub"),
        ("someone/model@refs/pr/1", "hub"),
    ]
    for entry in library.entries():
        assert library.entry(entry.name).folder == entry.folder
        assert library.name_of(entry.folder) == entry.name
    assert [entry.own for entry in library.entries()] == [False, False, True, True, True, True]
    assert [e.renamable for e in library.entries()] == [False, False, True, True, False, False]


def test_what_is_no_model_is_not_listed(library: Library) -> None:
    unfinished = put(library.trained / "going on")
    (unfinished / "state.safetensors").write_bytes(b"")
    (library.trained / "just begun").mkdir()
    (library.trained / "a file").write_text("")
    put(library.uploaded / ".staging-1" / "inside")
    put(library.uploaded / ".hidden")
    assert library.names() == []
    (unfinished / "state.safetensors").unlink()
    assert library.names() == ["runs/going on"]


@pytest.mark.parametrize("name", ["gone", "models/../../etc", "", "../checkpoints/a", "models/"])
def test_a_name_that_is_not_here(library: Library, name: str) -> None:
    put(library.shipped / "a")
    with pytest.raises(ValueError, match="is not here"):
        library.entry(name)


def test_rename(library: Library) -> None:
    put(library.trained / "x", weights="[1]")
    assert library.rename("runs/x", " y ") == "runs/y"
    assert library.names() == ["runs/y"]
    assert content(library.trained / "y") == {"config.json": "{}", "weights.json": "[1]"}
    assert library.rename("runs/y", "y") == "runs/y"
    put(library.trained / "z")
    with pytest.raises(ValueError, match="the name z is taken"):
        library.rename("runs/y", "z")
    for bad in ("", "a/b", "..", ".hidden", "-x", "x" * 61, "a\nb", "<b>"):
        with pytest.raises(ValueError, match="cannot be a model's name"):
            library.rename("runs/y", bad)
    assert library.names() == ["runs/y", "runs/z"]


def test_what_may_not_be_renamed_or_deleted(library: Library) -> None:
    put(library.shipped / "a")
    put(library.uploaded / ".hub" / "u" / "m")
    with pytest.raises(ValueError, match="its name stays"):
        library.rename("a", "b")
    with pytest.raises(ValueError, match="its name stays"):
        library.rename("u/m", "b")
    with pytest.raises(ValueError, match="shipped"):
        library.delete("a")
    assert library.names() == ["a", "u/m"]


@pytest.mark.parametrize("place", ["runs/x", "models/x", "models/.hub/u/x"])
def test_delete_and_undo(library: Library, tmp_path: Path, place: str) -> None:
    put(tmp_path / place, weights="[1]")
    (name,) = library.names()
    deleted = library.delete(name)
    assert library.names() == [] and not (tmp_path / place).exists()
    assert library.restore(deleted) == name
    assert library.names() == [name]
    assert content(tmp_path / place) == {"config.json": "{}", "weights.json": "[1]"}
    with pytest.raises(ValueError, match="deleted for good"):
        library.restore(deleted)


def test_undo_when_the_name_is_taken(library: Library) -> None:
    put(library.uploaded / "x", old="1")
    deleted = library.delete("models/x")
    put(library.uploaded / "x", new="1")
    assert library.restore(deleted) == "models/x-2"
    assert "old.json" in content(library.uploaded / "x-2")
    assert "new.json" in content(library.uploaded / "x")


def test_two_users_delete_or_rename_the_same(library: Library) -> None:
    put(library.uploaded / "x")
    first, second = library.entry("models/x"), library.entry("models/x")
    assert first == second
    library.delete("models/x")
    for act in (library.delete, lambda name: library.rename(name, "y")):
        with pytest.raises(ValueError, match="is not here"):
            act("models/x")


def test_what_is_forgotten_or_a_day_old_goes(library: Library) -> None:
    for name in "abc":
        put(library.uploaded / name)
    forgotten, old = library.delete("models/a"), library.delete("models/b")
    library.forget(forgotten)
    with pytest.raises(ValueError, match="deleted for good"):
        library.restore(forgotten)
    yesterday = time.time() - 86_401
    os.utime(old.place.parent, (yesterday, yesterday))
    young = library.delete("models/c")
    assert not old.place.exists()
    assert library.restore(young) == "models/c"


def test_staging_leaves_nothing(library: Library) -> None:
    with library.staging() as place:
        put(place / "half")
    assert list(library.uploaded.iterdir()) == []
    with pytest.raises(KeyError), library.staging() as place:
        put(place / "half")
        raise KeyError
    assert list(library.uploaded.iterdir()) == []
    # What a killed server left is swept by the next upload.
    left, recent = library.uploaded / ".staging-left", library.uploaded / ".staging-recent"
    put(left / "x")
    put(recent / "x")
    hours = time.time() - 3_601
    os.utime(left, (hours, hours))
    with library.staging():
        assert not left.exists() and recent.exists()


def test_add_and_replace(library: Library) -> None:
    with library.staging() as place:
        assert library.add(put(place / "s", a="1"), "x") == ("models/x", None)
    with library.staging() as place, pytest.raises(ValueError, match="taken"):
        library.add(put(place / "s", b="1"), "x")
    with library.staging() as place:
        name, replaced = library.add(put(place / "s", b="1"), "x", replace=True)
    assert name == "models/x" and "b.json" in content(library.uploaded / "x")
    assert replaced is not None
    assert library.restore(replaced) == "models/x-2"
    assert "a.json" in content(library.uploaded / "x-2")


def test_a_replacement_that_fails_brings_the_old_one_back(library: Library) -> None:
    put(library.uploaded / "x", old="1")
    with pytest.raises(ValueError, match="gone"):
        library.add(library.uploaded / "nowhere", "x", replace=True)
    assert "old.json" in content(library.uploaded / "x")


def test_a_newer_version_from_the_hub_takes_the_place(library: Library) -> None:
    for version in "12":
        with library.staging() as place:
            added = library.add_from_hub(put(place / "s", v=version), "u", "m@refs/pr/1")
            assert added == "u/m@refs/pr/1"
    assert library.names() == ["u/m@refs/pr/1"]
    assert content(library.entry("u/m@refs/pr/1").folder)["v.json"] == "2"
    assert not list((library.uploaded / ".trash").iterdir())


@given(st.text(max_size=90))
def test_any_text_suggests_a_name(text: str) -> None:
    name = suggested_name(text)
    assert valid_name(name) == name
    assert Path("folder", name).parent == Path("folder") and not name.startswith(".")


@given(st.text(max_size=70))
def test_a_valid_name_is_one_plain_part_of_a_path(text: str) -> None:
    try:
        name = valid_name(text)
    except ValueError:
        return
    assert name not in ("", ".", "..") and not name.startswith((".", "-"))
    assert not set(name) & set("/\\:\0\n<>&*`$[]") and len(name) <= 60


def test_free_name(tmp_path: Path) -> None:
    assert free_name(tmp_path, "x") == "x"
    for taken in ("x", "x-2"):
        (tmp_path / taken).mkdir()
    assert free_name(tmp_path, "x") == "x-3"
    (tmp_path / ("y" * 60)).mkdir()
    assert free_name(tmp_path, "y" * 60) == "y" * 58 + "-2"

"""What the app has read from files and keeps in memory until they change."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from app import jobs
from budgetformer.library import MODELS_VARIABLE, Entry, Library
from budgetformer.runs import EVENTS, History, read_history

if TYPE_CHECKING:
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.efficiency import Measured, SavedSweep
    from budgetformer.energy import Grid
    from budgetformer.intervals import Estimate
    from budgetformer.model_facts import Facts
    from budgetformer.records import ScoredSet

Stamp = tuple[tuple[str, int, int], ...]

ROOT = Path(__file__).resolve().parent.parent
CHECKPOINTS = ROOT / "checkpoints"
STAMPED = (".json", ".safetensors", ".md")


def library() -> Library:
    """Return the folders of models; BUDGETFORMER_MODELS names another one than models/."""
    uploaded = Path(os.environ.get(MODELS_VARIABLE) or ROOT / "models")
    return Library(CHECKPOINTS, jobs.runs_folder(), uploaded)


def model_names() -> list[str]:
    """List all models: shipped, trained, uploaded and from the Hub, each by name."""
    return library().names()


def name_of(model: Checkpoint) -> str:
    """Return a model's name in that list; its folder alone may be called as another's is."""
    assert model.path is not None  # it comes from checkpoint()
    return library().name_of(model.path)


def checkpoint(name: str) -> Checkpoint:
    """Read a model, or take it from memory if its files have not changed.

    Raises:
        ValueError: if it is not here any more, or a file is missing or damaged.
    """
    folder = library().entry(name).folder
    return _checkpoint(folder, _stamp(folder))


def facts(name: str) -> Facts:
    """Read what a model's files say about it.

    Raises:
        ValueError: if it is not here any more.
    """
    entry = library().entry(name)
    return _facts(entry, _stamp(entry.folder))


def saved_sweep(name: str) -> SavedSweep | None:
    """Read a model's sweep.json; None where there is none.

    Raises:
        ValueError: if it is damaged.
    """
    folder = library().entry(name).folder
    return _saved_sweep(folder, _stamp(folder))


def measured(name: str) -> Measured | None:
    """Read a model's measured.json; None where there is none.

    Raises:
        ValueError: if it is damaged.
    """
    folder = library().entry(name).folder
    return _measured(folder, _stamp(folder))


def scored_set(path: Path) -> ScoredSet:
    """Read a scored set, or take it from memory if the file has not changed.

    Raises:
        ValueError: if it is missing, damaged or something else.
    """
    return _scored_set(path, _file_stamp(path))


def scored_set_with_texts(path: Path) -> tuple[ScoredSet, int]:
    """Read a scored set and find its texts, where its data set is on this machine.

    Returns:
        The set, and how many of its texts were not found because the data there differs.

    Raises:
        ValueError: as `scored_set`, or if the data set cannot be read.
    """
    return _scored_set_with_texts(path, _file_stamp(path))


def same_weights(model: Checkpoint, scored: ScoredSet) -> bool:
    """Tell whether a scored set was made by the weights that a model has now."""
    assert model.path is not None  # it comes from checkpoint()
    return _weights_hash(model.path, _stamp(model.path)) == scored.source.weights


def correlation(
    key: str, scored: ScoredSet, x: str, y: str, given: str | None = None
) -> Estimate | None:
    """Return the rank correlation of two measures of a scored set, or take it from memory.

    Args:
        key: tells the set from all others.
        scored: the set.
        x: name of a measure.
        y: name of another one.
        given: name of a third one, whose rank is held fixed.
    """
    return _correlation(key, x, y, given, scored)


def history(name: str) -> History:
    """Read what a training has reported so far."""
    folder = jobs.runs_folder() / name
    try:
        stat = (folder / EVENTS).stat()
    except OSError:
        return History()
    return _history(folder, stat.st_size, stat.st_mtime_ns)


def model_key(model: Checkpoint) -> tuple[Path, Stamp]:
    """Return what tells a model, as its files are now, from all others."""
    assert model.path is not None  # it comes from checkpoint()
    return model.path, _stamp(model.path)


def _file_stamp(path: Path) -> tuple[int, int]:
    """Size and time of a file.

    Raises:
        ValueError: if it is not there.
    """
    try:
        stat = path.stat()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    return stat.st_size, stat.st_mtime_ns


def _stamp(folder: Path) -> Stamp:
    """Name, size and time of each file: they change when the content does.

    Reading the weights to hash them would take longer than the prediction.

    Raises:
        ValueError: if the model is gone: somebody else may delete or rename it at any moment.
    """
    files = [path for path in sorted(folder.glob("*")) if path.suffix in STAMPED]
    try:
        found = [(path.name, path.stat()) for path in files]
    except FileNotFoundError:
        found = []
    if not any(name == "config.json" for name, _ in found):
        raise ValueError(
            f"The model {folder.name} is not here any more: somebody renamed or deleted it. "
            "Pick another one."
        )
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


@st.cache_resource(max_entries=4, show_spinner=False)
def _checkpoint(folder: Path, stamp: Stamp) -> Checkpoint:
    from budgetformer.checkpoint import Checkpoint

    return Checkpoint.from_pretrained(folder)


@st.cache_data(max_entries=256, show_spinner=False)
def _facts(entry: Entry, stamp: Stamp) -> Facts:
    from budgetformer.model_facts import read_facts

    return read_facts(entry)


@st.cache_resource(max_entries=8, show_spinner=False)
def _scored_set(path: Path, stamp: tuple[int, int]) -> ScoredSet:
    from budgetformer.records import read_scored

    return read_scored(path)


@st.cache_resource(max_entries=4, show_spinner="Finding the texts …")
def _scored_set_with_texts(path: Path, stamp: tuple[int, int]) -> tuple[ScoredSet, int]:
    from budgetformer.data import load_dataset
    from budgetformer.own_data import check_public_name, is_local

    scored = _scored_set(path, stamp)
    source = scored.source
    if scored.texts is not None:
        return scored, scored.texts.count(None)
    if not is_local(source.data):
        return scored, len(scored)
    dataset = load_dataset(check_public_name(source.data))
    return scored.with_texts(dataset.split_for(source.split, source.labels))


@st.cache_data(max_entries=64, show_spinner=False)
def _weights_hash(folder: Path, stamp: Stamp) -> str:
    from budgetformer.checkpoint import WEIGHTS
    from budgetformer.records import weights_hash

    return weights_hash(folder / WEIGHTS)


@st.cache_data(max_entries=512, show_spinner=False)
def _correlation(
    key: str, x: str, y: str, given: str | None, _scored: ScoredSet
) -> Estimate | None:
    from budgetformer.measures import everything
    from budgetformer.relation import partial_rank_correlation, rank_correlation

    known = {measure.name: measure for measure in everything(_scored)}
    first, second = known[x].values(_scored), known[y].values(_scored)
    if given is None:
        return rank_correlation(first, second)
    return partial_rank_correlation(first, second, known[given].values(_scored))


# As it is, without the copy that cache_data makes: a page that watches reads it every two seconds.
@st.cache_resource(max_entries=16, show_spinner=False)
def _history(folder: Path, size: int, changed_ns: int) -> History:
    return read_history(folder)


@st.cache_data(max_entries=16, show_spinner="Reading your file …")
def labelled_table(
    content_hash: str, ending: str, _content: bytes
) -> tuple[int, int, tuple[str, ...]]:
    """Check a file to train on; return its rows to train and validate on, and its labels.

    Raises:
        ValueError: if it cannot be used, saying what is wrong where.
    """
    from budgetformer.data import load_dataset

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"your file{ending}"
        path.write_bytes(_content)
        try:
            dataset = load_dataset(str(path))
            train, validation = dataset.split("train"), dataset.split("validation")
        except ValueError as error:
            raise ValueError(str(error).replace(f"{folder}/", "")) from error
    return len(train), len(validation), dataset.label_names


@st.cache_data(max_entries=64, show_spinner=False)
def _saved_sweep(folder: Path, stamp: Stamp) -> SavedSweep | None:
    from budgetformer.efficiency import read_sweep

    return read_sweep(folder)


@st.cache_data(max_entries=64, show_spinner=False)
def _measured(folder: Path, stamp: Stamp) -> Measured | None:
    from budgetformer.efficiency import read_measured

    return read_measured(folder)


@st.cache_data(show_spinner="Reading the countries …")
def grids() -> dict[str, Grid]:
    """Return the electricity of all countries that are known."""
    from budgetformer.energy import grids

    return grids()

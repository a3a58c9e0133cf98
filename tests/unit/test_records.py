"""A scored set is read back as it was written, and a file that is none is refused in words."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import entropy as scipy_entropy

from budgetformer.data import Examples
from budgetformer.records import (
    METADATA,
    ScoredSet,
    entropy,
    library_version,
    read_scored,
    row_hash,
    weights_hash,
    write_scored,
)
from budgetformer.records_table import from_table, to_table
from tests.conftest import HOSTILE, ROOT
from tests.unit.scored_sets import make_scored


def assert_same(a: ScoredSet, b: ScoredSet) -> None:
    assert a.source == b.source
    assert a.texts == b.texts and a.text_pairs == b.text_pairs
    for name in ("rows", "truncated", "flops", "hashes"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    pairs = [(a.records, b.records), *((a.references[n], b.references[n]) for n in a.references)]
    assert a.references.keys() == b.references.keys()
    for one, other in pairs:
        for f in fields(one):
            assert np.array_equal(getattr(one, f.name), getattr(other, f.name)), f.name


@pytest.mark.parametrize("n_classes", [2, 14])
def test_what_was_written_is_read_back(tmp_path: Path, n_classes: int) -> None:
    scored = make_scored(n_classes=n_classes)
    write_scored(scored, tmp_path / "a.parquet")
    assert_same(read_scored(tmp_path / "a.parquet"), scored)
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]
    bare = replace(scored, texts=None, references={})
    write_scored(bare, tmp_path / "b.parquet")
    assert_same(read_scored(tmp_path / "b.parquet"), bare)


def test_pairs_and_hostile_texts_are_read_back(tmp_path: Path) -> None:
    texts = (HOSTILE, "நல்ல படம் 👩🏽‍🚀", "a\nb\x1fc")
    scored = replace(make_scored(3), texts=texts, text_pairs=texts[::-1])
    write_scored(scored, tmp_path / "a.parquet")
    assert_same(read_scored(tmp_path / "a.parquet"), scored)


def test_columns_are_those_that_other_programs_expect(tmp_path: Path) -> None:
    scored = make_scored(20)
    write_scored(scored, tmp_path / "a.parquet")
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    for i, row in enumerate(rows):
        p = scored.records.probabilities[i].astype(float)
        assert row["row"] == i and row["text"] == scored.texts[i]  # type: ignore[index]
        assert row["label"] == "abc"[scored.records.labels[i]]
        assert row["predicted"] == "abc"[int(np.argmax(p))]
        assert row["loss"] == pytest.approx(-np.log(p[scored.records.labels[i]]), rel=1e-5)
        assert row["margin"] == pytest.approx(sorted(p)[-1] - sorted(p)[-2], abs=1e-6)
        assert row["entropy"] == pytest.approx(scipy_entropy(p), rel=1e-5)
        assert row["heads"] == [np.flatnonzero(layer).tolist() for layer in scored.records.heads[i]]
        assert row["k"] == [int(layer.sum()) for layer in scored.records.heads[i]]


def test_entropy_of_a_certain_answer_is_zero() -> None:
    assert entropy(np.array([[1, 0], [0.5, 0.5]], np.float32)).tolist() == pytest.approx(
        [0, np.log(2)]
    )


def test_texts_are_found_again_by_row_and_content() -> None:
    scored = make_scored(5)
    texts = tuple(scored.texts or ())
    bare = replace(scored, texts=None)
    joined, missing = bare.with_texts(Examples(tuple(map(str, texts)), (0,) * 5))
    assert joined.texts == texts and missing == 0
    # Another text at a row, and a split that has become shorter.
    changed = (*map(str, texts[:2]), "something else", str(texts[3]))
    joined, missing = bare.with_texts(Examples(changed, (0,) * 4))
    assert joined.texts == (texts[0], texts[1], None, texts[3], None) and missing == 2


def test_second_texts_are_found_again_too() -> None:
    first, second = ("a", "b"), ("c", "d")
    hashes = np.array([row_hash(x, y) for x, y in zip(first, second, strict=True)], np.uint64)
    scored = replace(make_scored(2), texts=None, hashes=hashes)
    joined, missing = scored.with_texts(Examples(first, (0, 0), second))
    assert (joined.texts, joined.text_pairs, missing) == (first, second, 0)
    _, missing = scored.with_texts(Examples(first, (0, 0), ("c", "e")))
    assert missing == 1
    assert row_hash("a b") != row_hash("a", "b") != row_hash("ab", "")


def test_a_part_keeps_everything_of_its_rows() -> None:
    scored = make_scored(30)
    mask = scored.records.correct
    part = scored.take(mask)
    rows = np.flatnonzero(mask)
    assert part.rows.tolist() == rows.tolist()
    assert part.texts == tuple((scored.texts or ())[i] for i in rows)
    assert np.array_equal(part.records.heads, scored.records.heads[rows])
    assert np.array_equal(part.references["dense"].losses, scored.references["dense"].losses[rows])
    assert scored.take([3, 1]).rows.tolist() == [3, 1]


def test_files_that_are_no_scored_set_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist; write it with"):
        read_scored(tmp_path / "none.parquet")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        read_scored(tmp_path / "cut.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"other\.parquet: this is no scored set"):
        read_scored(tmp_path / "other.parquet")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("loss", None, "the column 'loss' is missing"),
        ("loss", pa.array([0.1, float("nan"), 0.2]), "row 2 has no number as its loss"),
        ("loss", pa.array([0.1, 0.3, None]), "row 3 has an empty loss"),
        ("label", pa.array(["a", "b", "zzz"]), "row 3 has the label 'zzz', which is no class"),
        ("budgets", pa.array([[0.1, 0.2], [0.1], [0.1, 0.2]]), "row 2 has 1 budgets, the model"),
        ("probabilities", pa.array([0.1, 0.2, 0.3]), "must hold lists of 3 numbers"),
        ("heads", pa.array([[[0], [1]], [[0], [4]], [[0], [1]]]), "there is a head 4, the model"),
        ("heads", pa.array([[[0], [1]], [[0]], [[0], [1]]]), "row 2 has heads of 1 layers"),
    ],
)
def test_damaged_columns_are_named(column: str, values: pa.Array | None, message: str) -> None:
    table = to_table(make_scored(3))
    at = table.column_names.index(column)
    table = table.remove_column(at)
    if values is not None:
        table = table.add_column(at, column, values)
    with pytest.raises(ValueError, match=message):
        from_table(table)


def test_damaged_metadata_is_named() -> None:
    table = to_table(make_scored(3))
    for described in (b"{", b"[]", b'{"model": "m"}'):
        with pytest.raises(ValueError, match="metadata cannot be read"):
            from_table(table.replace_schema_metadata({METADATA: described}))
    with pytest.raises(ValueError, match="holds no example"):
        from_table(table.slice(0, 0))


def test_hash_and_version_are_what_others_compute(tmp_path: Path) -> None:
    content = bytes(range(256)) * 9000
    (tmp_path / "w").write_bytes(content)
    assert weights_hash(tmp_path / "w") == hashlib.sha256(content).hexdigest()
    assert f'version = "{library_version()}"' in (ROOT / "pyproject.toml").read_text()


def test_the_shipped_set_is_small_and_says_what_it_is() -> None:
    path = ROOT / "checkpoints" / "imdb" / "records.parquet"
    scored = read_scored(path)
    assert path.stat().st_size < 300_000
    assert scored.texts is None
    assert scored.source.weights == weights_hash(path.parent / "model.safetensors")
    assert len(scored) == 2500 and set(scored.references) == {"dense", "linear"}

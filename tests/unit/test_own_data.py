"""People's own tables: what is wrong is said with its row, and what is right is read as it is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

from budgetformer.own_data import (
    Columns,
    check_public_name,
    examples_of,
    guess_columns,
    is_local,
    label_values,
    match_labels,
    read_table,
    whole_table,
)

LABELS = ("negative", "positive")


def frame(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(columns, dtype=object)


def test_every_row_is_kept_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("text,label\nb,Positive\nb,positive\n007, NEGATIVE \n")
    examples = whole_table(path, LABELS, 1)
    assert examples.texts == ("b", "b", "007")
    assert examples.labels == (1, 1, 0)
    assert examples.text_pairs is None


@pytest.mark.parametrize("ending", [".csv", ".tsv.gz", ".jsonl", ".parquet"])
def test_every_type_of_file_is_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"own{ending}"
    rows = frame(text=["a, b", "ü 👩🏽‍🚀"], label=["negative", "positive"])
    if ending == ".csv":
        rows.to_csv(path, index=False)
    elif ending == ".tsv.gz":
        path.write_bytes(gzip.compress(rows.to_csv(index=False, sep="\t").encode()))
    elif ending == ".jsonl":
        rows.to_json(path, orient="records", lines=True)
    else:
        rows.to_parquet(path)
    assert whole_table(path, LABELS, 1).texts == ("a, b", "ü 👩🏽‍🚀")


def test_columns_are_guessed_by_their_usual_names() -> None:
    table = frame(id=["1"], Sentiment=["positive"], Review=["fine"], other=["x"])
    assert guess_columns(table, 1) == Columns("Review", "Sentiment")
    pairs = frame(hypothesis=["b"], gold=["x"], premise=["a"])
    assert guess_columns(pairs, 2) == Columns("premise", "gold", "hypothesis")
    assert guess_columns(frame(one=["a"], two=["b"]), 1) == Columns("one", "two")


def test_labels_are_matched_whatever_their_case() -> None:
    assert match_labels(["Positive ", "neg"], LABELS) == {"Positive ": "positive", "neg": None}
    table = frame(text=["a", "b"], label=["neg", "pos"])
    examples = examples_of(table, Columns(), LABELS, {"neg": "negative", "pos": "positive"})
    assert examples.labels == (0, 1)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (frame(text=["a", "  "], label=["negative"] * 2), "row 2 has no text in the column 'text'"),
        (frame(text=["a", None], label=["negative"] * 2), "row 2 has no text"),
        (frame(text=["a", "b"], label=["negative", float("nan")]), "row 2 has no label in the"),
        (frame(text=["a", "b"], label=["negative", "<b>odd"]), "row 2 has the label '<b>odd', the"),
        (frame(txt=["a"], label=["negative"]), "no column 'text'; the columns are: txt, label"),
    ],
)
def test_what_is_wrong_is_said_with_its_row(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        examples_of(table, Columns(), LABELS)


def test_pairs_need_a_second_column() -> None:
    table = frame(text=["a"], label=["negative"], text_pair=["b"])
    with pytest.raises(ValueError, match="name the column of the second one"):
        examples_of(table, Columns(), LABELS, None, 2)
    examples = examples_of(table, Columns(text_pair="text_pair"), LABELS, None, 2)
    assert examples.text_pairs == ("b",)


def test_tables_that_cannot_be_scored(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("text,label\n")
    with pytest.raises(ValueError, match=r"own\.csv holds no row"):
        read_table(path)
    path.write_text("text,label\na,b\nc,d\n")
    with pytest.raises(ValueError, match="has 2 rows and at most 1 are scored here"):
        read_table(path, 1)
    assert len(read_table(path, 2)) == 2
    with pytest.raises(ValueError, match="unknown file type"):
        read_table(tmp_path / "own.docx")
    numbers = frame(label=[str(i) for i in range(51)])
    with pytest.raises(ValueError, match="51 different values, such as '0'"):
        label_values(numbers, "label")


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../secret", "checkpoints/imdb", "pages/explore.py", "", "a b", "README.md"],
)
def test_a_visitor_cannot_name_a_file_of_the_server(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a data set"):
        check_public_name(name)


def test_known_names_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUDGETFORMER_DATA", str(tmp_path))
    (tmp_path / "mine").mkdir()
    for name in ("imdb", "known-need", "mine", "someone/their-set"):
        assert check_public_name(f" {name} ") == name
    assert [is_local(n) for n in ("imdb", "known-need", "mine", "someone/their-set")] == [
        True, True, True, False,
    ]  # fmt: skip

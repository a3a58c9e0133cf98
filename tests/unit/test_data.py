from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from budgetformer.data import Dataset, Examples, load_dataset, normalised

ROWS = [(f"text number {i}", "yes" if i % 3 else "no") for i in range(40)]


def csv(path: Path, rows: list[tuple[str, ...]], header: str = "text,label") -> str:
    lines = [header, *(",".join(f'"{cell}"' for cell in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def everything(dataset: Dataset) -> Counter[tuple[str, str]]:
    return Counter(
        (text, dataset.label_names[label])
        for examples in dataset.splits.values()
        for text, label in zip(examples.texts, examples.labels, strict=True)
    )


@pytest.mark.parametrize(
    "name", ["d.csv", "d.csv.gz", "d.tsv", "d.tsv.gz", "d.jsonl", "d.jsonl.gz", "d.parquet"]
)
def test_every_file_type_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    frame = pd.DataFrame(ROWS, columns=["text", "label"])
    if ".parquet" in name:
        frame.to_parquet(path)
    elif ".jsonl" in name:
        lines = "".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in ROWS)
        path.write_bytes(gzip.compress(lines.encode()) if name.endswith("gz") else lines.encode())
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
    dataset = load_dataset(str(path))
    assert everything(dataset) == Counter(ROWS)
    assert dataset.label_names == ("no", "yes")
    assert dataset.n_segments == 1
    # A tenth is tested on; a twentieth of the 36 others validates.
    assert {name: len(rows) for name, rows in dataset.splits.items()} == {
        "train": 34,
        "validation": 2,
        "test": 4,
    }


def test_dealing_is_stable(tmp_path: Path) -> None:
    path = csv(tmp_path / "d.csv", ROWS)
    assert load_dataset(path).splits == load_dataset(path).splits


def test_files_of_a_folder_are_read_together(tmp_path: Path) -> None:
    csv(tmp_path / "a.csv", ROWS[:10])
    csv(tmp_path / "b.csv", ROWS[10:])
    (tmp_path / "readme.txt").write_text("no data")
    assert everything(load_dataset(str(tmp_path))) == Counter(ROWS)


@pytest.mark.parametrize("missing", ["text", "label"])
def test_a_missing_column_is_named(tmp_path: Path, missing: str) -> None:
    header = {"text": "words,label", "label": "text,sentiment"}[missing]
    path = csv(tmp_path / "d.csv", ROWS, header)
    with pytest.raises(ValueError, match=rf"d\.csv has no column '{missing}'.*{header[:4]}"):
        load_dataset(path)


@pytest.mark.parametrize("blank", ["", "   "])
@pytest.mark.parametrize("column", [0, 1])
def test_an_empty_cell_is_named_by_its_row(tmp_path: Path, blank: str, column: int) -> None:
    rows = [list(row) for row in ROWS]
    rows[6][column] = blank
    path = csv(tmp_path / "d.csv", [tuple(row) for row in rows])
    with pytest.raises(ValueError, match=rf"row 7 has an empty {('text', 'label')[column]}"):
        load_dataset(path)


def test_a_missing_value_of_jsonl_is_named_by_its_row(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"text": "a b", "label": "x"}\n{"text": null, "label": "y"}\n')
    with pytest.raises(ValueError, match="row 2 has an empty text"):
        load_dataset(str(path))


def test_words_for_nothing_are_words(tmp_path: Path) -> None:
    texts = ["NA", "null", "None", "nan", "N/A", "1e5", "007", "1.0", "true", "-"]
    rows = [(text, "null" if i % 2 else "NA") for i, text in enumerate(texts[:-1])]
    for name in ("d.csv", "d.tsv"):
        path = tmp_path / name
        separator = "\t" if ".tsv" in name else ","
        lines = ["text,label", *(",".join(row) for row in rows)]
        path.write_text("\n".join(lines).replace(",", separator) + "\n")
        assert everything(load_dataset(str(path))) == Counter(rows)
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in rows))
    assert everything(load_dataset(str(path))) == Counter(rows)


def test_dates_of_jsonl_stay_as_written(tmp_path: Path) -> None:
    rows = [(f"2024-01-{i:02}", "2020-05-05" if i % 2 else "b") for i in range(1, 20)]
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in rows))
    assert everything(load_dataset(str(path))) == Counter(rows)


def test_numbers_as_labels(tmp_path: Path) -> None:
    rows = [(f"{i:03}", str(i % 3)) for i in range(12)]
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps({"text": t, "label": int(y)}) + "\n" for t, y in rows))
    dataset = load_dataset(str(path))
    assert dataset.label_names == ("0", "1", "2")
    assert everything(dataset) == Counter(rows)


def test_one_label_is_not_enough(tmp_path: Path) -> None:
    path = csv(tmp_path / "d.csv", [(f"t {i}", "same") for i in range(9)])
    with pytest.raises(ValueError, match="two different labels"):
        load_dataset(path)


@pytest.mark.parametrize("content", ["", "text,label\n"])
def test_a_file_without_rows(tmp_path: Path, content: str) -> None:
    path = tmp_path / "d.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"d\.csv"):
        load_dataset(str(path))


def test_a_file_that_is_all_one_text(tmp_path: Path) -> None:
    path = csv(tmp_path / "d.csv", [("Same text!", "a"), ("same TEXT", "b")])
    with pytest.raises(ValueError, match=r"d\.csv"):
        load_dataset(path)


def test_each_split_has_a_row(tmp_path: Path) -> None:
    dataset = load_dataset(csv(tmp_path / "d.csv", ROWS[:3]))
    assert {name: len(rows) for name, rows in dataset.splits.items()} == {
        "train": 1,
        "validation": 1,
        "test": 1,
    }
    with pytest.raises(ValueError, match="two different texts"):
        load_dataset(csv(tmp_path / "d.csv", ROWS[:2]))


def test_duplicates_are_kept_once(tmp_path: Path) -> None:
    rows = [*ROWS, ("Text   NUMBER 5!", "yes"), ("text number 5", "yes")]
    assert everything(load_dataset(csv(tmp_path / "d.csv", rows))) == Counter(ROWS)


def test_inputs_that_are_tested_on_leave_the_other_splits(tmp_path: Path) -> None:
    rows = [
        ("Shared one", "a", "train"),
        ("shared one.", "a", "test"),
        ("only train", "b", "train"),
        ("only train!", "b", "train"),
        ("more train", "a", "train"),
        ("valid and train", "b", "dev"),
        ("valid AND train", "b", "train"),
        ("shared  one", "a", "dev"),
        ("only test", "b", "test"),
    ]
    dataset = load_dataset(csv(tmp_path / "d.csv", rows, "text,label,split"))
    texts = {name: sorted(rows.texts) for name, rows in dataset.splits.items()}
    assert texts == {
        "train": ["more train", "only train"],
        "validation": ["valid and train"],
        "test": ["only test", "shared one."],
    }


def test_equal_text_with_another_pair_is_no_duplicate(tmp_path: Path) -> None:
    rows = [("a man", f"pair {i}", "x" if i % 2 else "y") for i in range(12)]
    dataset = load_dataset(csv(tmp_path / "d.csv", rows, "text,text_pair,label"))
    assert dataset.n_segments == 2
    found = [
        (text, pair, dataset.label_names[label])
        for part in dataset.splits.values()
        for text, pair, label in zip(part.texts, part.text_pairs or (), part.labels, strict=True)
    ]
    assert sorted(found) == sorted(rows)


def test_validation_is_cut_from_train_where_it_is_missing(tmp_path: Path) -> None:
    rows = [(f"t {i}", "x" if i % 2 else "y", "test" if i < 5 else "train") for i in range(45)]
    dataset = load_dataset(csv(tmp_path / "d.csv", rows, "text,label,split"))
    assert {name: len(part) for name, part in dataset.splits.items()} == {
        "train": 38,
        "validation": 2,
        "test": 5,
    }
    assert everything(dataset) == Counter((t, y) for t, y, _ in rows)


def test_an_absent_split_is_named_with_those_there_are(tmp_path: Path) -> None:
    rows = [(f"t {i}", "x" if i % 2 else "y", "train") for i in range(9)]
    dataset = load_dataset(csv(tmp_path / "d.csv", rows, "text,label,split"))
    with pytest.raises(ValueError, match=r"no split 'test'; it has \['train', 'validation'\]"):
        dataset.split("test")


def test_an_empty_split_name_is_refused(tmp_path: Path) -> None:
    rows = [("a b", "x", "train"), ("c d", "y", ""), ("e f", "x", "test")]
    with pytest.raises(ValueError, match="row 2 has an empty split"):
        load_dataset(csv(tmp_path / "d.csv", rows, "text,label,split"))


def test_first_rows_are_a_sample_of_a_sorted_file(tmp_path: Path) -> None:
    rows = [(f"t {i}", "x" if i < 50 else "y", "test") for i in range(100)]
    first = load_dataset(csv(tmp_path / "d.csv", rows, "text,label,split")).split("test").first(20)
    assert len(first) == 20 and 4 <= sum(first.labels) <= 16


def test_take_and_first() -> None:
    examples = Examples(("a", "b", "c"), (0, 1, 0), ("x", "y", "z"))
    assert examples.take([2, 0]) == Examples(("c", "a"), (0, 0), ("z", "x"))
    assert examples.first(2) == Examples(("a", "b"), (0, 1), ("x", "y"))
    assert examples.first(None) == examples.first(0) == examples.first(9) == examples


def test_labels_are_numbered_as_the_model_does() -> None:
    dataset = Dataset("d", ("neg", "pos"), {"test": Examples(("a", "b", "c"), (0, 1, 1))})
    assert dataset.split_for("test", ("pos", "other", "neg")).labels == (2, 0, 0)
    with pytest.raises(ValueError, match=r"label 'pos'.*classes are neg, positive"):
        dataset.split_for("test", ("neg", "positive"))


@pytest.mark.parametrize("name", ["nowhere.csv", "nowhere.jsonl", "nowhere.parquet"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} does not exist"):
        load_dataset(str(tmp_path / name))


def test_unknown_file_types_name_the_known(tmp_path: Path) -> None:
    (tmp_path / "d.xlsx").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"d\.xlsx: unknown file type.*\.csv"):
        load_dataset(str(tmp_path / "d.xlsx"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no data file"):
        load_dataset(str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.csv", "text,label\ncaf\xe9,a\nb,c\n".encode("latin-1")),
        ("d.csv", b'text,label\n"open,a\n'),
        ("d.csv", b"text,label\na,b,c,d\ne,f\na,b,c,d,e,f\n"),
        ("d.csv.gz", b"not gzip"),
        ("d.jsonl", b'{"text": "a", "label": \n'),
        ("d.jsonl", b"\xff\xfe\n"),
        ("d.parquet", b"PAR1"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(name)):
        load_dataset(str(tmp_path / name))


@pytest.mark.parametrize("broken", ['{"text": "c", ', "[1, 2]", "7", "{'text': 1}"])
def test_a_broken_line_of_jsonl_is_named_by_its_number(tmp_path: Path, broken: str) -> None:
    good = '{"text": "a b", "label": "x"}\n'
    (tmp_path / "d.jsonl").write_text(f"{good}\n{good}{broken}\n{good}")
    with pytest.raises(ValueError, match=r"d\.jsonl.*line 4"):
        load_dataset(str(tmp_path / "d.jsonl"))


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    csv(tmp_path / "d.csv", ROWS)
    path = tmp_path / "d.csv"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert everything(load_dataset(str(path))) == Counter(ROWS)


def test_texts_with_markup_commas_and_line_ends(tmp_path: Path) -> None:
    rows = [
        ("ok <!-- x --> <img src=x onerror=alert(1)>", "a"),
        ("one, two\nthree; 'four' $5", "b"),
        ("=1+1 | **bold** :red[x]", "a"),
        ("👩🏽\u200d🚀 தமிழ் 中文", "b"),
    ]
    assert everything(load_dataset(csv(tmp_path / "d.csv", rows))) == Counter(rows)


def test_normalised() -> None:
    assert normalised("  It's   GOOD_-really! ") == "it s good really"
    assert normalised("中文 Émile") == "中文 émile"


@pytest.mark.parametrize(("name", "n_test", "at_most"), [
    ("imdb", 2500, 25_000),
    ("rotten_tomatoes", 1000, 8530),
])  # fmt: skip
def test_movie_reviews(name: str, n_test: int, at_most: int) -> None:
    dataset = load_dataset(name)
    assert dataset.label_names == ("negative", "positive")
    sizes = {split: len(rows) for split, rows in dataset.splits.items()}
    assert sizes["test"] == n_test
    assert 0.98 * at_most < sum(sizes.values()) <= at_most
    rest = sizes["train"] + sizes["validation"]
    assert sizes["validation"] == round(rest * 0.05)
    # Written without the library's own rule: letters and digits only.
    keys = [
        "".join(c for c in text.lower() if c.isalnum())
        for rows in dataset.splits.values()
        for text in rows.texts
    ]
    doubles = [key for key, n in Counter(keys).items() if n > 1]
    assert doubles == []
    for rows in dataset.splits.values():
        share = sum(rows.labels) / len(rows)
        assert abs(share - 0.5) < 0.06
        assert not any("<br" in text for text in rows.texts)

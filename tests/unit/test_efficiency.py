"""The files that evaluation leaves, and the paper's figures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from budgetformer import Checkpoint, load_dataset, predict
from budgetformer.cli import main
from budgetformer.cost import flops
from budgetformer.data import OFFLINE_TEST_ROWS, Examples
from budgetformer.efficiency import companions, read_measured, read_sweep
from budgetformer.evaluate import evaluate
from budgetformer.paper import REPORTED, reported
from budgetformer.policies import capped
from budgetformer.sweep import sweep

ROOT = Path(__file__).parents[2]
TEXTS = ("a good film", "an awful and boring film (really)", "the story is fine", "what a film !")
LABELS = (1, 0, 1, 0)


@pytest.fixture(scope="module")
def folder(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A model whose sweep was saved by the command line, on a file of its own."""
    root = tmp_path_factory.mktemp("efficiency")
    checkpoint.save_pretrained(root / "m")
    rows = [
        {"text": f"{text} n{i}", "label": checkpoint.config.labels[gold], "split": "test"}
        for i in range(3)
        for text, gold in zip(TEXTS, LABELS, strict=True)
    ]
    path = root / "d.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    command = ["sweep", "--model", str(root / "m"), "--data", str(path)]
    assert main([*command, "--save"]) == 0
    yield root / "m"


def test_capped_rows_are_the_capped_predictions(checkpoint: Checkpoint) -> None:
    examples = Examples(TEXTS, LABELS)
    rows = {row.k: row for row in sweep(checkpoint, examples) if row.policy == "capped"}
    assert set(rows) == {1, 2, 3, 4}
    labels, config = checkpoint.config.labels, checkpoint.config
    for limit, row in rows.items():
        assert limit is not None
        traces = [predict(checkpoint, text, policy=capped(limit)) for text in TEXTS]
        right = [labels[gold] == trace.label for gold, trace in zip(LABELS, traces, strict=True)]
        ks = [[layer.k for layer in trace.layers] for trace in traces]
        assert max(map(max, ks)) <= limit
        assert row.accuracy == pytest.approx(np.mean(right))
        assert row.executed_heads_frac == pytest.approx(np.mean(ks) / config.n_heads)
        cost = [
            flops(config, len(trace.encoding.ids), k).model
            for trace, k in zip(traces, ks, strict=True)
        ]
        assert row.flops_per_example == pytest.approx(np.mean(cost))
    own = next(row for row in sweep(checkpoint, examples) if row.policy == "adaptive")
    assert rows[4].accuracy == own.accuracy
    assert rows[4].flops_per_example == own.flops_per_example


def test_a_saved_sweep_is_read_back(folder: Path) -> None:
    found = read_sweep(folder)
    assert found is not None
    assert (found.name, found.split, found.n, found.kind) == ("m", "test", 12, "adaptive")
    assert [row.k for row in found.series("fixed")] == [1, 2, 3, 4]
    # All heads are all heads in any order: the last point is shared.
    assert [row.k for row in found.series("random")] == [1, 2, 3, 4]
    assert found.series("random")[-1] is found.series("fixed")[-1]
    full = found.row("fixed", 4)
    assert full is not None and found.flops_share(full) == 1
    assert 0 < found.flops_share(found.own) <= 1
    assert found.row("capped", 9) is None
    checkpoint = Checkpoint.from_pretrained(folder)
    examples = load_dataset(found.data).split_for("test", checkpoint.config.labels)
    records = evaluate(checkpoint, examples)
    assert found.own.accuracy == pytest.approx(float(records.correct.mean()))
    assert found.accuracy_on_file is None and not found.outdated


def test_a_sweep_of_other_weights_is_noticed(folder: Path, tmp_path: Path) -> None:
    import shutil

    copy = Path(shutil.copytree(folder, tmp_path / "m"))
    found = read_sweep(copy)
    assert found is not None
    test = {"data": found.data, "n": 12, "accuracy": found.own.accuracy + 0.05}
    (copy / "metrics.json").write_text(json.dumps({"test": test}))
    again = read_sweep(copy)
    assert again is not None and again.outdated
    (copy / "metrics.json").write_text(json.dumps({"test": {**test, "data": "other"}}))
    other = read_sweep(copy)
    assert other is not None and not other.outdated


def test_a_part_of_a_split_is_not_saved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "sweep.json").read_bytes()
    data = json.loads(before)["data"]
    command = ["sweep", "--model", str(folder), "--data", data, "--save", "--limit", "2"]
    assert main(command) == 1
    assert "leave --limit out" in capsys.readouterr().err
    assert (folder / "sweep.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"rows": []}, "no rows"),
        ({"rows": [{"policy": "fixed"}]}, "damaged"),
        ({"rows": 5}, "damaged"),
        ({"n": None}, "damaged"),
    ],
)
def test_a_damaged_sweep_is_named(
    folder: Path, tmp_path: Path, change: dict[str, Any], wanted: str
) -> None:
    values = {**json.loads((folder / "sweep.json").read_text()), **change}
    (tmp_path / "sweep.json").write_text(json.dumps(values))
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    with pytest.raises(ValueError, match=r"sweep\.json.*" + wanted):
        read_sweep(tmp_path)


def test_impossible_figures_are_refused(folder: Path, tmp_path: Path) -> None:
    values = json.loads((folder / "sweep.json").read_text())
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    for name, value in (("accuracy", 1.2), ("flops_per_example", 0), ("ci_low", -0.1)):
        rows = [{**values["rows"][0], name: value}]
        (tmp_path / "sweep.json").write_text(json.dumps({**values, "rows": rows}))
        with pytest.raises(ValueError, match=name):
            read_sweep(tmp_path)


def test_no_file_is_no_error(tmp_path: Path) -> None:
    assert read_sweep(tmp_path) is None and read_measured(tmp_path) is None


def test_companions_share_the_examples(folder: Path, tmp_path: Path) -> None:
    values = json.loads((folder / "sweep.json").read_text())
    config = json.loads((folder / "config.json").read_text())

    def save(name: str, changes: dict[str, Any], n: int) -> Any:
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({**config, **changes}))
        (tmp_path / name / "sweep.json").write_text(json.dumps({**values, "n": n}))
        return read_sweep(tmp_path / name)

    mine = save("a", {}, 12)
    twin = save("a-dense", {"routed": False}, 12)
    static = save("a-static", {"budgets": "static"}, 12)
    fixed = save("a-two", {"fixed_heads": 2}, 12)
    everyone = [mine, twin, static, fixed, save("b-dense", {"routed": False}, 12)]
    everyone += [save("a-other-test", {"fixed_heads": 1}, 11)]
    assert (twin.kind, static.kind, fixed.kind) == ("dense", "static", "static")
    assert companions(mine, everyone) == (twin, (static, fixed))
    assert companions(twin, everyone)[0] is None


def shipped(file: str) -> list[Path]:
    return sorted(path.parent for path in (ROOT / "checkpoints").glob(f"*/{file}"))


def test_the_shipped_sweeps_belong_to_the_shipped_weights() -> None:
    names = [path.name for path in shipped("sweep.json")]
    assert {"imdb", "imdb-dense"} <= set(names)
    for path in shipped("sweep.json"):
        found = read_sweep(path)
        assert found is not None and found.accuracy_on_file is not None, path.name
        assert not found.outdated, path.name
        assert all(row.ci_low <= row.accuracy <= row.ci_high for row in found.rows), path.name
        if found.data in OFFLINE_TEST_ROWS:
            assert found.n == OFFLINE_TEST_ROWS[found.data]
        if found.kind != "dense":
            limits = [row.k for row in found.series("capped")]
            assert limits == list(range(1, found.config.n_heads + 1)), path.name


def test_the_shipped_measurements_can_be_read() -> None:
    for path in shipped("measured.json"):
        found = read_measured(path)
        assert found is not None and found.p50_ms <= found.p90_ms <= found.p99_ms, path.name
        assert found.country == "FRA" and found.watts > 0
        assert found.machine.processor and re.fullmatch(r"\d{4}-\d\d-\d\d", found.date)


def test_papers_md_has_the_same_figures() -> None:
    rows = re.findall(
        r"^\| ([\w ]+) \(([\d,]+)\) \| (\.\d+) \| (\.\d+) \| ([\d.]+) % \| (\.\d+) \|$",
        (ROOT / "PAPERS.md").read_text(encoding="utf-8"),
        flags=re.M,
    )
    assert len(rows) == len(REPORTED) == 5
    for (name, n, dense, own, saved, s), row in zip(rows, REPORTED, strict=True):
        assert (row.name, row.training_rows) == (name, int(n.replace(",", "")))
        figures = (row.transformer_accuracy, row.accuracy, row.flops_saved, row.mean_budget)
        assert figures == pytest.approx((float(dense), float(own), float(saved) / 100, float(s)))


def test_what_is_reported_is_found_by_our_names() -> None:
    imdb, missing = reported("imdb"), reported("rotten_tomatoes")
    assert imdb is not None and imdb.name == "IMDB" and missing is None
    for data, name in (("data/ag_news", "AG News"), ("dbpedia14", "DBpedia"), ("snli", "SNLI")):
        found = reported(data)
        assert found is not None and found.name == name

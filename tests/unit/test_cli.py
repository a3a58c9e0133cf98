from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from budgetformer import Checkpoint, ModelConfig, TrainConfig, cli, load_dataset, predict
from budgetformer.config import from_dict, read_json
from budgetformer.cost import dense_flops, flops

ROOT = Path(__file__).parents[2]
TINY = [
    *("--epochs", "1", "--batch-size", "8", "--vocab-size", "150", "--n-layers", "1"),
    *("--n-heads", "2", "--d-model", "8", "--d-ff", "8", "--d-router", "2", "--max-len", "16"),
]


def strict_json(line: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(line, parse_constant=refuse)


class Result:
    """What a command printed and returned."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> list[Any]:
        return [strict_json(line) for line in self.out.splitlines()]

    @property
    def complaint(self) -> str:
        """The error, which takes one line."""
        assert self.code in (1, 2), self.out
        assert self.err.count("\n") == 1 and self.err.endswith("\n"), self.err
        assert self.err.startswith("budgetformer"), self.err
        assert "Traceback" not in self.err
        return self.err


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call the command line in this process."""

    def call(*arguments: str | Path, stdin: str | None = None) -> Result:
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as error:
            assert isinstance(error.code, int)
            code = error.code
        return Result(code, *capsys.readouterr())

    return call


def process(*arguments: str | Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "budgetformer", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        **settings,
    )


@pytest.fixture(scope="module")
def trained(reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "model"
    arguments = ["train", "--data", str(reviews), "--out", str(out), *TINY, "--lr", "0.02"]
    assert cli.main(arguments) == 0
    return out


def test_predict_json(run: Any, trained: Path) -> None:
    texts = ["a good film", "boring <b>& awful</b> 中文"]
    result = run("predict", "--model", trained, "--json", *texts)
    assert result.code == 0 and result.err == ""
    checkpoint = Checkpoint.from_pretrained(trained)
    assert len(result.json) == 2
    for text, said in zip(texts, result.json, strict=True):
        trace = predict(checkpoint, text)
        assert set(said) == {
            "label",
            "probabilities",
            "n_tokens",
            "truncated",
            "mean_budget",
            "executed_heads_frac",
            "layers",
        }
        assert said["label"] == trace.label
        assert set(said["probabilities"]) == {"negative", "positive"}
        assert sum(said["probabilities"].values()) == pytest.approx(1)
        assert said["label"] == max(said["probabilities"], key=said["probabilities"].get)
        assert said["n_tokens"] == len(trace.encoding.ids) and said["truncated"] is False
        (layer,) = said["layers"]
        assert set(layer) == {"budget", "k", "heads", "head_probabilities"}
        assert layer["k"] == len(layer["heads"]) == max(1, int(layer["budget"] * 2 + 1e-5))
        assert sum(layer["head_probabilities"]) == pytest.approx(1)
        assert said["mean_budget"] == pytest.approx(layer["budget"])
        assert said["executed_heads_frac"] == pytest.approx(layer["k"] / 2)


def test_predict_for_people(run: Any, trained: Path) -> None:
    result = run("predict", "--model", trained, "a good film")
    trace = predict(Checkpoint.from_pretrained(trained), "a good film")
    (layer,) = trace.layers
    numbers = ", ".join(str(head + 1) for head in layer.heads)  # people count from one
    assert result.out == (
        f"{trace.label}  {trace.probabilities[trace.label]:.3f}  "
        f"layer 1: s {layer.budget:.3f}, heads {numbers}\n"
    )


def test_predict_says_that_a_text_was_cut(run: Any, trained: Path) -> None:
    (said,) = run("predict", "--model", trained, "--json", "good " * 5000).json
    assert said["truncated"] is True and said["n_tokens"] == 16


def test_predict_reads_lines(run: Any, trained: Path) -> None:
    result = run(
        "predict", "--model", trained, "--json", "the", "-", "plot", stdin="a good\r\nbad one"
    )
    wanted = run("predict", "--model", trained, "--json", "the", "a good", "bad one", "plot")
    assert result.out == wanted.out and len(result.json) == 4


def test_predict_names_a_blank_line(run: Any, trained: Path) -> None:
    result = run("predict", "--model", trained, "--json", "-", stdin="good\nfilm\n\nbad\n")
    assert "line 3 of standard input" in result.complaint
    assert "nothing to read" in result.err
    assert len(result.json) == 2  # what could be answered was


@pytest.mark.parametrize("text", ["", "   ", "\x01\x02"])
def test_predict_refuses_an_empty_text(run: Any, trained: Path, text: str) -> None:
    assert "nothing to read" in run("predict", "--model", trained, text).complaint


def test_predict_refuses_a_pair_for_a_model_of_single_texts(run: Any, trained: Path) -> None:
    assert "single text" in run("predict", "--model", trained, "a", "--text-pair", "b").complaint


def test_predict_pairs(run: Any, pair_checkpoint: Checkpoint, tmp_path: Path) -> None:
    pair_checkpoint.save_pretrained(tmp_path)
    assert "two texts" in run("predict", "--model", tmp_path, "a").complaint
    (said,) = run("predict", "--model", tmp_path, "good", "--text-pair", "bad", "--json").json
    assert set(said["probabilities"]) == {"a", "b", "c"}


@pytest.mark.parametrize("name", ["nowhere", "no/such/folder"])
def test_a_missing_model(run: Any, name: str, tmp_path: Path) -> None:
    assert name in run("predict", "--model", tmp_path / name, "a").complaint


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_file(run: Any, saved: Path, name: str) -> None:
    (saved / name).unlink()
    assert name in run("predict", "--model", saved, "a").complaint


def test_an_empty_folder_as_model(run: Any, tmp_path: Path) -> None:
    assert "config.json" in run("predict", "--model", tmp_path, "a").complaint


def test_evaluate_json(run: Any, trained: Path, reviews: Path) -> None:
    result = run("evaluate", "--model", trained, "--data", reviews, "--split", "train", "--json")
    assert result.code == 0 and result.err == ""
    (figures,) = result.json
    assert {
        "n",
        "accuracy",
        "mean_budget",
        "executed_heads_frac",
        "executed_heads_std",
        "spearman_budget_loss",
        "auroc_budget_error",
    } <= set(figures)
    # Everything again, from single predictions.
    checkpoint = Checkpoint.from_pretrained(trained)
    data = load_dataset(str(reviews))
    rows = data.split("train")
    traces = [predict(checkpoint, text) for text in rows.texts]
    gold = [data.label_names[label] for label in rows.labels]
    budget = np.array([trace.mean_budget for trace in traces])
    executed = np.array([trace.executed_heads_frac for trace in traces])
    wrong = np.array([trace.label != label for trace, label in zip(traces, gold, strict=True)])
    loss = [-np.log(trace.probabilities[label]) for trace, label in zip(traces, gold, strict=True)]
    assert 0 < wrong.sum() < len(wrong)  # the figures below are defined
    assert figures["n"] == len(rows) == 137
    assert figures["accuracy"] == pytest.approx(1 - wrong.mean())
    assert figures["mean_budget"] == pytest.approx(budget.mean(), abs=1e-6)
    assert figures["executed_heads_frac"] == pytest.approx(executed.mean(), abs=1e-6)
    assert figures["executed_heads_std"] == pytest.approx(executed.std(), abs=1e-6)
    assert figures["spearman_budget_loss"] == pytest.approx(
        spearmanr(budget, loss).statistic, abs=1e-3
    )
    assert figures["auroc_budget_error"] == pytest.approx(roc_auc_score(wrong, budget), abs=1e-3)
    shape = checkpoint.config
    cost = [
        flops(shape, len(trace.encoding.ids), [layer.k for layer in trace.layers]).model
        for trace in traces
    ]
    dense = [dense_flops(shape, len(trace.encoding.ids)).model for trace in traces]
    assert figures["flops_per_example"] == pytest.approx(np.mean(cost))
    assert figures["dense_flops_per_example"] == pytest.approx(np.mean(dense))


def test_evaluate_one_row_has_null_for_what_is_undefined(
    run: Any, trained: Path, reviews: Path
) -> None:
    result = run("evaluate", "--model", trained, "--data", reviews, "--limit", "1", "--json")
    (figures,) = result.json
    assert figures["n"] == 1
    assert figures["spearman_budget_loss"] is None and figures["auroc_budget_error"] is None
    assert run("evaluate", "--model", trained, "--data", reviews, "--limit", "1").code == 0


def test_evaluate_saves_its_figures(run: Any, trained: Path, reviews: Path, tmp_path: Path) -> None:
    checkpoint = Checkpoint.from_pretrained(trained)
    checkpoint.save_pretrained(tmp_path)
    (figures,) = run("evaluate", "--model", tmp_path, "--data", reviews, "--save", "--json").json
    metrics = strict_json((tmp_path / "metrics.json").read_text())
    assert metrics == {**checkpoint.metrics, "test": {"data": str(reviews), **figures}}


def test_evaluate_saves_beside_a_model_of_unknown_training(
    run: Any, trained: Path, reviews: Path, tmp_path: Path
) -> None:
    known = Checkpoint.from_pretrained(trained)
    Checkpoint(known.model, known.tokenizer).save_pretrained(tmp_path)
    (figures,) = run("evaluate", "--model", tmp_path, "--data", reviews, "--save", "--json").json
    card = (tmp_path / "README.md").read_text()
    assert f"{figures['accuracy']:.4f}" in card and "## Training" not in card


def test_adaptivity_saves_what_it_prints(
    run: Any, trained: Path, reviews: Path, tmp_path: Path
) -> None:
    Checkpoint.from_pretrained(trained).save_pretrained(tmp_path)
    words = ("adaptivity", "--model", tmp_path, "--data", reviews, "--json")
    (found,) = run(*words, "--reference", trained, "--save").json
    assert strict_json((tmp_path / "adaptivity.json").read_text()) == found
    assert set(found["difficulty"]) == {"own", "linear", "dense"}
    # The reference is the model itself.
    assert found["difficulty"]["dense"]["auroc_error"] == found["difficulty"]["own"]["auroc_error"]
    assert found["pays"]["adaptive_minus_shuffled"]["value"] == pytest.approx(
        found["pays"]["accuracy"] - found["pays"]["accuracy_shuffled"]
    )
    assert "leave --limit out" in run(*words, "--save", "--limit", "3").complaint


def test_bench_times_texts(run: Any, trained: Path, reviews: Path) -> None:
    result = run("bench", "--model", trained, "--data", reviews, "--n", "5", "--json")
    ((row,),) = (found["rows"] for found in result.json)
    assert row["n_texts"] == 5 and row["speedup"] == row["dense_ms"] / row["sparse_ms"]
    assert "needs a --model" in run("bench", "--data", reviews).complaint


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--split", "unheard-of"], r"no split 'unheard-of'; it has \['test', 'train', 'val"),
        (["--limit", "-1"], "-1"),
        (["--batch-size", "0"], "0"),
        (["--limit", "many"], "many"),
        (["--batch-size", "1.5"], "1.5"),
    ],
)
def test_evaluate_refuses(
    run: Any, trained: Path, reviews: Path, arguments: list[str], wanted: str
) -> None:
    result = run("evaluate", "--model", trained, "--data", reviews, *arguments)
    assert re.search(wanted, result.complaint)
    assert result.out == ""


def test_evaluate_refuses_data_that_does_not_fit(run: Any, trained: Path, tmp_path: Path) -> None:
    def complaint(content: str, name: str = "d.csv") -> str:
        path = tmp_path / name
        path.write_bytes(content.encode("latin-1"))
        said: str = run("evaluate", "--model", trained, "--data", path).complaint
        return said

    rows = "".join(f"word {i},{'positive' if i % 2 else 'negative'}\n" for i in range(30))
    assert "no column 'text'" in complaint(f"words,label\n{rows}")
    assert "no column 'label'" in complaint(f"text,mood\n{rows}")
    assert "row 31 has an empty text" in complaint(f"text,label\n{rows},positive\n")
    assert "label 'neutral'" in complaint(f"text,label\n{rows}some words,neutral\n")
    assert "two different labels" in complaint("text,label\na,positive\nb,positive\nc,positive\n")
    assert "d.csv" in complaint(f"text,label\n{rows}caf\xe9,positive\n")
    lines = '{"text": "a", "label": "positive"}\n{"text": oops}\n'
    assert "line 2" in complaint(lines, "d.jsonl")
    paired = "".join(f"a {i},b {i},{'positive' if i % 2 else 'negative'}\n" for i in range(30))
    assert "single texts" in complaint(f"text,text_pair,label\n{paired}")
    assert (
        "does not exist"
        in run("evaluate", "--model", trained, "--data", tmp_path / "nowhere.csv").complaint
    )


def test_train_json(run: Any, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    result = run("train", "--data", reviews, "--out", out, "--json", *TINY)
    assert result.code == 0 and result.err == ""
    events = result.json
    assert events == [strict_json(line) for line in (out / "events.jsonl").open()]
    assert [event["event"] for event in events] == ["start", "epoch", "end"]
    assert {"step", "steps", "steps_per_epoch", "train_rows", "parameters"} <= set(events[0])
    assert events[0]["steps"] == 18
    assert {
        "epoch",
        "step",
        "seconds",
        "n",
        "accuracy",
        "mean_budget",
        "executed_heads_frac",
    } <= set(events[1])
    assert events[2]["step"] == 18 and 0 <= events[2]["accuracy"] <= 1
    record = strict_json((out / "run.json").read_text())
    assert record["train"]["batch_size"] == 8 and record["model"]["n_heads"] == 2


def test_train_reports_steps(run: Any, reviews: Path, tmp_path: Path) -> None:
    arguments = ["--data", reviews, "--out", tmp_path / "m", *TINY, "--batch-size", "4"]
    steps = [e for e in run("train", "--json", *arguments).json if e["event"] == "step"]
    assert [event["step"] for event in steps] == [20]
    assert {"loss", "task", "mean_budget", "executed_heads_frac", "accuracy", "lr"} <= set(steps[0])
    for_people = run("train", "--data", reviews, "--out", tmp_path / "n", *TINY)
    assert [line.split()[0] for line in for_people.out.splitlines()] == ["start", "epoch", "end"]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--lr", "0"], "lr"),
        (["--lr", "nan"], "lr"),
        (["--lr", "fast"], "fast"),
        (["--epochs", "0"], "epochs"),
        (["--epochs", "1.5"], "1.5"),
        (["--objective", "mine"], "mine"),
        (["--n-heads", "3"], "d_model"),
        (["--dropout", "1"], "dropout"),
        (["--s-min", "0.9"], "s_min"),
        (["--threads", "0"], "threads"),
        (["--seed", "-1"], "seed"),
        (["--preset", "unheard-of"], "no preset 'unheard-of'"),
        (["--preset", "../configs/x"], "no preset"),
        (["--warm-start", "nowhere"], "nowhere"),
        (["--teacher", "nowhere"], "nowhere"),
        (["--data", "nowhere.csv"], "nowhere.csv"),
        (["--colour", "blue"], "colour"),
        (["--epoch", "1"], "--epoch"),  # options are written out
        (["--limit"], "limit"),
    ],
)
def test_train_refuses(
    run: Any, reviews: Path, tmp_path: Path, arguments: list[str], wanted: str
) -> None:
    out = tmp_path / "model"
    result = run("train", "--data", reviews, "--out", out, *TINY, *arguments)
    assert wanted in result.complaint
    assert not out.exists()


def test_train_needs_data_and_folder(run: Any, reviews: Path, tmp_path: Path) -> None:
    assert "--data" in run("train", "--out", tmp_path / "m").complaint
    assert "--out" in run("train", "--data", reviews).complaint
    (tmp_path / "file").write_text("")
    assert "file" in run("train", "--data", reviews, "--out", tmp_path / "file", *TINY).complaint


def test_train_refuses_a_used_folder_and_resumes(run: Any, trained: Path, reviews: Path) -> None:
    again = ["train", "--data", reviews, "--out", trained, *TINY, "--lr", "0.02"]
    assert "already holds a training" in run(*again).complaint
    assert "finished" in run(*again, "--resume").complaint
    assert "other settings" in run(*again, "--resume", "--lr", "0.01").complaint


def test_train_without_a_validation_split(run: Any, tmp_path: Path) -> None:
    rows = "".join(f"word {i},{'ab'[i % 2]},{'test' if i < 6 else 'train'}\n" for i in range(46))
    path = tmp_path / "d.csv"
    path.write_text(f"text,label,split\n{rows}")
    events = run("train", "--data", path, "--out", tmp_path / "m", "--json", *TINY).json
    assert events[0]["train_rows"] == 38 and events[-1]["n"] == 2
    path.write_text("text,label,split\n" + rows.replace("train", "test"))
    result = run("train", "--data", path, "--out", tmp_path / "n", *TINY)
    assert "no split 'train'" in result.complaint


def test_train_on_one_row(run: Any, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    events = run("train", "--data", reviews, "--out", out, "--json", "--limit", "1", *TINY).json
    assert events[0]["train_rows"] == 1 and events[-1]["event"] == "end"


def test_presets(run: Any, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("budgetformer.commands.train.PRESETS", tmp_path)
    preset = {
        "data": str(reviews),
        "train": {"epochs": 1, "batch_size": 64, "vocab_size": 150},
        "model": {"n_layers": 1, "n_heads": 2, "d_model": 8, "d_ff": 8, "max_len": 16},
    }
    (tmp_path / "small.json").write_text(json.dumps(preset))
    assert "small" in run("train", "--help").out
    result = run("train", "--preset", "small", "--out", tmp_path / "m", "--batch-size", "32")
    assert result.code == 0
    record = strict_json((tmp_path / "m" / "run.json").read_text())
    assert record["data"] == str(reviews)
    assert record["train"]["batch_size"] == 32 and record["train"]["epochs"] == 1
    assert record["model"]["d_model"] == 8
    (tmp_path / "broken.json").write_text("{")
    assert "broken.json" in run("train", "--preset", "broken", "--out", tmp_path / "n").complaint
    (tmp_path / "odd.json").write_text(json.dumps({**preset, "train": {"epoch": 1}}))
    assert "'epoch'" in run("train", "--preset", "odd", "--out", tmp_path / "n").complaint


def test_published_presets_are_valid() -> None:
    for path in sorted((ROOT / "configs").glob("*.json")):
        settings = read_json(path)
        assert set(settings) <= {"data", "train", "model", "init", "warm_start", "teacher"}
        from_dict(TrainConfig, settings.get("train", {}))
        given = {"vocab_size": 1000, "labels": ["a", "b"]}
        from_dict(ModelConfig, {**given, **settings.get("model", {})})


def test_a_shipped_model_says_its_training_as_its_preset_does() -> None:
    """Both can be run: the preset by its name, the model's by the command on its card."""
    paths = list((ROOT / "checkpoints").glob("*/metrics.json"))
    assert paths
    for path in paths:
        said, preset = (
            read_json(path)["training"],
            read_json(ROOT / "configs" / f"{path.parent.name}.json"),
        )
        assert from_dict(TrainConfig, said["train"]) == from_dict(TrainConfig, preset["train"])
        for key in ("data", "model", "init", "warm_start", "teacher"):
            assert said.get(key, "") == preset.get(key, ""), (path, key)


@pytest.mark.parametrize("command", [[], ["predict"], ["evaluate"], ["train"]])
def test_help(run: Any, command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.code == 0 and result.out.startswith("usage: budgetformer") and not result.err


@pytest.mark.parametrize(
    "arguments",
    [[], ["fly"], ["predict"], ["predict", "a"], ["predict", "--mod", "m", "a"], ["evaluate"]],
)
def test_usage_errors(run: Any, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.code == 2 and "--help" in result.complaint


def test_an_interruption_takes_one_line(
    run: Any, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("budgetformer.trace.predict", interrupt)
    result = run("predict", "--model", trained, "a")
    assert (result.code, result.err) == (130, "budgetformer: interrupted\n")


def test_process_help() -> None:
    result = process("--help")
    assert result.returncode == 0 and result.stderr == ""
    assert all(command in result.stdout for command in ("predict", "evaluate", "train"))


def test_process_help_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from budgetformer.cli import main\n"
        "try:\n    main(['train', '--help'])\n"
        "except SystemExit as error:\n    assert error.code == 0\n"
        "for heavy in ('captum', 'datasets', 'sklearn', 'streamlit'):\n"
        "    assert heavy not in sys.modules, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_process_answers_and_fails(trained: Path) -> None:
    good = process("predict", "--model", trained, "--json", "-", input="a good film 中文\n")
    assert good.returncode == 0 and good.stderr == ""
    assert strict_json(good.stdout)["label"] in ("negative", "positive")
    bad = process("predict", "--model", trained, " ")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.count("\n") == 1 and "Traceback" not in bad.stderr
    usage = process("predict")
    assert usage.returncode == 2 and usage.stderr.count("\n") == 1


def test_bytes_that_are_no_text(trained: Path) -> None:
    def call(*arguments: str | bytes, stdin: bytes = b"") -> tuple[int, bytes]:
        result = subprocess.run(
            [sys.executable, "-m", "budgetformer", "predict", "--model", trained, *arguments],
            input=stdin,
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
            timeout=120,
        )
        return result.returncode, result.stderr

    assert call(b"caf\xe9 good") == (0, b"")
    code, err = call("-", stdin=b"good\nb\xff\xfe\n")
    assert code == 1 and err.count(b"\n") == 1 and b"utf-8" in err


def test_a_reader_that_leaves_is_no_drama(trained: Path) -> None:
    lines = "a good film\n" * 300
    with subprocess.Popen(
        [sys.executable, "-m", "budgetformer", "predict", "--model", trained, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    ) as child:
        assert child.stdout is not None
        child.stdout.close()
        assert child.stdin is not None and child.stderr is not None
        child.stdin.write(lines.encode())
        child.stdin.close()
        err = child.stderr.read()
        assert child.wait(timeout=120) == 1
    assert err == b""


def test_names_on_the_hub_without_a_network(trained: Path, tmp_path: Path) -> None:
    # Nothing listens on this port.
    env = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    for arguments, name in (
        (["predict", "--model", "someone/a-model", "a"], "someone/a-model"),
        (["evaluate", "--model", trained, "--data", "someone/some-data"], "someone/some-data"),
    ):
        result = process(*arguments, env=env)
        assert result.returncode == 1 and result.stdout == ""
        assert result.stderr.count("\n") == 1, result.stderr
        assert name in result.stderr and "Hub" in result.stderr

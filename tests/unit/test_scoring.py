"""What is written of each example is what `predict` says of it, also after a kill."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from budgetformer import BudgetFormer, Checkpoint, Tokenizer, cli, predict
from budgetformer.adaptivity import linear_reference
from budgetformer.cost import flops
from budgetformer.data import Examples, load_dataset
from budgetformer.records import read_scored, row_hash
from budgetformer.scoring import encode, linear_judge, model_name, score
from tests.conftest import ROOT

N = 50


@pytest.fixture
def examples() -> Examples:
    g = np.random.default_rng(0)
    words = ("good", "bad", "film", "story", "awful", "fine", "zzz", "…", "中文")
    texts = tuple(" ".join(g.choice(words, g.integers(1, 45))) for _ in range(N))
    return Examples(texts, tuple(int(i) for i in g.integers(0, 2, N)))


@pytest.fixture
def model(saved: Path) -> Checkpoint:
    return Checkpoint.from_pretrained(saved)


def twin(make_model: Callable[..., BudgetFormer], tokenizer: Tokenizer, folder: Path) -> Checkpoint:
    """A dense model with its classes in another order and a shorter reach."""
    shape = {"routed": False, "max_len": 20, "labels": ("positive", "negative")}
    model = make_model(seed=3, vocab_size=tokenizer.vocab_size, **shape)
    Checkpoint(model, tokenizer).save_pretrained(folder)
    return Checkpoint.from_pretrained(folder)


def test_records_are_what_predict_says(
    model: Checkpoint, examples: Examples, make_model: Callable[..., BudgetFormer],
    tokenizer: Tokenizer, tmp_path: Path,
) -> None:  # fmt: skip
    other = twin(make_model, tokenizer, tmp_path / "other")
    out = tmp_path / "r.parquet"
    score(model, examples, out, "made up", "test", {"dense": other}, chunk_rows=16)
    scored = read_scored(out)
    assert scored.rows.tolist() == list(range(N))
    assert scored.source.references == {"dense": "other"} and scored.source.model == "saved"
    for i, text in enumerate(examples.texts):
        trace, gold = predict(model, text), ("negative", "positive")[examples.labels[i]]
        p = list(trace.probabilities.values())
        assert scored.records.probabilities[i].tolist() == pytest.approx(p, abs=1e-5)
        assert scored.records.losses[i] == pytest.approx(
            -math.log(trace.probabilities[gold]), abs=1e-4
        )
        assert scored.source.labels[scored.predicted[i]] == trace.label
        assert scored.records.n_tokens[i] == len(trace.encoding.ids)
        assert scored.truncated[i] == trace.encoding.truncated
        for layer, row in zip(trace.layers, scored.records.heads[i], strict=True):
            assert tuple(np.flatnonzero(row).tolist()) == layer.heads
        assert scored.records.budgets[i].tolist() == pytest.approx(
            [layer.budget for layer in trace.layers], abs=1e-6
        )
        ks = [layer.k for layer in trace.layers]
        assert scored.flops[i] == flops(model.config, len(trace.encoding.ids), ks).model
        assert scored.hashes[i] == row_hash(text) and (scored.texts or ())[i] == text
        said = predict(other, text)
        reference = scored.references["dense"]
        assert scored.source.labels[reference.predicted[i]] == said.label
        assert reference.losses[i] == pytest.approx(-math.log(said.probabilities[gold]), abs=1e-4)
    assert 0 < scored.truncated.sum() < N
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "r.parquet", "saved"]


def test_chunks_do_not_matter(model: Checkpoint, examples: Examples, tmp_path: Path) -> None:
    for name, rows in (("a", 7), ("b", 1000)):
        score(model, examples, tmp_path / name, "x", chunk_rows=rows, keep_texts=False)
    a, b = read_scored(tmp_path / "a"), read_scored(tmp_path / "b")
    assert a.texts is None
    assert np.abs(a.records.probabilities - b.records.probabilities).max() < 1e-5
    assert np.array_equal(a.records.heads, b.records.heads)
    assert np.array_equal(a.rows, b.rows) and np.array_equal(a.hashes, b.hashes)


def test_a_text_that_just_fits_is_not_cut(model: Checkpoint, pair_checkpoint: Checkpoint) -> None:
    for n in (29, 30, 31):  # with [CLS] and [SEP], 30 pieces are all that fits in 32
        inputs, cut = encode(model, Examples(("good " * n,), (0,)))
        trace = predict(model, "good " * n)
        assert inputs[0].ids.tolist() == list(trace.encoding.ids)
        assert inputs[0].segments.tolist() == list(trace.encoding.segments)
        assert cut == [trace.encoding.truncated] == [n > 30]
    for n in (13, 14, 15, 40):
        inputs, cut = encode(pair_checkpoint, Examples(("good " * n,), (0,), ("bad " * 15,)))
        trace = predict(pair_checkpoint, "good " * n, "bad " * 15)
        assert inputs[0].ids.tolist() == list(trace.encoding.ids)
        assert inputs[0].segments.tolist() == list(trace.encoding.segments)
        assert cut == [trace.encoding.truncated]


def test_a_stopped_run_goes_on_where_it_was(
    model: Checkpoint, examples: Examples, tmp_path: Path
) -> None:
    whole, stopped = tmp_path / "whole.parquet", tmp_path / "stopped.parquet"
    score(model, examples, whole, "x", chunk_rows=10)

    def stop(done: int, total: int) -> None:
        if done >= 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(model, examples, stopped, "x", chunk_rows=10, progress=stop)
    assert not stopped.exists()
    parts = tmp_path / "stopped.parquet.parts"
    finished = sorted(parts.glob("*.parquet"))
    assert len(finished) == 2
    times = [path.stat().st_mtime_ns for path in finished]
    seen: list[tuple[int, int]] = []

    def watch(done: int, total: int) -> None:
        seen.append((done, total))
        if done < total:
            assert [path.stat().st_mtime_ns for path in finished] == times

    score(model, examples, stopped, "x", chunk_rows=10, progress=watch)
    assert seen[:2] == [(10, N), (20, N)] and seen[-1] == (N, N)
    assert stopped.read_bytes() == whole.read_bytes()
    assert not parts.exists()


def test_a_killed_process_goes_on_too(saved: Path, examples: Examples, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([examples.texts, examples.labels]))
    program = (
        "import json, os, signal, sys\n"
        "from pathlib import Path\n"
        "from budgetformer import Checkpoint\n"
        "from budgetformer.data import Examples\n"
        "from budgetformer.scoring import score\n"
        "texts, labels = json.loads(Path(sys.argv[2]).read_text())\n"
        "def die(done, total):\n"
        "    if done >= 30: os.kill(os.getpid(), signal.SIGKILL)\n"
        "score(Checkpoint.from_pretrained(sys.argv[1]), Examples(tuple(texts), tuple(labels)),\n"
        "      Path(sys.argv[3]), 'x', chunk_rows=10, progress=die)\n"
    )
    out = tmp_path / "killed.parquet"
    command = [sys.executable, "-c", program, str(saved), str(tmp_path / "rows.json"), str(out)]
    killed = subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert killed.returncode == -signal.SIGKILL
    assert not out.exists()
    done: list[int] = []
    model = Checkpoint.from_pretrained(saved)
    score(model, examples, out, "x", chunk_rows=10, progress=lambda d, _: done.append(d))
    assert done[:2] == [10, 20] and done[-1] == N
    score(model, examples, tmp_path / "whole.parquet", "x", chunk_rows=10)
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_parts_of_another_job_are_thrown_away(
    model: Checkpoint, examples: Examples, tmp_path: Path
) -> None:
    def leave_parts() -> None:
        def stop(done: int, total: int) -> None:
            if done >= 20:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            score(model, examples, tmp_path / "r", "x", chunk_rows=10, progress=stop)

    def first_step(rows: Examples, **change: object) -> int:
        done: list[int] = []
        score(
            model, rows, tmp_path / "r", "x", chunk_rows=10,
            progress=lambda d, _: done.append(d), **change,  # type: ignore[arg-type]
        )  # fmt: skip
        return done[0]

    other = Examples(examples.texts, tuple(1 - label for label in examples.labels))
    leave_parts()
    first_step(other)
    assert read_scored(tmp_path / "r").records.labels.tolist() == list(other.labels)
    leave_parts()
    first_step(examples, keep_texts=False)
    assert read_scored(tmp_path / "r").texts is None
    leave_parts()
    (tmp_path / "r.parts" / "job.json").write_text("{")
    first_step(examples)
    assert read_scored(tmp_path / "r").records.labels.tolist() == list(examples.labels)


def test_the_linear_judge_is_the_linear_reference(
    model: Checkpoint, examples: Examples, tmp_path: Path
) -> None:
    train = Examples(examples.texts * 2, examples.labels * 2)
    judge = linear_judge(train, examples)
    score(model, examples, tmp_path / "r", "x", references={"linear": judge}, chunk_rows=16)
    found = read_scored(tmp_path / "r").references["linear"]
    expected = linear_reference(train, examples)
    assert found.losses.tolist() == expected.losses.tolist()
    assert found.predicted.tolist() == expected.probabilities.argmax(axis=1).tolist()


def test_what_does_not_fit_is_refused_before_anything_runs(
    model: Checkpoint, pair_checkpoint: Checkpoint, examples: Examples, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    with pytest.raises(ValueError, match="no examples to score"):
        score(model, Examples((), ()), out, "x")
    with pytest.raises(ValueError, match="reads single texts"):
        score(model, Examples(("a",), (0,), ("b",)), out, "x")
    with pytest.raises(ValueError, match="the reference decides between a, b, c for 2"):
        score(model, examples, out, "x", references={"dense": pair_checkpoint})
    with pytest.raises(ValueError, match="no judge is called 'oracle'"):
        score(model, examples, out, "x", references={"oracle": model})
    assert not out.exists() and not (tmp_path / "r.parts").exists()


def test_a_model_from_the_hub_keeps_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "models--user--name" / "snapshots" / "0a1b"
    folder.mkdir(parents=True)
    assert model_name(folder) == "user/name"


def test_the_command(
    saved: Path, reviews: Path, make_model: Callable[..., BudgetFormer], tokenizer: Tokenizer,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    twin(make_model, tokenizer, saved.with_name("saved-dense"))  # the default reference
    base = ["score", "--model", str(saved), "--data", str(reviews)]
    assert cli.main([*base, "--linear", "--save"]) == 0
    said = capsys.readouterr()
    assert "16 examples, accuracy" in said.out and "of 32 passes of the model" in said.err
    scored = read_scored(saved / "records.parquet")
    assert set(scored.references) == {"dense", "linear"}
    test = load_dataset(str(reviews)).split_for("test", ("negative", "positive"))
    assert scored.texts == test.texts and scored.records.labels.tolist() == list(test.labels)
    out = tmp_path / "all.parquet"
    options = ["--split", "all", "--limit", "5", "--reference", "none", "--no-texts", "--json"]
    assert cli.main([*base, *options, "--out", str(out)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-2] == {"done": 5, "total": 5} and lines[-1]["n"] == 5
    scored = read_scored(out)
    assert scored.texts is None and not scored.references and scored.source.split == "all"
    first = reviews.read_text().splitlines()[1].rsplit(",", 1)[0]
    assert scored.hashes[0] == row_hash(first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "/nowhere/r.parquet"], "cannot be written: give a file in a folder that exists"),
        (["--save", "--limit", "3"], "leave --limit out"),
        (["--out", "r.parquet", "--split", "all", "--linear"], "--linear needs a data set with a"),
        (["--out", "r.parquet", "--split", "dev"], "has no split 'dev'"),
    ],
)
def test_the_command_says_what_is_wrong(
    saved: Path, reviews: Path, options: list[str], message: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert cli.main(["score", "--model", str(saved), "--data", str(reviews), *options]) == 1
    assert message in capsys.readouterr().err


def test_memory_holds_one_chunk(
    model: Checkpoint, examples: Examples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from budgetformer import scoring

    sizes: list[int] = []
    run = scoring.evaluate_ids

    def watched(
        model: object, tokenizer: object, inputs: list[object], *more: object, **named: object
    ) -> object:
        sizes.append(len(inputs))
        return run(model, tokenizer, inputs, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(scoring, "evaluate_ids", watched)
    score(model, examples, tmp_path / "r", "x", chunk_rows=8)
    assert sizes == [8] * 6 + [2]
    assert read_scored(tmp_path / "r").rows.tolist() == list(range(N))

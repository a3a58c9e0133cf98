"""What `measure` keeps; how large the figures are is for the machine to say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("codecarbon")

from budgetformer import Checkpoint, predict
from budgetformer.cli import main
from budgetformer.data import Examples
from budgetformer.efficiency import Machine, measured_from_dict, read_measured
from budgetformer.energy import Energy
from budgetformer.measure import measure, own_texts, spread, this_machine

TEXTS = ("a good film", "an awful and boring film (really)", "the story is fine, but long")


def test_what_is_measured(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """4 J and 2 mg for a round of three texts in 0.5 s are 1333 J, 667 mg and 167 s a thousand."""
    rounds: list[int] = []

    def energy(work: object, country: str, seconds: float) -> Energy:
        work()  # type: ignore[operator]
        rounds.append(1)
        return Energy(0.5, 4.0, 0.002, country, "estimated")

    monkeypatch.setattr("budgetformer.measure.measure_energy", energy)
    steps: list[tuple[int, int]] = []
    found = measure(
        checkpoint, Examples(TEXTS, (0, 0, 0)), "three texts", "SEN", repeats=6, seconds=0,
        progress=lambda done, total: steps.append((done, total)),
    )  # fmt: skip
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)] and rounds == [1]
    assert found.energy_j == pytest.approx(4000 / 3) and found.seconds == pytest.approx(500 / 3)
    assert found.emissions_g == pytest.approx(2 / 3) and found.watts == pytest.approx(8)
    assert (found.country, found.energy_source) == ("SEN", "estimated")
    traces = [predict(checkpoint, text) for text in TEXTS]
    lengths = [len(trace.encoding.ids) for trace in traces]
    assert found.mean_tokens == pytest.approx(sum(lengths) / 3)
    assert found.memory_length == max(lengths)
    heads = sum(trace.executed_heads_frac for trace in traces) / 3
    assert found.executed_heads_frac == pytest.approx(heads)
    assert 0 < found.p50_ms <= found.p90_ms <= found.p99_ms
    assert found.resident_bytes > 10**7 and found.machine.threads == 1


def test_no_text_is_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(ValueError, match="no texts"):
        measure(checkpoint, Examples((), ()), "", "FRA")


def test_the_command_keeps_and_shows_the_same(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("budgetformer.measure.measure_energy", _energy)
    data = tmp_path / "d.csv"
    rows = "".join(f"{text} n{i},{'negative' if i % 2 else 'positive'},test\n"
                   for i, text in enumerate(TEXTS[:1] * 9))  # fmt: skip
    data.write_text(f"text,label,split\n{rows}")
    command = ["measure", "--model", str(saved), "--json"]
    assert main([*command, "--data", str(data), "--n", "4", "--save"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("done") for line in lines] == [1, 2, 3, 4, None]
    kept = read_measured(saved)
    assert kept is not None and kept == measured_from_dict(lines[-1])
    assert kept.n_texts == 4 and kept.texts.startswith("4 texts spread over the test split")
    texts = tmp_path / "t.txt"
    texts.write_text("one film\n\ntwo films\n")
    assert main([*command, "--texts", str(texts), "--save"]) == 1
    assert "--data" in capsys.readouterr().err
    assert main([*command, "--texts", str(texts)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["texts"] == "2 texts of t.txt"


def _energy(work: object, country: str, seconds: float) -> Energy:
    return Energy(0.5, 4.0, 0.002, country, "estimated")


@pytest.mark.parametrize(
    "change",
    [{"p50_ms": 0}, {"energy_j": float("nan")}, {"machine": {"cores": 2}}, {"surprise": 1}],
)
def test_a_damaged_measurement_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    machine = {"processor": "p", "cores": 2, "threads": 1, "torch": "2", "system": "s", "load": 0}
    good = {
        "texts": "t", "n_texts": 1, "mean_tokens": 3, "executed_heads_frac": 0.5,
        "date": "2026-01-01", "machine": machine, "p50_ms": 1, "p90_ms": 2, "p99_ms": 3,
        "memory_length": 9, "resident_bytes": 1, "forward_bytes": 1, "energy_j": 1,
        "emissions_g": 1, "seconds": 1, "country": "FRA", "energy_source": "estimated",
    }  # fmt: skip
    path = tmp_path / "measured.json"
    path.write_text(json.dumps(good))
    assert read_measured(tmp_path) is not None
    path.write_text(json.dumps({**good, **change}))
    with pytest.raises(ValueError, match=r"measured\.json is damaged"):
        read_measured(tmp_path)


def test_texts_are_spread_over_a_sorted_file() -> None:
    examples = Examples(tuple(map(str, range(100))), (0,) * 100)
    assert spread(examples, 5).texts == ("0", "24", "49", "74", "99")
    assert len(spread(examples, 1000)) == 100


def test_own_texts(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("a\tb\n\nc\td\n")
    found = own_texts(path, 2)
    assert (found.texts, found.text_pairs) == (("a", "c"), ("b", "d"))
    with pytest.raises(ValueError, match="text 1 is not a single text"):
        own_texts(path, 1)
    with pytest.raises(ValueError, match="cannot read"):
        own_texts(tmp_path / "none", 1)


def test_the_machine_names_itself() -> None:
    found = this_machine()
    assert found.processor and found.cores >= 1 and found.torch[0].isdigit()
    busy = Machine("p", 2, 1, "2.0", "Linux", load=3.0)
    assert not busy.quiet and Machine("p", 2, 1, "2.0", "Linux", load=0.4).quiet
    assert str(busy) == "p, 1 thread of 2 cores, torch 2.0"

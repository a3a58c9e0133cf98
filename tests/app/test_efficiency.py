"""The Efficiency page shows what the files say, and its limit is kept to on the other pages."""

from __future__ import annotations

import html
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.explore import bodies, figure, numbers, plain, seen
from tests.conftest import ROOT

TEXT = "Not bad, not good either. Some liked it, others hated it; I was bored but I laughed."
MACHINE = {
    "processor": "Some <b>Chip</b>", "cores": 4, "threads": 1, "torch": "2.0", "system": "Linux",
    "load": 3.5,
}  # fmt: skip
MEASURED = {
    "texts": "9 texts", "n_texts": 9, "mean_tokens": 30.0, "executed_heads_frac": 0.25,
    "date": "2026-01-02", "machine": MACHINE, "p50_ms": 1.25, "p90_ms": 2.5, "p99_ms": 4.75,
    "memory_length": 32, "resident_bytes": 2**28, "forward_bytes": 3 * 2**20, "energy_j": 36.0,
    "emissions_g": 0.00056, "seconds": 3.0, "country": "FRA", "energy_source": "estimated",
}  # fmt: skip


def row(policy: str, k: int | None, heads: float, accuracy: float) -> dict[str, Any]:
    return {
        "policy": policy, "budget": heads, "executed_heads_frac": heads, "accuracy": accuracy,
        "flops_per_example": 1e6 * (1 + heads), "ci_low": accuracy - 0.02,
        "ci_high": accuracy + 0.01, "k": k,
    }  # fmt: skip


@pytest.fixture
def shelf(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A routed model of 8 heads with a sweep, its dense twin, and one that was never measured."""
    from app import loaders

    shutil.copytree(model_folder / "imdb", tmp_path / "imdb")
    shutil.copytree(model_folder / "dense", tmp_path / "imdb-dense")
    shutil.copytree(model_folder / "pair", tmp_path / "pair")
    for name in ("sweep.json", "measured.json"):
        (tmp_path / "imdb" / name).unlink(missing_ok=True)
    own = [row("adaptive", None, 0.3, 0.9), row("shuffled", None, 0.3, 0.88)]
    own += [row("random-heads", None, 0.3, 0.8), row("bottom-heads", None, 0.3, 0.7)]
    for k in range(1, 9):
        own.append(row("fixed", k, k / 8, 0.8 + k / 100))
        if k < 8:
            own += [row("random", k, k / 8, 0.7 + k / 100), row("bottom", k, k / 8, 0.6 + k / 100)]
    own += [row("capped", k, min(0.3, k / 8), min(0.9, 0.84 + k / 100)) for k in range(1, 9)]
    about = {"data": "imdb", "split": "test", "n": 2500, "seed": 0}
    save(tmp_path / "imdb" / "sweep.json", {**about, "rows": own})
    twin = {**about, "rows": [row("all", None, 1.0, 0.91)]}
    save(tmp_path / "imdb-dense" / "sweep.json", twin)
    metrics = json.loads((tmp_path / "imdb" / "metrics.json").read_text())
    metrics["test"] |= {"data": "imdb", "n": 2500, "accuracy": 0.9}
    save(tmp_path / "imdb" / "metrics.json", metrics)
    save(tmp_path / "imdb" / "measured.json", MEASURED)
    monkeypatch.setattr(loaders, "CHECKPOINTS", tmp_path)
    monkeypatch.setenv("BUDGETFORMER_RUNS", str(tmp_path / "no runs"))
    return tmp_path


def save(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")


def open_page(page: str = "efficiency", **query: str) -> AppTest:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=60)
    for key, value in query.items():
        at.query_params[key] = value
    return at.switch_page(f"../pages/{page}.py").run()


def rows(at: AppTest) -> dict[str, list[str]]:
    found = re.findall(r"<tr[^>]*>(<td>.*?)</tr>", bodies(at))
    cells = [[html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", r)] for r in found]
    return {cell[0]: cell[1:] for cell in cells}


def click(at: AppTest, line: str, point: int) -> AppTest:
    """Play a click on a point of a line."""
    at.session_state["efficiency_curve"] = {"selection": {"points": []}}
    at.run()
    spec, _ = figure(at, "efficiency_curve")
    trace = next(trace for trace in spec["data"] if trace.get("name") == line)
    place = {"x": float(numbers(trace["x"])[point]), "y": float(numbers(trace["y"])[point])}
    at.session_state["efficiency_curve"] = {"selection": {"points": [place]}}
    return at.run()


def address(at: AppTest) -> dict[str, str]:
    return {k: v if isinstance(v, str) else v[0] for k, v in dict(at.query_params).items()}


def test_the_curve_is_what_the_files_say(shelf: Path) -> None:
    at = open_page()
    assert not at.exception
    spec, alt = figure(at, "efficiency_curve")
    lines = {trace["name"]: trace for trace in spec["data"] if "name" in trace}
    limit = lines["With a limit"]
    assert numbers(limit["x"]) == pytest.approx([min(0.3, k / 8) for k in range(1, 9)])
    assert numbers(limit["y"]) == pytest.approx([min(0.9, 0.84 + k / 100) for k in range(1, 9)])
    assert numbers(limit["error_y"]["arrayminus"]) == pytest.approx([0.02] * 8)
    assert numbers(limit["error_y"]["array"]) == pytest.approx([0.01] * 8)
    # What can be chosen is drawn last, on top.
    assert list(lines)[-2:] == ["With a limit", "imdb"]
    # At k = H all heads run in any order, so both controls end where the fixed line does.
    assert numbers(lines["k random heads"]["y"])[-1] == pytest.approx(0.88)
    assert len(numbers(lines["Every text gets k"]["y"])) == 8
    assert numbers(lines["imdb-dense: trained with all heads"]["y"]) == pytest.approx([0.91])
    assert "Reported by the paper" not in lines and "imdb: 30.0% → 90.0%" in alt
    assert rows(at)["Budgets of other texts"] == [
        "88.00%", "86.0% – 89.0%", "30.0%", "1.3 MFLOP (65.0%)", "−2.00 points",
    ]  # fmt: skip


def test_operations_put_the_papers_point_beside_ours(shelf: Path) -> None:
    at = open_page(efficiency_x="flops")
    spec, _ = figure(at, "efficiency_curve")
    lines = {trace["name"]: trace for trace in spec["data"] if "name" in trace}
    # (1 + heads) / 2 of those with every head on.
    assert numbers(lines["imdb"]["x"]) == pytest.approx([0.65])
    assert numbers(lines["Reported by the paper"]["x"]) == pytest.approx([0.9])
    assert numbers(lines["Reported by the paper"]["y"]) == pytest.approx([0.8356])
    assert "reported by the paper (arXiv 2604.22583" in seen(at)
    assert "another shape" in seen(at) and "0.601" in seen(at)


def test_a_click_and_the_slider_set_the_same_limit(shelf: Path) -> None:
    at = click(open_page(), "With a limit", 1)
    assert not at.exception
    assert address(at) == {"head_limit": "2"}
    assert at.slider("efficiency_limit").value == 2
    assert "Right on 86.0% of 2,500 test texts of imdb (84.0% to 87.0%" in plain(at)
    at.slider("efficiency_limit").set_value(5).run()
    assert address(at) == {"head_limit": "5"}
    # The model's own choice is no limit.
    assert address(click(at, "imdb", 0)) == {}
    at = click(click(at, "With a limit", 2), "k random heads", 4)
    assert address(at) == {"head_limit": "3"}
    assert any("control" in toast.value for toast in at.toast)
    at.button("efficiency_remove_limit").click().run()
    assert address(at) == {} and at.slider("efficiency_limit").value == 8


def test_a_limit_that_was_not_measured_is_not_guessed(shelf: Path) -> None:
    path = shelf / "imdb" / "sweep.json"
    values = json.loads(path.read_text())
    values["rows"] = [r for r in values["rows"] if (r["policy"], r["k"]) != ("capped", 4)]
    save(path, values)
    at = open_page(head_limit="4")
    assert not at.exception and "has not been measured" in plain(at)
    assert "has not been measured with this limit" in plain(open_page("explore", head_limit="4"))


@pytest.mark.parametrize("limit", ["0", "-1", "2.5", "many", "³", "9999999"])
def test_a_limit_that_is_none_is_named(shelf: Path, limit: str) -> None:
    at = open_page(head_limit=limit)
    assert not at.exception
    assert f"not {limit!r}" in plain(at) and address(at) == {}


def test_explore_runs_with_the_limit_and_says_so(shelf: Path) -> None:
    from budgetformer import Checkpoint, predict
    from budgetformer.policies import capped

    checkpoint = Checkpoint.from_pretrained(shelf / "imdb")
    own, wanted = predict(checkpoint, TEXT), predict(checkpoint, TEXT, policy=capped(1))
    assert max(layer.k for layer in own.layers) > 1
    at = open_page("explore", head_limit="1", explore_text=TEXT)
    assert not at.exception
    said = " ".join(element.value for element in at.markdown)
    assert "At most 1 of 8 heads a layer** (set on Efficiency)" in said
    assert "right on 85.0% of 2,500 test texts; 90.0% without it" in plain(at)
    assert "2 of 16" in seen(at)
    bars, _ = figure(at, "explore_budgets")
    executed = next(t for t in bars["data"] if t["name"] == "executed heads k")
    assert list(numbers(executed["x"])) == [1, 1]
    assert "your limit leaves it one" in seen(at) and "or above 1, your limit" in seen(at)
    assert "2 heads computed, 2 chosen, the same ones" in seen(at)
    top = max(wanted.probabilities.values())
    assert f"{top:.1%}" in seen(at)

    at.button_group("explore_part").set_value("what-if").run()
    assert not at.exception and "Left alone, at most 1" in seen(at)
    assert rows(at)["Heads run"] == ["2 = 1 + 1", "2 = 1 + 1", "0"]
    at.slider("explore_if_budget_all").set_value(1.0).run()
    assert rows(at)["Heads run"][1] == "2 = 1 + 1"
    assert "That is with your limit of 1" in " ".join(m.value for m in at.markdown)

    at.button_group("explore_part").set_value("why").run()
    assert not at.exception
    at.button("explore_why_edits").click().run()
    edits = at.dataframe[0].value
    assert set(edits["Δk"]) == {0}
    at.button("explore_remove_limit").click().run()
    assert "head_limit" not in address(at)
    at.button_group("explore_part").set_value("see").run()
    assert f"{own.executed_heads} of 16" in seen(at)


def test_compare_keeps_the_limit_to_the_model_that_has_a_router(shelf: Path) -> None:
    at = open_page(
        "compare", head_limit="1", compare_by="models", compare_model_b="imdb-dense",
        compare_text=TEXT,
    )  # fmt: skip
    assert not at.exception
    assert "imdb-dense has no router: the limit does not reach it." in plain(at)
    assert rows(at)["Heads run"][:2] == ["2 of 16", "12 of 12"]
    at.button("compare_remove_limit").click().run()
    assert "head_limit" not in address(at)
    assert rows(at)["Heads run"][0] != "2 of 16"


def test_the_limit_goes_along_and_comes_back(shelf: Path) -> None:
    at = open_page()
    at.slider("efficiency_limit").set_value(1).run()
    at.switch_page("../pages/explore.py").run()
    assert "2 of 16" in seen(at) and address(at) == {"head_limit": "1"}
    at.button("explore_remove_limit").click().run()
    at.switch_page("../pages/efficiency.py").run()
    assert at.slider("efficiency_limit").value == 8 and address(at) == {}


def test_a_limit_beyond_the_model_changes_nothing(shelf: Path) -> None:
    at = open_page("explore", head_limit="20", explore_text=TEXT)
    assert not at.exception
    assert "This model has 8 heads a layer: the limit changes nothing." in plain(at)


def test_measurements_by_hand(shelf: Path) -> None:
    at = open_page()
    # 36 J are 1e-5 kWh; France's electricity emits 56.039 g a kWh in codecarbon's table.
    assert rows(at)["imdb"][-7:] == [
        "25.0%", "1.25 ms", "2.50 ms", "4.75 ms", "3.0 MiB", "36.0 J", "0.56 mg",
    ] or rows(at)["imdb"][:3] == ["90.00%", "88.0% – 91.0%", "30.0%"]  # fmt: skip
    assert "0.56 mg" in seen(at) and "estimated" in seen(at)
    assert (
        "imdb: 9 texts, 30 tokens on average; Some <b>Chip</b>, 1 thread of 4 cores, torch 2.0; "
        "2026-01-02. Other work ran meanwhile (load 3.5)." in plain(at)
    )
    assert "No measurement is shipped for imdb-dense, pair." in plain(at)
    at.selectbox("efficiency_country").set_value("SEN").run()
    assert "5.12 mg" in seen(at)  # 1e-5 kWh × 511.598 g


def test_a_damaged_file_is_named_and_the_rest_is_shown(shelf: Path) -> None:
    (shelf / "imdb-dense" / "sweep.json").write_text("{")
    save(shelf / "imdb" / "measured.json", {**MEASURED, "p50_ms": -1})
    at = open_page()
    assert not at.exception
    assert "sweep.json is not valid JSON" in plain(at)
    assert "measured.json is damaged" in plain(at)
    assert any(c.proto.id.endswith("efficiency_curve") for c in at.get("plotly_chart"))


def test_old_figures_are_flagged(shelf: Path) -> None:
    path = shelf / "imdb" / "metrics.json"
    values = json.loads(path.read_text())
    values["test"]["accuracy"] = 0.8
    save(path, values)
    assert any("other weights" in warning.value for warning in open_page().warning)


def test_a_model_without_a_sweep_says_how_to_get_one(shelf: Path) -> None:
    at = open_page(efficiency_model="pair")
    assert not at.exception
    assert "sweep --model" in at.code[0].value and "--save" in at.code[0].value
    at = open_page(efficiency_model="imdb-dense")
    assert not at.exception and any("no limit to set" in info.value for info in at.info)


def test_the_calculator_by_hand(shelf: Path) -> None:
    at = open_page()
    for name, value in (("n_layers", 4), ("n_heads", 8), ("d_model", 768), ("d_ff", 3072),
                        ("n_tokens", 512)):  # fmt: skip
        at.number_input(f"calculator_{name}").set_value(value)
    at.slider("calculator_share").set_value(25)
    at.number_input("calculator_texts").set_value(100_000)
    at.number_input("calculator_watts").set_value(40.0)
    at.run()
    assert not at.exception
    # 4·(8·512·768² + 4·512²·768 + 4·512·768·3072) + 2·768·2 = 32.2 GFLOP with all heads.
    # 4·(8·512·768² + 4·512²·768)/4 + 4·4·512·768·3072 + routers = 22.5 with a quarter.
    assert rows(at)["Operations a text"] == ["22.5 GFLOP", "32.2 GFLOP", "30.0% less"]
    # As if one layer had been timed: 1 s for a text with all heads, and twice that speed with two.
    rates = 32_212_257_792.0, 2 * 22_548_827_392.0
    at.session_state["calculator_rates"] = {(8, 768, 3072, 512, 2): rates}
    at.run()
    shown = rows(at)
    assert shown["Time a text"] == ["500 ms", "1 s", "50.0% less"]
    # 1 s × 100,000 × 365 × 40 W / 3.6e6 = 405.6 kWh, × 56.039 g = 22.73 kg.
    assert shown["Energy a year"][:2] == ["203 kWh", "406 kWh"]
    assert shown["CO₂ a year"][:2] == ["11.4 kg", "22.7 kg"]
    at.number_input("calculator_d_model").set_value(770).run()
    assert not at.exception and "multiple of n_heads (8), got 770" in plain(at)
    at.button("calculator_take").click().run()
    assert at.number_input("calculator_d_model").value == 128


def test_a_shape_is_timed_in_a_process_of_its_own(shelf: Path) -> None:
    from app.components import efficiency_job

    at = open_page()
    for name, value in (("n_heads", 2), ("d_model", 8), ("d_ff", 8), ("n_tokens", 8)):
        at.number_input(f"calculator_{name}").set_value(value)
    at.run()
    at.button("calculator_time_start").click().run()
    job, _ = at.session_state["calculator_time_job"]
    # While it runs, nobody else can start one.
    assert efficiency_job.start(["bench", "--shape", "2,8,8,8,1"]) is None
    deadline = time.monotonic() + 250
    while job.running and time.monotonic() < deadline:
        time.sleep(0.1)
    at.run()
    assert not at.exception
    assert "Time a text" in rows(at) and "measured here" in seen(at)


def test_a_process_that_fails_says_why() -> None:
    from app.components import efficiency_job

    job = efficiency_job.start(["bench", "--shape", "2,8,8,8,5"])
    assert job is not None
    job.process.wait(250)
    with pytest.raises(ValueError, match=r"k must be in \[1, 2\], got 5"):
        job.result()
    job = efficiency_job.start(["bench"])
    assert job is not None and job.running
    job.stop()
    with pytest.raises(ValueError, match="ended before"):
        job.result()


def test_a_process_that_nobody_waits_for_is_ended() -> None:
    from app.components import efficiency_job

    job = efficiency_job.start(["bench"])
    assert job is not None
    process = job.process
    del job
    assert process.wait(30) != 0

"""The Heads page shows what the library counts and measures over a scored set."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from streamlit.testing.v1 import AppTest

from tests.app.explore import numbers
from tests.conftest import ROOT

N = 12
"""Texts that the tests let models run."""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.components import economy_slice

    monkeypatch.setattr(economy_slice, "SIZES", (N, 24))
    monkeypatch.setattr(economy_slice, "DEFAULT_SIZE", N)


@pytest.fixture(scope="module")
def scored() -> Any:
    from app import loaders

    # As the page does, so that the data set is read once.
    return loaders.scored_set_with_texts(ROOT / "checkpoints" / "imdb" / "records.parquet")[0]


@pytest.fixture(scope="module")
def examples(scored: Any) -> Any:
    from budgetformer.data import Examples

    return Examples(scored.texts[:N], tuple(int(i) for i in scored.records.labels[:N]))


@pytest.fixture(scope="module")
def checkpoint() -> Any:
    from budgetformer import Checkpoint

    return Checkpoint.from_pretrained(ROOT / "checkpoints" / "imdb")


def open_heads(**query: str) -> AppTest:
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=120)
    for key, value in query.items():
        at.query_params[f"heads_{key}"] = value
    return at.switch_page("../pages/heads.py").run()


def press(at: AppTest, key: str) -> AppTest:
    at.button(key).click().run()
    assert not at.exception
    assert "could not be" not in " ".join(m.value for m in at.markdown)
    return at


def sent(at: AppTest) -> str:
    return "\n".join(element.proto.body for element in at.get("html"))


def seen(at: AppTest) -> str:
    shown = html.unescape(re.sub(r"<[^>]+>", "", sent(at)))
    return "\n".join([shown, *(e.value for e in [*at.markdown, *at.text, *at.info])])


def rows(at: AppTest) -> dict[str, list[str]]:
    found = re.findall(r"<tr[^>]*>(<td>.*?)</tr>", sent(at))
    cells = [[html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", row)] for row in found]
    return {row[0]: row[1:] for row in cells}


def figure(at: AppTest, key: str) -> dict[str, Any]:
    chart = next(c for c in at.get("plotly_chart") if c.proto.id.endswith(f"-{key}"))
    assert chart.proto.alt
    return json.loads(chart.proto.spec)


def signed(value: float, digits: int) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def test_rates_pairs_and_concentration_are_counted_over_the_set(scored: Any) -> None:
    at = open_heads()
    assert not at.exception
    heads = scored.records.heads
    grid = figure(at, "heads_rates")
    assert numbers(grid["data"][0]["z"]) == pytest.approx(heads.mean(axis=0))
    # Layer 2, head 3 is the point 8 + 2 of the trace that is clicked.
    n_ran = int(heads[:, 1, 2].sum())
    interval = binomtest(n_ran, len(heads)).proportion_ci(0.95, method="wilson")
    rate, low, high, flag = grid["data"][1]["customdata"][10]
    assert (rate, low, high) == pytest.approx((n_ran / len(heads), interval.low, interval.high))
    dead = int((heads.mean(axis=0) < 0.01).sum())
    assert f"{dead} of 16 heads" in seen(at) and f"over {len(heads):,} examples" in seen(at)
    assert flag == ""
    for layer in range(2):
        counts = heads[:, layer].sum(axis=0)
        share = counts[counts > 0] / counts.sum()
        bits = -(share * np.log2(share)).sum()
        assert rows(at)[str(layer + 1)] == [
            f"{counts.sum() / len(heads):.2f}", f"{bits:.2f} bits", f"{2**bits:.2f}", "8",
        ]  # fmt: skip
    assert dict(at.query_params) == {}


def test_groups_and_slices(scored: Any) -> None:
    at = open_heads(slice="class-1", groups="right")
    assert not at.exception
    inside = scored.records.labels == 1
    heads, right = scored.records.heads[inside], scored.records.correct[inside]
    assert numbers(figure(at, "heads_rates")["data"][0]["z"]) == pytest.approx(heads.mean(axis=0))
    at.button_group("heads_layer").set_value(1).run()
    groups = figure(at, "heads_groups_chart")["data"][0]
    wanted = [heads[right, 1].mean(axis=0), heads[~right, 1].mean(axis=0)]
    assert numbers(groups["z"]) == pytest.approx(np.array(wanted))
    assert list(groups["y"]) == ["right", "wrong"]
    pairs = figure(at, "heads_pairs_chart")["data"][0]
    together = numbers(pairs["customdata"])[0, 4]
    assert together[0] == (heads[:, 1, 0] & heads[:, 1, 4]).sum()
    assert together[2] == pytest.approx(together[0] / together[1])
    at.selectbox("heads_groups").set_value("slice").run()
    rest = scored.records.heads[~inside, 1].mean(axis=0)
    groups = figure(at, "heads_groups_chart")["data"][0]
    assert numbers(groups["z"])[1] == pytest.approx(rest)
    address = {k: v if isinstance(v, str) else v[0] for k, v in dict(at.query_params).items()}
    assert address == {"heads_slice": "class-1", "heads_groups": "slice"}


def test_a_click_on_the_grid_picks_the_head_everywhere() -> None:
    at = open_heads()
    at.session_state["heads_rates"] = {"selection": {"points": [{"point_index": 8 + 4}]}}
    at.run()
    assert not at.exception
    assert at.session_state["heads_head"] == (1, 4) and at.session_state["heads_layer"] == 1
    at.button_group("heads_part").set_value("head").run()
    assert not at.exception
    assert at.selectbox("heads_head").value == (1, 4)


def test_a_head_that_never_runs_is_not_looked_into(scored: Any) -> None:
    never = np.argwhere(~scored.records.heads.any(axis=0))[0]
    at = open_heads()
    point = int(never[0] * 8 + never[1])
    at.session_state["heads_rates"] = {"selection": {"points": [{"point_index": point}]}}
    at.run()
    at.button_group("heads_part").set_value("head").run()
    assert not at.exception
    assert "No text of the slice runs layer" in seen(at)


def test_importance_is_the_librarys(checkpoint: Any, examples: Any) -> None:
    from budgetformer.head_importance import head_importance

    at = press(open_heads(part="importance"), "heads_importance")
    found = head_importance(checkpoint, examples)
    chart = figure(at, "heads_importance_chart")["data"]
    effects = [e for e in found.effects() if e.n_ran]
    drawn = [y for trace in chart if "y" in trace for y in numbers(trace["y"]).tolist()]
    assert drawn == pytest.approx([e.loss_rise for e in effects], abs=1e-5)
    top = max(effects, key=lambda e: (e.accuracy_drop.value, e.loss_rise))
    row = rows(at)[f"layer {top.layer + 1}, head {top.head + 1}"]
    assert row[0] == f"{top.n_ran / N:.1%}" and row[3] == signed(top.loss_rise, 3)
    assert f"{found.n_runs:,} runs" in seen(at)
    # Fewer than twenty texts say nothing about ranks.
    assert "That cannot be said here" in seen(at)
    # Another part and back: the result is still there.
    at.button_group("heads_part").set_value("use").run()
    at.button_group("heads_part").set_value("importance").run()
    assert figure(at, "heads_importance_chart")["data"]


def test_the_texts_and_the_signature_of_a_head(checkpoint: Any, examples: Any) -> None:
    from budgetformer.head_signature import describe, signatures
    from budgetformer.router_states import router_states

    at = press(press(open_heads(part="head"), "heads_states"), "heads_signatures")
    head = at.session_state["heads_head"]
    assert head == (0, 5)
    states = router_states(checkpoint, examples)
    order = states.strongest(*head, 20)
    table = at.dataframe[0].value
    assert table["text"].tolist() == [examples.texts[i] for i in order]
    assert table["p"].tolist() == pytest.approx(states.probabilities[order, 0, 5].tolist())
    found = signatures(checkpoint, examples)
    values, even = found.values[head], found.even[head]
    assert describe(values, even).capitalize() in seen(at)
    assert rows(at)["How far it looks"] == [f"{values[0]:.1f} tokens", f"{even[0]:.1f} tokens"]
    assert rows(at)["To [CLS]"] == [f"{values[2]:.1%}", f"{even[2]:.1%}"]
    # A row opens in Explore with this head's map.
    at.session_state["heads_texts"] = {"selection": {"rows": [1], "columns": []}}
    at.run()
    at.button("heads_open").click().run()
    assert not at.exception
    assert at.title[0].value == "Explore"
    assert at.text_area("explore_text").value == examples.texts[order[1]]
    assert at.session_state["explore_head"] == head


def test_the_projection_is_scikit_learns(checkpoint: Any, examples: Any) -> None:
    from sklearn.decomposition import PCA

    from budgetformer.router_states import router_states

    at = open_heads(part="read")
    at.selectbox("heads_layer").set_value(1).run()
    at.selectbox("heads_colour").set_value("right").run()
    press(at, "heads_states")
    summaries = router_states(checkpoint, examples).summaries[:, 1]
    wanted = PCA(2).fit(summaries)
    points = wanted.transform(summaries)
    drawn = [
        np.stack([numbers(t["x"]), numbers(t["y"])], axis=1)
        for t in figure(at, "heads_projection_chart")["data"]
        if t.get("name") in ("right", "wrong") and "hovertemplate" in t and t["type"] == "scattergl"
    ]
    found = np.concatenate(drawn)
    for axis in range(2):
        mine, theirs = np.sort(abs(found[:, axis])), np.sort(abs(points[:, axis]))
        assert mine == pytest.approx(theirs, abs=1e-3)
    assert f"{wanted.explained_variance_ratio_.sum():.1%}" in seen(at)


def test_policies_stay_while_the_slider_moves(
    checkpoint: Any, examples: Any, scored: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.components import economy_policies
    from budgetformer.policy_simulator import simulate

    n_runs = []

    def counting(*args: Any, **more: Any) -> Any:
        n_runs.append(args[3])
        return simulate(*args, **more)

    monkeypatch.setattr(economy_policies, "simulate", counting)
    at = press(open_heads(part="policies"), "heads_policies")
    own = scored.take(np.arange(N)).records
    mean_k = float(own.executed_heads.mean())
    found = simulate(checkpoint, examples, own, mean_k)
    row = rows(at)["adaptive: the router’s budgets, scaled"]
    assert row[:2] == [f"{mean_k:.2f}", f"{own.correct.mean():.1%}"]
    for outcome in found.outcomes[1:]:
        name = economy_policies.WORDS[outcome.way]
        assert rows(at)[name][1] == f"{outcome.accuracy.value:.1%}"
    at.select_slider("heads_average").set_value(3.0).run()
    assert "Run the five policies" in at.button("heads_policies").label
    press(at, "heads_policies")
    assert rows(at)["adaptive: the router’s budgets, scaled"][0] == "3.00"
    at.select_slider("heads_average").set_value(mean_k).run()
    assert rows(at)["adaptive: the router’s budgets, scaled"] == row
    assert n_runs == [mean_k, 3.0]
    adaptive = figure(at, "heads_policies_chart")["data"][0]
    assert len(numbers(adaptive["x"])) == 2


def test_two_models_on_the_same_texts(examples: Any, scored: Any) -> None:
    from budgetformer import Checkpoint
    from budgetformer.evaluate import evaluate

    at = press(open_heads(part="models"), "heads_models")
    dense = evaluate(Checkpoint.from_pretrained(ROOT / "checkpoints" / "imdb-dense"), examples)
    own = scored.take(np.arange(N)).records
    both = int((own.correct & dense.correct).sum())
    assert rows(at)["A right"][0] == str(both)
    shared = [own.heads[i, 1].sum() / 8 for i in range(N)]  # of all eight
    change = float((dense.budgets[:, 1] - own.budgets[:, 1]).mean())
    row = rows(at)["2"]
    assert row[0].startswith(signed(change, 3)) and row[2] == f"{np.mean(shared):.1%}"
    b, c = int((own.correct & ~dense.correct).sum()), int((~own.correct & dense.correct).sum())
    p = binomtest(b, b + c).pvalue if b + c else 1.0
    assert f"p = {p:.3f}" in seen(at)


def test_a_dense_model_has_no_choice_to_look_at(models: Path, examples: Any) -> None:
    from budgetformer import Checkpoint
    from budgetformer.scoring import score

    dense = Checkpoint.from_pretrained(models / "dense")
    path = models / "dense" / "records.parquet"
    score(dense, examples, path, "imdb")
    try:
        at = open_heads(model="dense")
        assert not at.exception
        assert "This model has no router: all 4 heads" in seen(at)
        assert "12 of 12 heads are always on" in seen(at)
        at.button_group("heads_part").set_value("policies").run()
        assert "no budgets to spend otherwise" in seen(at)
        at.button_group("heads_part").set_value("importance").run()
        press(at, "heads_importance")
        assert "That cannot be said here" in seen(at)
    finally:
        path.unlink()


def test_without_a_scored_set_the_page_says_how_to_make_one(models: Path) -> None:
    at = open_heads(model="dense")
    assert not at.exception
    assert "No data set has been scored" in seen(at) and not at.get("plotly_chart")


def test_an_address_with_nonsense_shows_the_page(scored: Any) -> None:
    at = open_heads(slice="kept-gone", part="x", groups="y", set="z")
    assert not at.exception
    assert f"over {len(scored):,} examples" in seen(at)


def test_slices_that_were_kept_on_examples_can_be_looked_at(scored: Any) -> None:
    path = ROOT / "checkpoints" / "imdb" / "records.parquet"
    mask = scored.records.n_tokens > 300
    at = open_heads()
    at.session_state["examples_kept"] = {f"{path}-{path.stat().st_mtime_ns}": {"<b>long": mask}}
    at.session_state["head_limit"] = "2"
    at.run()
    at.selectbox("heads_slice").set_value("kept-<b>long").run()
    assert not at.exception
    drawn = numbers(figure(at, "heads_rates")["data"][0]["z"])
    assert drawn == pytest.approx(scored.records.heads[mask].mean(axis=0))
    assert f"over {int(mask.sum()):,} examples" in seen(at)
    assert any("does not count here" in caption.value for caption in at.caption)

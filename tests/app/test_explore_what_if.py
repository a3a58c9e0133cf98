"""Explore, What if: what is forced comes out as the library says, and can be undone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.explore import (
    MODEL_KEY,
    PAIR_KEY,
    PART_KEY,
    TEXT,
    TEXT_KEY,
    assert_result,
    click,
    figure,
    open_page,
    plain,
    predict,
    seen,
)
from tests.conftest import ROOT

FORCED = "explore_what_if"
IMDB = ROOT / "checkpoints" / "imdb"


def what_if(text: str = TEXT, model: str | None = None, **query: str) -> AppTest:
    at = open_page(text, model, **{PART_KEY: "what-if", **query})
    assert_result(at)
    return at


def checkpoint(model: Path = IMDB) -> Any:
    from budgetformer import Checkpoint

    return Checkpoint.from_pretrained(model)


def forced(change: dict[str, Any], text: str = TEXT) -> Any:
    from budgetformer import predict as library
    from budgetformer.interventions import Intervention

    policy = Intervention.from_dict(change).policy(checkpoint().config)
    return library(checkpoint(), text, policy=policy)


def framed(at: AppTest) -> list[list[int]]:
    """The heads that the grid frames, layer by layer."""
    spec, _ = figure(at, "explore_if_heads")
    shapes = spec["layout"]["shapes"]
    n_layers = len(spec["data"][0]["y"])
    return [
        [round((s["x0"] + s["x1"]) / 2) for s in shapes if s["y0"] < layer < s["y1"]]
        for layer in range(n_layers)
    ]


def heads_of(trace: Any) -> list[list[int]]:
    return [list(layer.heads) for layer in trace.layers]


def results(at: AppTest) -> list[list[str]]:
    (body,) = [e.proto.body for e in at.get("html") if "With changes" in e.proto.body]
    return [re.findall(r"<td>([^<]*)</td>", row) for row in body.split("<tr")[2:]]


def test_nothing_is_forced_at_first() -> None:
    _, trace = predict(TEXT)
    at = what_if()
    assert framed(at) == heads_of(trace)
    assert all(left == right for _, left, right, _ in results(at))
    assert at.button("explore_if_reset").disabled
    assert FORCED not in at.query_params
    for layer, decision in enumerate(trace.layers, 1):
        slider = at.slider(f"explore_if_budget_{layer}")
        assert slider.value == round(decision.budget, 2)
        assert f"own {decision.budget:.3f}" in seen(at)


def test_a_slider_forces_k_and_reset_restores() -> None:
    _, own = predict(TEXT)
    at = what_if()
    at.slider("explore_if_budget_2").set_value(0.5).run()
    assert_result(at)
    expected = forced({"budgets": [None, 0.5]})
    assert expected.layers[1].k == 4
    assert framed(at) == heads_of(expected)
    assert at.slider("explore_if_budget_2").label.startswith("Layer 2: k = 4")
    rows = {row[0]: row for row in results(at)}
    assert rows["Heads run"][2].startswith(f"{expected.executed_heads} =")
    p = expected.probabilities["positive"]
    assert rows["positive"][2] in (f"{p:.1%}", "< 0.1%", "> 99.9%")
    assert rows["Answer"][1:3] == [own.label, expected.label]
    assert json.loads(at.query_params[FORCED]) == {"budgets": [None, 0.5]}
    at.button("explore_if_reset").click().run()
    assert framed(at) == heads_of(own)
    assert at.slider("explore_if_budget_2").value == round(own.layers[1].budget, 2)
    assert FORCED not in at.query_params


def test_one_slider_moves_all_layers() -> None:
    at = what_if()
    at.slider("explore_if_budget_all").set_value(1.0).run()
    config, _ = predict(TEXT)
    assert framed(at) == [list(range(config.n_heads))] * config.n_layers
    assert [at.slider(f"explore_if_budget_{i}").value for i in (1, 2)] == [1.0, 1.0]


def test_a_head_that_is_clicked_out_leaves_the_grid_and_k_stays() -> None:
    config, own = predict(TEXT)
    head = own.layers[0].heads[0]
    at = click(what_if(), "explore_if_heads", head)
    assert_result(at)
    expected = forced({"heads_out": [[head], []]})
    assert framed(at) == heads_of(expected)
    assert head not in framed(at)[0]
    assert len(framed(at)[0]) == own.layers[0].k
    assert at.multiselect("explore_if_out").value == [(0, head)]
    spec, _ = figure(at, "explore_if_heads")
    assert spec["data"][0]["text"][0][head].endswith("out")
    # A second click, on the changed chart, gives the choice back.
    click(at, "explore_if_heads", head)
    assert framed(at) == heads_of(own)
    # A skipped one comes in, in the last layer and the last column too.
    last = max(h for h in range(config.n_heads) if h not in own.layers[-1].heads)
    click(at, "explore_if_heads", (config.n_layers - 1) * config.n_heads + last)
    assert last in framed(at)[-1] and len(framed(at)[-1]) == own.layers[-1].k
    assert at.multiselect("explore_if_in").value == [(config.n_layers - 1, last)]


def test_the_lists_do_what_clicks_do() -> None:
    _, own = predict(TEXT)
    head = own.layers[0].heads[0]
    at = what_if()
    at.multiselect("explore_if_out").set_value([(0, head)]).run()
    assert framed(at) == heads_of(forced({"heads_out": [[head], []]}))
    assert (0, head) not in [tuple(o) for o in at.multiselect("explore_if_in").value]
    at.multiselect("explore_if_out").set_value([]).run()
    assert framed(at) == heads_of(own)


def test_a_layer_keeps_a_head() -> None:
    config, _ = predict(TEXT)
    at = what_if()
    at.multiselect("explore_if_out").set_value([(0, h) for h in range(config.n_heads)]).run()
    assert not at.exception
    assert "Layer 1 needs a head" in plain(at)
    assert at.multiselect("explore_if_out").value == []


def test_changes_stay_for_another_text_and_the_page_says_so() -> None:
    at = what_if()
    at.slider("explore_if_budget_all").set_value(0.75).run()
    assert not at.info
    at.text_area(TEXT_KEY).set_value("Another text, a good one.").run()
    assert "made for another text" in at.info[0].value
    other = forced({"budgets": [0.75, 0.75]}, "Another text, a good one.")
    assert framed(at) == heads_of(other)
    at.button("explore_if_reset").click().run()
    assert not at.info


@pytest.mark.parametrize("order", ["bottom", "random", "sample"])
def test_other_orders(order: str) -> None:
    at = what_if()
    at.slider("explore_if_budget_all").set_value(0.4).run()
    at.button_group("explore_if_order").set_value(order).run()
    assert framed(at) == heads_of(forced({"budgets": [0.4, 0.4], "order": order}))
    if order != "bottom":
        at.number_input("explore_if_seed").set_value(3).run()
        change = {"budgets": [0.4, 0.4], "order": order, "seed": 3}
        assert framed(at) == heads_of(forced(change))


def test_a_link_opens_a_change() -> None:
    change = {"budgets": [0.5, None], "heads_out": [[], [0]]}
    at = what_if(**{FORCED: json.dumps(change)})
    assert framed(at) == heads_of(forced(change))
    assert at.slider("explore_if_budget_1").value == 0.5


@pytest.mark.parametrize(
    "link",
    ["{", "[]", '{"budgets":[2,2]}', '{"k":[1]}', '{"heads_in":[[99],[]]}', '{"x":1}', "9" * 99],
)
def test_a_link_that_does_not_fit_is_left_out(link: str) -> None:
    _, own = predict(TEXT)
    at = open_page(TEXT, **{PART_KEY: "what-if", FORCED: link})
    assert not at.exception
    assert "do not fit this model" in " ".join(m.value for m in at.markdown)
    assert framed(at) == heads_of(own)


def test_a_change_does_not_outlive_its_session() -> None:
    at = what_if()
    at.slider("explore_if_budget_all").set_value(1.0).run()
    _, own = predict(TEXT)
    assert framed(what_if()) == heads_of(own)


def test_every_k_and_the_one_that_is_enough() -> None:
    from budgetformer.text_sweep import text_sweep

    _, trace = predict(TEXT)
    found = text_sweep(checkpoint(), trace)
    at = what_if()
    spec, alt = figure(at, "explore_if_sweep")
    for line in spec["data"]:
        expected = [point.probabilities[line["name"]] for point in found.points]
        assert line["y"] == pytest.approx(expected)
    shaded = next(s for s in spec["layout"]["shapes"] if s["type"] == "rect")
    assert round(shaded["x0"]) == found.sufficient_k
    assert f"{found.sufficient_k} would have been enough" in alt
    written = " ".join(m.value for m in at.markdown)
    assert f"From **{found.sufficient_k}** of 8 heads" in written
    assert f"spent **{found.own_k:g}**" in written


def test_the_best_heads_are_searched_on_request_and_can_be_forced() -> None:
    from budgetformer.oracle import oracle_heads

    _, trace = predict(TEXT)
    at = what_if()
    assert "oracle-k" not in seen(at)
    at.button("explore_if_oracle").click().run()
    assert_result(at)
    best = oracle_heads(checkpoint(), trace, limit=1000)
    kind = "exact" if best.exact else "greedy"
    assert f"oracle-k, {kind} ({best.n_tried:,} tried)" in seen(at)
    assert f"{best.loss:.3f}" in seen(at)
    at.button("explore_if_use_oracle").click().run()
    assert framed(at) == [list(row) for row in best.heads]


def test_one_head_taken_out() -> None:
    from budgetformer.ablation import ablate

    _, trace = predict(TEXT)
    executed = [(i, head) for i, layer in enumerate(trace.layers) for head in layer.heads]
    at = what_if()
    at.selectbox("explore_if_ablated").set_value(executed[-1]).run()
    for kind in ("zero", "mean"):
        at.button_group("explore_if_replacement").set_value(kind).run()
        assert_result(at)
        (found,) = ablate(checkpoint(), trace, [executed[-1]], kind)  # type: ignore[arg-type]
        change = found.changes["positive"]
        shown = "0.0" if abs(change) < 5e-4 else f"{100 * change:+.1f}".replace("-", "−")
        (body,) = [e.proto.body for e in at.get("html") if ">Before<" in e.proto.body]
        assert f"<td>{shown} points</td>" in body


def test_a_temperature_changes_p_and_not_the_heads() -> None:
    from budgetformer.routing_view import sharpness

    _, trace = predict(TEXT)
    at = what_if()
    at.select_slider("explore_if_tau").set_value(2.0).run()
    spec, _ = figure(at, "explore_if_sharpness")
    for layer, decision in enumerate(trace.layers):
        found = sharpness(decision.scores, 2.0)
        assert spec["data"][2 * layer + 1]["y"] == pytest.approx(found.probabilities)
        assert f"→ {found.effective_heads:.2f}" in seen(at)
    assert framed(at) == heads_of(trace)


def test_a_dense_model_can_only_leave_heads_out(models: Path) -> None:
    from budgetformer import predict as library
    from budgetformer.interventions import Intervention

    at = what_if(TEXT, "dense")
    assert not at.slider and not at.get("plotly_chart")
    at.multiselect("explore_if_out").set_value([(2, 3)]).run()
    assert_result(at)
    dense = checkpoint(models / "dense")
    policy = Intervention(heads_out=((), (), (3,))).policy(dense.config)
    expected = library(dense, TEXT, policy=policy).probabilities["positive"]
    assert {row[0]: row[2] for row in results(at)}["positive"] == f"{expected:.1%}"


def test_a_change_of_model_keeps_what_fits(models: Path) -> None:
    at = what_if()
    at.slider("explore_if_budget_all").set_value(0.5).run()
    at.selectbox(MODEL_KEY).set_value("pair").run()
    assert not at.exception  # other numbers of layers: the change is left out, in words
    assert "do not fit this model" in " ".join(m.value for m in at.markdown)
    at = what_if("A man sleeps.", "pair", **{PAIR_KEY: "A man runs."})
    at.slider("explore_if_budget_3").set_value(1.0).run()
    assert framed(at)[2] == [0, 1, 2, 3]

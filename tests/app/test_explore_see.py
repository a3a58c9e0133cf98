"""Explore, See: the numbers and figures are the library's."""

from __future__ import annotations

import html
import math
import re
from pathlib import Path

import numpy as np
import pytest

from tests.app.explore import (
    PAIR_KEY,
    TEXT,
    assert_result,
    bodies,
    click,
    figure,
    numbers,
    open_page,
    predict,
    seen,
)
from tests.conftest import HOSTILE, ROOT

IMDB = ROOT / "checkpoints" / "imdb"


def test_budgets_and_the_whole_heads_they_become() -> None:
    config, trace = predict(TEXT)
    at = open_page(TEXT)
    spec, alt = figure(at, "explore_budgets")
    budgets = [layer.budget for layer in trace.layers]
    k = [max(1, math.floor(s * config.n_heads)) for s in budgets]
    bars = {trace["name"]: trace for trace in spec["data"]}
    assert bars["s·H"]["x"] == pytest.approx([s * config.n_heads for s in budgets])
    assert bars["executed heads k"]["x"] == k
    assert spec["layout"]["xaxis"]["tickvals"] == list(range(config.n_heads + 1))
    assert all(f"budget {s:.3f}" in alt for s in budgets)
    assert f"{sum(k)} of {config.n_layers * config.n_heads}" in seen(at)
    mean, share = sum(budgets) / len(budgets), sum(k) / (len(k) * config.n_heads)
    assert re.search(rf"Mean budget[^%]*{100 * mean:.1f}%", seen(at))
    assert re.search(rf"Executed heads[^%]*{100 * share:.1f}%", seen(at))


def test_the_framed_heads_are_the_most_probable_ones() -> None:
    _, trace = predict(TEXT)
    spec, alt = figure(open_page(TEXT), "explore_heads")
    grid, _ = spec["data"]
    for row, layer in enumerate(trace.layers):
        p = layer.head_probabilities
        assert grid["z"][row] == pytest.approx(list(p))
        best = sorted(sorted(range(len(p)), key=lambda head: -p[head])[: layer.k])
        frames = [
            shape
            for shape in spec["layout"]["shapes"]
            if shape["y0"] < row < shape["y1"] and shape["line"].get("dash") is None
        ]
        assert [round((s["x0"] + s["x1"]) / 2) for s in frames] == best
        assert ["✓" in cell for cell in grid["text"][row]] == [h in best for h in range(len(p))]
        numbers = ", ".join(f"head {head + 1} ({p[head]:.0%})" for head in best)
        assert f"layer {row + 1} runs {numbers}" in alt


def test_tokens_special_ones_can_be_hidden() -> None:
    _, trace = predict(TEXT)
    at = open_page(TEXT)
    chips = r'<span class="bf-token[^>]*>([^<]+)'
    assert [html.unescape(c) for c in re.findall(chips, bodies(at))] == list(trace.encoding.tokens)
    assert f"**{len(trace.encoding.ids)} of " in " ".join(m.value for m in at.markdown)
    at.toggle("explore_show_special").set_value(False).run()
    left = [html.unescape(c) for c in re.findall(chips, bodies(at))]
    assert left == list(trace.encoding.tokens[1:-1])


def test_the_margin_is_the_lead_over_the_next_class() -> None:
    _, trace = predict(TEXT)
    first, second = sorted(trace.probabilities.values(), reverse=True)[:2]
    assert f"{100 * (first - second):.1f} points" in seen(open_page(TEXT))


def test_how_near_a_layer_is_to_another_number_of_heads() -> None:
    from budgetformer.routing_view import boundaries

    config, trace = predict(TEXT)
    text = seen(open_page(TEXT)).replace("−", "-")
    for layer, boundary in enumerate(boundaries(trace, config), 1):
        line = re.search(rf"Layer {layer} asks for[^:]*: ([^.]*\.\d+[^L]*)", text)
        assert line
        if boundary.up is not None:
            assert f"one more from {boundary.up * config.n_heads:+.2f} on" in line[1]
        if boundary.down is not None and abs(boundary.down) * config.n_heads >= 0.005:
            assert f"one fewer below {boundary.down * config.n_heads:+.2f}" in line[1]
        assert ("Near the boundary" in line[1]) == boundary.near_boundary
        if boundary.next is not None:
            last = f"Layer {layer}: head {boundary.last + 1} is the last that runs, head "
            assert last + f"{boundary.next + 1} the first that does not" in text


def test_the_router_step_by_step_for_the_chosen_layer() -> None:
    from budgetformer import Checkpoint
    from budgetformer.routing_view import router_steps

    config, trace = predict(TEXT)
    at = open_page(TEXT)
    at.button_group("explore_layer").set_value(1).run()
    steps = router_steps(Checkpoint.from_pretrained(IMDB), trace, 1)
    text = seen(at).replace("−", "-")
    assert f"vectors of the {len(trace.encoding.ids)} tokens" in text
    assert f"of length {steps.summary_norm:.2f}" in text
    assert f"s = {steps.budget:.4f}" in text and f"x = {steps.budget_logit:.3f}" in text
    assert f"s·H = {steps.budget:.4f} × {config.n_heads} = " in text
    assert f"it gives k = {steps.k}" in text
    (table,) = [e.proto.body for e in at.get("html") if "<th>Rank</th>" in e.proto.body]
    rows = re.findall(r"<td>(\d+)</td><td>(\d+)</td><td>([^<]+)</td><td>([^<]+)</td>", table)
    z, p = trace.layers[1].scores, trace.layers[1].head_probabilities
    best = sorted(range(config.n_heads), key=lambda head: -z[head])
    assert rows == [
        (str(rank), str(head + 1), f"{z[head]:.3f}".replace("-", "−"), f"{p[head]:.1%}")
        for rank, head in enumerate(best, 1)
    ]
    assert table.count("✓ runs") == trace.layers[1].k


@pytest.mark.parametrize("whole_words", [True, False])
def test_the_map_is_the_librarys_and_rows_sum_to_one(whole_words: bool) -> None:
    from budgetformer import Checkpoint
    from budgetformer.attention_maps import attention_maps, by_word

    _, trace = predict(TEXT)
    maps = attention_maps(Checkpoint.from_pretrained(IMDB), trace)
    at = open_page(TEXT)
    if whole_words:
        maps = by_word(maps, trace)
    else:
        at.toggle("explore_map_words").set_value(False).run()
    layer, head = at.selectbox("explore_head").value
    assert head in trace.layers[layer].heads
    found = maps.find(layer, head)
    assert found is not None
    spec, alt = figure(at, "explore_map")
    shown = numbers(spec["data"][0]["z"])
    assert shown == pytest.approx(found.weights, abs=1e-6)
    assert shown.sum(axis=1) == pytest.approx(np.ones(len(maps.units)), abs=1e-5)
    names = [html.unescape(name) for name in spec["layout"]["xaxis"]["ticktext"]]
    assert names == [unit.text for unit in maps.units]
    assert f"{len(maps.units)} by {len(maps.units)}" in alt
    at.toggle("explore_map_special").set_value(False).run()
    spec, _ = figure(at, "explore_map")
    inner = [i for i, unit in enumerate(maps.units) if not unit.special]
    assert numbers(spec["data"][0]["z"]) == pytest.approx(found.weights[inner][:, inner], abs=1e-6)


def test_a_click_in_either_chart_shows_that_heads_map() -> None:
    config, trace = predict(TEXT)
    executed = [(i, head) for i, layer in enumerate(trace.layers) for head in layer.heads]
    at = open_page(TEXT)
    for chart in ("explore_heads", "explore_maps"):
        for layer, head in (executed[-1], executed[0]):
            click(at, chart, layer * config.n_heads + head)
            assert not at.exception
            assert at.selectbox("explore_head").value == (layer, head)
            assert figure(at, "explore_map")[1].startswith(f"Layer {layer + 1}, head {head + 1}.")
    # By name it works too, and the click before does not come back.
    at.selectbox("explore_head").set_value(executed[-1]).run()
    assert at.selectbox("explore_head").value == executed[-1]
    at.toggle("explore_map_words").set_value(False).run()
    assert at.selectbox("explore_head").value == executed[-1]


def test_a_skipped_head_has_no_map_and_the_page_says_so() -> None:
    config, trace = predict(TEXT)
    skipped = next(h for h in range(config.n_heads) if h not in trace.layers[0].heads)
    at = click(open_page(TEXT), "explore_heads", skipped)
    layer, head = at.selectbox("explore_head").value
    assert layer == 0 and head in trace.layers[0].heads
    assert any(f"head {skipped + 1} is skipped" in c.value for c in at.caption)
    spec, alt = figure(at, "explore_maps")
    count = config.n_layers * config.n_heads - trace.executed_heads
    assert [a["text"] for a in spec["layout"]["annotations"]] == ["skipped"] * count
    for i, decision in enumerate(trace.layers, 1):
        heads = ", ".join(str(h + 1) for h in decision.heads)
        assert f"layer {i}: maps of heads {heads}" in alt


def test_operations_by_formula_and_the_audit() -> None:
    from budgetformer import Checkpoint
    from budgetformer.audit import audit
    from budgetformer.cost import flops, full_flops

    config, trace = predict(TEXT)
    text = seen(open_page(TEXT))
    n = len(trace.encoding.ids)
    used, full = flops(config, n, [layer.k for layer in trace.layers]), full_flops(config, n)
    assert "by formula" in text and "measured here" in text
    for scope in ("attention_core", "attention", "layers", "model"):
        assert f"{1 - getattr(used, scope) / getattr(full, scope):.1%} less" in text
    found = audit(Checkpoint.from_pretrained(IMDB), TEXT)
    assert found.passed
    assert f"{trace.executed_heads} heads computed, {trace.executed_heads} chosen" in text
    assert "Skipping equals masking" in text and "✗" not in text


def test_time_is_measured_only_on_request() -> None:
    at = open_page(TEXT)
    assert "Median" not in seen(at)
    at.button("explore_measure").click().run()
    assert_result(at)
    assert "Median" in seen(at) and re.search(r"\d+\.\d\d ms", seen(at))
    assert re.search(r"15 runs of each, in turns, on \d+ thread", seen(at))
    at.text_area("explore_text").set_value("another text").run()
    assert "Median" not in seen(at)


@pytest.mark.parametrize("name", ["dense", "pair", "<b>odd $1 $2"])
def test_every_kind_of_model_is_drawn(models: Path, name: str) -> None:
    pair = "A man runs." if name == "pair" else None
    config, trace = predict(TEXT, pair, models / name)
    at = open_page(TEXT, name, **({PAIR_KEY: pair} if pair else {}))
    assert_result(at)
    spec, _ = figure(at, "explore_maps")
    skipped = config.n_layers * config.n_heads - trace.executed_heads
    assert len(spec["layout"].get("annotations", [])) == skipped
    assert "Skipping equals masking" in seen(at)
    assert ("How a layer decides" in [s.value for s in at.subheader]) == config.routed


def test_hostile_words_are_names_in_the_map() -> None:
    at = open_page(HOSTILE)
    assert_result(at)
    spec, _ = figure(at, "explore_map")
    names = spec["layout"]["xaxis"]["ticktext"]
    assert "&lt;" in names and not any("<" in name for name in names)
    assert "<img" not in bodies(at)

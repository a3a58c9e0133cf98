"""Figures hold the numbers they were given, and their sentences say the same."""

from __future__ import annotations

import numpy as np
import pytest

from budgetformer.figures.attention import (
    attention_map,
    attention_map_alt,
    attention_overview,
    attention_overview_alt,
    pooled,
)
from budgetformer.figures.budgets import budget_bars, budget_bars_alt, plain
from budgetformer.figures.heads import head_grid, head_grid_alt
from budgetformer.figures.sharpness import sharpness_bars, sharpness_bars_alt
from budgetformer.figures.text_sweep import sweep_lines, sweep_lines_alt


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [(2.264, "2.26"), (1.996, "1.996"), (1.99999, "1.99999"), (2.0, "2.00"), (0.0004, "0.00")],
)
def test_a_wanted_number_is_not_rounded_over_a_whole_one(wanted: float, shown: str) -> None:
    assert plain(wanted) == shown


def test_budget_bars() -> None:
    figure = budget_bars([0.25, 0.1], [1, 1], n_heads=6)
    assert list(figure.data[1].x) == pytest.approx([1.5, 0.6])
    assert list(figure.data[2].x) == [1, 1]
    assert list(figure.layout.xaxis.tickvals) == [0, 1, 2, 3, 4, 5, 6]
    assert [a.text.split("   ")[0] for a in figure.layout.annotations] == [
        "<b>Layer 1</b>",
        "<b>Layer 2</b>",
    ]
    assert "layer 2: budget 0.100, 0.60 heads wanted, 1 run" in budget_bars_alt(
        [0.25, 0.1], [1, 1], 6
    )


def test_head_grid_frames_exactly_the_executed_heads() -> None:
    p = [[0.7, 0.299, 0.001], [0.001, 0.002, 0.997]]
    figure = head_grid(p, [(0, 1), (2,)], [[2.0, 1.0, 0.0], [0.0, 0.5, 3.0]])
    grid, clicks = figure.data
    assert [list(row) for row in grid.z] == p
    assert [list(row) for row in grid.text] == [
        ["<b>70</b><br>✓", "<b>30</b><br>✓", "<1"],
        ["<1", "<1", "<b>>99</b><br>✓"],
    ]
    middles = [((s.x0 + s.x1) / 2, (s.y0 + s.y1) / 2) for s in figure.layout.shapes]
    assert middles == [(0, 0), (1, 0), (2, 1)]
    # A click's point number is layer · H + head.
    assert list(zip(clicks.y, clicks.x, strict=True))[4] == ("Layer 2", "2")
    assert head_grid_alt(p, [(0, 1), (2,)]).endswith(
        "layer 1 runs head 1 (70%), head 2 (30%) of 3; layer 2 runs head 3 (100%) of 3."
    )


def test_many_heads_have_no_numbers_that_would_overlap() -> None:
    figure = head_grid([[1 / 16] * 16], [(0,)], [[0.0] * 16])
    assert figure.data[0].texttemplate is None


def test_head_grid_marks_what_is_forced_level_or_picked() -> None:
    figure = head_grid(
        [[0.4, 0.35, 0.25]],
        [(0, 2)],
        [[1.0, 0.9, 0.5]],
        ties=[(0, 1)],
        forced={(0, 1): False, (0, 2): True},
        picked=(0, 2),
    )
    assert list(figure.data[0].text[0]) == ["<b>40</b><br>✓ ≈", "35<br>≈ out", "<b>25</b><br>✓ in"]
    assert [c[2] for c in figure.data[1].customdata] == [
        "runs, near tie",
        "is skipped, near tie, forced out",
        "runs, forced in",
    ]
    assert [shape.line.dash for shape in figure.layout.shapes] == [None, None, "dot"]


MAP = np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [0.0, 1.0, 0.0]], dtype=np.float32)


def test_attention_map_names_its_units_as_text() -> None:
    figure = attention_map(MAP, ["[CLS]", "<b>x", "a" * 30])
    assert np.array_equal(figure.data[0].z, MAP)
    assert list(figure.layout.xaxis.ticktext) == ["[CLS]", "&lt;b&gt;x", "a" * 13 + "…"]
    assert figure.layout.xaxis.showticklabels
    assert not attention_map(np.eye(99, dtype=np.float32), ["x"] * 99).layout.xaxis.showticklabels
    alt = attention_map_alt(MAP, ["a", "b", "c"])
    assert alt == "Attention map of 3 by 3. Strongest: c to b 100%; b to c 70%; a to a 50%."


def test_attention_overview_leaves_skipped_heads_empty() -> None:
    figure = attention_overview({(0, 1): MAP, (1, 0): MAP / 2}, 2, 2, picked=(1, 0))
    canvas = figure.data[0].z
    assert np.array_equal(canvas[0:3, 4:7], MAP)  # a tile of 3, a gap of 1
    assert np.array_equal(canvas[4:7, 0:3], MAP)  # each on its own scale
    assert np.isnan(canvas[0:3, 0:3]).all() and np.isnan(canvas[4:7, 4:7]).all()
    assert [(a.x, a.y, a.text) for a in figure.layout.annotations] == [
        (1, 1, "skipped"),
        (5, 5, "skipped"),
    ]
    assert [list(c)[:2] for c in figure.data[1].customdata][2] == [2, 1]
    alt = attention_overview_alt({(0, 1): MAP, (1, 0): MAP}, 2, 2)
    assert alt.endswith("layer 1: maps of heads 2; layer 2: maps of heads 1.")


def test_pooling_keeps_the_strongest() -> None:
    weights = np.zeros((100, 100), dtype=np.float32)
    weights[57, 3] = 0.9
    small = pooled(weights, 32)
    assert small.shape == (32, 32) and small.max() == np.float32(0.9)
    assert (small > 0).sum() == 1
    assert np.array_equal(pooled(MAP, 3), MAP)


def test_sweep_lines() -> None:
    points = [{"a": 0.4, "<b>": 0.6}, {"a": 0.7, "<b>": 0.3}, {"a": 0.9, "<b>": 0.1}]
    figure = sweep_lines(points, own_k=1.5, sufficient_k=2)
    assert {line.name: list(line.y) for line in figure.data} == {
        "a": [0.4, 0.7, 0.9],
        "&lt;b&gt;": [0.6, 0.3, 0.1],
    }
    shaded, spent = figure.layout.shapes
    assert round(shaded.x0) == 2 and spent.x0 == spent.x1 == 1.5
    assert sweep_lines_alt(points, 1.5, 2) == (
        "Class probabilities at every number of heads. k 1: <b> 60%; k 2: a 70%; k 3: a 90%. "
        "The model spent 1.5, 2 would have been enough."
    )


def test_sharpness_bars() -> None:
    own, shown = [[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.5, 0.5]]
    figure = sharpness_bars(own, shown)
    assert [list(bar.y) for bar in figure.data] == [own[0], shown[0], own[1], shown[1]]
    assert [bar.yaxis for bar in figure.data] == ["y", "y", "y2", "y2"]
    assert "layer 2: 2.00 effective heads" in sharpness_bars_alt([1.38, 2], [1.96, 2], 0.25, 1)

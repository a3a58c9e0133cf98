"""Figures of words, heads and comparisons hold the numbers they were given."""

from __future__ import annotations

from itertools import combinations

import pytest

from budgetformer.figures.attribution import (
    head_bars,
    head_bars_alt,
    random_strip,
    random_strip_alt,
)
from budgetformer.figures.comparison import (
    budget_pair,
    budget_pair_alt,
    head_pair,
    head_pair_alt,
)
from budgetformer.figures.word_plane import _placed, _sides, leanings, word_plane, word_plane_alt

WORDS = ["not", "good", "<b>", "film"]
CLASS, BUDGET = [-2.0, 1.0, 0.1, 0.0], [0.1, 0.0, 0.2, 0.0]


def test_every_word_is_a_point_and_html_in_it_is_text() -> None:
    (points,) = word_plane(WORDS, CLASS, BUDGET, "<i>up").data
    assert list(points.x) == CLASS and list(points.y) == BUDGET
    assert list(points.customdata) == ["not", "good", "&lt;b&gt;", "film"]
    assert "<b>" not in points.text
    figure = word_plane(WORDS, CLASS, BUDGET, "<i>up")
    assert "<i>" not in figure.layout.xaxis.title.text
    assert [a.text for a in figure.layout.annotations] == [
        "against it,<br>raise the budget",
        "for it,<br>raise the budget",
        "against it,<br>lower the budget",
        "for it,<br>lower the budget",
    ]
    assert [(a.x, a.y) for a in figure.layout.annotations] == [(0, 1), (1, 1), (0, 0), (1, 0)]


def test_labels_do_not_touch_each_other() -> None:
    words = [f"word{i}" for i in range(60)]
    points = [((i * 7 % 19) / 20 - 0.4, (i * 5 % 23) / 24 - 0.4) for i in range(60)]
    labels = dict(_placed(words, points))
    boxes = [dict(_sides(words[i], *points[i]))[side] for i, side in labels.items()]
    assert len(boxes) >= 5
    for a, b in combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_words_lean_to_the_axis_they_move_more() -> None:
    assert leanings(WORDS, CLASS, BUDGET) == (["not", "good"], ["<b>"])
    alt = word_plane_alt(WORDS, CLASS, BUDGET, "up")
    assert "Class rather than budget: not, good. Budget rather than class: <b>." in alt


def test_a_plane_of_nothing_and_of_zeros() -> None:
    assert list(word_plane([], [], [], "a").data[0].x) == []
    assert list(word_plane(["a"], [0.0], [0.0], "a").data[0].x) == [0.0]
    assert leanings(["a"], [0.0], [0.0]) == ([], [])


def test_heads_come_strongest_first_and_the_rest_in_one_bar() -> None:
    values = [(0, head, float(head - 8)) for head in range(16)]
    (bars,) = head_bars(values).data
    assert bars.y[0] == "Layer 1, head 1" and bars.x[0] == -8
    assert len(bars.y) == 13 and bars.y[-1] == "4 others"
    assert sum(bars.x) == pytest.approx(sum(value for _, _, value in values))
    assert "Layer 1, head 1: −8.000" in head_bars_alt(values, "budget")


def test_a_map_stands_beside_its_random_draws() -> None:
    random, own = random_strip(["10%", "20%"], [1.0, 2.0], [[0.1, 0.2], [0.3]], "fall").data
    assert list(own.x) == [1.0, 2.0]
    assert list(zip(random.x, random.y, strict=True)) == [(0.1, 0), (0.2, 0), (0.3, 1)]
    alt = random_strip_alt(["10%"], [1.0], [[0.1, 0.2]], "Fall")
    assert alt == "Fall. 10%: +1.000, random words +0.100 to +0.200."


def test_budgets_of_two_runs_of_different_depth() -> None:
    first, second = budget_pair([0.2, None, 0.4], [0.3, 0.5]).data
    assert list(first.x) == [0.2, None, 0.4] and list(second.x) == [0.3, 0.5, None]
    alt = budget_pair_alt([0.2, None], [0.3, 0.5])
    assert "layer 1: A 0.200, B 0.300 (+0.100); layer 2: A none, B 0.500." in alt


def test_each_run_fills_its_half_of_a_cell() -> None:
    figure = head_pair([(0, 1)], [(1,)], n_heads=4)
    everything, a, b = figure.data
    assert len(everything.x) == 4
    assert list(a.x) == pytest.approx([-0.2, 0.8]) and list(b.x) == pytest.approx([1.2])
    assert list(b.customdata) == ["layer 1, head 2"]
    assert "layer 1: A runs 1, 2, B runs 2." in head_pair_alt([(0, 1)], [(1,)])

"""The map and the confusion matrix hold the numbers they were given."""

from __future__ import annotations

import numpy as np
import pytest

from budgetformer.figures.confusion import confusion_alt, confusion_grid
from budgetformer.figures.scatter import (
    Axis,
    Group,
    looks,
    outside_group,
    scatter,
    scatter_alt,
)
from budgetformer.relation import Trend


def test_points_lie_where_their_numbers_are() -> None:
    g = np.random.default_rng(0)
    x, y = 10 ** g.uniform(-4, 1, 50), g.random(50)
    right = np.flatnonzero(y > 0.4)
    wrong = np.flatnonzero((y <= 0.4) & (y > 0.1))
    groups = [
        outside_group(np.flatnonzero(y <= 0.1)),
        Group("right", right, "blue"),
        Group("<b>wrong", wrong, "orange", "diamond"),
    ]
    line = Trend(*(np.array(v, float) for v in ([0.01, 1], [0.4, 0.5], [0.3, 0.4], [0.5, 0.6])))
    rows = np.arange(50) + 1
    figure = scatter(Axis("Loss", x, True), Axis("s", y), groups, rows, line, 0.5)
    points = [trace for trace in figure.data if "mode" in trace and trace.mode == "markers"]
    assert [trace.name for trace in points] == ["outside the slice", "right", "&lt;b&gt;wrong"]
    for trace, group in zip(points, groups, strict=True):
        assert trace.x == pytest.approx(np.log10(x[group.index]), abs=1e-6)
        assert trace.y == pytest.approx(y[group.index], abs=1e-6)
        assert trace.customdata[:, 0].tolist() == rows[group.index].tolist()
        assert trace.customdata[:, 1] == pytest.approx(x[group.index])
    # The bars beside the map count what lies inside, all with the same bins.
    bars = [trace for trace in figure.data if trace.type == "bar"]
    above = [trace for trace in bars if trace.yaxis == "y2"]
    beside = [trace for trace in bars if trace.xaxis == "x2"]
    assert [int(sum(trace.y)) for trace in above] == [len(right), len(wrong)]
    assert [int(sum(trace.x)) for trace in beside] == [len(right), len(wrong)]
    assert np.array_equal(above[0].x, above[1].x)
    mean = next(trace for trace in figure.data if trace.name == "mean along x")
    assert mean.x.tolist() == [-2, 0] and mean.y.tolist() == [0.4, 0.5]
    assert figure.layout.shapes[0].y0 == 0.5
    ticks = dict(zip(figure.layout.xaxis.tickvals, figure.layout.xaxis.ticktext, strict=True))
    assert ticks[0] == "1" and ticks[-2] == "0.01"


def test_a_map_of_one_point_and_of_many() -> None:
    one = Axis("x", np.array([2.0])), Axis("y", np.array([0.5]))
    figure = scatter(*one, [Group("right", np.array([0]), "blue")], np.array([1]))
    assert figure.layout.showlegend is False and len(figure.data) == 3
    n = 50_000
    many = Axis("x", np.linspace(0, 1, n)), Axis("y", np.linspace(1, 0, n))
    figure = scatter(*many, [Group("right", np.arange(n), "blue")], np.arange(n))
    assert figure.data[0].type == "scattergl" and figure.data[0].marker.size == 4
    # What is sent: two numbers a point, and two for the hover text.
    assert len(figure.to_json()) < 2_500_000


def test_groups_look_different() -> None:
    assert len(set(looks(14))) == 14


def test_the_sentence_beside_the_map() -> None:
    x = Axis("Loss", np.array([1.0, 2.0])), Axis("Mean budget s", np.array([0.1, 0.2]))
    said = scatter_alt(*x, [Group("right", np.arange(2), "blue")], "ρ = 1.")
    assert said == "Mean budget s against Loss of 2 examples: 2 right. ρ = 1."


def test_cells_of_the_confusion_matrix() -> None:
    counts = np.array([[5, 0, 1], [2, 4, 0], [0, 3, 9]])
    figure = confusion_grid(counts, ["<i>a", "b", "c" * 30], (1, None))
    grid, cells = figure.data
    assert np.asarray(grid.z) == pytest.approx(counts / counts.sum(axis=1, keepdims=True))
    assert [list(row) for row in grid.text] == [["5", "0", "1"], ["2", "4", "0"], ["0", "3", "9"]]
    # A click's point is gold · C + predicted.
    for gold in range(3):
        for predicted in range(3):
            at = gold * 3 + predicted
            assert (cells.y[at], cells.x[at]) == (gold, predicted)
            assert cells.customdata[at][2] == counts[gold, predicted]
    assert figure.layout.xaxis.ticktext[0] == "&lt;i&gt;a"
    assert figure.layout.xaxis.ticktext[2] == "c" * 15 + "…"
    (frame,) = figure.layout.shapes
    assert (frame.y0, frame.y1, frame.x0, frame.x1) == (0.5, 1.5, -0.5, 2.5)
    assert not confusion_grid(counts, ["a", "b", "c"], (None, None)).layout.shapes
    said = confusion_alt(counts, ["a", "b", "c"])
    assert "18 of 24 are right" in said and "c taken for b: 3; b taken for a: 2" in said

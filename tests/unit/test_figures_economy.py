"""The figures of the Heads page hold the numbers they were given, and their sentences say them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from budgetformer.figures.economy import (
    group_grid,
    group_grid_alt,
    lift_grid,
    lift_grid_alt,
    rate_grid,
    rate_grid_alt,
)
from budgetformer.figures.head_importance import (
    HeadPoint,
    importance_points,
    importance_points_alt,
)
from budgetformer.figures.policies import policy_points, policy_points_alt
from budgetformer.intervals import Estimate
from budgetformer.policy_simulator import WAYS, Outcome, Simulation


def test_rate_grid_frames_dead_and_always_on_heads() -> None:
    rates = np.array([[0.0, 0.5, 1.0], [0.004, 0.996, 0.25]])
    dead, always = rates < 0.01, rates > 0.99
    figure = rate_grid(rates, rates - 0.01, rates + 0.01, dead, always, (1, 2))
    grid, clicks = figure.data
    assert [list(row) for row in grid.text] == [["0", "50", "100"], ["<1", ">99", "25"]]
    frames = [((s.x0 + s.x1) / 2, (s.y0 + s.y1) / 2, s.line.dash) for s in figure.layout.shapes]
    assert frames == [
        (0, 0, "dot"), (0, 1, "dot"), (2, 0, None), (1, 1, None), (2, 1, None),
    ]  # fmt: skip
    # A click's point number is layer · H + head.
    assert (clicks.y[4], clicks.x[4]) == ("Layer 2", "2")
    assert tuple(clicks.customdata[4]) == (0.996, 0.986, 1.006, ", always on")
    alt = rate_grid_alt(rates, dead, always)
    assert "layer 1: head 1 0%, head 2 50%, head 3 100%" in alt
    assert alt.endswith("2 dead, 2 always on.")


def test_group_grid_escapes_names_and_keeps_equal_ones_apart() -> None:
    rates = np.array([[0.1, 0.9], [0.2, 0.8], [math.nan, math.nan]])
    names = ["<b>x</b>", "a name that is far too long a", "a name that is far too long b"]
    figure = group_grid(names, rates, rates, rates)
    y = figure.data[0].y
    assert y[0] == "&lt;b&gt;x&lt;/b&gt;" and len(set(y)) == 3
    assert list(figure.data[0].text[2]) == ["", ""]
    assert "<b>x</b>: head 1 10%, head 2 90%" in group_grid_alt(names, rates, 1)
    assert "layer 2" in group_grid_alt(names, rates, 1)


def test_lift_grid_leaves_out_what_cannot_be_told() -> None:
    nan = math.nan
    expected = np.array([[nan, 10, 4], [10, nan, 20], [4, 20, nan]])
    observed = np.array([[nan, 20, 9], [20, nan, 5], [9, 5, nan]])
    lift = observed / expected
    figure = lift_grid(lift, observed, expected)
    colour, text = np.array(figure.data[0].z), figure.data[0].text
    assert colour[0, 1] == pytest.approx(1) and colour[1, 2] == pytest.approx(-2)
    assert np.isnan(colour[0, 2]) and text[0][2] == "" and text[0][1] == "2"
    alt = lift_grid_alt(lift, expected, 0)
    assert "Highest: heads 1 and 2 2 times" in alt and "Lowest: heads 2 and 3 0.25 times" in alt
    assert "no pair" in lift_grid_alt(lift, expected / 100, 0)


def test_importance_points_are_grouped_by_layer() -> None:
    points = [HeadPoint(0, 1, 0.5, 0.02, 0.01, 0.04), HeadPoint(1, 0, 1.0, -0.01, -0.02, 0.0)]
    figure = importance_points(points, "accuracy lost", True)
    first, second = figure.data
    assert (list(first.x), list(first.y)) == ([50], [2])
    assert list(first.error_y.array) == pytest.approx([2])
    assert list(first.error_y.arrayminus) == pytest.approx([1])
    assert (list(second.x), list(second.y), second.name) == ([100], [-1], "layer 2")
    said = importance_points_alt(points, "Accuracy lost")
    assert said.index("layer 1, head 2") < said.index("layer 2, head 1")


def test_policy_points_join_the_averages_that_were_tried() -> None:
    def simulation(wanted: float, accuracy: float) -> Simulation:
        return Simulation(
            wanted, 1.0, None, 10,
            tuple(
                Outcome(way, wanted, Estimate(accuracy, accuracy - 0.1, accuracy + 0.1), 1.0, None)
                for way in WAYS
            ),
        )  # fmt: skip

    tried = [simulation(4.0, 0.9), simulation(2.0, 0.8)]
    figure = policy_points(tried, 2.0, 3.0, 8)
    assert [trace.name for trace in figure.data] == list(WAYS)
    for trace in figure.data:
        assert list(trace.y) == pytest.approx([80, 90])
        assert list(trace.customdata) == [2, 4] and tuple(trace.marker.size) == (13, 8)
        assert list(trace.error_y.array) == pytest.approx([10, 10])
    assert figure.layout.shapes[0].x0 == 3
    assert "adaptive 80.0%" in policy_points_alt(tried, 2.0)
    assert "at 2 averages" in policy_points_alt(tried, 7.0)

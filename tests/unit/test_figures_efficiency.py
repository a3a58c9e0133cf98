"""Curves and dots hold what they were given, and names are text."""

from __future__ import annotations

import pytest

from budgetformer.figures.efficiency import (
    LOOKS,
    Line,
    Mark,
    Taken,
    accuracy_curve,
    accuracy_curve_alt,
    taken,
    taken_alt,
)

NAME = "<b>odd</b>"


def test_the_curve_holds_its_points_and_intervals() -> None:
    marks = (Mark(0.25, 0.8, NAME, 0.7, 0.85), Mark(0.5, 0.9, "two", 0.88, 0.93))
    lines = [Line("limit", NAME, marks), Line("paper", "paper", (Mark(0.9, 0.6, "p"),))]
    figure = accuracy_curve(lines, "x", chosen=marks[1])
    limit, paper, ring = figure.data
    assert list(limit.x) == [0.25, 0.5] and list(limit.y) == [0.8, 0.9]
    assert list(limit.error_y.array) == pytest.approx([0.05, 0.03])
    assert list(limit.error_y.arrayminus) == pytest.approx([0.1, 0.02])
    assert limit.mode == "lines+markers" and paper.mode == "markers"
    assert paper.error_y.array is None
    assert limit.name == "&lt;b&gt;odd&lt;/b&gt;" == limit.customdata[0]
    assert (ring.x[0], ring.y[0]) == (0.5, 0.9) and ring.hoverinfo == "skip"
    low, high = figure.layout.xaxis.range
    assert low < 0.25 and high > 0.9
    alt = accuracy_curve_alt(lines, "x")
    assert "25.0% → 80.0%" in alt and "90.0% → 60.0%" in alt


def test_lines_differ_by_more_than_colour() -> None:
    looks = [(look["symbol"], look.get("dash")) for look in LOOKS.values()]
    assert len(set(looks)) == len(looks)


def test_a_row_a_model_with_both_dots_on_it() -> None:
    rows = [Taken("a", False, 2.0, 5.0), Taken(NAME, False, 3.0), Taken("a", True, 4.0, 4.5)]
    figure = taken(rows, "milliseconds")
    shipped, here = figure.data
    assert list(shipped.x) == [2, 3] and list(shipped.y) == [0, 1]
    assert list(here.x) == [4] and list(here.y) == [0]
    assert list(shipped.error_x.array) == [3, 0] and list(here.error_x.array) == [0.5]
    assert figure.layout.yaxis.ticktext == ("a", "&lt;b&gt;odd&lt;/b&gt;")
    assert "a (measured here) 4" in taken_alt(rows, "milliseconds")
    assert len(taken(rows[:2], "x").data) == 1

"""Figures hold the numbers they were given, and their sentences say the same."""

from __future__ import annotations

import pytest

from budgetformer.figures.budgets import budget_bars, budget_bars_alt, plain
from budgetformer.figures.heads import head_grid, head_grid_alt


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
    (grid,) = figure.data
    assert [list(row) for row in grid.z] == p
    assert [list(row) for row in grid.text] == [
        ["<b>70</b><br>✓", "<b>30</b><br>✓", "<1"],
        ["<1", "<1", "<b>>99</b><br>✓"],
    ]
    middles = [((s.x0 + s.x1) / 2, (s.y0 + s.y1) / 2) for s in figure.layout.shapes]
    assert middles == [(0, 0), (1, 0), (2, 1)]
    assert head_grid_alt(p, [(0, 1), (2,)]).endswith(
        "layer 1 runs head 1 (70%), head 2 (30%) of 3; layer 2 runs head 3 (100%) of 3."
    )


def test_many_heads_have_no_numbers_that_would_overlap() -> None:
    figure = head_grid([[1 / 16] * 16], [(0,)], [[0.0] * 16])
    assert figure.data[0].texttemplate is None

from __future__ import annotations

import itertools

import pytest

from budgetformer.figures.training import (
    Curve,
    budget_histograms,
    budget_histograms_alt,
    curves,
    curves_alt,
    usage_grid,
    usage_grid_alt,
)

LINES = [
    Curve("loss <b>", [20, 40, 60], [2.0, None, 1.0]),
    Curve("validation", [50], [0.5], points=True),
]


def test_curves_hold_their_points() -> None:
    figure = curves(LINES, marks=[50], until=100)
    assert [trace.name for trace in figure.data] == ["loss &lt;b&gt;", "validation"]
    assert list(figure.data[0].x) == [20, 40, 60] and list(figure.data[0].y) == [2.0, None, 1.0]
    assert figure.layout.shapes[0].x0 == figure.layout.shapes[0].x1 == 50
    assert figure.layout.xaxis.range[0] == 0 and 100 < figure.layout.xaxis.range[1] < 110
    assert len({trace.line.color for trace in figure.data}) == 2


def test_curves_in_words() -> None:
    assert curves_alt("Loss", LINES) == "Loss: loss <b> from 2 to 1; validation from 0.5 to 0.5."
    assert curves_alt("Loss", []) == "Loss: nothing yet."
    assert "from 50.0% to 50.0%" in curves_alt("Accuracy", LINES[1:], percent=True)


@pytest.mark.parametrize("n_layers", [1, 2, 7])
def test_histograms_are_shares_of_the_texts(n_layers: int) -> None:
    counts = [[layer, 3, 1, 0] for layer in range(n_layers)]
    figure = budget_histograms(counts, [0.25] * n_layers)
    assert len(figure.data) == n_layers
    for layer, trace in enumerate(figure.data):
        assert list(trace.y) == pytest.approx([n / (layer + 4) for n in counts[layer]])
        assert list(trace.x) == pytest.approx([0.125, 0.375, 0.625, 0.875])
    # No two layers share a place, and all lie within the figure.
    domains = sorted(tuple(axis.domain) for axis in figure.select_yaxes())
    assert domains[0][0] >= 0 and domains[-1][1] <= 1
    assert all(a[1] < b[0] for a, b in itertools.pairwise(domains))
    assert "layer 1: mean 0.250" in budget_histograms_alt([0.25])


def test_no_texts_in_a_histogram() -> None:
    assert list(budget_histograms([[0, 0]], [0.0]).data[0].y) == [0, 0]


def test_usage() -> None:
    usage = [[0.0, 0.5, 1.0], [0.2, 0.995, 0.005]]
    figure = usage_grid(usage)
    assert [list(row) for row in figure.data[0].z] == usage
    assert list(figure.data[0].text[0]) == ["0", "50", "100"]
    assert "layer 1: 1 of 3 heads run on less than 1% of the texts, 1 on more" in usage_grid_alt(
        usage
    )

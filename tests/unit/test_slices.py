"""Slices are found as a loop finds them, and measured as the textbooks do."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_ind
from sklearn.metrics import confusion_matrix

from budgetformer.intervals import wilson_interval
from budgetformer.measures import budgets, difficulties, everything, on_axis
from budgetformer.slices import (
    QUADRANTS,
    Filter,
    confusion,
    difference,
    figures,
    mask_of,
    mean_difference,
    proportion_difference,
    quadrant_of,
)
from tests.unit.scored_sets import make_scored


def test_quadrants_by_a_loop() -> None:
    scored = make_scored(41)
    s = [float(np.mean(row)) for row in scored.records.budgets.astype(np.float32)]
    median = sorted(s)[20]
    for i, number in enumerate(quadrant_of(scored)):
        right = np.argmax(scored.records.probabilities[i]) == scored.records.labels[i]
        expected = f"{'dear' if s[i] >= median else 'cheap'}-{'right' if right else 'wrong'}"
        assert QUADRANTS[number] == expected


def test_every_condition_by_a_loop() -> None:
    scored = make_scored(300)
    found = mask_of(
        scored,
        Filter(
            picked=frozenset(range(5, 290)),
            search="GOOD",
            quadrants=("cheap-wrong", "dear-right", "dear-wrong"),
            gold="b",
            ranges={"loss": (0.2, 3.0), "s1": (0.1, 1.0)},
        ),
    )
    quadrant = quadrant_of(scored)
    for i in range(300):
        loss = -np.log(scored.records.probabilities[i][scored.records.labels[i]])
        assert found[i] == (
            5 <= i < 290
            and "good" in str((scored.texts or ())[i]).lower()
            and QUADRANTS[quadrant[i]] != "cheap-right"
            and scored.records.labels[i] == 1
            and 0.2 <= loss <= 3
            and scored.records.budgets[i, 0] >= 0.1
        )
    assert found.sum() >= 2
    assert mask_of(scored, Filter()).all()


@pytest.mark.parametrize(
    "pattern", [r"\bfine\b", r"^good .* 1\d", "great|poor", r"\(odd\)", r"film \d$", "[[:digit:]]"]
)
def test_patterns_match_as_pythons_do(pattern: str) -> None:
    scored = make_scored(60)
    ours = re.compile(pattern.replace("[[:digit:]]", r"\d"), re.IGNORECASE)
    expected = [bool(ours.search(str(text))) for text in scored.texts or ()]
    assert mask_of(scored, Filter(search=pattern, regex=True)).tolist() == expected


def test_a_plain_search_takes_signs_as_they_stand() -> None:
    scored = make_scored(60)
    expected = ["(odd)" in str(text) for text in scored.texts or ()]
    assert any(expected)
    assert mask_of(scored, Filter(search="(ODD)")).tolist() == expected


def test_second_texts_are_searched_too_and_missing_ones_never_fit() -> None:
    scored = replace(make_scored(3), texts=("a", None, "c"), text_pairs=("x", None, "A"))
    assert mask_of(scored, Filter(search="a")).tolist() == [True, False, True]


@pytest.mark.parametrize("pattern", ["(a", "a(?=b)", "*", "[", r"(a)\1"])
def test_a_pattern_that_cannot_be_read_is_explained(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read: .*taken as it stands"):
        mask_of(make_scored(3), Filter(search=pattern, regex=True))


def test_a_pattern_made_to_hang_a_server_takes_no_time() -> None:
    scored = replace(make_scored(2), texts=("a" * 5000 + "b", "a"))
    assert mask_of(scored, Filter(search="^(a+)+$", regex=True)).tolist() == [False, True]


def test_without_texts_a_search_is_refused() -> None:
    with pytest.raises(ValueError, match="not at hand"):
        mask_of(make_scored(3, texts=None), Filter(search="a"))


def test_figures_by_hand() -> None:
    scored = make_scored(50)
    mask = scored.records.labels != 0
    found = figures(scored, mask)
    assert found is not None
    right = scored.records.correct[mask]
    assert found.n == mask.sum()
    assert found.accuracy.value == pytest.approx(right.mean())
    expected = wilson_interval(int(right.sum()), len(right))
    assert (found.accuracy.low, found.accuracy.high) == pytest.approx(expected)
    for estimate, values in (
        (found.budget, scored.records.budgets.mean(axis=1)),
        (found.heads, scored.records.heads.reshape(50, -1).mean(axis=1)),
        (found.mflops, scored.flops / 1e6),
    ):
        part = np.asarray(values, float)[mask]
        low, high = student.interval(
            0.95, len(part) - 1, part.mean(), part.std(ddof=1) / np.sqrt(len(part))
        )
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
            (part.mean(), low, high), rel=1e-5
        )


def test_an_empty_slice_has_no_figures_and_one_example_no_interval() -> None:
    scored = make_scored(10)
    assert figures(scored, np.zeros(10, bool)) is None
    one = figures(scored, np.arange(10) == 3)
    assert one is not None and one.n == 1
    assert np.isnan(one.budget.low) and np.isfinite(one.budget.value)
    rest = difference(scored, np.arange(10) == 3)
    assert rest.budget is None and rest.accuracy is not None
    assert difference(scored, np.ones(10, bool)).accuracy is None


def test_the_difference_of_proportions_is_newcombes_own_example() -> None:
    # Newcombe (1998), Statistics in Medicine 17, 873-890, table II, method 10: 56/70 and 48/80.
    found = proportion_difference(56, 70, 48, 80)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    none = proportion_difference(9, 10, 3, 10)
    assert (none.value, none.low, none.high) == pytest.approx((0.6, 0.1705, 0.8090), abs=5e-5)


def test_the_difference_of_means_is_scipys_welch() -> None:
    g = np.random.default_rng(0)
    a, b = g.normal(1, 2, 13), g.normal(0, 1, 40)
    found = mean_difference(a, b)
    assert found is not None
    expected = ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.value == pytest.approx(a.mean() - b.mean())
    same = mean_difference(np.ones(4), np.ones(3))
    assert same is not None and (same.low, same.high) == (0, 0)


def test_the_confusion_matrix_is_sklearns() -> None:
    scored = make_scored(80)
    gold, predicted = scored.records.labels, scored.predicted
    assert confusion(scored).tolist() == confusion_matrix(gold, predicted).tolist()
    mask = np.arange(80) % 3 == 0
    expected = confusion_matrix(gold[mask], predicted[mask], labels=[0, 1, 2])
    assert confusion(scored, mask).tolist() == expected.tolist()


def test_measures_are_what_their_names_say() -> None:
    scored = make_scored(12)
    by_name = {m.name: m.values(scored) for m in everything(scored)}
    for i in range(12):
        p = np.sort(scored.records.probabilities[i].astype(float))
        assert by_name["margin"][i] == pytest.approx(p[-1] - p[-2], abs=1e-6)
        assert by_name["entropy"][i] == pytest.approx(-(p * np.log(p)).sum(), rel=1e-4)
        assert by_name["heads"][i] == scored.records.heads[i].sum() / 8
        assert by_name["s2"][i] == scored.records.budgets[i, 1]
        assert by_name["s"][i] == pytest.approx(scored.records.budgets[i].mean())
        assert by_name["mflops"][i] == scored.flops[i] / 1e6
    assert by_name["dense_loss"].tolist() == scored.references["dense"].losses.tolist()
    assert "linear_loss" not in by_name
    assert [m.name for m in difficulties(make_scored(3, references={}))] == [
        "loss", "margin", "entropy", "tokens",
    ]  # fmt: skip
    assert [m.name for m in budgets(scored)] == ["s", "s1", "s2", "heads"]


def test_a_logarithmic_axis_has_no_zero() -> None:
    scored = make_scored(3)
    loss = next(m for m in difficulties(scored) if m.name == "loss")
    assert on_axis(loss, np.array([0.0, 0.5])).tolist() == [1e-6, 0.5]

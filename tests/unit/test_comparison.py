"""Comparing two predictions, against counting by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from budgetformer.comparison import jaccard, layer_differences
from budgetformer.tokenizer import Encoding
from budgetformer.trace import LayerTrace, Trace


def trace(*layers: tuple[float, tuple[int, ...]], n_heads: int = 4) -> Trace:
    encoding = Encoding((), (), (), (), (), (), (None, None))
    flat = (0.0,) * n_heads
    made = tuple(LayerTrace(s, len(heads), heads, flat, flat) for s, heads in layers)
    return Trace(("",), encoding, "a", {"a": 1.0}, made)


def test_heads_are_sorted_into_both_and_either() -> None:
    first, second = trace((0.5, (0, 1)), (0.2, (3,))), trace((0.8, (1, 2, 3)), (0.2, (3,)))
    one, two = layer_differences(first, second)
    assert one.budget_change == pytest.approx(0.3)
    assert (one.k_change, one.both, one.only_first, one.only_second) == (1, (1,), (0,), (2, 3))
    assert one.overlap == pytest.approx(1 / 4)
    assert two.overlap == 1.0 and two.budget_change == 0 and two.k_change == 0


def test_a_trace_equals_itself() -> None:
    first = trace((0.5, (0, 1)))
    (only,) = layer_differences(first, replace(first))
    assert (only.overlap, only.only_first, only.only_second) == (1.0, (), ())


def test_other_shapes_compare_what_both_have() -> None:
    first, second = trace((0.5, (0, 1)), (0.5, (1,))), trace((0.5, (0,)), n_heads=8)
    (only,) = layer_differences(first, second)
    assert only.overlap is None and only.k_change == -1


def test_overlap_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        jaccard([], [])

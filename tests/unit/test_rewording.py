from __future__ import annotations

from collections.abc import Callable

import pytest

from budgetformer import BudgetFormer, Checkpoint, predict
from budgetformer.rewording import Rewording, cheapest_wording, dearest_wording

TEXT = "What a boring story! The actor isn't good, the film is awful."


def check(checkpoint: Checkpoint, found: Rewording) -> None:
    for step in found.steps:
        run = predict(checkpoint, *step.texts)
        assert (step.label, step.executed_heads) == (run.label, run.executed_heads)
        assert step.mean_budget == pytest.approx(run.mean_budget, abs=1e-5)
        assert step.probability == pytest.approx(run.probabilities[found.start.label], abs=1e-5)
    assert found.end.texts == (found.steps[-1].texts if found.steps else found.start.texts)


def test_cheapest_wording(checkpoint: Checkpoint) -> None:
    start, calls = predict(checkpoint, TEXT), list[tuple[int, int]]()
    found = cheapest_wording(checkpoint, start, progress=lambda *done: calls.append(done))
    check(checkpoint, found)
    assert found.complete and found.steps and calls[-1] == (found.n_tried, 256)
    costs = [(run.executed_heads, run.mean_budget) for run in (start, *found.steps)]
    assert costs == sorted(costs, reverse=True) and len(set(costs)) == len(costs)
    assert {step.label for step in found.steps} == {start.label}
    # No single word can go any more.
    text = found.end.texts[0]
    for word in found.end.words:
        shorter = text[: word.start] + text[word.end :]
        if text[word.start].isalnum() and any(c.isalnum() for c in shorter):
            run = predict(checkpoint, " ".join(shorter.split()))
            cost = (run.executed_heads, run.mean_budget + 1e-5)
            assert run.label != start.label or cost >= costs[-1]


def test_dearest_wording(checkpoint: Checkpoint) -> None:
    start = predict(checkpoint, TEXT)
    found = dearest_wording(checkpoint, start, n_edits=2)
    check(checkpoint, found)
    budgets = [start.mean_budget, *(step.mean_budget for step in found.steps)]
    assert budgets == sorted(budgets) and 1 <= len(found.steps) <= 2 and found.complete
    # The first step is the best of all deletions and insertions, by a loop.
    words = [w for w in start.words if TEXT[w.start].isalnum()]
    tried = [TEXT[: w.start] + "why " + TEXT[w.start :] for w in words]
    best = max(predict(checkpoint, text).mean_budget for text in tried)
    assert found.steps[0].mean_budget >= best - 1e-5
    kept = dearest_wording(checkpoint, start, keep_label=True)
    assert {step.label for step in kept.steps} <= {start.label}


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_limits(checkpoint: Checkpoint, limit: int) -> None:
    start = predict(checkpoint, TEXT)
    for found in (
        cheapest_wording(checkpoint, start, limit=limit),
        dearest_wording(checkpoint, start, limit=limit),
    ):
        check(checkpoint, found)
        assert found.n_tried <= limit and not found.complete


def test_one_text_of_a_pair(pair_checkpoint: Checkpoint) -> None:
    start = predict(pair_checkpoint, "what a good film", "the story is awful")
    for search in (cheapest_wording, dearest_wording):
        found = search(pair_checkpoint, start, segment=1)
        assert all(step.texts[0] == start.texts[0] for step in found.steps)


@pytest.mark.parametrize("text", ["film", "🎬", "中文"])
def test_nothing_to_reword(checkpoint: Checkpoint, text: str) -> None:
    found = cheapest_wording(checkpoint, predict(checkpoint, text))
    assert found.steps == () and found.end is found.start and found.complete
    dearest_wording(checkpoint, predict(checkpoint, text))


def test_wrong_input(checkpoint: Checkpoint, make_model: Callable[..., BudgetFormer]) -> None:
    tokenizer = checkpoint.tokenizer
    dense = Checkpoint(make_model(vocab_size=tokenizer.vocab_size, routed=False), tokenizer)
    for search in (cheapest_wording, dearest_wording):
        with pytest.raises(ValueError, match="dense"):
            search(dense, predict(dense, TEXT))
        with pytest.raises(ValueError, match="segment"):
            search(checkpoint, predict(checkpoint, TEXT), segment=1)
        with pytest.raises(ValueError, match="limit"):
            search(checkpoint, predict(checkpoint, TEXT), limit=0)

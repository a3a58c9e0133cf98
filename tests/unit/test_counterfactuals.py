from __future__ import annotations

from collections.abc import Callable

import pytest

from budgetformer import BudgetFormer, Checkpoint, predict
from budgetformer.counterfactuals import KINDS, counterfactuals, word_spans
from budgetformer.interventions import Intervention

TEXT = "What a boring story! The actor isn't good, the film is awful."


def test_each_row_is_a_prediction(checkpoint: Checkpoint) -> None:
    before = predict(checkpoint, TEXT)
    found = counterfactuals(checkpoint, before, seed=1)
    assert found.n_left_out == 0 and {row.kind for row in found.rows} == set(KINDS)
    assert sum(row.kind == "delete" for row in found.rows) == 12
    for row in found.rows:
        after = predict(checkpoint, *row.texts)
        assert row.n_tokens == len(after.encoding.ids) and row.label == after.label
        assert row.label_changed == (after.label != before.label)
        change = after.probabilities[before.label] - before.probabilities[before.label]
        assert row.probability_change == pytest.approx(change, abs=1e-5)
        assert row.budget_change == pytest.approx(after.mean_budget - before.mean_budget, abs=1e-5)
        assert sum(row.layer_budget_changes) / 2 == pytest.approx(row.budget_change, abs=1e-6)
        for layer, (old, new) in enumerate(zip(before.layers, after.layers, strict=True)):
            delta = new.budget - old.budget
            assert row.layer_budget_changes[layer] == pytest.approx(delta, abs=1e-5)
            assert set(new.heads) == (set(old.heads) | {*row.gained[layer]}) - {*row.lost[layer]}
            assert not set(row.gained[layer]) & set(old.heads)
            assert set(row.lost[layer]) <= set(old.heads)
        assert row.executed_heads_change == after.executed_heads - before.executed_heads
        assert row.flips == sum(len(part) for part in (*row.gained, *row.lost))
    texts = [row.texts[0] for row in found.rows]
    assert TEXT not in texts and len(set(texts)) == len(texts)
    assert "What a boring story! The actor is good, the film is awful." in texts


def test_orders(checkpoint: Checkpoint) -> None:
    found = counterfactuals(checkpoint, predict(checkpoint, TEXT))
    changes = [abs(row.budget_change) for row in found.by_budget()]
    assert changes == sorted(changes, reverse=True) and len(changes) == len(found.rows)
    by_label = found.by_label()
    flags = [row.label_changed for row in by_label]
    assert flags == sorted(flags, reverse=True)
    kept = [abs(row.probability_change) for row in by_label if not row.label_changed]
    assert kept == sorted(kept, reverse=True)


def test_one_text_of_a_pair(pair_checkpoint: Checkpoint) -> None:
    before = predict(pair_checkpoint, "good film", "the story is awful")
    for segment in (0, 1):
        found = counterfactuals(pair_checkpoint, before, segment=segment)
        assert found.rows
        assert {row.texts[1 - segment] for row in found.rows} == {before.texts[1 - segment]}
    assert len(word_spans(before, 0)) == 2 and len(word_spans(before, 1)) == 4
    with pytest.raises(ValueError, match="no segment 2"):
        counterfactuals(pair_checkpoint, before, segment=2)


def test_the_limit_thins_out_large_rules_only(checkpoint: Checkpoint) -> None:
    before = predict(checkpoint, TEXT)
    every = counterfactuals(checkpoint, before)
    calls: list[tuple[int, int]] = []
    some = counterfactuals(checkpoint, before, limit=12, progress=lambda *d: calls.append(d))
    assert len(some.rows) == 12 and some.n_left_out == len(every.rows) - 12
    assert calls[-1] == (12, 12)
    for kind in ("negate", "repeat"):
        count = [sum(row.kind == kind for row in found.rows) for found in (every, some)]
        assert count[0] == count[1] > 0
    assert len(counterfactuals(checkpoint, before, limit=1).rows) == 1


def test_policies_and_texts_without_words(checkpoint: Checkpoint) -> None:
    policy = Intervention(k=(2, 2)).policy(checkpoint.config)
    before = predict(checkpoint, TEXT, policy=policy)
    found = counterfactuals(checkpoint, before, ("delete",), policy=policy)
    assert all(row.executed_heads_change == 0 for row in found.rows)
    for text in ("🎬!", "film"):
        trace = predict(checkpoint, text)
        assert counterfactuals(checkpoint, trace, ("delete", "shorten", "negate")).rows == ()
    # Words behind the cut are not read, so they are not edited.
    assert len(word_spans(predict(checkpoint, "good " * 100), 0)) == 30


def test_wrong_input(checkpoint: Checkpoint, make_model: Callable[..., BudgetFormer]) -> None:
    trace = predict(checkpoint, TEXT)
    with pytest.raises(ValueError, match="expected a rule"):
        counterfactuals(checkpoint, trace, ("swap",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="limit"):
        counterfactuals(checkpoint, trace, limit=0)
    tokenizer = checkpoint.tokenizer
    dense = Checkpoint(make_model(vocab_size=tokenizer.vocab_size, routed=False), tokenizer)
    with pytest.raises(ValueError, match="dense"):
        counterfactuals(dense, predict(dense, TEXT))

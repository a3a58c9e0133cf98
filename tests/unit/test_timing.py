"""What the figures mean. How large they are is for benchmarks/: a test never judges a time."""

from __future__ import annotations

import pytest
import torch

from budgetformer import Checkpoint, predict
from budgetformer.cost import dense_flops, flops
from budgetformer.data import Examples
from budgetformer.timing import (
    Timing,
    bench,
    bench_checkpoint,
    dense_twin,
    latency,
    medians_ms,
    time_shape,
    time_texts,
)

ROW = {
    "batch", "length", "d_model", "n_heads", "k", "dense_ms", "sparse_ms", "speedup", "limit",
    "fraction_of_limit",
}  # fmt: skip


def test_ratios_by_hand() -> None:
    row = Timing(
        batch=1, length=64, d_model=128, n_heads=8, k=1, dense_ms=6.0, sparse_ms=4.0, limit=2.0
    )
    assert row.speedup == 1.5 and row.fraction_of_limit == 0.75
    assert set(row.to_dict()) == ROW
    assert "speed-up 1.50 of 2.00 (0.75)" in str(row)


def test_limit_by_hand() -> None:
    """D 8, H 2, T 8, two layers: FLOPs of all products, with and without the second head."""
    (row,) = bench([(1, 8, (8, 2), 1 / 2)], seconds=0)
    head = 8 * 8 * 8 * 4 + 4 * 8 * 8 * 4
    shared = 4 * 8 * 8 * 32
    router, classifier = 2 * (8 * 32 + 32 + 8 * 2), 2 * 8 * 2
    dense = 2 * (2 * head + shared) + classifier
    sparse = 2 * (head + shared + router) + classifier
    assert row.k == 1 and row.limit == pytest.approx(dense / sparse)


def test_bench_leaves_the_global_state() -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    rows = list(bench([(2, 12, (8, 2), 1 / 8), (1, 8, (8, 4), 1 / 2)], seconds=0))
    assert [(r.batch, r.length, r.n_heads, r.k) for r in rows] == [(2, 12, 2, 1), (1, 8, 4, 2)]
    assert all(r.dense_ms > 0 and r.sparse_ms > 0 for r in rows)
    assert torch.equal(before, torch.get_rng_state()) and torch.get_num_threads() == threads


def test_the_twin_shares_the_weights_and_runs_every_head(checkpoint: Checkpoint) -> None:
    model = checkpoint.model
    twin = dense_twin(model)
    ids, mask = torch.tensor([[1, 2, 3]]), torch.ones(1, 3, dtype=torch.bool)
    every = torch.ones(1, 4, dtype=torch.bool)
    from budgetformer.policies import fixed_heads

    wanted = model(ids, mask, policy=fixed_heads([every, every])).logits
    assert torch.allclose(twin(ids, mask).logits, wanted, atol=1e-6)
    assert not twin.config.routed and model.config.routed
    assert twin.embedding.token.weight.data_ptr() == model.embedding.token.weight.data_ptr()


def test_a_checkpoint_is_timed_at_its_own_length_and_heads(checkpoint: Checkpoint) -> None:
    metrics = {"validation": {"mean_tokens": 9.6, "executed_heads_frac": 0.7}}
    rows = list(bench_checkpoint(Checkpoint(checkpoint.model, checkpoint.tokenizer, metrics), 0))
    assert [row.batch for row in rows] == [1, 8, 32]
    assert {(row.length, row.k) for row in rows} == {(10, 3)}
    bare = list(bench_checkpoint(Checkpoint(checkpoint.model, checkpoint.tokenizer), 0))
    assert {(row.length, row.k) for row in bare} == {(32, 2)}


def test_texts_are_timed_with_their_own_budgets(checkpoint: Checkpoint) -> None:
    """The limit by hand: each text at its own length and its own k in each layer."""
    texts = ("a good film", "a bad film and a boring story", "boring")
    found = time_texts(checkpoint, Examples(texts, (0, 1, 1)), batch_size=2, seconds=0)
    traces = [predict(checkpoint, text) for text in texts]
    lengths = [len(trace.encoding.ids) for trace in traces]
    shape = checkpoint.config
    dense = sum(dense_flops(shape, n).model for n in lengths)
    sparse = sum(
        flops(shape, n, [layer.k for layer in trace.layers]).model
        for n, trace in zip(lengths, traces, strict=True)
    )
    assert found.limit == pytest.approx(dense / sparse)
    assert (found.n_texts, found.batch) == (3, 2)
    assert found.mean_tokens == pytest.approx(sum(lengths) / 3)
    heads = [layer.k / 4 for trace in traces for layer in trace.layers]
    assert found.executed_heads_frac == pytest.approx(sum(heads) / len(heads))
    assert "3 texts of" in str(found) and found.dense_ms > 0 and found.sparse_ms > 0
    with pytest.raises(ValueError, match="reads single texts"):
        time_texts(checkpoint, Examples(("a",), (0,), ("b",)), seconds=0)


def test_functions_run_in_turn() -> None:
    calls: list[str] = []
    found = medians_ms([lambda: calls.append("a"), lambda: calls.append("b")], seconds=0)
    assert len(found) == 2 and all(time > 0 for time in found)
    assert set(calls) == {"a", "b"}
    assert not torch.is_inference_mode_enabled()


def test_latency_percentiles_are_in_order(checkpoint: Checkpoint) -> None:
    found = latency(checkpoint, ["a good film", "a bad film and a boring story"], repeats=20)
    assert 0 < found.p50_ms <= found.p90_ms <= found.p99_ms
    with pytest.raises(ValueError, match="no texts"):
        latency(checkpoint, [])


def test_random_heads_differ_between_examples(checkpoint: Checkpoint) -> None:
    row = time_shape(checkpoint.model, dense_twin(checkpoint.model), 4, 6, 2, seconds=0)
    assert (row.d_model, row.n_heads, row.k) == (16, 4, 2)

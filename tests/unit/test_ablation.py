from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch

from budgetformer import BudgetFormer, Checkpoint, predict
from budgetformer.ablation import ablate, mean_outputs
from budgetformer.interventions import Intervention
from budgetformer.trace import Trace, held_heads

TEXT = "what a boring story; what an awful actor"


def surgery(
    checkpoint: Checkpoint, layer: int, head: int, bias: torch.Tensor | None = None
) -> Checkpoint:
    """A copy whose head writes nothing, and whose layer adds a bias instead."""
    model = copy.deepcopy(checkpoint.model)
    with torch.no_grad():
        model.layers[layer].attention.out_weight[head] = 0
        if bias is not None:
            model.layers[layer].attention.out_bias += bias
    return Checkpoint(model, checkpoint.tokenizer)


def forced(checkpoint: Checkpoint) -> Trace:
    return predict(checkpoint, TEXT, policy=Intervention(k=(2, 3)).policy(checkpoint.config))


@pytest.mark.parametrize("reroute", [False, True])
def test_zero_is_a_model_whose_head_writes_nothing(checkpoint: Checkpoint, reroute: bool) -> None:
    trace = predict(checkpoint, TEXT) if reroute else forced(checkpoint)
    found = ablate(checkpoint, trace, reroute=reroute)
    ran = [(i, h) for i, layer in enumerate(trace.layers) for h in layer.heads]
    assert [(a.layer, a.head) for a in found] == ran
    for a in found:
        cut = surgery(checkpoint, a.layer, a.head)
        wanted = predict(cut, TEXT, policy=None if reroute else held_heads(trace))
        assert a.after == pytest.approx(wanted.probabilities, abs=1e-5)
        assert a.label_after == wanted.label and a.before == trace.probabilities
        assert a.k_after == tuple(layer.k for layer in wanted.layers)
        assert a.change == pytest.approx(a.after[trace.label] - a.before[trace.label])
        assert sum(a.changes.values()) == pytest.approx(0, abs=1e-5)
        assert a.label_changed == (wanted.label != trace.label)
    assert any(abs(a.change) > 1e-3 for a in found)


@pytest.mark.parametrize("output_scale", ["sqrt", "none"])
def test_mean_over_the_texts_own_tokens(
    checkpoint: Checkpoint, make_model: Callable[..., BudgetFormer], output_scale: str
) -> None:
    model = make_model(vocab_size=checkpoint.tokenizer.vocab_size, output_scale=output_scale)
    checkpoint = Checkpoint(model, checkpoint.tokenizer)
    trace = forced(checkpoint)
    batch = checkpoint.tokenizer.batch([trace.encoding])
    # The first layer's input by hand: embedding, then the norm before attention.
    x = model.layers[0].attention_norm(
        model.embedding(model.embedding.token(batch.ids), batch.segments)
    )[0]
    head, k = trace.layers[0].heads[1], 2
    attention = model.layers[0].attention
    query, key, value = (x @ attention.qkv_weight[head].T + attention.qkv_bias[head]).chunk(
        3, dim=-1
    )
    attended = (query @ key.T / math.sqrt(4)).softmax(dim=-1) @ value
    scale = math.sqrt(4 / k) if output_scale == "sqrt" else 1
    bias = scale * attended.mean(dim=0) @ attention.out_weight[head]
    [a] = ablate(checkpoint, trace, [(0, head)], "mean")
    wanted = predict(surgery(checkpoint, 0, head, bias), TEXT, policy=held_heads(trace))
    assert a.after == pytest.approx(wanted.probabilities, abs=1e-5)
    [zero] = ablate(checkpoint, trace, [(0, head)])
    assert abs(a.change - zero.change) > 1e-5


def test_mean_over_reference_texts(checkpoint: Checkpoint) -> None:
    texts = [("a good film",), ("what a boring story; what an awful actor",)]
    calls: list[tuple[int, int]] = []
    means = mean_outputs(checkpoint, texts, progress=lambda *done: calls.append(done))
    assert means.shape == (2, 4, 16) and calls == [(1, 2), (2, 2)]
    # Tokens weigh the same whatever text they are in.
    n = [len(predict(checkpoint, *t).encoding.ids) for t in texts]
    parts = [mean_outputs(checkpoint, [t]) for t in texts]
    assert means == pytest.approx((n[0] * parts[0] + n[1] * parts[1]) / sum(n), abs=1e-5)
    trace = forced(checkpoint)
    head = trace.layers[1].heads[0]
    [a] = ablate(checkpoint, trace, [(1, head)], "mean", means)
    bias = math.sqrt(4 / 3) * torch.from_numpy(means[1, head])
    wanted = predict(surgery(checkpoint, 1, head, bias), TEXT, policy=held_heads(trace))
    assert a.after == pytest.approx(wanted.probabilities, abs=1e-5)
    with pytest.raises(ValueError, match="at least one"):
        mean_outputs(checkpoint, [])


def test_what_cannot_be_ablated(checkpoint: Checkpoint) -> None:
    trace = forced(checkpoint)
    skipped = next(h for h in range(4) if h not in trace.layers[0].heads)
    with pytest.raises(ValueError, match="did not run"):
        ablate(checkpoint, trace, [(0, skipped)])
    with pytest.raises(ValueError, match="did not run"):
        ablate(checkpoint, trace, [(9, 0)])
    with pytest.raises(ValueError, match="zero"):
        ablate(checkpoint, trace, means=mean_outputs(checkpoint, [("good",)]))
    assert ablate(checkpoint, trace, []) == []


def test_dense_models_too(checkpoint: Checkpoint, make_model: Callable[..., BudgetFormer]) -> None:
    tokenizer = checkpoint.tokenizer
    dense = Checkpoint(make_model(vocab_size=tokenizer.vocab_size, routed=False), tokenizer)
    found = ablate(dense, predict(dense, TEXT))
    assert len(found) == 8
    wanted = predict(surgery(dense, 1, 3), TEXT)
    assert found[-1].after == pytest.approx(wanted.probabilities, abs=1e-5)

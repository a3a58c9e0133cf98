from __future__ import annotations

import json
import math

import pytest
import torch

from budgetformer import Checkpoint, Trace, predict
from budgetformer.interventions import Intervention
from budgetformer.policies import all_heads, fixed_heads, given_k
from budgetformer.trace import encode, held_heads, predict_many, predict_under, rows_at_once


def test_a_trace_is_what_the_model_said(checkpoint: Checkpoint) -> None:
    text = "A good film: don't over-think it!"
    trace = predict(checkpoint, text)
    ids = torch.tensor([trace.encoding.ids])
    output = checkpoint.model(ids, torch.ones_like(ids, dtype=torch.bool))
    exp = [math.exp(v) for v in output.logits[0].tolist()]
    assert trace.probabilities == {
        label: pytest.approx(e / sum(exp), abs=1e-6)
        for label, e in zip(("negative", "positive"), exp, strict=True)
    }
    assert trace.label == max(trace.probabilities, key=lambda label: trace.probabilities[label])
    for layer, said in zip(trace.layers, output.layers, strict=True):
        z = said.routing.scores[0].tolist()
        assert layer.budget == pytest.approx(said.routing.budget.item())
        assert layer.k == max(1, math.floor(layer.budget * 4)) == len(layer.heads)
        assert sorted(layer.heads) == sorted(sorted(range(4), key=lambda h: -z[h])[: layer.k])
        p = [math.exp((v - max(z)) / checkpoint.config.temperature) for v in z]
        assert list(layer.head_probabilities) == pytest.approx([v / sum(p) for v in p], abs=1e-6)
    s, k = [layer.budget for layer in trace.layers], [layer.k for layer in trace.layers]
    assert trace.mean_budget == pytest.approx(sum(s) / 2)
    assert trace.executed_heads_frac == pytest.approx(sum(k) / 8)
    assert [text[w.start : w.end] for w in trace.words][3:6] == [":", "don't", "over-think"]


def test_json_form(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, "a good film")
    values = json.loads(json.dumps(trace.to_dict(), allow_nan=False))
    assert list(values) == [
        "label",
        "probabilities",
        "n_tokens",
        "truncated",
        "mean_budget",
        "executed_heads_frac",
        "layers",
    ]
    assert values["n_tokens"] == 5 and values["truncated"] is False
    assert [list(layer) for layer in values["layers"]] == [
        ["budget", "k", "heads", "head_probabilities"]
    ] * 2


def test_a_long_text_is_cut_and_says_so(checkpoint: Checkpoint) -> None:
    text = "good " * 5000
    trace = predict(checkpoint, text)
    assert len(trace.encoding.ids) == checkpoint.config.max_len == 32
    assert trace.to_dict()["truncated"] is True
    assert trace.encoding.cut == (30 * 5, None)
    assert predict(checkpoint, text[: 30 * 5]).probabilities == trace.probabilities


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u200b", "\x00\x01\x1f", "\ufffd", "\u0301"])
def test_nothing_to_read(checkpoint: Checkpoint, text: str) -> None:
    with pytest.raises(ValueError, match="nothing to read") as error:
        predict(checkpoint, text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["!", "…", "🎬", "中", "[PAD]", "☃" * 200, "x" * 5000])
def test_short_and_strange_texts_are_read(checkpoint: Checkpoint, text: str) -> None:
    trace = predict(checkpoint, text)
    assert sum(trace.probabilities.values()) == pytest.approx(1, abs=1e-6)
    assert trace.words


def test_pairs_and_single_texts_are_not_mixed_up(
    checkpoint: Checkpoint, pair_checkpoint: Checkpoint
) -> None:
    with pytest.raises(ValueError, match="two texts"):
        predict(pair_checkpoint, "good")
    with pytest.raises(ValueError, match="single text"):
        predict(checkpoint, "good", "bad")
    with pytest.raises(ValueError, match="second text"):
        predict(pair_checkpoint, "good", " ")
    with pytest.raises(ValueError, match="the text"):
        predict(pair_checkpoint, " ", "good")
    trace = predict(pair_checkpoint, "good film", "a bad story")
    assert trace.texts == ("good film", "a bad story")
    assert [word.segment for word in trace.words] == [0, 0, 1, 1, 1]


def test_policies(checkpoint: Checkpoint) -> None:
    every = predict(checkpoint, "a good film", policy=all_heads())
    assert every.executed_heads_frac == 1.0
    one = torch.tensor([[False, False, True, False]])
    forced = predict(checkpoint, "a good film", policy=fixed_heads([one, one]))
    assert [layer.heads for layer in forced.layers] == [(2,), (2,)]
    # The first layer's router sees the same input whatever heads are forced.
    assert forced.layers[0].budget == every.layers[0].budget


def test_encode_cuts_to_the_models_length(checkpoint: Checkpoint) -> None:
    assert len(encode(checkpoint, "good " * 100).ids) == checkpoint.config.max_len


def same(first: Trace, second: Trace) -> bool:
    """The same decisions, and the same numbers but for the order of sums."""
    return (
        (first.texts, first.encoding, first.label) == (second.texts, second.encoding, second.label)
        and [layer.heads for layer in first.layers] == [layer.heads for layer in second.layers]
        and first.probabilities == pytest.approx(second.probabilities, abs=1e-5)
        and all(
            a.budget == pytest.approx(b.budget, abs=1e-5)
            and a.scores == pytest.approx(b.scores, abs=1e-4)
            for a, b in zip(first.layers, second.layers, strict=True)
        )
    )


@pytest.mark.parametrize("batch_tokens", [1, 20, 8192])
def test_many_texts_are_each_predicted_as_alone(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, batch_tokens: int
) -> None:
    monkeypatch.setattr("budgetformer.trace.BATCH_TOKENS", batch_tokens)
    texts = ["a good film", "bad", "what a boring story; what an awful actor", "good " * 90, "bad"]
    calls: list[tuple[int, int]] = []
    traces = predict_many(
        checkpoint, [(t,) for t in texts], progress=lambda *done: calls.append(done)
    )
    assert all(same(t, predict(checkpoint, text)) for t, text in zip(traces, texts, strict=True))
    assert calls[-1] == (5, 5) and len(calls) == (5 if batch_tokens == 1 else len(calls))
    assert predict_many(checkpoint, []) == []
    with pytest.raises(ValueError, match="nothing to read"):
        predict_many(checkpoint, [("good",), (" ",)])


def test_many_pairs_under_a_policy(pair_checkpoint: Checkpoint) -> None:
    policy = Intervention(k=(3, 1), order="bottom").policy(pair_checkpoint.config)
    pairs = [("good film", "a bad story"), ("a", "the actors are good")]
    for pair, trace in zip(pairs, predict_many(pair_checkpoint, pairs, policy), strict=True):
        assert same(trace, predict(pair_checkpoint, *pair, policy=policy))
        assert trace.executed_heads == 4


def test_one_text_under_many_policies(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = predict(checkpoint, "a good film and a bad story")
    monkeypatch.setattr("budgetformer.trace.BATCH_TOKENS", 2 * len(trace.encoding.ids))
    assert rows_at_once(len(trace.encoding.ids)) == 2 and rows_at_once(10_000) == 1
    k = torch.tensor([[1, 2], [4, 4], [3, 1], [2, 2], [1, 4]])
    runs = predict_under(checkpoint, trace, 5, lambda rows: given_k(k[rows.start : rows.stop]))
    for run, ks in zip(runs, k, strict=True):
        assert same(run, predict(checkpoint, *trace.texts, policy=given_k(ks.unsqueeze(0))))
    assert predict_under(checkpoint, trace, 0, lambda rows: given_k(k)) == []


def test_held_heads_repeat_a_trace(checkpoint: Checkpoint) -> None:
    change = Intervention(k=(2, 3), order="random", seed=5).policy(checkpoint.config)
    trace = predict(checkpoint, "a good film", policy=change)
    assert same(predict(checkpoint, "a good film", policy=held_heads(trace)), trace)

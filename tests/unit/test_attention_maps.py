from __future__ import annotations

import numpy as np
import pytest
import torch

from budgetformer import Checkpoint, predict
from budgetformer.attention_maps import attention_maps, by_word, merge, word_units
from budgetformer.internals import head_outputs, layer_inputs
from budgetformer.interventions import Intervention

TEXT = "A good film: don't over-think it, naïve 中文!"


def test_a_map_for_each_executed_head(checkpoint: Checkpoint) -> None:
    policy = Intervention(k=(2, 3)).policy(checkpoint.config)
    trace = predict(checkpoint, TEXT, policy=policy)
    maps = attention_maps(checkpoint, trace)
    ran = [(i, head) for i, layer in enumerate(trace.layers) for head in layer.heads]
    assert [(m.layer, m.head) for m in maps.maps] == ran and len(ran) == 5
    n = len(trace.encoding.ids)
    batch = checkpoint.tokenizer.batch([trace.encoding])
    inputs = layer_inputs(checkpoint.model, batch, policy)
    for m in maps.maps:
        assert m.weights.shape == (n, n)
        assert m.weights.sum(axis=1) == pytest.approx(np.ones(n), abs=1e-6)
        alone = head_outputs(checkpoint.model, m.layer, inputs[m.layer], batch.mask, [m.head])
        assert np.allclose(m.weights, alone.weights[0, 0], atol=1e-6)
    skipped = next(h for h in range(4) if h not in trace.layers[0].heads)
    assert maps.find(0, skipped) is None
    assert maps.find(*ran[-1]) is maps.maps[-1]
    assert [unit.text for unit in maps.units] == list(trace.encoding.tokens)
    only = attention_maps(checkpoint, trace, layers=[1])
    assert {m.layer for m in only.maps} == {1}
    with pytest.raises(ValueError, match="layer 2"):
        attention_maps(checkpoint, trace, layers=[2])


def test_words_are_merged_by_loops(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, TEXT)
    maps = attention_maps(checkpoint, trace)
    words = by_word(maps, trace)
    texts = [unit.text for unit in words.units]
    assert texts[0] == "[CLS]" and texts[-1] == "[SEP]" and "over-think" in texts
    assert [unit.special for unit in words.units] == [t in ("[CLS]", "[SEP]") for t in texts]
    assert sorted(t for u in words.units for t in u.tokens) == list(range(len(maps.units)))
    assert max(len(unit.tokens) for unit in words.units) > 1
    for piece, word in zip(maps.maps, words.maps, strict=True):
        for i, query in enumerate(words.units):
            for j, key in enumerate(words.units):
                wanted = sum(
                    float(piece.weights[q, k]) for q in query.tokens for k in key.tokens
                ) / len(query.tokens)
                assert word.weights[i, j] == pytest.approx(wanted, abs=1e-6)
        assert word.weights.sum(axis=1) == pytest.approx(np.ones(len(texts)), abs=1e-6)


def test_merge_by_hand() -> None:
    weights = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.2, 0.2, 0.6]], dtype=np.float32)
    merged = merge(weights, [(0,), (1, 2)])
    assert merged == pytest.approx(np.array([[0.5, 0.5], [0.1, 0.9]]), abs=1e-6)


def test_pairs_and_dense_models(pair_checkpoint: Checkpoint, make_model: object) -> None:
    trace = predict(pair_checkpoint, "good film", "a bad story")
    units = word_units(trace)
    assert [(u.text, u.segment) for u in units] == [
        ("[CLS]", 0),
        ("good", 0),
        ("film", 0),
        ("[SEP]", 0),
        ("a", 1),
        ("bad", 1),
        ("story", 1),
        ("[SEP]", 1),
    ]
    model = make_model(vocab_size=pair_checkpoint.tokenizer.vocab_size, routed=False)  # type: ignore[operator]
    dense = Checkpoint(model, pair_checkpoint.tokenizer)
    maps = attention_maps(dense, predict(dense, "a good film"))
    assert len(maps.maps) == 8
    assert all(torch.isfinite(torch.from_numpy(m.weights)).all() for m in maps.maps)

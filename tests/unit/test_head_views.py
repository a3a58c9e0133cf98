"""Router states, signatures and projections against loops, closed forms and other libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from budgetformer import Checkpoint, predict
from budgetformer.attention_maps import attention_maps
from budgetformer.data import Examples
from budgetformer.head_signature import MEASURES, describe, signatures
from budgetformer.projection import project
from budgetformer.router_states import RouterStates, router_states

TEXTS = ("what a boring story; what an awful actor", "a good film", "yes & no", "the film is fine")


@pytest.fixture(scope="module")
def examples() -> Examples:
    return Examples(TEXTS, (0, 1, 1, 0))


def test_router_states_are_those_of_single_predictions(
    checkpoint: Checkpoint, examples: Examples
) -> None:
    calls: list[tuple[int, int]] = []
    found = router_states(checkpoint, examples, 2, lambda *done: calls.append(done))
    assert calls == [(2, 4), (4, 4)]
    model = checkpoint.model
    for row, text in enumerate(TEXTS):
        trace = predict(checkpoint, text)
        for layer, said in enumerate(trace.layers):
            assert found.probabilities[row, layer] == pytest.approx(
                said.head_probabilities, abs=1e-5
            )
            assert tuple(np.flatnonzero(found.heads[row, layer])) == said.heads
        batch = checkpoint.tokenizer.batch([trace.encoding])
        x = model.embedding(model.embedding.token(batch.ids), batch.segments)
        mean = model.layers[0].attention_norm(x)[0].mean(dim=0)
        assert found.summaries[row, 0] == pytest.approx(mean.numpy(), abs=1e-5)
        # The second router's answer follows from the second summary.
        scores = model.layers[1].router.scorer(torch.from_numpy(found.summaries[row, 1]))
        p = torch.softmax(scores / model.config.temperature, dim=-1)
        assert found.probabilities[row, 1] == pytest.approx(p.numpy(), abs=1e-4)


def test_the_strongest_examples_ran_the_head() -> None:
    p = np.array([0.9, 0.3, 0.8, 0.7, 0.7], np.float32)[:, None, None]
    ran = np.array([False, True, True, True, True])[:, None, None]
    states = RouterStates(np.zeros((5, 1, 2), np.float32), p, ran)
    assert states.strongest(0, 0, 3).tolist() == [2, 3, 4]
    assert states.strongest(0, 0, 9).tolist() == [2, 3, 4, 1]


def by_hand(weights: np.ndarray, special: list[str]) -> list[float]:
    n = len(weights)
    sums = dict.fromkeys(MEASURES, 0.0)
    for i in range(n):
        for j in range(n):
            w = float(weights[i, j])
            sums["distance"] += w * abs(i - j)
            sums["entropy"] -= w * math.log2(w) if w > 0 else 0
            sums["cls"] += w * (special[j] == "[CLS]")
            sums["sep"] += w * (special[j] == "[SEP]")
            sums["self"] += w * (i == j)
            sums["previous"] += w * (j == i - 1)
            sums["next"] += w * (j == i + 1)
    return [sums[name] / n for name in MEASURES]


def test_signatures_are_means_over_the_texts_that_ran_a_head(
    checkpoint: Checkpoint, examples: Examples
) -> None:
    found = signatures(checkpoint, examples)
    assert found.n_texts == 4
    traces = [predict(checkpoint, text) for text in TEXTS]
    maps = [attention_maps(checkpoint, trace) for trace in traces]
    n_checked = 0
    for layer in range(2):
        for head in range(4):
            mine, even = [], []
            for trace, all_maps in zip(traces, maps, strict=True):
                found_map = all_maps.find(layer, head)
                if found_map is not None:
                    tokens = list(trace.encoding.tokens)
                    mine.append(by_hand(found_map.weights, tokens))
                    n = len(tokens)
                    even.append(by_hand(np.full((n, n), 1 / n), tokens))
            assert found.n_ran[layer, head] == len(mine)
            if mine:
                n_checked += 1
                assert found.values[layer, head] == pytest.approx(np.mean(mine, 0), abs=1e-4)
                assert found.even[layer, head] == pytest.approx(np.mean(even, 0), abs=1e-4)
            else:
                assert np.isnan(found.values[layer, head]).all()
    assert n_checked >= 4
    with pytest.raises(ValueError, match="no examples"):
        signatures(checkpoint, examples.take([]))


def test_even_attention_has_its_closed_forms(checkpoint: Checkpoint, examples: Examples) -> None:
    one = examples.take([0])
    found = signatures(checkpoint, one)
    n = len(predict(checkpoint, TEXTS[0]).encoding.ids)
    layer, head = np.argwhere(found.n_ran)[0]
    wanted = [(n * n - 1) / (3 * n), math.log2(n), 1 / n, 1 / n, 1 / n] + [(n - 1) / n**2] * 2
    assert found.even[layer, head] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((2, 3, 0.5, 0.1, 0.1, 0.1, 0.1), "looks at [CLS]"),
        ((2, 3, 0.1, 0.1, 0.1, 0.6, 0.1), "looks at the token before"),
        ((10, 5.8, 0.1, 0.1, 0.1, 0.1, 0.1), "spreads over the text"),
        ((4, 3, 0.1, 0.1, 0.1, 0.1, 0.1), "looks nearby"),
        ((9, 3, 0.1, 0.1, 0.1, 0.1, 0.1), "picks out tokens"),
    ],
)
def test_a_signature_in_words(values: tuple[float, ...], said: str) -> None:
    assert describe(values, (10, 6, 0.02, 0.02, 0.02, 0.02, 0.02)) == said


def test_projection_is_the_singular_value_decompositions() -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(40, 5)) * [5, 3, 1, 0.5, 0.1] + 7
    found = project(values.astype(np.float32))
    centred = values - values.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    assert found.explained == pytest.approx(tuple(s[:2] ** 2 / (s**2).sum()), rel=1e-4)
    for axis in range(2):
        mine, wanted = found.points[:, axis], u[:, axis] * s[axis]
        assert abs(mine) == pytest.approx(abs(wanted), abs=1e-4)
    # The same points in another order give the same picture.
    again = project(values[::-1].astype(np.float32))
    assert again.points[::-1] == pytest.approx(found.points, abs=1e-4)


def test_what_cannot_be_projected() -> None:
    with pytest.raises(ValueError, match="got 2"):
        project(np.zeros((2, 4), np.float32))
    with pytest.raises(ValueError, match="same summary"):
        project(np.ones((9, 4), np.float32))

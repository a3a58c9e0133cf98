from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from budgetformer import BudgetFormer, Checkpoint, Tokenizer
from budgetformer import attention as attention_module
from budgetformer.audit import Audit, audit
from budgetformer.executor import all_heads
from budgetformer.policies import fixed_heads

TEXT = "a good film and a fine story"


@pytest.mark.parametrize("sets", [([0], [3]), ([1, 2], [0, 1, 3]), ([0, 1, 2, 3], [2])])
def test_the_chosen_heads_and_no_others_are_computed(
    checkpoint: Checkpoint, sets: tuple[list[int], list[int]]
) -> None:
    masks = []
    for heads in sets:
        mask = torch.zeros(1, 4, dtype=torch.bool)
        mask[0, heads] = True
        masks.append(mask)
    found = audit(checkpoint, TEXT, policy=fixed_heads(masks))
    assert [layer.chosen for layer in found.layers] == [tuple(heads) for heads in sets]
    assert [layer.computed for layer in found.layers] == [tuple(heads) for heads in sets]
    assert found.counted_flops == found.expected_flops > 0
    assert found.max_difference < 1e-5
    assert found.passed


def test_counted_flops_by_hand(checkpoint: Checkpoint) -> None:
    """Every product of the tiny model, 2 a multiply-add: D 16, H 4, d_ff 24, router 6."""
    n_tokens = len(checkpoint.tokenizer.encode(TEXT).ids)
    one = torch.tensor([[True, False, False, False]])
    found = audit(checkpoint, TEXT, policy=fixed_heads([one, one]))
    head = 2 * n_tokens * 16 * 12 + 2 * n_tokens * 4 * 16
    feed_forward = 2 * 2 * n_tokens * 16 * 24
    router = 2 * (16 * 6 + 6 * 1 + 16 * 4)
    assert found.counted_flops == 2 * (head + feed_forward + router) + 2 * 16 * 2


def test_own_choice_of_single_texts_pairs_and_dense_models(
    checkpoint: Checkpoint,
    pair_checkpoint: Checkpoint,
    make_model: Callable[..., BudgetFormer],
    tokenizer: Tokenizer,
) -> None:
    assert audit(checkpoint, TEXT).passed
    assert audit(pair_checkpoint, TEXT, "a bad one").passed
    dense = audit(Checkpoint(make_model(vocab_size=200, routed=False), tokenizer), TEXT)
    assert dense.passed and dense.layers[0].computed == (0, 1, 2, 3)


def test_computing_all_heads_and_masking_them_is_seen(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cheat(x, mask, heads, weights, scaled):  # type: ignore[no-untyped-def]
        scale = torch.sqrt(heads.shape[1] / heads.sum(1, keepdim=True))
        return all_heads(x, None, weights, heads * scale)

    monkeypatch.setattr(attention_module, "run_heads", cheat)
    one = torch.tensor([[True, False, False, False]])
    found = audit(checkpoint, TEXT, policy=fixed_heads([one, one]))
    assert found.max_difference < 1e-5
    assert found.layers[0].computed == (0, 1, 2, 3)
    assert found.counted_flops > found.expected_flops
    assert not found.passed


def test_each_fault_fails_alone(checkpoint: Checkpoint) -> None:
    found = audit(checkpoint, TEXT)
    first = dataclasses.replace(found.layers[0], computed=())
    faults: list[Audit] = [
        dataclasses.replace(found, layers=(first, *found.layers[1:])),
        dataclasses.replace(found, counted_flops=found.counted_flops + 2),
        dataclasses.replace(found, max_difference=0.1),
    ]
    assert found.passed and not any(fault.passed for fault in faults)


def test_the_model_is_left_as_it_was(checkpoint: Checkpoint) -> None:
    before = {name: p.clone() for name, p in checkpoint.model.state_dict().items()}
    audit(checkpoint, TEXT)
    after = checkpoint.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetformer import BudgetFormer, executor
from budgetformer.executor import HeadWeights, all_heads, run_heads
from budgetformer.policies import fixed_heads

Make = Callable[..., BudgetFormer]
# What is set so that small cases take each way.
WAYS = {
    "by head": {"MANY": 0},
    "by count": {"MANY": 10**12, "OWN_PRODUCT": 10**12},
    "one by one": {"MANY": 10**12, "OWN_PRODUCT": 0},
}


def go(patch: pytest.MonkeyPatch, way: str) -> None:
    for name, value in WAYS[way].items():
        patch.setattr(executor, name, value)


def random_weights(n_heads: int, d_head: int, d_model: int, seed: int = 0) -> HeadWeights:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return 0.5 * torch.randn(shape, generator=generator)

    return HeadWeights(
        draw(n_heads, 3 * d_head, d_model),
        draw(n_heads, 3 * d_head),
        draw(n_heads, d_head, d_model),
        draw(d_model),
    )


def masked_reference(
    x: torch.Tensor,
    mask: torch.Tensor | None,
    heads: torch.Tensor,
    weights: HeadWeights,
    scaled: bool,
) -> torch.Tensor:
    """Every head of every example, written out, times 0 or 1."""
    qkv = torch.einsum("btd,hed->bhte", x, weights.qkv) + weights.qkv_bias[:, None, :]
    query, key, value = qkv.chunk(3, dim=-1)
    scores = torch.einsum("bhqe,bhke->bhqk", query, key) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], -torch.inf)
    each = torch.einsum("bhqk,bhke,hed->bhqd", scores.softmax(-1), value, weights.out)
    factor = torch.sqrt(heads.shape[1] / heads.sum(1)) if scaled else torch.ones(len(heads))
    return torch.einsum("bhqd,bh,b->bqd", each, heads.float(), factor) + weights.out_bias


@st.composite
def cases(draw: st.DrawFn) -> dict[str, object]:
    n_heads, d_head = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    d_model = draw(st.integers(1, 9))
    batch, length = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    sets = draw(
        st.lists(st.sets(st.integers(0, n_heads - 1), min_size=1), min_size=batch, max_size=batch)
    )
    heads = torch.zeros(batch, n_heads, dtype=torch.bool)
    for row, chosen in enumerate(sets):
        heads[row, list(chosen)] = True
    mask = None
    if draw(st.booleans()):
        # Padding anywhere, not only at the end.
        mask = torch.tensor(
            draw(
                st.lists(
                    st.lists(st.booleans(), min_size=length, max_size=length).filter(any),
                    min_size=batch,
                    max_size=batch,
                )
            )
        )
    seed = draw(st.integers(0, 99))
    return {
        "x": torch.randn(batch, length, d_model, generator=torch.Generator().manual_seed(seed)),
        "mask": mask,
        "heads": heads,
        "weights": random_weights(n_heads, d_head, d_model, seed),
        "scaled": draw(st.booleans()),
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("piece", [1, 512])
@settings(max_examples=25)
@given(case=cases())
def test_every_way_gives_the_masked_answer_and_gradient(
    way: str, piece: int, case: dict[str, object]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        go(patch, way)
        patch.setattr(executor, "PIECE_TOKENS", piece)
        x = case["x"].clone().requires_grad_()  # type: ignore[attr-defined]
        got = run_heads(**{**case, "x": x})  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad(got.square().sum(), x)
        wanted = masked_reference(**{**case, "x": x})  # type: ignore[arg-type]
        (wanted_gradient,) = torch.autograd.grad(wanted.square().sum(), x)
    assert torch.allclose(got, wanted, atol=1e-5, rtol=1e-5)
    assert torch.allclose(gradient, wanted_gradient, atol=1e-3, rtol=1e-4)


@given(case=cases())
def test_gates_weigh_heads(case: dict[str, object]) -> None:
    x, mask, heads, weights = (case[name] for name in ("x", "mask", "heads", "weights"))
    gate = heads.float()  # type: ignore[attr-defined]
    key_mask = None if mask is None else mask[:, None, None, :]  # type: ignore[index]
    got = all_heads(x, key_mask, weights, gate)  # type: ignore[arg-type]
    wanted = masked_reference(x, mask, heads, weights, False)  # type: ignore[arg-type]
    assert torch.allclose(got, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_weights_of_other_heads_are_not_read(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go(monkeypatch, way)
    heads = torch.tensor([[1, 0, 0, 0, 1], [0, 0, 1, 0, 1], [0, 0, 1, 0, 0]]).bool()
    weights = random_weights(5, 3, 7)
    x = torch.randn(3, 4, 7, generator=torch.Generator().manual_seed(1))
    before = run_heads(x, None, heads, weights, True)
    for tensor in (weights.qkv, weights.qkv_bias, weights.out):
        tensor[[1, 3]] = torch.nan
    after = run_heads(x, None, heads, weights, True)
    assert after.isfinite().all() and torch.equal(before, after)


@pytest.mark.parametrize("way", WAYS)
def test_weights_are_left_as_they_were(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go(monkeypatch, way)
    weights = random_weights(4, 2, 5)
    copies = [tensor.clone() for tensor in weights]
    x = torch.ones(3, 4, 5)
    run_heads(x, None, torch.eye(3, 4, dtype=torch.bool), weights, True)
    assert all(torch.equal(a, b) for a, b in zip(weights, copies, strict=True))
    assert torch.equal(x, torch.ones(3, 4, 5))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_batches_larger_than_a_piece_give_each_example_its_own_answer(
    make_model: Make, norm: str
) -> None:
    model = make_model(norm=norm, max_len=96)
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(40, 97, (9,), generator=generator)  # 9 × 96 tokens: two pieces
    ids = torch.randint(0, 50, (9, 96), generator=generator)
    mask = torch.arange(96) < lengths.unsqueeze(1)
    with torch.inference_mode():
        together = model(ids, mask)
        reference = model(ids, mask, skip=False)
        assert torch.allclose(together.logits, reference.logits, atol=1e-5)
        for row, length in enumerate(lengths.tolist()):
            alone = model(ids[row : row + 1, :length], mask[row : row + 1, :length])
            assert torch.allclose(alone.logits[0], together.logits[row], atol=1e-5)
            for one, all_of_them in zip(alone.layers, together.layers, strict=True):
                assert torch.equal(one.selection.heads[0], all_of_them.selection.heads[row])
                assert torch.allclose(
                    one.routing.budget[0], all_of_them.routing.budget[row], atol=1e-6
                )


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_with_and_without_gradients_the_answer_is_the_same(make_model: Make, norm: str) -> None:
    model = make_model(norm=norm, max_len=96)
    ids = torch.randint(0, 50, (7, 96), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids, dtype=torch.bool)
    chosen = torch.rand(7, 4, generator=torch.Generator().manual_seed(1)).argsort(1) < 2
    policy = fixed_heads([chosen, chosen])
    with torch.no_grad():
        without = model(ids, mask, policy=policy).logits
    assert torch.allclose(model(ids, mask, policy=policy).logits, without, atol=1e-5)


def test_bf16_is_left_outside_attention() -> None:
    weights = random_weights(4, 2, 6)
    x = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0))
    heads = torch.eye(3, 4, dtype=torch.bool)
    wanted = run_heads(x, None, heads, weights, True)
    with torch.autocast("cpu", torch.bfloat16):
        got = run_heads(x, None, heads, weights, True)
    assert torch.allclose(got.float(), wanted, atol=0.1)

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from budgetformer.attention import BudgetedAttention
from budgetformer.budget import Selection


def filled(
    d_model: int, n_heads: int, seed: int = 0, output_scale: str = "sqrt"
) -> BudgetedAttention:
    attention = BudgetedAttention(d_model, n_heads, output_scale)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return attention


def inputs(
    n: int, n_tokens: int, d_model: int, lengths: list[int], seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, n_tokens, d_model, generator=torch.Generator().manual_seed(seed + 100))
    return x, torch.arange(n_tokens) < torch.tensor(lengths).unsqueeze(1)


def naive(
    attention: BudgetedAttention, x: torch.Tensor, mask: torch.Tensor, heads: torch.Tensor
) -> np.ndarray:
    """Attention of the marked heads, one example, head and query at a time, in double."""
    qkv_w, qkv_b, out_w, out_b = (
        p.detach().double().numpy()
        for p in (
            attention.qkv_weight,
            attention.qkv_bias,
            attention.out_weight,
            attention.out_bias,
        )
    )
    n_heads, d_head = out_w.shape[:2]
    out = np.zeros(x.shape)
    for b in range(x.shape[0]):
        k = int(heads[b].sum())
        scale = math.sqrt(n_heads / k) if attention.output_scale == "sqrt" else 1
        for h in range(n_heads):
            if not heads[b, h]:
                continue
            projected = x[b].double().numpy() @ qkv_w[h].T + qkv_b[h]
            query, key, value = np.split(projected, 3, axis=1)
            for t in range(x.shape[1]):
                scores = [query[t] @ key[u] / math.sqrt(d_head) for u in range(x.shape[1])]
                exp = np.array([math.exp(s) if mask[b, u] else 0.0 for u, s in enumerate(scores)])
                out[b, t] += scale * ((exp / exp.sum()) @ value) @ out_w[h]
        out[b] += out_b
    return out


@pytest.mark.parametrize("lengths", [[6, 6, 6], [6, 2, 4]])
def test_all_heads_are_torch_multihead_attention(lengths: list[int]) -> None:
    d_model, n_heads, d_head = 12, 3, 4
    attention = filled(d_model, n_heads)
    x, mask = inputs(3, 6, d_model, lengths)
    reference = torch.nn.MultiheadAttention(d_model, n_heads, batch_first=True)
    with torch.no_grad():
        # torch keeps all queries, then all keys, then all values; we keep head by head.
        by_part = attention.qkv_weight.view(n_heads, 3, d_head, d_model).transpose(0, 1)
        reference.in_proj_weight.copy_(by_part.reshape(3 * d_model, d_model))
        bias = attention.qkv_bias.view(n_heads, 3, d_head).transpose(0, 1)
        reference.in_proj_bias.copy_(bias.reshape(-1))
        reference.out_proj.weight.copy_(attention.out_weight.reshape(d_model, d_model).T)
        reference.out_proj.bias.copy_(attention.out_bias)
    wanted, _ = reference(x, x, x, key_padding_mask=~mask)
    everything = Selection(torch.ones(3, n_heads, dtype=torch.bool))
    for skip in (True, False):
        got = attention(x, mask, everything, skip)
        assert torch.allclose(got, wanted, atol=1e-5)


SETS = {
    "the same for all": [[1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 1, 0]],
    "one each": [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]],
    "mixed numbers": [[1, 1, 1, 1], [0, 0, 1, 0], [0, 1, 0, 1]],
    "same number, other heads": [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]],
}


@pytest.mark.parametrize("output_scale", ["sqrt", "none"])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("lengths", [[5, 5, 5], [5, 1, 3]])
def test_chosen_heads_are_a_naive_loop(
    name: str, skip: bool, lengths: list[int], output_scale: str
) -> None:
    attention = filled(8, 4, seed=1, output_scale=output_scale)
    x, mask = inputs(3, 5, 8, lengths)
    heads = torch.tensor(SETS[name], dtype=torch.bool)
    got = attention(x, mask, Selection(heads), skip).detach().numpy()
    assert np.abs(got - naive(attention, x, mask, heads)).max() < 1e-5


@given(st.data())
def test_masked_and_skipping_forms_agree(data: st.DataObject) -> None:
    n_heads = data.draw(st.integers(1, 6))
    d_model = n_heads * data.draw(st.integers(1, 5))
    n, n_tokens = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))
    lengths = data.draw(st.lists(st.integers(1, n_tokens), min_size=n, max_size=n))
    sets = data.draw(
        st.lists(st.sets(st.integers(0, n_heads - 1), min_size=1), min_size=n, max_size=n)
    )
    scale = data.draw(st.sampled_from(["sqrt", "none"]))
    attention = filled(d_model, n_heads, data.draw(st.integers(0, 99)), scale)
    x, mask = inputs(n, n_tokens, d_model, lengths)
    heads = torch.zeros(n, n_heads, dtype=torch.bool)
    for b, chosen in enumerate(sets):
        heads[b, list(chosen)] = True
    with torch.no_grad():
        skipping = attention(x, mask, Selection(heads))
        masked = attention(x, mask, Selection(heads), skip=False)
    assert torch.allclose(skipping, masked, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["the same for all", "same number, other heads"])
def test_skipped_heads_are_not_computed(name: str) -> None:
    attention = filled(8, 4)
    x, mask = inputs(3, 5, 8, [5, 2, 4])
    heads = torch.tensor(SETS[name], dtype=torch.bool)
    heads[:, 3] = False
    heads[:, 0] |= ~heads.any(dim=1)
    before = attention(x, mask, Selection(heads))
    with torch.no_grad():
        for parameter in (attention.qkv_weight, attention.qkv_bias, attention.out_weight):
            parameter[~heads.any(dim=0)] = torch.nan
    after = attention(x, mask, Selection(heads))
    assert torch.equal(before, after)
    assert attention(x, mask, Selection(heads), skip=False).isnan().any()


def test_a_head_runs_only_for_the_examples_that_chose_it() -> None:
    attention = filled(8, 4)
    x, mask = inputs(2, 5, 8, [5, 5])
    heads = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0]], dtype=torch.bool)
    before = attention(x, mask, Selection(heads))
    with torch.no_grad():
        attention.qkv_weight[1] = torch.nan
    after = attention(x, mask, Selection(heads))
    assert torch.equal(before[0], after[0])
    assert after[1].isnan().all()


def test_padding_content_does_not_matter() -> None:
    attention = filled(8, 4)
    x, mask = inputs(2, 6, 8, [3, 6])
    heads = torch.tensor([[1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
    other = torch.where(mask.unsqueeze(-1), x, 1000.0)
    for skip in (True, False):
        a, b = (attention(v, mask, Selection(heads), skip)[mask] for v in (x, other))
        assert torch.allclose(a, b, atol=1e-6)


def test_gate_weighs_heads_and_gets_a_gradient() -> None:
    attention = filled(8, 4)
    x, mask = inputs(1, 5, 8, [4])
    alone = [
        attention(x, mask, Selection(row.unsqueeze(0))) - attention.out_bias
        for row in torch.eye(4, dtype=torch.bool)
    ]  # each scaled by √4 = 2
    gate = torch.tensor([[1.0, 0.25, 0.0, 0.0]], requires_grad=True)
    heads = torch.tensor([[1, 1, 0, 0]], dtype=torch.bool)
    got = attention(x, mask, Selection(heads, gate))
    wanted = math.sqrt(2) * (alone[0] + 0.25 * alone[1]) / 2 + attention.out_bias
    assert torch.allclose(got, wanted, atol=1e-5)
    (gradient,) = torch.autograd.grad(got.sum(), gate)
    for h in range(4):
        share = math.sqrt(2) * alone[h].sum().item() / 2
        assert gradient[0, h].item() == pytest.approx(share, abs=1e-4)

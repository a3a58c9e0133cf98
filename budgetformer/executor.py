"""The skipping form of attention: the executed heads of each example and no others.

Every way below gives the masked form's answer; the shape decides which is the fastest:

- every head for every example: ordinary attention, one product for many examples;
- many short texts: head by head, each for the examples that run it, since the tokens to gather are
  less than the weights;
- one text, or long ones: example by example, so that heads and lengths may differ as they like;
- else, few short texts: the examples with the same k together, since one of their products takes
  less time than a call from Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

# Tokens computed at a time: what belongs to more of them leaves a core's cache.
PIECE_TOKENS = 512
# Gathered weights at a time, for the same reason.
PIECE_BYTES = 2**20
# Multiply-adds of one head's input projection from which a product of its own beats gathering its
# weights beside those of other heads.
OWN_PRODUCT = 700_000
# Texts are short up to so many tokens, and many from so many numbers in one token of each on.
SHORT = 64
MANY = 4096


class HeadWeights(NamedTuple):
    """The weights of attention, head by head."""

    qkv: Float[Tensor, "H three_d_head D"]
    qkv_bias: Float[Tensor, "H three_d_head"]
    out: Float[Tensor, "H d_head D"]
    out_bias: Float[Tensor, " D"]


def run_heads(
    x: Float[Tensor, "B T D"],
    mask: Bool[Tensor, "B T"] | None,
    heads: Bool[Tensor, "B H"],
    weights: HeadWeights,
    scaled: bool,
) -> Float[Tensor, "B T D"]:
    """Attend with each example's heads.

    Args:
        x: the layer's input.
        mask: True at real tokens; None without padding.
        heads: the heads of each example.
        weights: of all heads.
        scaled: multiply by √(H/k).
    """
    chosen = [[head for head, runs in enumerate(row) if runs] for row in heads.tolist()]
    n_heads, width, d_model = weights.qkv.shape
    key_mask = None if mask is None else mask[:, None, None, :]  # (B, 1, 1, T)
    if min(map(len, chosen)) == n_heads:
        return all_heads(x, key_mask, weights)
    if x.shape[1] <= SHORT and len(x) * d_model >= MANY:
        return _by_head(x, key_mask, chosen, weights, scaled)
    if len(x) == 1 or x.shape[1] * width * d_model >= OWN_PRODUCT:
        return _one_by_one(x, key_mask, chosen, weights, scaled)
    return _by_count(x, key_mask, chosen, weights, scaled)


def attend(
    qkv: Float[Tensor, "B k T three_d_head"],
    key_mask: Bool[Tensor, "B 1 1 T"] | None,
    dtype: torch.dtype,
) -> Float[Tensor, "B T k_d_head"]:
    """Attend within each head and put the heads side by side."""
    # Four axes: with three torch leaves its fused kernel.
    query, key, value = qkv.chunk(3, dim=-1)  # (B, k, T, d_head) each
    if query.dtype == dtype:
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=key_mask)
    else:
        # Under autocast the projections ran in bf16, but on CPUs bf16 attention is the slower one.
        with torch.autocast(qkv.device.type, enabled=False):
            attended = F.scaled_dot_product_attention(
                query.to(dtype), key.to(dtype), value.to(dtype), attn_mask=key_mask
            )
    return attended.transpose(1, 2).flatten(2)


def all_heads(
    x: Float[Tensor, "B T D"],
    key_mask: Bool[Tensor, "B 1 1 T"] | None,
    weights: HeadWeights,
    gate: Float[Tensor, "B H"] | None = None,
) -> Float[Tensor, "B T D"]:
    """Compute every head, and multiply its output by its gate if there is one."""
    n_heads, width, _ = weights.qkv.shape
    qkv_weight, qkv_bias = weights.qkv.flatten(0, 1), weights.qkv_bias.flatten()
    out_weight = weights.out.flatten(0, 1).t()
    outputs = []
    for part in _parts(len(x), PIECE_TOKENS // x.shape[1]):
        qkv = F.linear(x[part], qkv_weight, qkv_bias)  # (b, T, H·3·d_head)
        qkv = qkv.view(-1, x.shape[1], n_heads, width).transpose(1, 2)
        heads = attend(qkv, None if key_mask is None else key_mask[part], x.dtype)
        if gate is not None:
            gated = heads.view(-1, x.shape[1], n_heads, width // 3) * gate[part, None, :, None]
            heads = gated.flatten(2)
        outputs.append(F.linear(heads, out_weight, weights.out_bias))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def _by_head(
    x: Float[Tensor, "B T D"],
    key_mask: Bool[Tensor, "B 1 1 T"] | None,
    chosen: Sequence[Sequence[int]],
    weights: HeadWeights,
    scaled: bool,
) -> Float[Tensor, "B T D"]:
    """Head by head, each for all examples that run it; attention for all pairs of both at once."""
    n_heads = len(weights.qkv)
    examples = [
        [row for row, heads in enumerate(chosen) if head in heads] for head in range(n_heads)
    ]
    groups = [
        (head, torch.tensor(rows, device=x.device)) for head, rows in enumerate(examples) if rows
    ]
    rows = torch.cat([group for _, group in groups])  # (P,): the pairs' examples
    qkv = torch.cat(
        [
            F.linear(x.index_select(0, group), weights.qkv[head], weights.qkv_bias[head])
            for head, group in groups
        ]
    )  # (P, T, 3·d_head)
    attended = attend(qkv.unsqueeze(1), None if key_mask is None else key_mask[rows], x.dtype)
    if scaled:
        scale = torch.tensor([math.sqrt(n_heads / len(heads)) for heads in chosen], device=x.device)
        attended = attended * scale[rows, None, None].to(x.dtype)
    out = weights.out_bias.expand_as(x).clone()
    parts = torch.split(attended, [len(group) for _, group in groups])
    for (head, group), part in zip(groups, parts, strict=True):
        out.index_add_(0, group, (part @ weights.out[head]).to(out.dtype))
    return out


def _one_by_one(
    x: Float[Tensor, "B T D"],
    key_mask: Bool[Tensor, "B 1 1 T"] | None,
    chosen: Sequence[Sequence[int]],
    weights: HeadWeights,
    scaled: bool,
) -> Float[Tensor, "B T D"]:
    """Example by example, each with its own heads."""
    n_heads, width, d_model = weights.qkv.shape
    own_product = x.shape[1] * width * d_model >= OWN_PRODUCT
    outputs = []
    for row, heads in enumerate(chosen):
        if own_product and len(heads) > 1:
            products = [F.linear(x[row], weights.qkv[h], weights.qkv_bias[h]) for h in heads]
            qkv = torch.stack(products)  # (k, T, 3·d_head)
        else:
            qkv = F.linear(x[row], _joined(weights.qkv, heads), _joined(weights.qkv_bias, heads))
            qkv = qkv.view(-1, len(heads), width).transpose(0, 1)  # (k, T, 3·d_head)
        row_mask = None if key_mask is None else key_mask[row : row + 1]
        attended = attend(qkv.unsqueeze(0), row_mask, x.dtype)[0]  # (T, k·d_head)
        scale = math.sqrt(n_heads / len(heads)) if scaled else 1
        out_weight = _joined(weights.out, heads)
        outputs.append(torch.addmm(weights.out_bias, attended, out_weight, alpha=scale))
    return outputs[0].unsqueeze(0) if len(outputs) == 1 else torch.stack(outputs)


def _by_count(
    x: Float[Tensor, "B T D"],
    key_mask: Bool[Tensor, "B 1 1 T"] | None,
    chosen: Sequence[Sequence[int]],
    weights: HeadWeights,
    scaled: bool,
) -> Float[Tensor, "B T D"]:
    """The examples with the same k together, each with its heads' weights gathered."""
    n_heads, width, d_model = weights.qkv.shape
    length = x.shape[1]
    out = torch.empty_like(x)
    for k in set(map(len, chosen)):
        same = [row for row, heads in enumerate(chosen) if len(heads) == k]
        n_bytes = k * width * d_model * x.element_size()
        for part in _parts(len(same), min(PIECE_TOKENS // length, PIECE_BYTES // n_bytes)):
            rows = torch.tensor(same[part], device=x.device)
            index = torch.tensor([h for row in same[part] for h in chosen[row]], device=x.device)
            weight = weights.qkv.index_select(0, index).view(len(rows), k * width, d_model)
            bias = weights.qkv_bias.index_select(0, index).view(len(rows), 1, k * width)
            qkv = torch.bmm(x.index_select(0, rows), weight.transpose(1, 2)).add_(bias)
            row_mask = None if key_mask is None else key_mask[rows]
            attended = attend(
                qkv.view(len(rows), length, k, width).transpose(1, 2), row_mask, x.dtype
            )
            weight = weights.out.index_select(0, index).view(len(rows), -1, d_model)
            scale = math.sqrt(n_heads / k) if scaled else 1
            output = torch.baddbmm(weights.out_bias, attended, weight, alpha=scale)
            out.index_copy_(0, rows, output.to(x.dtype))
    return out


def _joined(weight: Tensor, heads: Sequence[int]) -> Tensor:
    """Put the rows of some heads under one another; those of one head are no copy."""
    if len(heads) == 1:
        return weight[heads[0]]
    return torch.cat([weight[head] for head in heads])


def _parts(n: int, size: int) -> list[slice]:
    """Cut n rows into parts of `size` rows, at least one each."""
    size = max(1, size)
    return [slice(start, start + size) for start in range(0, n, size)]

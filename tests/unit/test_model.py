from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from budgetformer import BudgetFormer, Checkpoint
from budgetformer.budget import Routing, Selection
from budgetformer.model import LAYER_NORM_EPS, Layer
from budgetformer.policies import all_heads, fixed_heads

Make = Callable[..., BudgetFormer]


def torch_layer(layer: Layer, d_model: int, n_heads: int, d_ff: int) -> nn.Module:
    """nn.TransformerEncoderLayer with a copy of a layer's weights."""
    reference = nn.TransformerEncoderLayer(
        d_model,
        n_heads,
        d_ff,
        dropout=0.0,
        activation="gelu",
        layer_norm_eps=LAYER_NORM_EPS,
        batch_first=True,
        norm_first=layer.pre_norm,
    )
    attention = layer.attention
    parts = (n_heads, 3, d_model // n_heads)
    with torch.no_grad():
        reference.self_attn.in_proj_weight.copy_(
            attention.qkv_weight.view(*parts, d_model).transpose(0, 1).reshape(-1, d_model)
        )
        reference.self_attn.in_proj_bias.copy_(
            attention.qkv_bias.view(parts).transpose(0, 1).reshape(-1)
        )
        reference.self_attn.out_proj.weight.copy_(attention.out_weight.flatten(0, 1).T)
        reference.self_attn.out_proj.bias.copy_(attention.out_bias)
    for target, source in (
        (reference.linear1, layer.feed_forward[0]),
        (reference.linear2, layer.feed_forward[2]),
        (reference.norm1, layer.attention_norm),
        (reference.norm2, layer.feed_forward_norm),
    ):
        target.load_state_dict(source.state_dict())
    return reference.train()  # without dropout; evaluation mode would take another path


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("routed", [True, False])
def test_with_all_heads_it_is_the_transformer_of_torch(
    make_model: Make, norm: str, routed: bool
) -> None:
    model = make_model(norm=norm, routed=routed, n_segments=2)
    config = model.config
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(config.vocab_size, (3, 7), generator=generator)
    segments = torch.randint(2, (3, 7), generator=generator)
    mask = torch.arange(7) < torch.tensor([[7], [3], [5]])
    table = model.embedding
    assert table.segment is not None
    x = torch.stack(
        [
            torch.stack(
                [
                    table.token.weight[ids[b, t]]
                    + table.position.weight[t]
                    + table.segment.weight[segments[b, t]]
                    for t in range(7)
                ]
            )
            for b in range(3)
        ]
    )
    x = table.norm(x)
    for layer in model.layers:
        assert isinstance(layer, Layer)
        x = torch_layer(layer, config.d_model, config.n_heads, config.d_ff)(
            x, src_key_padding_mask=~mask
        )
    if norm == "pre":
        x = model.final_norm(x)
    pooled = torch.stack([x[b, : int(mask[b].sum())].mean(dim=0) for b in range(3)])
    wanted = pooled @ model.classifier.weight.T + model.classifier.bias
    got = model(ids, mask, segments, all_heads())
    assert torch.allclose(got.logits, wanted, atol=1e-5)
    assert len(got.layers) == config.n_layers


@given(st.data())
def test_skipping_and_masked_forms_agree(make_model: Make, data: st.DataObject) -> None:
    n_heads = data.draw(st.integers(1, 5))
    model = make_model(
        seed=data.draw(st.integers(0, 50)),
        norm=data.draw(st.sampled_from(["pre", "post"])),
        rounding=data.draw(st.sampled_from(["floor", "nearest", "ceil"])),
        output_scale=data.draw(st.sampled_from(["sqrt", "none"])),
        n_heads=n_heads,
        d_model=n_heads * 4,
        n_layers=data.draw(st.integers(1, 3)),
    )
    lengths = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=5))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 50)))
    ids = torch.randint(50, (len(lengths), max(lengths)), generator=generator)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    policy = None
    if data.draw(st.booleans()):
        chosen = torch.rand(len(lengths), n_heads, generator=generator) < 0.4
        chosen[:, 0] |= ~chosen.any(dim=1)
        policy = fixed_heads([chosen] * model.config.n_layers)
    with torch.no_grad():
        skipping = model(ids, mask, policy=policy)
        masked = model(ids, mask, policy=policy, skip=False)
    assert torch.allclose(skipping.logits, masked.logits, atol=1e-5, rtol=1e-5)
    for a, b in zip(skipping.layers, masked.layers, strict=True):
        assert torch.equal(a.selection.heads, b.selection.heads)


@given(st.data())
def test_padding_changes_nothing(make_model: Make, data: st.DataObject) -> None:
    model = make_model(
        seed=data.draw(st.integers(0, 30)),
        norm=data.draw(st.sampled_from(["pre", "post"])),
        n_layers=3,
        n_heads=8,
        d_model=32,
    )
    rows = data.draw(
        st.lists(st.lists(st.integers(0, 49), min_size=1, max_size=12), min_size=2, max_size=6)
    )
    width = max(map(len, rows)) + data.draw(st.integers(0, 9))
    ids = torch.full((len(rows), width), data.draw(st.integers(0, 49)))
    for row, padded in zip(rows, ids, strict=True):
        padded[: len(row)] = torch.tensor(row)
    mask = torch.arange(width) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
    with torch.no_grad():
        together = model(ids, mask)
        for b, row in enumerate(rows):
            alone = model(torch.tensor([row]), torch.ones(1, len(row), dtype=torch.bool))
            assert torch.allclose(alone.logits[0], together.logits[b], atol=1e-5, rtol=1e-5)
            for one, all_ in zip(alone.layers, together.layers, strict=True):
                s = one.routing.budget.item(), all_.routing.budget[b].item()
                assert s[0] == pytest.approx(s[1], abs=1e-6)
                assert torch.equal(one.selection.heads[0], all_.selection.heads[b])


def test_the_same_text_alone_padded_and_in_a_batch(checkpoint: Checkpoint) -> None:
    texts = ["A good film, a fine film!", "boring", "the actors are good " * 6, "what? yes & no"]
    tokenizer, model = checkpoint.tokenizer, checkpoint.model
    rows = [tokenizer.encode(text, max_len=checkpoint.config.max_len) for text in texts]
    together = model(*tokenizer.batch(rows))
    for b, row in enumerate(rows):
        alone = model(*tokenizer.batch([row]))
        assert torch.allclose(alone.logits[0], together.logits[b], atol=1e-5)
        for one, all_ in zip(alone.layers, together.layers, strict=True):
            assert one.routing.budget.item() == pytest.approx(
                all_.routing.budget[b].item(), abs=1e-6
            )
            assert torch.equal(one.selection.executed_heads[0], all_.selection.executed_heads[b])
            assert torch.equal(one.selection.heads[0], all_.selection.heads[b])


def test_decisions_follow_the_router(make_model: Make) -> None:
    model = make_model(n_heads=8, d_model=32, n_layers=3)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(50, (20, 9), generator=generator)
    output = model(ids, torch.ones(20, 9, dtype=torch.bool))
    counts = set()
    for layer in output.layers:
        for b in range(20):
            k = max(1, int(layer.routing.budget[b].item() * 8 + 1e-5))
            best = layer.routing.scores[b].argsort(descending=True)[:k].tolist()
            assert layer.selection.heads[b].nonzero().flatten().tolist() == sorted(best)
            assert layer.selection.gate is None
            counts.add(k)
    assert len(counts) > 2  # inputs do differ in their number of heads


def test_heads_outside_the_policy_are_not_computed(make_model: Make) -> None:
    model = make_model()
    ids, mask = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.ones(2, 3, dtype=torch.bool)
    chosen = torch.tensor([[True, False, True, False]])
    policy = fixed_heads([chosen, chosen])
    before = model(ids, mask, policy=policy).logits
    with torch.no_grad():
        for layer in model.layers:
            for name in ("qkv_weight", "qkv_bias", "out_weight"):
                getattr(layer.attention, name)[[1, 3]] = torch.nan
    after = model(ids, mask, policy=policy).logits
    assert after.isfinite().all() and torch.equal(before, after)


def test_a_dense_model_has_no_router(make_model: Make) -> None:
    model = make_model(routed=False)
    assert not [name for name, _ in model.named_parameters() if "router" in name]
    output = model(torch.tensor([[1, 2]]), torch.ones(1, 2, dtype=torch.bool))
    for layer in output.layers:
        assert layer.routing.budget.tolist() == [1.0]
        assert layer.routing.probabilities[0].tolist() == [0.25] * 4
        assert layer.selection.executed_heads.tolist() == [4]


def test_segments_and_positions_matter(make_model: Make) -> None:
    model = make_model(n_segments=2)
    ids, mask = torch.tensor([[1, 2, 3]]), torch.ones(1, 3, dtype=torch.bool)
    one = model(ids, mask, torch.tensor([[0, 0, 0]])).logits
    two = model(ids, mask, torch.tensor([[0, 0, 1]])).logits
    turned = model(ids.flip(1), mask, torch.tensor([[0, 0, 0]])).logits
    assert not torch.allclose(one, two, atol=1e-3)
    assert not torch.allclose(one, turned, atol=1e-3)


def test_a_policy_sees_every_layer_and_changes_nothing_on_the_model(make_model: Make) -> None:
    model = make_model(n_layers=3)
    ids, mask = torch.tensor([[1, 2, 3]]), torch.ones(1, 3, dtype=torch.bool)
    before = {name: p.clone() for name, p in model.state_dict().items()}
    plain = model(ids, mask).logits
    seen = []

    def only_the_last(layer: int, routing: Routing) -> Selection:
        seen.append(layer)
        heads = torch.zeros_like(routing.scores, dtype=torch.bool)
        heads[:, -1] = True
        return Selection(heads)

    forced = model(ids, mask, policy=only_the_last)
    assert seen == [0, 1, 2]
    assert all(layer.selection.heads[0].tolist() == [False] * 3 + [True] for layer in forced.layers)
    assert torch.equal(model(ids, mask).logits, plain)
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())


def test_one_model_serves_many_threads(checkpoint: Checkpoint) -> None:
    from budgetformer import predict

    texts = ["a good film", "boring " * 9, "what a story; what an actor?", "don't over-think it"]
    wanted = {text: predict(checkpoint, text).to_dict() for text in texts}
    heads = torch.tensor([[True, False, False, False]])
    forced = predict(checkpoint, texts[0], policy=fixed_heads([heads, heads])).to_dict()
    assert forced != wanted[texts[0]]

    def work(i: int) -> bool:
        if i % 3 == 0:
            policy = fixed_heads([heads, heads])
            return predict(checkpoint, texts[0], policy=policy).to_dict() == forced
        text = texts[i % 4]
        return predict(checkpoint, text).to_dict() == wanted[text]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(80)))


def test_dropout_acts_in_training_only(make_model: Make) -> None:
    model = make_model(dropout=0.5)
    ids, mask = torch.tensor([[1, 2, 3]]), torch.ones(1, 3, dtype=torch.bool)
    assert torch.equal(model(ids, mask).logits, model(ids, mask).logits)
    model.train()
    assert not torch.equal(model(ids, mask).logits, model(ids, mask).logits)


def test_source_names_no_streamlit() -> None:
    for path in (Path(__file__).parents[2] / "budgetformer").rglob("*.py"):
        assert "streamlit" not in path.read_text(encoding="utf-8"), path


def test_a_shared_budget_is_the_first_layers(make_model: Make) -> None:
    model = make_model(n_layers=3, budgets="shared")
    ids, mask = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.ones(2, 3, dtype=torch.bool)
    layers = model(ids, mask).layers
    own = model.layers[0].route(model.layers[0].attention_norm(embed(model, ids)), mask).budget
    assert all(layer.routing.budget.tolist() == own.tolist() for layer in layers)
    assert not torch.equal(layers[0].routing.scores, layers[1].routing.scores)
    predictors = {
        name.split(".")[1] for name, _ in model.named_parameters() if "budget_out" in name
    }
    assert predictors == {"0"}


def test_a_dense_model_of_fewer_heads_runs_the_first(make_model: Make) -> None:
    model = make_model(routed=False, fixed_heads=1)
    ids, mask = torch.tensor([[1, 2, 3]]), torch.ones(1, 3, dtype=torch.bool)
    before = model(ids, mask)
    assert [layer.selection.heads.tolist() for layer in before.layers] == [
        [[True, False, False, False]]
    ] * 2
    assert before.layers[0].routing.budget.tolist() == [0.25]
    with torch.no_grad():
        for layer in model.layers:
            layer.attention.qkv_weight[1:] = float("nan")
    assert torch.equal(model(ids, mask).logits, before.logits)


def embed(model: BudgetFormer, ids: torch.Tensor) -> torch.Tensor:
    embedded: torch.Tensor = model.embedding(model.embedding.token(ids))
    return embedded

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from itertools import pairwise

import pytest
import torch
from captum.attr import InputXGradient, IntegratedGradients
from torch import nn

from budgetformer import BudgetFormer, Checkpoint, Tokenizer, Trace, predict
from budgetformer.attribution import (
    GRADIENT_X_INPUT,
    INTEGRATED_GRADIENTS,
    OCCLUSION,
    Attribution,
    class_and_budget,
    gradient_x_input,
    integrated_gradients,
    occlusion,
)
from budgetformer.attribution_heads import head_contributions
from budgetformer.attribution_targets import Target
from budgetformer.faithfulness import TopWords, count_words, faithfulness, n_forwards
from budgetformer.policies import Policy, fixed_heads, given_k, predicted

TEXT = "A good film: don't over-think it!"
TARGETS = [
    Target.logit("negative"),
    Target.contrast("positive", "negative"),
    Target.budget(0),
    Target.budget(1),
    Target.mean_budget(),
    Target.score(1, 2),
]
Map = Callable[[Checkpoint, Trace, Target], Attribution]
METHODS: list[Map] = [gradient_x_input, integrated_gradients, occlusion]
every_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


def held(trace: Trace) -> Policy:
    n_heads = len(trace.layers[0].scores)
    masks = [
        torch.tensor([[h in layer.heads for h in range(n_heads)]], dtype=torch.bool)
        for layer in trace.layers
    ]
    return fixed_heads(masks)


def evaluate(
    model: BudgetFormer,
    target: Target,
    ids: list[int],
    policy: Policy | None = None,
    tokens: torch.Tensor | None = None,
    segments: tuple[int, ...] | None = None,
) -> torch.Tensor:
    """The target, by hand, for one text: skip=False is the reference form of attention."""
    table = model.embedding.token.weight
    tokens = table[ids].unsqueeze(0) if tokens is None else tokens
    mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
    pair = None if segments is None else torch.tensor([segments])
    output = model.forward_tokens(tokens, mask, pair, policy, skip=False)
    logits = dict(zip(model.config.labels, output.logits[0], strict=True))
    budgets = [layer.routing.budget[0] for layer in output.layers]
    if target.kind == "logit":
        return logits[target.label or ""]
    if target.kind == "contrast":
        return logits[target.label or ""] - logits[target.other or ""]
    if target.kind == "mean_budget":
        return sum(budgets, torch.tensor(0.0)) / len(budgets)
    if target.kind == "budget":
        return budgets[target.layer or 0]
    return output.layers[target.layer or 0].routing.scores[0, target.head or 0]


def double(checkpoint: Checkpoint) -> BudgetFormer:
    return copy.deepcopy(checkpoint.model).double()


def baseline_ids(checkpoint: Checkpoint, trace: Trace) -> list[int]:
    encoding, mask_id = trace.encoding, checkpoint.tokenizer.mask_id
    return [
        i if special else mask_id for i, special in zip(encoding.ids, encoding.special, strict=True)
    ]


def masked(checkpoint: Checkpoint, trace: Trace, words: list[int]) -> list[int]:
    ids = list(trace.encoding.ids)
    for word in words:
        for position in trace.words[word].tokens:
            ids[position] = checkpoint.tokenizer.mask_id
    return ids


@pytest.fixture(scope="module")
def dense(make_model: Callable[..., BudgetFormer], tokenizer: Tokenizer) -> Checkpoint:
    model = make_model(
        vocab_size=tokenizer.vocab_size, labels=("negative", "positive"), routed=False
    )
    return Checkpoint(model, tokenizer)


@pytest.fixture(scope="module")
def linear(make_model: Callable[..., BudgetFormer], tokenizer: Tokenizer) -> Checkpoint:
    """Without its norms, layer 1's z is linear in the token vectors: z = W·mean(tokens) + b."""
    model = make_model(vocab_size=tokenizer.vocab_size, labels=("a", "b"), norm="post")
    model.embedding.norm = nn.Identity()  # type: ignore[assignment]
    return Checkpoint(model, tokenizer)


# Targets


def test_targets_have_names_that_count_from_one() -> None:
    assert [target.name for target in TARGETS] == [
        "logit of negative",
        "positive − negative",
        "budget s of layer 1",
        "budget s of layer 2",
        "mean budget s",
        "score z of head 3 in layer 2",
    ]
    assert Target.budget(1) == Target.budget(1) and len(set(TARGETS)) == len(TARGETS)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target.logit("neutral"), "no class 'neutral'; it has negative, positive"),
        (Target.contrast("positive", "x"), "no class 'x'; it has negative, positive"),
        (Target.contrast("positive", "positive"), "two classes, not 'positive' twice"),
        (Target.budget(2), "no layer 3; it has layers 1 to 2"),
        (Target.budget(-1), "no layer 0; it has layers 1 to 2"),
        (Target.score(0, 4), "no head 5; it has heads 1 to 4"),
    ],
)
def test_what_the_model_lacks_is_named(
    checkpoint: Checkpoint, target: Target, message: str
) -> None:
    trace = predict(checkpoint, TEXT)
    for method in [*METHODS, head_contributions]:
        with pytest.raises(ValueError, match=message):
            method(checkpoint, trace, target)


def test_a_dense_model_has_no_budget(dense: Checkpoint) -> None:
    trace = predict(dense, TEXT)
    for target in (Target.budget(0), Target.mean_budget(), Target.score(0, 1)):
        for method in [*METHODS, head_contributions]:
            with pytest.raises(ValueError, match=f"a dense model has no {target.name}"):
                method(dense, trace, target)
    with pytest.raises(ValueError, match="no mean budget s"):
        class_and_budget(dense, trace)
    found = integrated_gradients(dense, trace, n_steps=64)
    assert abs(found.completeness_error) < 1e-3
    assert all(all(row) for row in head_contributions(dense, trace).head_values)


def test_no_word_moves_a_fixed_budget(
    make_model: Callable[..., BudgetFormer], tokenizer: Tokenizer
) -> None:
    model = make_model(vocab_size=tokenizer.vocab_size, fixed_heads=2)
    fixed = Checkpoint(model, tokenizer)
    trace = predict(fixed, TEXT)
    with pytest.raises(
        ValueError, match="no word moves the mean budget s: it is the same for every input"
    ):
        integrated_gradients(fixed, trace, Target.mean_budget())
    assert any(integrated_gradients(fixed, trace, Target.score(0, 1)).word_values)


# Words


def test_a_linear_target_is_shared_out_exactly(linear: Checkpoint) -> None:
    trace, target = predict(linear, TEXT), Target.score(0, 3)
    model, ids = linear.model, list(trace.encoding.ids)
    weight = model.layers[0].router.scorer.weight[3]  # type: ignore[union-attr]
    table = model.embedding.token.weight
    shares = (table[ids] @ weight / len(ids)).tolist()
    base = (table[baseline_ids(linear, trace)] @ weight / len(ids)).tolist()
    differences = [a - b for a, b in zip(shares, base, strict=True)]
    by_word = [sum(differences[i] for i in word.tokens) for word in trace.words]

    times_input = gradient_x_input(linear, trace, target)
    assert times_input.token_values == pytest.approx(shares, abs=1e-6)
    one_step = integrated_gradients(linear, trace, target, n_steps=1)
    assert one_step.token_values == pytest.approx(differences, abs=1e-6)
    occluded = occlusion(linear, trace, target)
    assert occluded.word_values == pytest.approx(by_word, abs=1e-6)
    for found in (times_input, one_step, occluded):
        assert found.value == pytest.approx(trace.layers[0].scores[3], abs=1e-6)
        assert found.completeness_error == pytest.approx(0, abs=1e-5)


@every_target
def test_integrated_gradients_are_a_riemann_sum(checkpoint: Checkpoint, target: Target) -> None:
    """Against the midpoint rule, one point at a time, in double precision."""
    trace, model = predict(checkpoint, TEXT), double(checkpoint)
    table, ids = model.embedding.token.weight, list(trace.encoding.ids)
    start = table[baseline_ids(checkpoint, trace)].unsqueeze(0)
    end, steps = table[ids].unsqueeze(0), 80
    wanted = torch.zeros(len(ids), dtype=torch.float64)
    for step in range(steps):
        point = (start + (step + 0.5) / steps * (end - start)).detach().requires_grad_()
        value = evaluate(model, target, ids, held(trace), point)
        (gradient,) = torch.autograd.grad(value, point)
        wanted += ((end - start) * gradient).sum(dim=-1)[0] / steps
    found = integrated_gradients(checkpoint, trace, target, n_steps=100)
    assert found.token_values == pytest.approx(wanted.tolist(), abs=1e-3)
    assert found.token_values[0] == found.token_values[-1] == 0  # [CLS] and [SEP] stay
    assert found.value == pytest.approx(evaluate(model, target, ids).item(), abs=1e-5)
    base = evaluate(model, target, baseline_ids(checkpoint, trace), held(trace))
    assert found.baseline_value == pytest.approx(base.item(), abs=1e-5)


@every_target
def test_the_error_shrinks_with_the_steps(checkpoint: Checkpoint, target: Target) -> None:
    trace = predict(checkpoint, TEXT)
    found = [integrated_gradients(checkpoint, trace, target, n_steps=n) for n in (1, 8, 64)]
    errors = [abs(attribution.completeness_error) for attribution in found]
    assert errors[2] < 2e-4 < errors[0]
    assert errors[1] < errors[0]
    assert [attribution.n_forwards for attribution in found] == [3, 10, 66]


def test_completeness_is_captums_own_delta(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, TEXT)
    table = checkpoint.model.embedding.token
    ids = torch.tensor([trace.encoding.ids])
    base = torch.tensor([baseline_ids(checkpoint, trace)])

    def mean_budget(tokens: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
        output = checkpoint.model.forward_tokens(tokens, mask, policy=held(trace))
        budgets = [layer.routing.budget for layer in output.layers]
        return (budgets[0] + budgets[1]) / 2

    for n_steps in (2, 8):
        found = integrated_gradients(checkpoint, trace, Target.mean_budget(), n_steps)
        _, delta = IntegratedGradients(mean_budget).attribute(
            table(ids), table(base), n_steps=n_steps, return_convergence_delta=True
        )
        assert found.completeness_error == pytest.approx(delta.item(), abs=1e-6)


@every_target
def test_gradient_times_input_by_finite_differences(checkpoint: Checkpoint, target: Target) -> None:
    """A token's value is the slope of the target as its vector is stretched."""
    trace, model = predict(checkpoint, TEXT), double(checkpoint)
    ids, step = list(trace.encoding.ids), 1e-4
    vectors = model.embedding.token.weight[ids].unsqueeze(0)
    slopes = []
    for position in range(len(ids)):
        ends = []
        for change in (step, -step):
            stretched = vectors.clone()
            stretched[0, position] *= 1 + change
            ends.append(evaluate(model, target, ids, held(trace), stretched).item())
        slopes.append((ends[0] - ends[1]) / (2 * step))
    found = gradient_x_input(checkpoint, trace, target)
    assert found.token_values == pytest.approx(slopes, abs=2e-4)
    zero = evaluate(model, target, ids, held(trace), torch.zeros_like(vectors)).item()
    assert found.baseline_value == pytest.approx(zero, abs=1e-4)
    gap = sum(slopes) - (evaluate(model, target, ids).item() - zero)
    assert found.completeness_error == pytest.approx(gap, abs=1e-3)


def test_gradient_times_input_is_captums(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, TEXT)
    ids = list(trace.encoding.ids)
    tokens = checkpoint.model.embedding.token(torch.tensor([ids])).clone().requires_grad_()
    wanted = InputXGradient(
        lambda x: evaluate(checkpoint.model, TARGETS[1], ids, held(trace), x).unsqueeze(0)
    ).attribute(tokens)
    found = gradient_x_input(checkpoint, trace, TARGETS[1])
    assert found.token_values == pytest.approx(wanted.sum(dim=-1)[0].tolist(), abs=1e-5)


@every_target
@pytest.mark.parametrize("hold_heads", [True, False])
def test_occlusion_is_a_loop_over_masked_texts(
    checkpoint: Checkpoint, target: Target, hold_heads: bool
) -> None:
    trace = predict(checkpoint, TEXT)
    model, policy = checkpoint.model, held(trace) if hold_heads else None
    value = evaluate(model, target, list(trace.encoding.ids)).item()
    wanted = [
        value - evaluate(model, target, masked(checkpoint, trace, [word]), policy).item()
        for word in range(len(trace.words))
    ]
    found = occlusion(checkpoint, trace, target, hold_heads)
    assert found.word_values == pytest.approx(wanted, abs=1e-5)
    assert found.value == pytest.approx(value, abs=1e-5)
    base = evaluate(model, target, baseline_ids(checkpoint, trace), policy).item()
    assert found.baseline_value == pytest.approx(base, abs=1e-5)
    assert found.completeness_error == pytest.approx(sum(wanted) - (value - base), abs=1e-4)
    assert found.heads.startswith("heads held" if hold_heads else "heads chosen anew")


def test_occlusion_reports_its_progress(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = predict(checkpoint, TEXT)
    whole = occlusion(checkpoint, trace)
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr("budgetformer.attribution_function.TOKENS_PER_BATCH", 40)
    found = occlusion(checkpoint, trace, progress=lambda done, n: seen.append((done, n)))
    assert found.word_values == pytest.approx(whole.word_values, abs=1e-5)
    assert len(seen) > 2 and all(a[0] < b[0] for a, b in pairwise(seen))
    assert seen[-1] == (found.n_forwards,) * 2 == (len(trace.words) + 2,) * 2


def test_heads_that_were_forced_stay_forced(checkpoint: Checkpoint) -> None:
    policy = given_k(torch.tensor([[4, 1]]))
    trace = predict(checkpoint, TEXT, policy=policy)
    assert [layer.k for layer in trace.layers] == [4, 1]
    wanted = evaluate(checkpoint.model, TARGETS[0], list(trace.encoding.ids), policy).item()
    for method in METHODS:
        assert method(checkpoint, trace, TARGETS[0]).value == pytest.approx(wanted, abs=1e-5)
    anew = occlusion(checkpoint, trace, TARGETS[0], hold_heads=False, policy=policy)
    assert anew.value == pytest.approx(wanted, abs=1e-5)
    own = evaluate(checkpoint.model, TARGETS[0], list(trace.encoding.ids)).item()
    anew = occlusion(checkpoint, trace, TARGETS[0], hold_heads=False)
    assert anew.value == pytest.approx(own, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_words_value_is_the_sum_of_its_pieces(checkpoint: Checkpoint, method: Map) -> None:
    trace = predict(checkpoint, TEXT)
    found = method(checkpoint, trace, Target.mean_budget())
    words = trace.words
    assert len(found.word_values) == len(words) < len(trace.encoding.ids) - 2
    for word, value in zip(words, found.word_values, strict=True):
        assert value == pytest.approx(sum(found.token_values[i] for i in word.tokens))
    assert found.target.name == "mean budget s"
    assert all(type(value) is float for value in (*found.token_values, *found.word_values))


def test_the_default_target_is_the_predicted_class(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, TEXT)
    for method in (gradient_x_input, integrated_gradients, occlusion):
        found = method(checkpoint, trace)
        assert found.target == Target.logit(trace.label)
        assert found.heads == "heads held at those of the text"


def test_methods_say_what_they_cost() -> None:
    assert [m.n_forwards(100, 32) for m in (GRADIENT_X_INPUT, INTEGRATED_GRADIENTS, OCCLUSION)] == [
        2,
        34,
        102,
    ]
    assert OCCLUSION.slow and not INTEGRATED_GRADIENTS.slow and not GRADIENT_X_INPUT.slow
    assert INTEGRATED_GRADIENTS.complete and not (OCCLUSION.complete or GRADIENT_X_INPUT.complete)


def test_steps_below_one_are_refused(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, TEXT)
    for method in (integrated_gradients, head_contributions):
        with pytest.raises(ValueError, match="n_steps is 0; it must be at least 1"):
            method(checkpoint, trace, n_steps=0)


@pytest.mark.parametrize("target", [Target.logit("b"), Target.mean_budget(), Target.score(1, 0)])
def test_pairs(pair_checkpoint: Checkpoint, target: Target) -> None:
    trace = predict(pair_checkpoint, "a good film", "the story is bad")
    model, segments = pair_checkpoint.model, trace.encoding.segments
    value = evaluate(model, target, list(trace.encoding.ids), segments=segments).item()
    found = integrated_gradients(pair_checkpoint, trace, target, n_steps=64)
    assert abs(found.completeness_error) < 1e-3
    assert len(found.token_values) == len(trace.encoding.ids)
    assert found.token_values[trace.encoding.tokens.index("[SEP]")] == 0
    occluded = occlusion(pair_checkpoint, trace, target)
    for word in range(len(trace.words)):
        ids = masked(pair_checkpoint, trace, [word])
        rest = evaluate(model, target, ids, held(trace), segments=segments).item()
        assert occluded.word_values[word] == pytest.approx(value - rest, abs=1e-5)
    for other in (found, occluded, head_contributions(pair_checkpoint, trace, target)):
        assert other.value == pytest.approx(value, abs=1e-5)


def test_class_and_budget_side_by_side(pair_checkpoint: Checkpoint) -> None:
    trace = predict(pair_checkpoint, "A good film", "the story isn't bad")
    both = class_and_budget(pair_checkpoint, trace, n_steps=8)
    assert both.class_map == integrated_gradients(pair_checkpoint, trace, n_steps=8)
    budget = integrated_gradients(pair_checkpoint, trace, Target.mean_budget(), n_steps=8)
    assert both.budget_map == budget
    assert " ".join(word.text for word in both.words) == "A good film the story isn't bad"
    assert [word.segment for word in both.words] == [0, 0, 0, 1, 1, 1, 1]
    assert tuple(word.class_value for word in both.words) == both.class_map.word_values
    assert tuple(word.budget_value for word in both.words) == budget.word_values
    contrast = class_and_budget(pair_checkpoint, trace, Target.contrast("a", "b"), n_steps=2)
    assert contrast.class_map.target.name == "a − b"


# Heads


def scaled(
    checkpoint: Checkpoint, scale: dict[tuple[int, int], float], rest: float
) -> BudgetFormer:
    """A double-precision copy whose heads' output weights are multiplied: gates without gates."""
    model = double(checkpoint)
    for layer in range(model.config.n_layers):
        for head in range(model.config.n_heads):
            model.layers[layer].attention.out_weight[head] *= scale.get((layer, head), rest)  # type: ignore[union-attr, index, operator]
    return model


@every_target
def test_head_values_sum_to_all_gates_minus_none(checkpoint: Checkpoint, target: Target) -> None:
    trace = predict(checkpoint, TEXT)
    ids, policy = list(trace.encoding.ids), held(trace)
    value = evaluate(double(checkpoint), target, ids, policy).item()
    none = evaluate(scaled(checkpoint, {}, 0.0), target, ids, policy).item()
    found = head_contributions(checkpoint, trace, target, n_steps=64)
    assert found.value == pytest.approx(value, abs=1e-5)
    assert found.baseline_value == pytest.approx(none, abs=1e-5)
    assert sum(map(sum, found.head_values)) == pytest.approx(value - none, abs=2e-4)
    assert sum(found.layer_values) == pytest.approx(found.total)
    assert found.n_forwards == 66
    for layer, row in zip(trace.layers, found.head_values, strict=True):
        assert len(row) == 4
        assert all(v == 0 for head, v in enumerate(row) if head not in layer.heads)
    if target.layer is not None:  # the heads of a layer cannot move its own router
        assert not any(any(row) for row in found.head_values[target.layer :])


@pytest.mark.parametrize("target", [Target.logit("positive"), Target.budget(1)])
def test_one_heads_value_is_its_own_integral(checkpoint: Checkpoint, target: Target) -> None:
    """Midpoint rule over central differences of models whose weights are multiplied."""
    trace = predict(checkpoint, TEXT)
    ids, policy, steps, nudge = list(trace.encoding.ids), held(trace), 24, 1e-4
    layer, head = 0, trace.layers[0].heads[-1]
    wanted = 0.0
    for step in range(steps):
        at = (step + 0.5) / steps
        up, down = (
            evaluate(scaled(checkpoint, {(layer, head): at + d}, at), target, ids, policy).item()
            for d in (nudge, -nudge)
        )
        wanted += (up - down) / (2 * nudge) / steps
    found = head_contributions(checkpoint, trace, target, n_steps=32)
    assert found.head_values[layer][head] == pytest.approx(wanted, abs=2e-3)
    assert abs(wanted) > 1e-3


# Faithfulness


@pytest.mark.parametrize("target", [Target.logit("positive"), Target.budget(1)])
def test_faithfulness_is_a_loop_over_masked_texts(checkpoint: Checkpoint, target: Target) -> None:
    trace = predict(checkpoint, TEXT)
    attribution = integrated_gradients(checkpoint, trace, target, n_steps=4)
    found = faithfulness(checkpoint, trace, attribution, n_draws=3, seed=5)
    n = len(trace.words)
    everything = set(range(n))
    ranked = sorted(everything, key=lambda i: attribution.word_values[i], reverse=True)
    generator = torch.Generator().manual_seed(5)

    def without(words: set[int]) -> float:
        return evaluate(checkpoint.model, target, masked(checkpoint, trace, sorted(words))).item()

    value = without(set())
    assert found.value == pytest.approx(value, abs=1e-5)
    assert [step.fraction for step in found.steps] == [0.1, 0.2, 0.5]
    for step, count in zip(found.steps, (1, 2, 4), strict=True):
        assert step.n_words == count
        draws = [set(torch.randperm(n, generator=generator)[:count].tolist()) for _ in range(3)]
        top = set(ranked[:count])
        assert step.comprehensiveness == pytest.approx(value - without(top), abs=1e-5)
        assert step.sufficiency == pytest.approx(value - without(everything - top), abs=1e-5)
        needed = [value - without(draw) for draw in draws]
        enough = [value - without(everything - draw) for draw in draws]
        assert step.random_comprehensiveness == pytest.approx(needed, abs=1e-5)
        assert step.random_sufficiency == pytest.approx(enough, abs=1e-5)
        gain = value - without(top) - sum(needed) / 3
        assert step.comprehensiveness_gain == pytest.approx(gain, abs=1e-5)
        gain = sum(enough) / 3 - (value - without(everything - top))
        assert step.sufficiency_gain == pytest.approx(gain, abs=1e-5)
    assert found.n_forwards == n_forwards(3, 3) == 25
    mean = sum(step.sufficiency_gain for step in found.steps) / 3
    assert found.sufficiency_gain == pytest.approx(mean)


def test_a_true_map_of_a_linear_target_beats_chance(linear: Checkpoint) -> None:
    """There the top words are the best choice, so both gains are positive for every set."""
    trace = predict(linear, TEXT)
    attribution = integrated_gradients(linear, trace, Target.score(0, 3), n_steps=1)
    found = faithfulness(linear, trace, attribution)
    values = sorted(attribution.word_values, reverse=True)
    for step in found.steps:
        assert step.comprehensiveness == pytest.approx(sum(values[: step.n_words]), abs=1e-5)
        assert step.sufficiency == pytest.approx(sum(values[step.n_words :]), abs=1e-5)
        assert step.comprehensiveness >= max(step.random_comprehensiveness) - 1e-5
        assert step.comprehensiveness_gain > 0 and step.sufficiency_gain > 0
        assert len(step.random_sufficiency) == 10


def test_faithfulness_draws_by_its_seed_and_lets_a_policy_choose(checkpoint: Checkpoint) -> None:
    policy = given_k(torch.tensor([[4, 1]]))
    trace = predict(checkpoint, TEXT, policy=policy)
    attribution = integrated_gradients(checkpoint, trace, TARGETS[0])
    found = faithfulness(checkpoint, trace, attribution, policy=policy)
    assert found.value == pytest.approx(attribution.value, abs=1e-5)
    assert found == faithfulness(checkpoint, trace, attribution, policy=policy)
    assert found != faithfulness(checkpoint, trace, attribution, policy=policy, seed=1)


def test_a_text_of_one_word(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, "good")
    found = faithfulness(checkpoint, trace, occlusion(checkpoint, trace))
    for step in found.steps:
        assert step.n_words == 1 and step.sufficiency == pytest.approx(0, abs=1e-5)
        assert step.comprehensiveness_gain == pytest.approx(0, abs=1e-5)


def test_faithfulness_refuses_what_it_cannot_measure(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, TEXT)
    other = gradient_x_input(checkpoint, predict(checkpoint, "a film"))
    with pytest.raises(ValueError, match="the attribution has 2 words, the text 8"):
        faithfulness(checkpoint, trace, other)
    own = gradient_x_input(checkpoint, trace)
    for fractions, message in (((0.0,), "fraction 0.0"), ((1.5,), "fraction 1.5"), ((), "empty")):
        with pytest.raises(ValueError, match=message):
            faithfulness(checkpoint, trace, own, fractions)
    with pytest.raises(ValueError, match="n_draws is 0"):
        faithfulness(checkpoint, trace, own, n_draws=0)


def test_words_are_counted_half_up() -> None:
    counted = [count_words(0.5, n) for n in (1, 2, 3, 5)]
    assert counted == [1, 1, 2, 3]
    assert count_words(0.1, 2) == 1 and count_words(0.1, 70) == 7


# A shared model


def explain(checkpoint: Checkpoint, text: str) -> list[object]:
    trace = predict(checkpoint, text)
    maps = [method(checkpoint, trace, target) for method in METHODS for target in TARGETS[1:5:3]]
    heads = head_contributions(checkpoint, trace, Target.mean_budget(), n_steps=8)
    return [*maps, heads, faithfulness(checkpoint, trace, maps[0], n_draws=2)]


def test_threads_do_not_disturb_each_other(checkpoint: Checkpoint) -> None:
    texts = [TEXT, "a bad film", "the story is fine, not boring", "good"]
    alone = [explain(checkpoint, text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda text: explain(checkpoint, text), texts * 2))
    assert together == alone * 2


def test_the_shared_model_is_left_as_it_was(checkpoint: Checkpoint) -> None:
    model = checkpoint.model
    before = predict(checkpoint, TEXT).to_dict()
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    weights = {name: p.clone() for name, p in model.named_parameters()}
    explain(checkpoint, TEXT)
    assert predict(checkpoint, TEXT).to_dict() == before
    assert not model.training
    assert not any(p.requires_grad or p.grad is not None for p in model.parameters())
    assert not any(m._forward_hooks or m._backward_hooks for m in model.modules())
    assert {name: set(vars(module)) for name, module in model.named_modules()} == attributes
    assert all(torch.equal(p, weights[name]) for name, p in model.named_parameters())


def test_results_hold_no_tensors(checkpoint: Checkpoint) -> None:
    def plain(value: object) -> bool:
        if isinstance(value, tuple):
            return all(plain(item) for item in value)
        if hasattr(value, "__dataclass_fields__"):
            return all(plain(getattr(value, f.name)) for f in fields(value))  # type: ignore[arg-type]
        return value is None or isinstance(value, str | float | int)

    trace = predict(checkpoint, TEXT)
    assert all(plain(found) for found in explain(checkpoint, TEXT))
    assert plain(class_and_budget(checkpoint, trace, n_steps=2))
    assert plain(TopWords(0.1, 1, 0.0, 0.0, (0.0,), (0.0,)))


def test_the_models_own_choice_is_the_default_policy(checkpoint: Checkpoint) -> None:
    trace = predict(checkpoint, TEXT)
    own = predicted(checkpoint.config.rounding)
    found = occlusion(checkpoint, trace, hold_heads=False)
    assert found == occlusion(checkpoint, trace, hold_heads=False, policy=own)

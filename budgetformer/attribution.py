"""Why this input got this answer, or this budget: a number for each word.

Three methods, for any target (attribution_targets). Heads are held at those of the text, so that
all three explain one smooth function; only occlusion, which needs no gradient, may choose them
anew. The baseline of two of them replaces every word by [MASK], a token that training used for "no
word here", and keeps [CLS], [SEP] and the positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from budgetformer.attribution_function import TargetFunction, integrate
from budgetformer.attribution_targets import Target
from budgetformer.checkpoint import Checkpoint
from budgetformer.policies import Policy
from budgetformer.progress import Progress
from budgetformer.trace import Trace

BASELINE = "every word replaced by [MASK]"
ZERO_BASELINE = "every token's vector replaced by zero"
HELD = "heads held at those of the text"
CHOSEN_ANEW = "heads chosen anew for each masked text"


@dataclass(frozen=True)
class Method:
    """A way to attribute, with what it promises and costs."""

    name: str
    """What a person calls it."""
    complete: bool
    """Whether the values sum to value - baseline value, up to the error of the integral. Where
    not, the gap is still given, but it is no error."""
    passes_per_word: int = 0
    """Forward passes for each word."""
    passes_per_step: int = 0
    """Forward passes, each with a backward one, for each step of the integral."""

    @property
    def slow(self) -> bool:
        """Whether the passes grow with the text, so that a screen should ask before it runs."""
        return self.passes_per_word > 0

    def n_forwards(self, n_words: int, n_steps: int = 0) -> int:
        """Forward passes of the whole text, two for the text and the baseline among them."""
        return 2 + self.passes_per_word * n_words + self.passes_per_step * n_steps


GRADIENT_X_INPUT = Method("gradient × input", complete=False)
INTEGRATED_GRADIENTS = Method("integrated gradients", complete=True, passes_per_step=1)
OCCLUSION = Method("occlusion by word", complete=False, passes_per_word=1)


@dataclass(frozen=True)
class Explanation:
    """What every attribution says besides its values; all numbers are in units of the target."""

    target: Target
    """What is explained; `target.name` is for people."""
    method: Method
    """How."""
    heads: str
    """Which heads run at the points that were evaluated, in words."""
    value: float
    """The target at the text."""
    baseline_value: float
    """The target at the baseline."""
    baseline: str
    """The baseline, in words."""
    n_steps: int
    """Points of the integral; 0 for methods without one."""
    n_forwards: int
    """Forward passes that it took."""

    @property
    def total(self) -> float:
        """Sum of the values."""
        raise NotImplementedError

    @property
    def completeness_error(self) -> float:
        """Sum of the values minus (value - baseline value).

        0 for an exact integral; a gap that means nothing wrong where `method.complete` is False.
        """
        return self.total - (self.value - self.baseline_value)


@dataclass(frozen=True)
class Attribution(Explanation):
    """A number for each token; a word's number is the sum over its pieces."""

    token_values: tuple[float, ...]
    """One value for each token of the encoding; [CLS] and [SEP] belong to no word."""
    word_values: tuple[float, ...]
    """One value for each of the trace's words."""

    @property
    def total(self) -> float:
        """Sum over all tokens."""
        return sum(self.token_values)


@dataclass(frozen=True)
class WordPull:
    """What one word does to the class and to the budget."""

    text: str
    """The word as typed."""
    segment: int
    """0 for the first text, 1 for the second."""
    class_value: float
    """Its share of the class's logit, or of a contrast."""
    budget_value: float
    """Its share of the mean budget s."""


@dataclass(frozen=True)
class ClassAndBudget:
    """The two attributions of one text, side by side."""

    class_map: Attribution
    """Of the class."""
    budget_map: Attribution
    """Of the mean budget."""
    words: tuple[WordPull, ...]
    """Both, word by word, in the order of the trace's words."""


def gradient_x_input(
    checkpoint: Checkpoint, trace: Trace, target: Target | None = None
) -> Attribution:
    """Multiply each token's vector with the target's gradient (arXiv 1605.01713).

    It is the first-order guess of what a vector of zero instead would change. The vectors are the
    token embeddings, before positions are added.

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction to explain; its executed heads are held.
        target: what to explain; the predicted class's logit when None.

    Raises:
        ValueError: for a target that the model does not have.
    """
    function = TargetFunction(checkpoint, trace, target)
    tokens = function.embed(function.ids).detach().clone().requires_grad_()
    with torch.enable_grad():
        at_text = function.at_tokens(tokens)
        (gradient,) = torch.autograd.grad(at_text.sum(), tokens)
    tokens = tokens.detach()
    with torch.no_grad():
        at_zero = function.at_tokens(torch.zeros_like(tokens))
    values = (gradient * tokens).sum(dim=-1)[0].tolist()
    ends = (float(at_text.detach()), float(at_zero))
    return _attribution(function, trace, GRADIENT_X_INPUT, values, ends, ZERO_BASELINE)


def integrated_gradients(
    checkpoint: Checkpoint, trace: Trace, target: Target | None = None, n_steps: int = 32
) -> Attribution:
    """Integrate the gradient on the way from [MASK] to the words (arXiv 1703.01365).

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction to explain; its executed heads are held.
        target: what to explain; the predicted class's logit when None.
        n_steps: points of the Gauss-Legendre rule; more make the completeness error smaller.

    Raises:
        ValueError: for a target that the model does not have, or n_steps below 1.
    """
    function = TargetFunction(checkpoint, trace, target)
    tokens, baseline = function.embed(function.ids), function.embed(function.baseline_ids)
    integral = integrate(function.at_tokens, tokens, baseline, n_steps, function.rows_per_batch)
    with torch.no_grad():
        value, baseline_value = function.at_tokens(torch.cat([tokens, baseline])).tolist()
    values, ends = integral.sum(dim=-1)[0].tolist(), (value, baseline_value)
    return _attribution(function, trace, INTEGRATED_GRADIENTS, values, ends, BASELINE, n_steps)


def occlusion(
    checkpoint: Checkpoint,
    trace: Trace,
    target: Target | None = None,
    hold_heads: bool = True,
    policy: Policy | None = None,
    progress: Progress | None = None,
) -> Attribution:
    """Replace one word at a time by [MASK] and see how far the target falls.

    Occlusion is Zeiler and Fergus's (arXiv 1311.2901), of words Li et al.'s (arXiv 1612.08220). A
    word's value is shared evenly among its pieces, which are masked together.

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction to explain.
        target: what to explain; the predicted class's logit when None.
        hold_heads: True keeps the heads of the text, as the other methods do; False chooses them
            anew for each masked text, so that a value holds what the change of heads does too.
        policy: who chooses when heads are not held, for a batch of any size; the model when None.
            Give the one that made the trace, if one did.
        progress: told after each batch (passes done, passes in all).

    Raises:
        ValueError: for a target that the model does not have.
    """
    function, words = TargetFunction(checkpoint, trace, target), trace.words
    variants = torch.cat(
        [function.ids, function.baseline_ids, function.masked([word.tokens for word in words])]
    )
    chosen = function.held if hold_heads else policy
    value, baseline_value, *without = function.at_ids(variants, chosen, progress)
    values = [0.0] * len(trace.encoding.ids)
    for word, remaining in zip(words, without, strict=True):
        for position in word.tokens:
            values[position] = (value - remaining) / len(word.tokens)
    heads = HELD if hold_heads else CHOSEN_ANEW
    ends = (value, baseline_value)
    return _attribution(function, trace, OCCLUSION, values, ends, BASELINE, heads=heads)


def class_and_budget(
    checkpoint: Checkpoint, trace: Trace, target: Target | None = None, n_steps: int = 32
) -> ClassAndBudget:
    """Say of each word what it does to the class and what to the mean budget s.

    Both are integrated gradients with the same baseline and heads. A word may speak for a class
    and leave the budget alone, or the reverse.

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction to explain; its executed heads are held.
        target: a logit or a contrast; the predicted class's logit when None.
        n_steps: points of each integral.

    Raises:
        ValueError: for a class that the model does not have, a model without a budget, n_steps
            below 1.
    """
    budget_map = integrated_gradients(checkpoint, trace, Target.mean_budget(), n_steps)
    class_map = integrated_gradients(checkpoint, trace, target, n_steps)
    words = tuple(
        WordPull(trace.texts[word.segment][word.start : word.end], word.segment, *values)
        for word, *values in zip(
            trace.words, class_map.word_values, budget_map.word_values, strict=True
        )
    )
    return ClassAndBudget(class_map, budget_map, words)


def _attribution(
    function: TargetFunction,
    trace: Trace,
    method: Method,
    token_values: Sequence[float],
    ends: tuple[float, float],
    baseline: str,
    n_steps: int = 0,
    heads: str = HELD,
) -> Attribution:
    """Put together what all methods report; ends are the target at the text and the baseline."""
    words = trace.words
    return Attribution(
        target=function.target,
        method=method,
        heads=heads,
        value=ends[0],
        baseline_value=ends[1],
        baseline=baseline,
        n_steps=n_steps,
        n_forwards=method.n_forwards(len(words), n_steps),
        token_values=tuple(token_values),
        word_values=tuple(sum(token_values[i] for i in word.tokens) for word in words),
    )

"""Is an attribution true of the model? Take away the words it ranks first, and see.

    comprehensiveness = f(text) - f(text without its top words)   high: they were needed
    sufficiency       = f(text) - f(its top words alone)          low: they were enough

ERASER, DeYoung et al., arXiv 1911.03429. ERASER deletes words and compares probabilities; here
[MASK] replaces a word, so that length and positions stay, and f is the target that was attributed.
Both numbers mean little alone, so each stands beside that of as many words drawn at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from budgetformer.attribution import CHOSEN_ANEW, Attribution
from budgetformer.attribution_function import TargetFunction
from budgetformer.attribution_targets import Target
from budgetformer.checkpoint import Checkpoint
from budgetformer.policies import Policy
from budgetformer.progress import Progress
from budgetformer.tokenizer import Word
from budgetformer.trace import Trace

FRACTIONS = (0.1, 0.2, 0.5)


@dataclass(frozen=True)
class TopWords:
    """What the top words of an attribution do, beside random ones; in units of the target."""

    fraction: float
    """Share of the words, in (0, 1]."""
    n_words: int
    """How many words that is: rounded, at least 1."""
    comprehensiveness: float
    """f(text) - f(text with the top words masked)."""
    sufficiency: float
    """f(text) - f(text with all other words masked)."""
    random_comprehensiveness: tuple[float, ...]
    """The same for as many random words, one value a draw."""
    random_sufficiency: tuple[float, ...]
    """The same for as many random words, one value a draw."""

    @property
    def comprehensiveness_gain(self) -> float:
        """Comprehensiveness minus its random mean; above 0 the map beats chance."""
        return self.comprehensiveness - fmean(self.random_comprehensiveness)

    @property
    def sufficiency_gain(self) -> float:
        """Random mean of sufficiency minus sufficiency; above 0 the map beats chance."""
        return fmean(self.random_sufficiency) - self.sufficiency


@dataclass(frozen=True)
class Faithfulness:
    """How much better than chance an attribution finds the words that count."""

    target: Target
    """What was attributed, and is measured here."""
    value: float
    """f(text)."""
    steps: tuple[TopWords, ...]
    """One for each fraction."""
    heads: str
    """How the heads of the masked texts were chosen, in words."""
    seed: int
    """Seed of the random words."""
    n_forwards: int
    """Forward passes that it took."""

    @property
    def comprehensiveness_gain(self) -> float:
        """Mean over the fractions, as ERASER's area over the perturbation curve."""
        return fmean(step.comprehensiveness_gain for step in self.steps)

    @property
    def sufficiency_gain(self) -> float:
        """Mean over the fractions."""
        return fmean(step.sufficiency_gain for step in self.steps)


def n_forwards(n_fractions: int = len(FRACTIONS), n_draws: int = 10) -> int:
    """Return the forward passes that `faithfulness` takes, whatever the text's length."""
    return 1 + n_fractions * 2 * (1 + n_draws)


def faithfulness(
    checkpoint: Checkpoint,
    trace: Trace,
    attribution: Attribution,
    fractions: Sequence[float] = FRACTIONS,
    n_draws: int = 10,
    seed: int = 0,
    policy: Policy | None = None,
    progress: Progress | None = None,
) -> Faithfulness:
    """Measure comprehensiveness and sufficiency of an attribution against random words.

    The top words are those with the largest values, sign included: they raise the target. The heads
    of each masked text are chosen anew, for every target: the question is what the model does
    without these words, and the choice of heads is a part of that, also for a later layer's s and
    z, which hang on the heads of earlier layers. So a map with held heads pays here for what it
    leaves out.

    Args:
        checkpoint: the model that made the trace.
        trace: the prediction that was explained.
        attribution: a map of it, by any method.
        fractions: shares of the words to take, each in (0, 1].
        n_draws: random sets of words for each fraction, at least 1.
        seed: where the random sets come from.
        policy: who chooses the heads, for a batch of any size; the model when None. Give the one
            that made the trace, if one did.
        progress: told after each batch (passes done, passes in all).

    Raises:
        ValueError: for an attribution of another text, a fraction out of range, or no draw.
    """
    words = trace.words
    _check(len(words), len(attribution.word_values), fractions, n_draws)
    counts = [count_words(fraction, len(words)) for fraction in fractions]
    ranked = sorted(range(len(words)), key=lambda i: -attribution.word_values[i])
    function = TargetFunction(checkpoint, trace, attribution.target)
    masked = _masked_positions(words, ranked, counts, n_draws, seed)
    value, *others = function.at_ids(function.masked(masked), policy, progress)
    falls = [value - other for other in others]
    per_step = len(falls) // len(counts)
    steps = []
    for i, (fraction, count) in enumerate(zip(fractions, counts, strict=True)):
        own = falls[i * per_step : (i + 1) * per_step]
        without, alone = own[::2], own[1::2]
        steps.append(
            TopWords(fraction, count, without[0], alone[0], tuple(without[1:]), tuple(alone[1:]))
        )
    return Faithfulness(
        attribution.target, value, tuple(steps), CHOSEN_ANEW, seed, n_forwards(len(counts), n_draws)
    )


def count_words(fraction: float, n_words: int) -> int:
    """Return how many words a fraction is: rounded half up, at least 1."""
    return max(1, int(fraction * n_words + 0.5))


def _masked_positions(
    words: Sequence[Word], ranked: Sequence[int], counts: Sequence[int], n_draws: int, seed: int
) -> list[list[int]]:
    """List the token positions to mask in each pass.

    First none, the text itself. Then, for each count, the top words and their complement, and the
    same for each random draw.
    """
    generator = torch.Generator().manual_seed(seed)
    masked: list[list[int]] = [[]]
    for count in counts:
        draws = [torch.randperm(len(words), generator=generator).tolist() for _ in range(n_draws)]
        for order in (ranked, *draws):
            for chosen in (order[:count], order[count:]):
                masked.append([position for i in chosen for position in words[i].tokens])
    return masked


def _check(n_words: int, n_values: int, fractions: Sequence[float], n_draws: int) -> None:
    if n_words != n_values:
        raise ValueError(f"the attribution has {n_values} words, the text {n_words}")
    if not fractions:
        raise ValueError("fractions is empty; give at least one in (0, 1]")
    for fraction in fractions:
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction {fraction} is not in (0, 1]")
    if n_draws < 1:
        raise ValueError(f"n_draws is {n_draws}; it must be at least 1")

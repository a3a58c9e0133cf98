"""Is s adaptive, and does it pay? Two questions, answered apart, with confidence intervals.

Adaptive: does s follow difficulty, beyond what follows from length? Difficulty is the model's own
loss, or an independent reference's (its dense twin, a linear model).
Pays: at the same average number of heads, is accuracy higher than with the same k for everyone,
and than with the same budgets dealt to other examples?
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from budgetformer.checkpoint import Checkpoint
from budgetformer.data import Examples
from budgetformer.evaluate import Records, evaluate, evaluate_ids
from budgetformer.intervals import Estimate, bootstrap_interval, paired_difference
from budgetformer.relation import correlation
from budgetformer.sweep import by_row

BOOTSTRAP_SAMPLES = 1000
ADAPTIVITY = "adaptivity.json"
N_SHUFFLES = 5

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Adaptivity:
    """How s relates to one measure of difficulty."""

    spearman_loss: Estimate
    """Rank correlation of s with the loss."""
    spearman_loss_given_length: Estimate
    """The same with the rank of the token count held fixed (partial correlation)."""
    auroc_error: Estimate | None
    """Probability that a wrong example has a larger s than a right one; None if all are right."""
    heads_by_quartile: tuple[float, float, float, float]
    """Mean k/H per quartile of the loss, easiest first."""


def adaptivity(records: Records, losses: Floats, wrong: NDArray[np.bool_]) -> Adaptivity:
    """Relate the budgets of an evaluation to a difficulty of the same examples.

    Args:
        records: the model's evaluation.
        losses: difficulty of each example: the model's own loss, or a reference's.
        wrong: which examples the model, or the reference, got wrong.

    Raises:
        ValueError: if all budgets are equal, as in a dense model.
    """
    budget = records.mean_budgets.astype(float)
    if np.ptp(budget) == 0:
        raise ValueError("all budgets are equal: there is nothing to relate to difficulty")
    length = records.n_tokens.astype(float)
    quartile = np.minimum(
        3, rankdata(losses, method="ordinal").astype(int) * 4 // (len(losses) + 1)
    )
    fractions = records.executed_fractions
    heads = [float(fractions[quartile == q].mean()) for q in range(4)]
    auroc = None
    if wrong.any() and not wrong.all():
        auroc = _bootstrap(lambda i: _auroc(wrong[i], budget[i]), len(budget))
    return Adaptivity(
        spearman_loss=_correlation(budget, losses),
        spearman_loss_given_length=_correlation(budget, losses, length),
        auroc_error=auroc,
        heads_by_quartile=(heads[0], heads[1], heads[2], heads[3]),
    )


def pays(checkpoint: Checkpoint, examples: Examples, seed: int = 0) -> dict[str, Any]:
    """Compare adaptive budgets with shuffled ones and with a fixed k at equal average heads.

    The fixed k need not be whole: in each layer, as many examples as needed run one head more, at
    random. Shuffled and fixed are averaged over several deals. Differences are in accuracy, paired
    over examples.
    """
    tokenizer, config = checkpoint.tokenizer, checkpoint.config
    inputs = tokenizer.encode_ids(examples.texts, examples.text_pairs, config.max_len)

    def correct(k: torch.Tensor | None) -> Records:
        policy_for = None if k is None else by_row(k)
        return evaluate_ids(
            checkpoint.model, tokenizer, inputs, examples.labels, policy_for=policy_for
        )

    own = correct(None)
    k = own.executed_heads
    deals = [np.random.default_rng((seed, deal)) for deal in range(N_SHUFFLES)]
    shuffled = [correct(torch.from_numpy(k[deal.permutation(len(k))])) for deal in deals]
    fixed = [correct(torch.from_numpy(same_average(k, deal))) for deal in deals]
    return {
        "n": len(k),
        "executed_heads_frac": float(own.executed_fractions.mean()),
        "accuracy": float(own.correct.mean()),
        "accuracy_shuffled": float(np.mean([r.correct.mean() for r in shuffled])),
        "accuracy_fixed": float(np.mean([r.correct.mean() for r in fixed])),
        "adaptive_minus_shuffled": asdict(_difference(own, shuffled, seed)),
        "adaptive_minus_fixed": asdict(_difference(own, fixed, seed)),
    }


def by_need(checkpoint: Checkpoint, examples: Examples, needs: NDArray[np.int64]) -> dict[str, Any]:
    """Relate the budgets to a need that is known for each example, as in known-need data.

    Returns:
        Spearman ρ of s with the need; accuracy and executed heads by need; and, as a check of the
        need itself, accuracy by need with the same k for everyone: it must fan out.
    """
    own = evaluate(checkpoint, examples)
    n_heads, levels = checkpoint.config.n_heads, sorted(set(needs.tolist()))

    def by_level(values: NDArray[Any]) -> dict[str, float]:
        return {str(level): float(values[needs == level].mean()) for level in levels}

    def fixed(k: int) -> dict[str, float]:
        same = torch.full((len(needs), checkpoint.config.n_layers), k)
        return by_level(evaluate(checkpoint, examples, policy_for=by_row(same)).correct)

    return {
        "spearman_budget_need": asdict(_correlation(own.mean_budgets, needs)),
        "accuracy": by_level(own.correct),
        "executed_heads_frac": by_level(own.executed_fractions),
        "accuracy_at_fixed_k": {str(k): fixed(k) for k in range(1, n_heads + 1)},
    }


def same_average(k: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Spread each layer's total of heads as evenly as whole numbers allow, extras at random."""
    n = len(k)
    spread = np.empty_like(k)
    for layer, total in enumerate(k.sum(axis=0)):
        spread[:, layer] = total // n
        spread[generator.permutation(n)[: total % n], layer] += 1
    return spread


def report(
    checkpoint: Checkpoint, examples: Examples, references: dict[str, Records], seed: int = 0
) -> dict[str, Any]:
    """Return everything as JSON-ready data, for the model's own difficulty and each reference's."""
    records = evaluate(checkpoint, examples)
    difficulties = {"own": records, **references}
    return {
        "spearman_budget_tokens": asdict(_correlation(records.mean_budgets, records.n_tokens)),
        "spearman_budget_margin": asdict(_correlation(records.mean_budgets, records.margins)),
        "difficulty": {
            name: asdict(adaptivity(records, judge.losses.astype(float), ~judge.correct))
            for name, judge in difficulties.items()
        },
        "pays": pays(checkpoint, examples, seed),
    }


def linear_reference(train: Examples, examples: Examples) -> Records:
    """Judge examples by TF-IDF and logistic regression fitted on the training rows.

    Its records hold no budgets: it is a difficulty that owes nothing to attention.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    judge = make_pipeline(
        TfidfVectorizer(min_df=2, ngram_range=(1, 2), sublinear_tf=True),
        LogisticRegression(C=4.0, max_iter=300),
    )
    judge.fit(_joined(train), train.labels)
    probabilities = judge.predict_proba(_joined(examples))
    labels = np.array(examples.labels)
    gold = probabilities[np.arange(len(labels)), labels]
    return Records(
        labels=labels,
        probabilities=probabilities.astype(np.float32),
        losses=-np.log(np.maximum(gold, 1e-12)).astype(np.float32),
        n_tokens=np.zeros(len(labels), np.int64),
        budgets=np.zeros((len(labels), 0), np.float32),
        heads=np.zeros((len(labels), 0, 0), np.bool_),
    )


def _auroc(positive: NDArray[np.bool_], score: Floats) -> float:
    from sklearn.metrics import roc_auc_score

    if positive.all() or not positive.any():
        return float("nan")  # a resample may hold no error; the quantiles leave it out
    return float(roc_auc_score(positive, score))


def _correlation(*columns: NDArray[Any]) -> Estimate:
    return correlation(columns, n_resamples=BOOTSTRAP_SAMPLES)


def _bootstrap(statistic: Callable[[NDArray[np.int64]], float], n: int, seed: int = 0) -> Estimate:
    """Estimate a statistic of row numbers, with its percentile bootstrap interval."""
    low, high = bootstrap_interval(statistic, n, BOOTSTRAP_SAMPLES, seed)
    return Estimate(statistic(np.arange(n)), low, high)


def _difference(own: Records, deals: list[Records], seed: int) -> Estimate:
    """Pair each example's result with its average over the deals."""
    other = np.mean([deal.correct for deal in deals], axis=0)
    return Estimate(*paired_difference(own.correct.astype(float), other, seed))


def _joined(examples: Examples) -> list[str]:
    if examples.text_pairs is None:
        return list(examples.texts)
    pairs = zip(examples.texts, examples.text_pairs, strict=True)
    return [f"{text} ||| {pair}" for text, pair in pairs]

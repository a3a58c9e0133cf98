"""The scikit-learn classifier: its contract, its results and its files."""

from __future__ import annotations

import copy
import csv
import math
import pickle  # noqa: TID251 (what others do with an estimator)
import pickletools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_array
from sklearn.utils.estimator_checks import parametrize_with_checks

from budgetformer import BudgetFormerClassifier, Checkpoint, TrainConfig, predict
from budgetformer.data import Dataset, Examples
from budgetformer.train import Run, train

ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {
    "epochs": 6,
    "batch_size": 16,
    "lr": 0.01,
    "n_layers": 2,
    "n_heads": 4,
    "d_model": 16,
    "d_ff": 32,
    "max_len": 16,
    "vocab_size": 200,
    "random_state": 3,
}
TINY: dict[str, Any] = {
    **SMALL,
    **{"epochs": 1, "batch_size": 64, "n_layers": 1, "n_heads": 2, "d_model": 8, "d_ff": 8},
}
TEXTS = [f"a good film number {i}" if i % 2 else f"a bad film number {i}" for i in range(12)]
SIDES = [i % 2 for i in range(12)]


class NumbersAsText(BudgetFormerClassifier):
    """Reads the tables of scikit-learn's checks: the numbers of a row become its text."""

    def _texts(self, X: Any) -> Any:
        table = check_array(X)
        if table.shape[1] != getattr(self, "columns_", table.shape[1]):
            raise ValueError(f"X has {table.shape[1]} features, fitted with {self.columns_}")
        return super()._texts([" ".join(f"{number:.1f}" for number in row) for row in table])

    def fit(self, X: Any, y: Any) -> NumbersAsText:
        vars(self).pop("columns_", None)
        super().fit(X, y)
        self.columns_ = check_array(X).shape[1]
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.string = tags.input_tags.one_d_array = False
        # One epoch over numbers cut into digits is not for accuracy.
        tags.classifier_tags.poor_score = True
        return tags


def expected_failures(estimator: Any) -> dict[str, str]:
    reason = "n_features_in_ counts the texts of a row, not the numbers written into one text"
    numbers = isinstance(estimator, NumbersAsText)
    checks = ("check_n_features_in", "check_n_features_in_after_fitting")
    return dict.fromkeys(checks, reason) if numbers else {}


# Of an estimator that says it reads texts scikit-learn checks the cloning only, since it has no
# texts to fit; so the same estimator also gets the checks' tables of numbers, written as texts.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks(
    [BudgetFormerClassifier(**TINY), NumbersAsText(**TINY)],
    expected_failed_checks=expected_failures,
)
def test_contract_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def rows(reviews: Path) -> tuple[list[str], list[str]]:
    with reviews.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    return [row["text"] for row in table], [row["label"] for row in table]


@pytest.fixture(scope="module")
def fitted(rows: tuple[list[str], list[str]]) -> BudgetFormerClassifier:
    texts, labels = rows
    return BudgetFormerClassifier(**SMALL).fit(texts[:120], labels[:120])


def test_it_learns(fitted: BudgetFormerClassifier, rows: tuple[list[str], list[str]]) -> None:
    texts, labels = rows[0][120:], rows[1][120:]
    assert fitted.classes_.tolist() == ["negative", "positive"]
    # Forty texts that one word decides; at chance 34 right have a probability of 1e-5.
    assert fitted.score(texts, labels) >= 34 / 40
    assert (fitted.predict(texts) == np.array(labels)).mean() == fitted.score(texts, labels)
    probabilities = fitted.predict_proba(texts)
    assert probabilities.shape == (40, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)


def test_it_says_what_the_checkpoint_says(
    fitted: BudgetFormerClassifier, rows: tuple[list[str], list[str]]
) -> None:
    texts = rows[0][100:140]
    traces = [predict(fitted.checkpoint_, text) for text in texts]
    assert fitted.predict(texts).tolist() == [trace.label for trace in traces]
    expected = [[trace.probabilities[c] for c in ("negative", "positive")] for trace in traces]
    # In a batch the sums are made in another order than for one text.
    np.testing.assert_allclose(fitted.predict_proba(texts), expected, atol=1e-6)
    budgets, heads = fitted.budgets(texts), fitted.executed_heads(texts)
    assert budgets.shape == heads.shape == (40, 2)
    for row, trace in enumerate(traces):
        for layer, decided in enumerate(trace.layers):
            assert budgets[row, layer] == pytest.approx(decided.budget, abs=1e-6)
            assert heads[row, layer] == decided.k
            assert decided.k == max(1, math.floor(decided.budget * 4 + 1e-5))


def test_it_trains_as_the_library_does(
    fitted: BudgetFormerClassifier, rows: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    texts, labels = rows[0][:120], [int(label == "positive") for label in rows[1][:120]]
    training, validation = fitted._split(np.array(labels), 2, 3)
    assert sorted([*training, *validation]) == list(range(120))
    assert len(validation) == 12 == round(0.1 * 120)
    every = Examples(tuple(texts), tuple(labels))
    data = Dataset(
        "same",
        ("negative", "positive"),
        {"train": every.take(training), "validation": every.take(validation)},
    )
    config = TrainConfig(epochs=6, batch_size=16, lr=0.01, vocab_size=200, seed=3)
    model = {name: SMALL[name] for name in ("n_layers", "n_heads", "d_model", "d_ff", "max_len")}
    events = list(train(data, Run("same", config, model), tmp_path / "run"))
    state = Checkpoint.from_pretrained(tmp_path / "run").model.state_dict()
    mine = fitted.checkpoint_.model.state_dict()
    assert all(torch.equal(mine[name], tensor) for name, tensor in state.items())
    assert [e["event"] for e in fitted.history_] == [e["event"] for e in events]
    assert fitted.history_[-1]["accuracy"] == events[-1]["accuracy"]


def test_a_rare_class_stays_in_training() -> None:
    labels = np.array([0] * 50 + [1] + [2] * 49)
    for seed in range(20):
        model = BudgetFormerClassifier(validation_fraction=0.9)
        training, validation = model._split(labels, 3, seed)
        assert {0, 1, 2} == set(labels[training]) and len(validation) == 90


def test_labels_keep_their_type() -> None:
    model = BudgetFormerClassifier(**TINY).fit(np.array(TEXTS), np.array(SIDES) * 7)
    assert model.classes_.tolist() == [0, 7]
    assert model.predict(TEXTS).dtype == np.array([7]).dtype
    assert model.n_features_in_ == 1


def test_pairs_in_every_form() -> None:
    pairs = [
        (text, "is fine" if side else "is poor") for text, side in zip(TEXTS, SIDES, strict=True)
    ]
    frame = pd.DataFrame(pairs, columns=["text", "text_pair"])
    models = [
        BudgetFormerClassifier(**TINY).fit(X, SIDES)
        for X in (pairs, frame, np.array(pairs), np.array(pairs, dtype=object))
    ]
    assert models[0].n_features_in_ == 2
    expected = models[0].predict_proba(pairs)
    for model in models[1:]:
        assert np.array_equal(model.predict_proba(frame), expected)
    with pytest.raises(ValueError, match=r"X has 1 features.*expecting 2 features"):
        models[0].predict(TEXTS)


def test_texts_in_every_form() -> None:
    forms = (TEXTS, tuple(TEXTS), np.array(TEXTS), pd.Series(TEXTS, index=range(12, 0, -1)))
    more = (pd.DataFrame({"text": TEXTS}), np.array(TEXTS).reshape(-1, 1), [[t] for t in TEXTS])
    model = BudgetFormerClassifier(**TINY).fit(TEXTS, SIDES)
    expected = model.predict_proba(TEXTS)
    for X in (*forms, *more):
        assert np.array_equal(model.predict_proba(X), expected)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("one text", "sequence of texts.*not str"),
        (None, "not NoneType"),
        ([], "0 sample"),
        (["a film", 7], r"row 1 of X must be a text or a pair of texts, not int \('7'\)"),
        (["a film", "b", None], "row 2 of X must be.*not NoneType"),
        (["a film", float("nan")], "row 1 of X must be.*not float"),
        (["a film", "  \n"], "row 1 of X has an empty text"),
        ([("a", "b"), ("a", "")], "row 1 of X has an empty second text"),
        ([("a", "b"), ("a", 3.5)], r"row 1 of X: its second text must be a str, not float"),
        ([("a", "b", "c")], "row 0 of X must be.*not 3 entries"),
        ([("a", "b"), "a"], "row 1 of X has 1 texts, row 0 2"),
        (np.ones((3, 2)), r"row 0 of X: its text must be a str, not float"),
        (np.ones(3), "row 0 of X must be.*not float"),
    ],
)
def test_what_is_no_text_is_named(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BudgetFormerClassifier(**TINY).fit(X, [0, 1] * 5)


@pytest.mark.parametrize(
    ("change", "y", "message"),
    [
        ({}, ["a"] * 12, "one class in its 12 rows"),
        ({}, [0.5, *range(11)], "(?i)unknown label type"),
        ({}, SIDES[:5], "inconsistent numbers of samples"),
        ({}, range(12), "n_samples=12 rows are too few for 12 classes"),
        ({"validation_fraction": 0}, SIDES, r"validation_fraction must be in \(0, 1\), got 0"),
        ({"epochs": 0}, SIDES, "epochs must be at least 1, got 0"),
        ({"n_heads": 3}, SIDES, "d_model must be a multiple of n_heads"),
        ({"objective": "best"}, SIDES, "objective must be one of"),
        ({"warm_start": True}, SIDES, "warm_start must be the name of .* got True"),
        ({"warm_start": "nowhere"}, SIDES, "no checkpoint folder at 'nowhere'"),
    ],
)
def test_what_cannot_be_trained_is_named(change: dict[str, Any], y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BudgetFormerClassifier(**{**TINY, **change}).fit(TEXTS, list(y))


def test_unfitted() -> None:
    model = BudgetFormerClassifier()
    for ask in (model.predict, model.predict_proba, model.budgets, model.executed_heads):
        with pytest.raises(NotFittedError):
            ask(TEXTS)
    with pytest.raises(NotFittedError):
        model.save_pretrained("nowhere")


def test_the_seed_decides() -> None:
    def fit(seed: Any) -> Any:
        model = BudgetFormerClassifier(**{**TINY, "random_state": seed})
        return model.fit(TEXTS, SIDES).predict_proba(TEXTS)

    assert np.array_equal(fit(5), fit(5))
    assert not np.array_equal(fit(5), fit(6))
    generator = np.random.RandomState(1)
    assert not np.array_equal(fit(generator), fit(generator))
    assert np.array_equal(fit(np.random.RandomState(1)), fit(np.random.RandomState(1)))
    assert not np.array_equal(fit(None), fit(None))


def test_pickles_hold_files_and_no_torch_objects(
    fitted: BudgetFormerClassifier, rows: tuple[list[str], list[str]]
) -> None:
    content = pickle.dumps(fitted)
    names = [str(argument) for _, argument, _ in pickletools.genops(content) if argument]
    assert any("BudgetFormerClassifier" in name for name in names)
    assert not [name for name in names if name.startswith(("torch", "budgetformer.model"))]
    for again in (pickle.loads(content), copy.deepcopy(fitted)):
        assert again.get_params() == fitted.get_params()
        assert again.classes_.tolist() == fitted.classes_.tolist()
        assert np.array_equal(again.predict_proba(rows[0]), fitted.predict_proba(rows[0]))
    assert pickle.loads(pickle.dumps(clone(fitted))).get_params() == fitted.get_params()


def test_a_pickle_keeps_weights_that_fp16_would_round(fitted: BudgetFormerClassifier) -> None:
    model = copy.deepcopy(fitted)
    exact = {n: t * (1 + 2**-20) for n, t in model.checkpoint_.model.state_dict().items()}
    model.checkpoint_.model.load_state_dict(exact)
    again = pickle.loads(pickle.dumps(model)).checkpoint_.model.state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in exact.items())


def test_saved_and_read(
    fitted: BudgetFormerClassifier, rows: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    fitted.save_pretrained(tmp_path / "saved")
    again = BudgetFormerClassifier.from_pretrained(tmp_path / "saved")
    assert again.get_params() == fitted.get_params()
    assert np.array_equal(again.predict(rows[0]), fitted.predict(rows[0]))
    assert np.array_equal(again.budgets(rows[0]), fitted.budgets(rows[0]))
    # The folder is a checkpoint as any other.
    assert (
        predict(Checkpoint.from_pretrained(tmp_path / "saved"), "a good film").label
        == (fitted.predict(["a good film"])[0])
    )
    numbers = BudgetFormerClassifier(**{**TINY, "random_state": np.random.RandomState(0)})
    numbers.fit(TEXTS, SIDES).save_pretrained(tmp_path / "numbers")
    again = BudgetFormerClassifier.from_pretrained(tmp_path / "numbers")
    assert again.classes_.tolist() == [0, 1] and again.random_state is None
    (tmp_path / "numbers" / "estimator.json").write_text('{"classes": [0, 1]}')
    with pytest.raises(ValueError, match=r"estimator\.json is damaged"):
        BudgetFormerClassifier.from_pretrained(tmp_path / "numbers")


def test_a_shipped_model_is_an_estimator() -> None:
    model = BudgetFormerClassifier.from_pretrained(ROOT / "checkpoints" / "imdb")
    texts = ["A quiet, perfect film.", "A dull and awful mess."]
    assert model.predict(texts).tolist() == ["positive", "negative"]
    trace = predict(Checkpoint.from_pretrained(ROOT / "checkpoints" / "imdb"), texts[0])
    assert model.executed_heads(texts)[0].tolist() == [layer.k for layer in trace.layers]


def test_parameters_reach_the_training() -> None:
    changes = {"objective": "paper", "fixed_heads": 1, "dropout": 0.25, "s_max": np.float64(0.75)}
    model = BudgetFormerClassifier(**{**TINY, **changes, "n_layers": np.int64(2)})
    model.fit(TEXTS, SIDES)
    kept = model.checkpoint_.metrics["training"]
    assert (kept["train"]["objective"], kept["train"]["s_max"]) == ("paper", 0.75)
    assert model.checkpoint_.config.dropout == 0.25
    assert model.executed_heads(TEXTS).tolist() == [[1, 1]] * 12
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(headz=3)


def test_warm_start_takes_the_shape_of_its_checkpoint(
    fitted: BudgetFormerClassifier, rows: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    fitted.save_pretrained(tmp_path / "start")
    model = BudgetFormerClassifier(
        epochs=1, lr=1e-6, warm_start=str(tmp_path / "start"), random_state=0
    ).fit(*rows)
    assert model.checkpoint_.config == replace(fitted.checkpoint_.config)
    # So small a learning rate leaves what was learned.
    assert np.array_equal(model.predict(rows[0]), fitted.predict(rows[0]))


def test_pipeline_validation_and_search(rows: tuple[list[str], list[str]]) -> None:
    texts, labels = rows[0][:60], rows[1][:60]
    lower = FunctionTransformer(lambda X: [text.lower() for text in X])
    pipeline = make_pipeline(lower, BudgetFormerClassifier(**TINY))
    shouted = [text.upper() for text in texts]
    pipeline.fit(shouted, labels)
    plain = BudgetFormerClassifier(**TINY).fit(texts, labels)
    assert np.array_equal(pipeline.predict(shouted), plain.predict(texts))

    model = BudgetFormerClassifier(**TINY)
    scores = cross_val_score(model, texts, labels, cv=2)
    halves = [BudgetFormerClassifier(**TINY), BudgetFormerClassifier(**TINY)]
    # Labels alternate, so stratified halves are the first and the second 30 rows.
    halves[0].fit(texts[30:], labels[30:])
    halves[1].fit(texts[:30], labels[:30])
    expected = [
        halves[0].score(texts[:30], labels[:30]),
        halves[1].score(texts[30:], labels[30:]),
    ]
    assert scores.tolist() == expected

    search = GridSearchCV(model, {"n_layers": [1, 2]}, cv=2).fit(texts, labels)
    assert search.best_estimator_.checkpoint_.config.n_layers == search.best_params_["n_layers"]
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(expected))
    again = pickle.loads(pickle.dumps(search))
    assert np.array_equal(again.predict_proba(texts), search.predict_proba(texts))

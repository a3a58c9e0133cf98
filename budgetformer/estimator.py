"""A scikit-learn classifier over texts: fit, predict, cross-validate, search, and ask for s and k.

model = BudgetFormerClassifier(epochs=8, random_state=0).fit(texts, labels)
model.predict(texts), model.budgets(texts), model.executed_heads(texts)
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from budgetformer.checkpoint import WEIGHTS, Checkpoint, save_tensors
from budgetformer.config import TrainConfig, read_json, write_json
from budgetformer.data import Dataset, Examples
from budgetformer.evaluate import Records, evaluate

PARAMETERS = "estimator.json"
# Parameters by where they belong; the others are the estimator's own.
TRAIN = ("objective", "epochs", "batch_size", "lr", "s_min", "s_max", "head_price", "vocab_size")
MODEL = ("n_layers", "n_heads", "d_model", "d_ff", "max_len", "dropout", "fixed_heads")
START = ("init", "warm_start", "teacher")


class Texts(NamedTuple):
    """The rows of X: texts, or pairs of texts."""

    first: tuple[str, ...]
    second: tuple[str, ...] | None

    def examples(self, labels: Sequence[int]) -> Examples:
        """Put labels to them."""
        return Examples(self.first, tuple(labels), self.second)


class BudgetFormerClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Text classifier that decides for each input how many attention heads to run.

    X is a sequence of texts, or of (text, text_pair) rows: lists, arrays, or a data frame's one or
    two columns. A parameter of None is left to the checkpoint or encoder that training starts from,
    and is the default of ModelConfig without one.

    Attributes:
        classes_: the labels, sorted, as y has them.
        n_features_in_: texts a row, 1 or 2.
        checkpoint_: the trained model and its tokenizer, for the rest of the library.
        history_: the events of the training, with the validation figures of each epoch.
    """

    def __init__(
        self,
        objective: str = "aligned",
        *,
        epochs: int = 4,
        batch_size: int = 32,
        lr: float = 5e-4,
        s_min: float = 0.1,
        s_max: float = 0.5,
        head_price: float = 0.01,
        vocab_size: int = 16000,
        n_layers: int | None = None,
        n_heads: int | None = None,
        d_model: int | None = None,
        d_ff: int | None = None,
        max_len: int | None = None,
        dropout: float | None = None,
        fixed_heads: int | None = None,
        init: str = "",
        warm_start: str = "",
        teacher: str = "",
        validation_fraction: float = 0.1,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        """Keep the parameters; `fit` checks them.

        Args:
            objective: as TrainConfig's, and so are the following up to vocab_size.
            epochs: passes over the training rows.
            batch_size: examples a step.
            lr: peak learning rate.
            s_min: lower end of the budget range.
            s_max: upper end of the budget range.
            head_price: nats that a head must save, for the utility objective.
            vocab_size: largest vocabulary to learn from the texts.
            n_layers: as ModelConfig's, and so are the following up to fixed_heads.
            n_heads: attention heads a layer.
            d_model: model width.
            d_ff: width of the feed-forward layer.
            max_len: longest input in tokens.
            dropout: dropout probability.
            fixed_heads: heads that every input runs; 0 lets the budget decide.
            init: pretrained encoder to start from; "" for none, as in the two that follow.
            warm_start: checkpoint folder to start from.
            teacher: checkpoint folder to distil from.
            validation_fraction: share of the rows that is measured on, not trained on.
            random_state: seed of weights, order, dropout, noise and the validation rows.
        """
        self.objective = objective
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.s_min = s_min
        self.s_max = s_max
        self.head_price = head_price
        self.vocab_size = vocab_size
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.d_model = d_model
        self.d_ff = d_ff
        self.max_len = max_len
        self.dropout = dropout
        self.fixed_heads = fixed_heads
        self.init = init
        self.warm_start = warm_start
        self.teacher = teacher
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> BudgetFormerClassifier:
        """Train a model on texts and their labels.

        Raises:
            ValueError: for rows that are no texts, naming the first, for fewer than two classes or
                too few rows, or a parameter out of range.
        """
        from budgetformer.train import Run, train

        texts = self._texts(X)
        y = column_or_1d(y, warn=True)
        check_consistent_length(texts.first, y)
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        seed = self._seed()
        training, validation = self._split(labels, len(classes), seed)
        every = texts.examples(labels.tolist())
        dataset = Dataset(
            "the rows given to fit",
            tuple(map(str, classes)),
            {"train": every.take(training), "validation": every.take(validation)},
        )
        chosen = self.get_params(deep=False)
        run = Run(
            dataset.name,
            TrainConfig(seed=seed, **{name: _plain(chosen[name]) for name in TRAIN}),
            {name: _plain(chosen[name]) for name in MODEL if chosen[name] is not None},
            **{name: _start(name, chosen[name]) for name in START},
        )
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            history = list(train(dataset, run, out))
            checkpoint = replace(Checkpoint.from_pretrained(out), path=None)
        self.classes_, self.n_features_in_ = classes, checkpoint.config.n_segments
        self.checkpoint_, self.history_ = checkpoint, history
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return the probability of each class, (N, C), in the order of classes_."""
        return self._records(X).probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each row, (N,)."""
        best = self._records(X).probabilities.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def budgets(self, X: Any) -> NDArray[np.float32]:
        """Return the budget s that each layer predicts, (N, L), in (0, 1)."""
        return self._records(X).budgets

    def executed_heads(self, X: Any) -> NDArray[np.int64]:
        """Return the number of heads that each layer runs, (N, L)."""
        return self._records(X).executed_heads

    def save_pretrained(self, directory: str | Path) -> None:
        """Write a checkpoint folder that every part of the library reads, and the parameters.

        A random_state that is no whole number is not kept.
        """
        check_is_fitted(self)
        parameters = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(self.random_state, int):
            parameters["random_state"] = None
        self.checkpoint_.save_pretrained(directory)
        kept = {"classes": self.classes_.tolist(), "parameters": parameters}
        write_json(Path(directory) / PARAMETERS, kept)

    @classmethod
    def from_pretrained(cls, path_or_id: str | Path) -> BudgetFormerClassifier:
        """Read an estimator that was saved, or any checkpoint; the latter's labels are words.

        Raises:
            ValueError: if the folder is missing or a file in it is missing or damaged.
        """
        checkpoint = Checkpoint.from_pretrained(path_or_id)
        assert checkpoint.path is not None
        kept: dict[str, Any] = {"classes": checkpoint.config.labels, "parameters": {}}
        if (checkpoint.path / PARAMETERS).is_file():
            kept = read_json(checkpoint.path / PARAMETERS)
        try:
            model = cls(**kept["parameters"])
            model.classes_ = np.asarray(kept["classes"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{checkpoint.path / PARAMETERS} is damaged: {error}") from error
        model.n_features_in_ = checkpoint.config.n_segments
        model.checkpoint_, model.history_ = checkpoint, []
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Replace the model by the bytes of its files: safetensors and JSON, weights unrounded."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "checkpoint_" in state:
            with tempfile.TemporaryDirectory() as folder:
                self.checkpoint_.save_pretrained(folder)
                save_tensors(self.checkpoint_.model.state_dict(), Path(folder) / WEIGHTS)
                state["checkpoint_"] = {
                    path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())
                }
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read the model from the bytes of its files."""
        if "checkpoint_" in state:
            with tempfile.TemporaryDirectory() as folder:
                for name, content in state["checkpoint_"].items():
                    (Path(folder) / name).write_bytes(content)
                read = replace(Checkpoint.from_pretrained(folder), path=None)
            state = {**state, "checkpoint_": read}
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Tags:
        """Say that X holds texts: one an entry, no table of numbers."""
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags

    def _records(self, X: Any) -> Records:
        check_is_fitted(self)
        texts = self._texts(X)
        n = 1 if texts.second is None else 2
        if n != self.n_features_in_:
            raise ValueError(
                f"X has {n} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: texts a row"
            )
        return evaluate(self.checkpoint_, texts.examples([0] * len(texts.first)))

    def _texts(self, X: Any) -> Texts:
        """Read X.

        Raises:
            ValueError: if it holds anything but texts or pairs, naming the first such row.
        """
        if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
            raise ValueError(
                f"X must be a sequence of texts, or of pairs of texts, not {type(X).__name__}"
            )
        table = X.to_numpy() if hasattr(X, "to_numpy") else X
        rows = [_row(number, row) for number, row in enumerate(table)]
        if not rows:
            raise ValueError("X has no rows: 0 sample(s) where a minimum of 1 is required")
        for number, row in enumerate(rows):
            if len(row) != len(rows[0]):
                raise ValueError(f"row {number} of X has {len(row)} texts, row 0 {len(rows[0])}")
        first, *second = zip(*rows, strict=True)
        return Texts(first, second[0] if second else None)

    def _split(
        self, labels: NDArray[np.int64], n_classes: int, seed: int
    ) -> tuple[list[int], list[int]]:
        """Cut validation rows off at random; every class keeps a row to train on."""
        n, fraction = len(labels), self.validation_fraction
        if n_classes < 2:
            raise ValueError(f"y has one class in its {labels.size} rows; two are needed")
        if n <= n_classes:
            raise ValueError(
                f"n_samples={n} rows are too few for {n_classes} classes: one of each class to "
                "train on and one more to validate on are needed"
            )
        if not 0 < fraction < 1:
            raise ValueError(f"validation_fraction must be in (0, 1), got {fraction!r}")
        order = np.random.RandomState(seed % 2**32).permutation(n)
        _, firsts = np.unique(labels[order], return_index=True)
        free = np.delete(order, firsts)
        validation = free[: max(1, round(n * fraction))]
        return np.setdiff1d(order, validation).tolist(), np.sort(validation).tolist()

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))


def _row(number: int, row: object) -> tuple[str, ...]:
    """Return a row's one or two texts."""
    parts = (row,) if isinstance(row, str) else row
    if not isinstance(parts, tuple | list | np.ndarray) or len(parts) not in (1, 2):
        found = f"{len(row)} entries" if isinstance(row, tuple | list | np.ndarray) else _kind(row)
        raise ValueError(f"row {number} of X must be a text or a pair of texts, not {found}")
    for place, part in zip(("text", "second text"), parts, strict=False):
        if not isinstance(part, str):
            raise ValueError(f"row {number} of X: its {place} must be a str, not {_kind(part)}")
        if not part.strip():
            raise ValueError(f"row {number} of X has an empty {place}")
    return tuple(str(part) for part in parts)


def _start(name: str, value: object) -> str:
    # scikit-learn switches a warm start off by False.
    if not value:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be the name of a model or its folder, got {value!r}")
    return value


def _kind(value: object) -> str:
    return f"{type(value).__name__} ({str(value)[:20]!r})"


def _plain(value: Any) -> Any:
    """Return Python's own number for NumPy's, as grids of a search give them."""
    return value.item() if isinstance(value, np.generic) else value

"""What a training starts from: nothing, a pretrained encoder or a checkpoint; and its teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig, to_dict
from budgetformer.data import Dataset, Examples
from budgetformer.model import BudgetFormer
from budgetformer.optimisation import seed_of, seed_torch
from budgetformer.pretrained import PretrainedEncoder
from budgetformer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from budgetformer.train import Run


def build(run: Run, dataset: Dataset, rows: Examples) -> tuple[Tokenizer, BudgetFormer]:
    """Make tokenizer and model: new, from a pretrained encoder, or from a checkpoint."""
    texts = (*rows.texts, *(rows.text_pairs or ()))
    given: dict[str, Any] = {
        "labels": dataset.label_names,
        "n_segments": dataset.n_segments,
        "routed": run.train.objective != "dense",
    }
    state: dict[str, Tensor] = {}
    if run.warm_start:
        start = Checkpoint.from_pretrained(run.warm_start)
        tokenizer, state = start.tokenizer, start.model.state_dict()
        given = {**to_dict(start.config), **run.model, **given}
    elif run.init:
        encoder = PretrainedEncoder(run.init)
        tokenizer = encoder.tokenizer_for(texts, run.train.vocab_size)
        given = {**encoder.model_fields(), **run.model, **given}
    else:
        tokenizer = Tokenizer.train(texts, run.train.vocab_size)
        given = {**run.model, **given}
    seed_torch(seed_of(run.train.seed, "weights", 0))
    model = BudgetFormer(ModelConfig(**{**given, "vocab_size": tokenizer.vocab_size}))
    if run.init:
        state = encoder.state(model.config, tokenizer)
    _start_from(model, state, run.warm_start or run.init)
    return tokenizer, model


def load_teacher(path: str, tokenizer: Tokenizer, mine: ModelConfig) -> BudgetFormer:
    """Read the model to distil from; it must read and answer as the student does."""
    teacher = Checkpoint.from_pretrained(path)
    for what, same in (
        ("vocabulary", teacher.tokenizer.pieces == tokenizer.pieces),
        ("labels", teacher.config.labels == mine.labels),
        ("number of texts", teacher.config.n_segments == mine.n_segments),
        ("length", teacher.config.max_len >= mine.max_len),
    ):
        if not same:
            raise ValueError(f"the teacher {path} differs in its {what}")
    return teacher.model


def _start_from(model: BudgetFormer, state: dict[str, Tensor], source: str) -> None:
    """Copy the weights that a start has; a dense one has no router, an encoder no classifier."""
    try:
        unexpected = model.load_state_dict(state, strict=False).unexpected_keys
    except RuntimeError as error:
        raise ValueError(f"{source} has another shape: {' '.join(str(error).split())}") from error
    if any(".router." not in name for name in unexpected):
        raise ValueError(f"{source} holds weights the model has not: {unexpected[0]}")

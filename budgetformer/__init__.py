"""BudgetFormer: text classification with an attention-head budget for each input.

    from budgetformer import Checkpoint, predict
    trace = predict(Checkpoint.from_pretrained("checkpoints/imdb"), "A quiet, perfect film.")
    trace.label, trace.mean_budget, [layer.heads for layer in trace.layers]

The method is that of arXiv 2604.22583.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budgetformer.checkpoint import Checkpoint
    from budgetformer.config import ModelConfig, TrainConfig
    from budgetformer.data import load_dataset
    from budgetformer.estimator import BudgetFormerClassifier
    from budgetformer.model import BudgetFormer
    from budgetformer.tokenizer import Tokenizer
    from budgetformer.trace import Trace, predict

__all__ = [
    "BudgetFormer",
    "BudgetFormerClassifier",
    "Checkpoint",
    "ModelConfig",
    "Tokenizer",
    "Trace",
    "TrainConfig",
    "load_dataset",
    "predict",
]

# Imported when first asked for: torch takes seconds, and --help or a figure needs none of it.
_MODULES = {
    "BudgetFormer": "model",
    "BudgetFormerClassifier": "estimator",
    "Checkpoint": "checkpoint",
    "ModelConfig": "config",
    "Tokenizer": "tokenizer",
    "Trace": "trace",
    "TrainConfig": "config",
    "load_dataset": "data",
    "predict": "trace",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

"""BudgetFormer: text classification with an attention-head budget for each input.

    from budgetformer import Checkpoint, predict
    trace = predict(Checkpoint.from_pretrained("checkpoints/imdb"), "A quiet, perfect film.")
    trace.label, trace.mean_budget, [layer.heads for layer in trace.layers]

The method is that of arXiv 2604.22583.
"""

from budgetformer.checkpoint import Checkpoint
from budgetformer.config import ModelConfig, TrainConfig
from budgetformer.data import load_dataset
from budgetformer.evaluate import evaluate, summarise
from budgetformer.model import BudgetFormer
from budgetformer.tokenizer import Tokenizer
from budgetformer.trace import Trace, predict
from budgetformer.train import Run, train

__all__ = [
    "BudgetFormer",
    "Checkpoint",
    "ModelConfig",
    "Run",
    "Tokenizer",
    "Trace",
    "TrainConfig",
    "evaluate",
    "load_dataset",
    "predict",
    "summarise",
    "train",
]

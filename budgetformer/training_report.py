"""What a training reports beside its losses: how s is spread, which heads run, what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from budgetformer.checkpoint import Checkpoint
from budgetformer.model import BudgetFormer
from budgetformer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

N_BINS = 20
TENSORBOARD = "tensorboard"


def routing_report(budgets: ArrayLike, heads: ArrayLike) -> dict[str, Any]:
    """Count s in 20 equal bins of [0, 1] for each layer, and say how often each head runs.

    Args:
        budgets: s, (N, L).
        heads: whether a head ran, (N, L, H).
    """
    s, ran = np.asarray(budgets, dtype=np.float64), np.asarray(heads, dtype=np.float64)
    counts = [np.histogram(layer, bins=N_BINS, range=(0.0, 1.0))[0].tolist() for layer in s.T]
    return {"budget_counts": counts, "head_usage": ran.mean(axis=0).round(4).tolist()}


def answer(model: BudgetFormer, tokenizer: Tokenizer, texts: tuple[str, ...]) -> dict[str, Any]:
    """Return what a model in training says about a text or a pair; nothing for no text.

    The answer stands under "answer": the texts with the prediction, or with "refused", the reason
    why the model cannot read them.
    """
    from budgetformer.trace import predict

    if not texts:
        return {}
    # A second model that shares the weights: evaluation mode and frozen, the first stays as it is.
    twin = BudgetFormer.without_weights(model.config)
    twin.load_state_dict(model.state_dict(), assign=True)
    try:
        pair = texts[1] if len(texts) > 1 else None
        said = predict(Checkpoint(twin, tokenizer), texts[0], pair).to_dict()
    except ValueError as error:
        said = {"refused": str(error)}
    return {"answer": {"texts": list(texts), **said}}


class TensorBoard:
    """TensorBoard's event files in a training's folder.

    A step's numbers are called train/…, an epoch's validation/….
    """

    def __init__(self, out: Path) -> None:
        """Write below this folder, from the first event on."""
        self.folder = out / TENSORBOARD
        self.writer: SummaryWriter | None = None

    def write(self, event: dict[str, Any]) -> None:
        """Write an event's numbers; a resumed training takes the place of what it repeats."""
        from torch.utils.tensorboard import SummaryWriter

        if self.writer is None:
            self.writer = SummaryWriter(str(self.folder), purge_step=event["step"] + 1)
        group = {"step": "train", "epoch": "validation"}.get(event["event"])
        for name, value in event.items() if group else ():
            if isinstance(value, int | float) and name not in ("step", "epoch", "seconds"):
                self.writer.add_scalar(f"{group}/{name}", value, event["step"])

    def close(self) -> None:
        """Write what is held back and close the files."""
        if self.writer is not None:
            self.writer.close()

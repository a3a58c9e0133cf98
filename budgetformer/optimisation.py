"""How weights move: AdamW, its schedule, and the seeds of everything random in a training."""

from __future__ import annotations

import torch

from budgetformer.checkpoint import is_matrix
from budgetformer.config import TrainConfig
from budgetformer.model import BudgetFormer


def adamw(model: BudgetFormer, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only: not on biases and normalisation weights.

    Each group has its peak learning rate as "peak_lr"; the routers have one of their own.
    """
    groups = []
    for routers, peak_lr in ((False, config.lr), (True, config.router_lr or config.lr)):
        named = [(n, p) for n, p in model.named_parameters() if (".router." in n) == routers]
        for matrices, decay in ((True, config.weight_decay), (False, 0.0)):
            chosen = [p for n, p in named if is_matrix(n, p) == matrices]
            groups.append({"params": chosen, "weight_decay": decay, "peak_lr": peak_lr})
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=config.lr, betas=(0.9, 0.98), fused=True
    )


def lr_factor(progress: float, warmup: float) -> float:
    """Rise linearly over the warm-up, then fall linearly to zero."""
    if progress < warmup:
        return progress / warmup
    return (1 - progress) / (1 - warmup)


def seed_torch(seed: int) -> None:
    """Seed torch's global generator, the only one that initial weights and dropout can use.

    `train` forks that generator, so that its caller's stays as it was.
    """
    torch.manual_seed(seed)  # noqa: TID251


def seed_of(seed: int, purpose: str, index: int) -> int:
    """Return a seed for one purpose at one moment; different moments never share a stream."""
    purposes = ("weights", "order", "dropout", "noise")
    return (seed * len(purposes) + purposes.index(purpose)) * 10_000_019 + index

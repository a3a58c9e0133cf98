"""Model cards: what a checkpoint is, what was measured on it, and how to train it again.

A card is written from metrics.json, so no figure in it is typed in.
"""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

from budgetformer.config import ModelConfig, TrainConfig

TITLES = {
    "n": "examples",
    "accuracy": "accuracy",
    "mean_budget": "mean budget (mean of s)",
    "executed_heads_frac": "executed heads (mean of k/H)",
    "executed_heads_std": "executed heads, standard deviation over examples",
    "spearman_budget_loss": "Spearman ρ of s with the loss",
    "auroc_budget_error": "AUROC of s for errors",
    "loss": "loss in nats",
    "mean_tokens": "tokens an example",
    "flops_per_example": "FLOPs an example, closed form",
    "dense_flops_per_example": "FLOPs an example with all heads and no router",
}
STORED = {"fp16": "Weights in half precision", "int8": "Weights in 8 bits, with a scale a row"}


def model_card(name: str, config: ModelConfig, metrics: dict[str, Any]) -> str:
    """Return the card in Markdown, with the Hub's header.

    Args:
        name: the checkpoint's name.
        config: the model's shape.
        metrics: the content of metrics.json: the measured splits, and "training" where that is
            known.
    """
    training = metrics.get("training")
    kind = "BudgetFormer" if config.routed else "dense Transformer"
    splits = [split for split in metrics if split != "training"]
    weights = training["train"].get("weights", "fp16") if training else "fp16"
    return "\n".join(
        [
            "---",
            "library_name: budgetformer",
            "pipeline_tag: text-classification",
            "tags: [budgetformer, adaptive-computation, arxiv:2604.22583]",
            "---",
            "",
            f"# {name}",
            "",
            f"A {kind} that sorts texts into {', '.join(config.labels)}. {_behaviour(config)}",
            "",
            f"Shape: {config.n_layers} layers, {config.n_heads} heads, width {config.d_model}, "
            f"feed-forward {config.d_ff}, {config.norm}-norm, at most {config.max_len} tokens, "
            f"{config.vocab_size:,} pieces. {STORED[weights]}.",
            "",
            "## Measured",
            "",
            "| | " + " | ".join(_split_title(split, metrics[split]) for split in splits) + " |",
            "|---|" + "---|" * len(splits),
            *(
                f"| {title} | " + " | ".join(_cell(metrics[s].get(key)) for s in splits) + " |"
                for key, title in TITLES.items()
            ),
            "",
            *(_training(name, training) if training else ()),
        ]
    )


def train_command(name: str, training: dict[str, Any]) -> str:
    """Return the command line that repeats a training."""
    data, rest = train_options(training)[:2], train_options(training)[2:]
    words = ["python", "-m", "budgetformer", "train", *data, "--out", f"checkpoints/{name}", *rest]
    return shlex.join(words)


def train_options(training: dict[str, Any]) -> list[str]:
    """Return the options of `train` that name the data and all that differs from the defaults."""
    words = ["--data", training["data"]]
    for option in ("init", "warm_start", "teacher"):
        if training.get(option):
            words += [f"--{option.replace('_', '-')}", training[option]]
    defaults = {f.name: f.default for cls in (ModelConfig, TrainConfig) for f in fields(cls)}
    for option, value in {**training["model"], **training["train"]}.items():
        if value != defaults.get(option):
            words += [f"--{option.replace('_', '-')}", str(value)]
    return words


def write_card(directory: Path, config: ModelConfig, metrics: dict[str, Any]) -> None:
    """Write README.md into a checkpoint folder."""
    (directory / "README.md").write_text(
        model_card(directory.name, config, metrics), encoding="utf-8"
    )


def _training(name: str, training: dict[str, Any]) -> list[str]:
    return [
        "## Training",
        "",
        f"{training['rows']:,} rows of `{training['data']}`. To train it again:",
        "",
        "```",
        train_command(name, training),
        "```",
        "",
        "With one thread on one kind of processor, training is deterministic.",
        "",
    ]


def _behaviour(config: ModelConfig) -> str:
    if not config.routed and not config.fixed_heads:
        return "All heads run; it is the twin that budgeted models are measured against."
    if not config.routed:
        return f"A control: the first {config.fixed_heads} heads of each layer run, no others."
    if config.fixed_heads:
        return (
            f"Each layer runs the {config.fixed_heads} best-scored heads of each text, unless "
            "another number is asked for."
        )
    wanted = f"s·{config.n_heads}"
    rounded = {"floor": f"⌊{wanted}⌋", "ceil": f"⌈{wanted}⌉", "nearest": f"round({wanted})"}
    predicted = {
        "layer": "For each text and layer it predicts a budget s",
        "shared": "For each text it predicts one budget s for all layers",
        "static": "A control: each layer learned one budget s and one ranking for all texts",
    }
    k = f"k = max(1, {rounded[config.rounding]})"
    return f"{predicted[config.budgets]} and runs the {k} best-scored heads."


def _split_title(split: str, figures: dict[str, Any]) -> str:
    return f"{split} ({figures['data']})" if "data" in figures else split


def _cell(value: float | int | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4f}"

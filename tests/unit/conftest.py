"""Tiny models, tokenizers and data sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from budgetformer import BudgetFormer, Checkpoint, ModelConfig, Tokenizer

# Derandomised: a failure here is a failure everywhere.
settings.register_profile("unit", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("unit")

CORPUS = (
    "A good film, a fine film: don't over-think it!",
    "a bad film; an awful, boring and over-long film (really).",
    "the actors are good and the story is fine [but long]",
    "naive ecole 中文 電影 < > / unk pad cls sep mask 1 2 3 4",
    "what a boring story; what an awful actor? yes & no",
)
GOOD = ("good", "fine", "lovely", "great")
BAD = ("bad", "awful", "boring", "poor")
FILLER = ("film", "story", "actor", "the", "a", "one", "two", "music", "scene", "plot")


@pytest.fixture(scope="session")
def make_model() -> Callable[..., BudgetFormer]:
    """Build a model whose every weight is random, biases and norms included."""

    def make(seed: int = 0, **shape: object) -> BudgetFormer:
        small: dict[str, object] = {
            "vocab_size": 50,
            "labels": ("a", "b", "c"),
            "n_layers": 2,
            "n_heads": 4,
            "d_model": 16,
            "d_ff": 24,
            "d_router": 6,
            "max_len": 32,
        }
        model = BudgetFormer(ModelConfig(**{**small, **shape}))  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                middle = 1.0 if "norm.weight" in name else 0.0
                parameter.copy_(middle + 0.4 * noise)
        return model.eval()

    return make


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """A tokenizer whose vocabulary comes from a few sentences."""
    return Tokenizer.train(CORPUS * 3, 200)


@pytest.fixture(scope="session")
def checkpoint(make_model: Callable[..., BudgetFormer], tokenizer: Tokenizer) -> Checkpoint:
    """A tiny random classifier of single texts."""
    model = make_model(vocab_size=tokenizer.vocab_size, labels=("negative", "positive"))
    return Checkpoint(model, tokenizer)


@pytest.fixture(scope="session")
def pair_checkpoint(make_model: Callable[..., BudgetFormer], tokenizer: Tokenizer) -> Checkpoint:
    """A tiny random classifier of text pairs."""
    return Checkpoint(make_model(vocab_size=tokenizer.vocab_size, n_segments=2), tokenizer)


@pytest.fixture
def saved(checkpoint: Checkpoint, tmp_path: Path) -> Path:
    """The tiny classifier's folder, to be damaged at will."""
    checkpoint.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of 160 different texts that one word decides."""
    generator = torch.Generator().manual_seed(7)

    def draw(words: tuple[str, ...]) -> str:
        return words[int(torch.randint(len(words), (1,), generator=generator))]

    lines = ["text,label"]
    for row in range(160):
        positive = row % 2
        filler = [draw(FILLER) for _ in range(3 + row % 7)]
        place = int(torch.randint(len(filler) + 1, (1,), generator=generator))
        filler.insert(place, draw(GOOD if positive else BAD))
        lines.append(f"{' '.join(filler)} n{row},{'positive' if positive else 'negative'}")
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path

"""Fixtures of the pages' tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def imported() -> None:
    """AppTest's limit is for a page; the first import of these takes longer on a busy machine."""
    import captum.attr  # noqa: F401

    import budgetformer  # noqa: F401


@pytest.fixture(autouse=True)
def no_own_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have trained and uploaded models: they do not count here."""
    monkeypatch.setenv("BUDGETFORMER_RUNS", str(tmp_path / "own_runs"))
    monkeypatch.setenv("BUDGETFORMER_MODELS", str(tmp_path / "own_models"))


@pytest.fixture
def models(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the app find the models of every kind."""
    from app import loaders

    monkeypatch.setattr(loaders, "CHECKPOINTS", model_folder)
    return model_folder

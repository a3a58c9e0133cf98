"""Fixtures of the pages' tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def imported() -> None:
    """AppTest's limit is for a page; the first import of these takes longer on a busy machine."""
    import captum.attr  # noqa: F401

    import budgetformer  # noqa: F401


@pytest.fixture
def models(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the app find the models of every kind."""
    from app import loaders

    monkeypatch.setattr(loaders, "CHECKPOINTS", model_folder)
    return model_folder

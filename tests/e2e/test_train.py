"""A training started, paused, stepped, resumed and finished by a person; the app may restart."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from budgetformer.job_queue import read_job
from tests.e2e.conftest import OpenPage, running_app

# A process of the lowest priority has to start, and start again.
PATIENT = 240_000


@pytest.fixture
def own_runs(tmp_path: Path) -> Iterator[Path]:
    """Where the app of this test keeps its trainings; none outlives the test."""
    runs = tmp_path / "RUNS"
    yield runs
    for path in runs.glob("*/job.json"):
        job = read_job(path.parent)
        if job is not None and job.alive:
            os.kill(job.pid, signal.SIGKILL)


@pytest.fixture
def train_app(own_runs: Path, tmp_path: Path) -> Iterator[str]:
    with running_app(tmp_path / "log") as address:
        yield address


def fill(page: Page, label: str, value: str) -> None:
    box = page.get_by_role("textbox" if "Name" in label else "spinbutton", name=label)
    box.fill(value)
    box.press("Enter")
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()


def says(page: Page, text: str) -> None:
    expect(page.get_by_text(text).first).to_be_visible(timeout=PATIENT)


@pytest.mark.timeout(900)
def test_start_pause_step_resume_finish(
    train_app: str, own_runs: Path, tmp_path: Path, open_page: OpenPage
) -> None:
    page = open_page(f"{train_app}/train")
    fill(page, "Passes over the data", "3")
    fill(page, "Most training texts", "640")
    fill(page, "Name of the training", "mine")
    page.get_by_role("button", name="Start", exact=True).click()
    # Told before its first step, or soon after: it pauses and has saved its state.
    page.get_by_role("button", name="Pause").click()
    says(page, "It is paused.")
    assert (own_runs / "mine" / "state.safetensors").is_file()
    assert re.search("train_run|train_part=watch", page.url)
    page.get_by_role("textbox", name="Your text").fill("a lovely, funny film")
    page.keyboard.press("Enter")
    says(page, "it says")
    before = step(page)
    page.get_by_role("button", name="One batch").click()
    expect(page.get_by_text(f"Step {before + 1:,} of 60")).to_be_visible(timeout=PATIENT)
    says(page, "It is paused.")
    # Another visitor, and an app that was started again, see the same training.
    with running_app(tmp_path / "second log") as address:
        other = open_page(f"{address}/train?train_part=watch")
        says(other, "It is paused.")
        other.get_by_role("button", name="Play").click()
        says(other, "It is finished.")
        other.close()  # before its server goes
    says(page, "It is finished.")
    expect(page.get_by_text("Step 60 of 60")).to_be_visible()
    page.get_by_role("button", name="Use it on the page Explore").click()
    expect(page.get_by_text("Answer of").first).to_be_visible(timeout=PATIENT)
    expect(page.get_by_text("mine").first).to_be_visible()


def step(page: Page) -> int:
    found = re.search(r"Step ([\d,]+) of", page.inner_text("body"))
    assert found
    return int(found[1].replace(",", ""))

"""Models as people use them: bring one, work with it, take it away, change one's mind."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import HOSTILE, ROOT
from tests.e2e.conftest import OpenPage

IMDB = ROOT / "checkpoints" / "imdb"


def archive(path: Path, card: str = "") -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name in ("config.json", "tokenizer.json", "metrics.json", "model.safetensors"):
            file.write(IMDB / name, f"folder/{name}")
        file.writestr("folder/README.md", card or (IMDB / "README.md").read_text())
    return path


def finished(page: Page) -> None:
    expect(page.get_by_role("button", name="Fetch")).to_be_visible()
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()


def upload(page: Page, path: Path) -> None:
    finished(page)
    page.locator("input[type=file]").set_input_files(path)
    page.get_by_role("button", name="Check and add").click()


def name_cell(page: Page, name: str) -> None:
    expect(page.get_by_role("cell", name=name, exact=True)).to_be_visible()


def test_upload_use_delete_undo(app: str, open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(f"{app}/models")
    upload(page, archive(tmp_path / "my film model.zip"))
    expect(page.get_by_text("models/my film model was checked and added.")).to_be_visible()
    name_cell(page, "models/my film model")
    page.get_by_role("button", name="Use on the other pages").click()
    expect(page.get_by_role("button", name="The pages open with this model")).to_be_disabled()
    page.get_by_role("link", name="Explore").click()
    expect(page.get_by_text("Answer of my film model")).to_be_visible()
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
    page.get_by_role("link", name="Models").click()
    finished(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as zip").click()
    with zipfile.ZipFile(download.value.path()) as file:
        assert file.read("my film model/config.json") == (IMDB / "config.json").read_bytes()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("models/my film model is in the trash.")).to_be_visible()
    expect(page.get_by_role("cell", name="models/my film model", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("models/my film model is back.")).to_be_visible()
    name_cell(page, "models/my film model")


def test_a_hostile_card_does_nothing(app: str, open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(f"{app}/models")
    upload(page, archive(tmp_path / "<img src=x onerror=alert(1)>.zip", card=HOSTILE))
    expect(page.get_by_text("was checked and added.")).to_be_visible()
    page.get_by_text("Model card (README.md)").click()
    expect(page.get_by_text(HOSTILE)).to_be_visible()
    main = page.get_by_test_id("stMain")
    expect(main.locator("iframe, script, img[src=x], .katex")).to_have_count(0)
    # open_page fails if a dialog or an error came of it.


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(app: str, open_page: OpenPage, theme: str) -> None:
    page = open_page(f"{app}/models", width=400, theme=theme)
    finished(page)
    widths = page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
        ".map(e => e.scrollWidth)"
    )
    assert max(widths) <= 400

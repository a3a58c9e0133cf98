"""Heads as people use it: from the grid of a whole data set to one text in Explore."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage


def finished(page: Page, charts: int) -> None:
    expect(page.locator(".js-plotly-plot .infolayer")).to_have_count(charts)
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()


def test_from_the_grid_to_the_texts_that_want_a_head(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/heads")
    expect(page.get_by_role("heading", name="Heads", level=1)).to_be_visible()
    finished(page, 3)
    expect(page.get_by_text("heads are dead")).to_be_visible()
    # The fifth cell of the second row.
    box = page.locator(".js-plotly-plot").first.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 4.5 / 8, box["y"] + box["height"] * 0.75)
    expect(page.get_by_role("radio", name="Layer 2")).to_be_checked()
    finished(page, 3)
    page.get_by_role("radio", name="One head").click()
    box_of_heads = (
        page.get_by_test_id("stMain").get_by_test_id("stSelectbox").filter(has_text="Head")
    )
    expect(box_of_heads.locator("input")).to_have_value(re.compile("^Layer 2, head 5"))
    page.get_by_role("button", name="Ask the routers").click()
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    finished(page, 0)
    expect(page.get_by_role("button", name="Open in Explore")).to_be_disabled()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_fits_a_phone(app: str, open_page: OpenPage, theme: str) -> None:
    page = open_page(f"{app}/heads", width=400, theme=theme)
    finished(page, 3)
    widths = page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
        ".map(e => e.scrollWidth)"
    )
    assert max(widths) <= 400

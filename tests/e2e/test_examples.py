"""Examples as people use it: a lasso, a slice, a text to Explore, a figure taken away."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage


def finished(page: Page) -> None:
    expect(page.get_by_role("heading", name="Alone, padded, in a batch")).to_be_visible()
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
    expect(page.locator(".js-plotly-plot .infolayer")).to_have_count(2)


def widths(page: Page) -> list[int]:
    return page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
        ".map(e => e.scrollWidth)"
    )


def test_a_lasso_makes_a_slice_whose_text_opens_in_explore(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/examples")
    finished(page)
    expect(page.get_by_text("2,500 of 2,500 examples are in the slice.")).to_be_visible()
    chart = page.locator(".js-plotly-plot").first
    chart.scroll_into_view_if_needed()
    box = chart.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    # Round the points on the right: large losses, most of them wrong.
    corners = [(0.75, 0.05), (0.99, 0.05), (0.99, 0.95), (0.75, 0.95), (0.75, 0.05)]
    spots = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*spots[0])
    page.mouse.down()
    for spot in spots[1:]:
        page.mouse.move(*spot, steps=12)
    page.mouse.up()
    expect(page.get_by_text("picked").first).to_be_visible()
    said = page.get_by_text("examples are in the slice.")
    expect(said).not_to_have_text("2,500 of 2,500 examples are in the slice.")
    n = int(said.inner_text().split(" ")[0].replace(",", ""))
    assert 100 < n < 1000
    text = page.get_by_role("region", name="Text of the example").inner_text()
    page.get_by_role("button", name="Open in Explore").click()
    expect(page.get_by_role("heading", name="Explore", level=1)).to_be_visible()
    expect(page.get_by_role("textbox", name="Your text")).to_have_value(text)
    # The slice is still there on coming back.
    page.get_by_role("link", name="Examples").click()
    finished(page)
    expect(page.get_by_text("examples are in the slice.")).to_have_text(
        f"{n:,} of 2,500 examples are in the slice."
    )


def test_the_figure_is_a_page_that_needs_no_network(
    app: str, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(f"{app}/examples?examples_colour=quadrant&examples_x=tokens")
    finished(page)
    # The camera above the figure is called “Download plot …” too.
    page.get_by_test_id("stPopover").filter(has_text="Download").get_by_role("button").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Page with the figure").click()
    path = tmp_path / "figure.html"
    download.value.save_as(path)
    assert path.stat().st_size > 1_000_000  # plotly's script is in it
    # open_page fails on any request that leaves this machine.
    alone = open_page(path.as_uri())
    expect(alone.locator(".js-plotly-plot .infolayer")).to_be_visible()
    expect(alone.get_by_text("Mean budget s against Tokens of 2,500 examples")).to_be_visible()


@pytest.mark.parametrize(("width", "theme"), [(400, "dark"), (1280, "light")])
def test_nothing_is_wider_than_the_page(
    app: str, open_page: OpenPage, width: int, theme: str
) -> None:
    page = open_page(f"{app}/examples?examples_row=17", width=width, theme=theme)
    finished(page)
    assert max(widths(page)) <= width
    page.get_by_role("button", name="Next", exact=True).click()
    expect(page.get_by_text("Row 18:")).to_be_visible()
    assert parse_qs(urlsplit(page.url).query) == {"examples_row": ["18"]}

"""Efficiency as people use it: choose a limit on the curve, take it along, share it, remove it."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage

TEXT = "Not bad, not good either. Some liked it, others hated it; I was bored but I laughed."
NOTICE = "At most 1 of 8 heads a layer"


def finished(page: Page) -> None:
    expect(page.get_by_role("button", name="Time this shape on this machine")).to_be_visible()
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
    expect(page.locator(".js-plotly-plot .infolayer").first).to_be_attached()


def click_first_limit(page: Page) -> None:
    """Click the first point of the line of limits: at most one head a layer."""
    curve = page.locator(".st-key-efficiency_curve")
    plot = curve.locator(".nsewdrag").first
    plot.scroll_into_view_if_needed()
    position = curve.locator(".js-plotly-plot").evaluate(
        """plot => {
            const line = plot._fullData.find(trace => trace.name === "With a limit");
            const {xaxis, yaxis} = plot._fullLayout;
            return {x: xaxis.d2p(line.x[0]), y: yaxis.d2p(line.y[0])};
        }"""
    )
    # Plotly only takes a click on what it has seen the pointer enter, as it does with a hand's.
    page.mouse.move(0, 0)
    plot.hover(position=position)
    expect(curve.locator(".hovertext").first).to_be_visible()
    plot.click(position=position)


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_a_limit_goes_to_explore_and_compare_and_back(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/efficiency")
    finished(page)
    click_first_limit(page)
    expect(page.get_by_text(NOTICE)).to_be_visible()
    finished(page)
    assert query(page)["head_limit"] == ["1"]
    page.get_by_role("button", name="Go on in Explore").click()
    expect(page.get_by_role("heading", name="Explore", level=1)).to_be_visible()
    expect(page.get_by_text(NOTICE)).to_be_visible()
    expect(page.get_by_text("2 of 16")).to_be_visible()
    assert query(page)["head_limit"] == ["1"]
    page.reload()
    expect(page.get_by_text("2 of 16")).to_be_visible()
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", name="Compare", level=1)).to_be_visible()
    page.get_by_role("button", name="Remove the limit").click()
    expect(page.get_by_text(NOTICE)).to_have_count(0)
    page.get_by_role("link", name="Efficiency").click()
    finished(page)
    expect(page.get_by_text("No limit", exact=True)).to_be_visible()
    assert "head_limit" not in query(page)


def test_a_link_carries_the_limit(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/explore?head_limit=1&explore_text={quote(TEXT)}")
    expect(page.get_by_text(NOTICE)).to_be_visible()
    expect(page.get_by_text("2 of 16")).to_be_visible()
    page.get_by_role("button", name="Remove the limit").click()
    expect(page.get_by_text(NOTICE)).to_have_count(0)
    expect(page.get_by_text("4 of 16")).to_be_visible()
    assert "head_limit" not in query(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(app: str, open_page: OpenPage, theme: str) -> None:
    page = open_page(f"{app}/efficiency?efficiency_x=flops&head_limit=2", width=400, theme=theme)
    finished(page)
    widths = page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
        ".map(e => e.scrollWidth)"
    )
    assert max(widths) <= 400
    expect(page.get_by_text("Reported by the paper").first).to_be_attached()

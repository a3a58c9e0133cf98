"""Compare as people use it: from a link, on a phone, in the dark, with the same or hostile text."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import HOSTILE
from tests.e2e.conftest import OpenPage

ONE, TWO = "A wonderful film.", "A dull story, but the music is lovely."


def address(app: str, first: str = ONE, second: str = TWO, **query: str) -> str:
    more = "".join(f"&compare_{key}={quote(value)}" for key, value in query.items())
    return f"{app}/compare?compare_text={quote(first)}&compare_text_b={quote(second)}{more}"


def finished(page: Page, charts: int = 2) -> None:
    expect(page.get_by_role("button", name="Open B in Explore")).to_be_visible()
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
    expect(page.locator(".js-plotly-plot .infolayer")).to_have_count(charts)


def texts(page: Page) -> list[str]:
    return page.get_by_role("region", name="Text with contributions of words").all_inner_texts()


def widths(page: Page) -> list[int]:
    return page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
        ".map(e => e.scrollWidth)"
    )


def test_a_link_opens_on_a_server_that_nobody_has_visited(
    fresh_app: str, open_page: OpenPage
) -> None:
    page = open_page(address(fresh_app))
    expect(page.get_by_role("heading", name="Compare", level=1)).to_be_visible()
    finished(page)
    assert texts(page) == [ONE, TWO]


def test_the_same_text_twice_and_the_same_model_twice(app: str, open_page: OpenPage) -> None:
    page = open_page(address(app, TWO, TWO))
    finished(page)
    assert texts(page) == [TWO, TWO]
    expect(page.get_by_text("The same answer")).to_be_visible()
    page = open_page(address(app, TWO, by="models", model="imdb", model_b="imdb"))
    finished(page)
    assert texts(page) == [TWO, TWO]


def test_hostile_texts_are_shown_and_do_nothing(app: str, open_page: OpenPage) -> None:
    page = open_page(address(app, HOSTILE, HOSTILE))
    finished(page)
    assert texts(page) == [HOSTILE, HOSTILE]
    main = page.get_by_test_id("stMain")
    expect(main.locator("iframe, script, img[src=x], .katex")).to_have_count(0)
    # open_page fails if a dialog or an error came of it.


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_page(
    app: str, open_page: OpenPage, theme: str, width: int
) -> None:
    long_word = "no" + "oo" * 60
    page = open_page(address(app, f"{TWO} {long_word}", HOSTILE), width=width, theme=theme)
    finished(page)
    assert max(widths(page)) <= width
    ink = page.locator("h1").evaluate("e => getComputedStyle(e).color")
    fills = page.locator(".js-plotly-plot :is(.cartesianlayer, .infolayer) text").evaluate_all(
        "texts => [...new Set(texts.map(e => getComputedStyle(e).fill))]"
    )
    assert fills == [ink]


def test_another_page_and_back_keeps_what_was_compared(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/compare")
    finished(page)
    box = page.get_by_role("textbox", name="Text B")
    box.fill(TWO)
    box.press("Control+Enter")
    expect(page.get_by_role("region", name="Text with contributions").last).to_have_text(TWO)
    finished(page)
    assert parse_qs(urlsplit(page.url).query) == {"compare_text_b": [TWO]}
    page.get_by_role("link", name="Explore").click()
    expect(page.get_by_role("heading", name="Explore", level=1)).to_be_visible()
    page.get_by_role("link", name="Compare").click()
    finished(page)
    expect(box).to_have_value(TWO)
    assert texts(page)[1] == TWO
    page.reload()
    finished(page)
    expect(box).to_have_value(TWO)


def test_a_side_goes_to_explore_and_a_changed_wording_comes_back(
    app: str, open_page: OpenPage
) -> None:
    page = open_page(address(app))
    finished(page)
    page.get_by_role("button", name="Open B in Explore").click()
    expect(page.get_by_role("heading", name="Explore", level=1)).to_be_visible()
    expect(page.get_by_role("textbox", name="Your text")).to_have_value(TWO)
    page.get_by_role("radio", name="Why").click()
    page.get_by_role("button", name="Find them").click()
    page.get_by_role("button", name="Compare with the text").click()
    expect(page.get_by_role("heading", name="Compare", level=1)).to_be_visible()
    finished(page)
    assert texts(page)[0] == TWO and texts(page)[1] != TWO
    page.get_by_role("link", name="Explore").click()
    expect(page.get_by_role("heading", name="Explore", level=1)).to_be_visible()
    page.get_by_role("button", name="Use as the text").click()
    expect(page.get_by_role("textbox", name="Your text")).not_to_have_value(TWO)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_why_fits_a_phone_with_everything_asked_for(
    app: str, open_page: OpenPage, theme: str
) -> None:
    url = f"{app}/explore?explore_part=why&explore_text={quote(HOSTILE)}"
    page = open_page(url, width=400, theme=theme)
    for name in ("Test these words", "Try small changes", "Find it", "Find them"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
    expect(page.locator(".js-plotly-plot .infolayer")).to_have_count(3)
    assert max(widths(page)) <= 400
    main = page.get_by_test_id("stMain")
    expect(main.locator("iframe, script, img[src=x], .katex")).to_have_count(0)

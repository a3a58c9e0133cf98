"""Explore as people use it: in a browser, from a link, on a phone, in the dark, with bad input."""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import HOSTILE, ROOT
from tests.e2e.conftest import OpenPage

TEXT = "A dull story, but the music is lovely."


def box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Your text")


def typed(page: Page, text: str) -> None:
    box(page).fill(text)
    box(page).press("Control+Enter")


def finished(page: Page) -> None:
    """Wait for the last part of See, and for the server to be done."""
    expect(page.get_by_role("region", name="Tokens")).to_be_visible()
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
    expect(page.locator(".js-plotly-plot .infolayer")).to_have_count(4)


def read_words(page: Page) -> Locator:
    return page.get_by_role("region", name="Tokens")


def text_in_address(page: Page) -> list[str]:
    return parse_qs(urlsplit(page.url).query).get("explore_text", [])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_typed_text_gives_its_result(app: str, open_page: OpenPage, theme: str) -> None:
    from budgetformer import Checkpoint, predict

    trace = predict(Checkpoint.from_pretrained(ROOT / "checkpoints" / "imdb"), TEXT)
    page = open_page(app, theme=theme)
    finished(page)
    typed(page, TEXT)
    expect(read_words(page)).to_contain_text("dull")
    finished(page)
    expect(page.locator(".bf-big").first).to_have_text(trace.label)
    heads = sum(layer.k for layer in trace.layers)
    expect(page.locator(".bf-big").nth(1)).to_have_text(re.compile(rf"^{heads} of "))
    assert text_in_address(page) == [TEXT]
    # What a screen reader is told about the charts.
    for layer, decision in enumerate(trace.layers, start=1):
        budget = rf"layer {layer}: budget {decision.budget:.3f}, .* {decision.k} run"
        expect(page.get_by_label(re.compile(budget)).first).to_be_visible()
        first = rf"layer {layer} runs head {decision.heads[0] + 1} "
        expect(page.get_by_label(re.compile(first)).first).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_letters_in_charts_have_the_colour_of_the_page(
    app: str, open_page: OpenPage, theme: str
) -> None:
    page = open_page(f"{app}/explore", theme=theme)
    finished(page)
    ink = page.locator("h1").evaluate("e => getComputedStyle(e).color")
    fills = page.locator(".js-plotly-plot text").evaluate_all(
        "texts => [...new Set(texts.map(e => getComputedStyle(e).fill))]"
    )
    assert fills == [ink]
    backgrounds = page.locator(".js-plotly-plot .main-svg").evaluate_all(
        "plots => [...new Set(plots.map(e => getComputedStyle(e).backgroundColor))]"
    )
    assert backgrounds == ["rgba(0, 0, 0, 0)"]


def test_a_link_opens_its_text_on_a_server_that_nobody_has_visited(
    fresh_app: str, open_page: OpenPage
) -> None:
    page = open_page(f"{fresh_app}/explore?explore_text={quote(TEXT)}")
    expect(page.get_by_role("heading", name="Explore", level=1)).to_be_visible()
    finished(page)
    expect(box(page)).to_have_value(TEXT)
    expect(read_words(page)).to_contain_text("dull")


def test_the_first_address_leads_to_explore_and_keeps_the_text(
    app: str, open_page: OpenPage
) -> None:
    page = open_page(f"{app}/?explore_text={quote(TEXT)}")
    finished(page)
    expect(page).to_have_url(re.compile(r"/explore\?explore_text="))
    expect(box(page)).to_have_value(TEXT)


def test_back_and_reload_keep_what_was_looked_at(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/explore")
    finished(page)
    for text in ("first text", "second text"):
        typed(page, text)
        expect(read_words(page)).to_contain_text(text.split()[0])
        finished(page)
    page.go_back()
    expect(read_words(page)).to_contain_text("first")
    expect(box(page)).to_have_value("first text")
    finished(page)
    page.reload()
    finished(page)
    expect(box(page)).to_have_value("first text")


def test_a_very_long_text_is_cut_and_the_page_can_be_reloaded(
    app: str, open_page: OpenPage
) -> None:
    page = open_page(f"{app}/explore?explore_text={quote(TEXT)}")
    finished(page)
    typed(page, "many words " * 10_000)
    expect(page.get_by_text("It stopped after")).to_be_visible()
    finished(page)
    assert text_in_address(page) == []
    page.reload()
    finished(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(
    app: str, open_page: OpenPage, theme: str
) -> None:
    long_word = "no" + "oo" * 60
    url = f"{app}/explore?explore_text={quote(f'{TEXT} {long_word} {HOSTILE}')}"
    page = open_page(url, width=400, theme=theme)
    finished(page)
    widths = page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
        ".map(e => e.scrollWidth)"
    )
    assert max(widths) <= 400
    # The cells of the head grid can be told apart and their numbers do not touch.
    cells = page.locator(".st-key-explore_heads .heatmap-label").evaluate_all(
        "labels => labels.map(e => e.getBoundingClientRect()).map(r => [r.top, r.left, r.right])"
    )
    assert len(cells) >= 8
    for (top, _, right), (next_top, left, _) in pairwise(cells):
        assert abs(top - next_top) > 4 or left > right


def test_hostile_text_is_shown_and_does_nothing(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/explore")
    finished(page)
    typed(page, HOSTILE)
    expect(read_words(page)).to_contain_text("bold")
    finished(page)
    page.get_by_role("radio", name="Why").click()
    words = page.get_by_role("region", name="Text with contributions of words").first
    expect(words).to_have_text(HOSTILE, use_inner_text=True)
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
    main = page.get_by_test_id("stMain")
    expect(main.locator("iframe, script, img[src=x], .katex")).to_have_count(0)
    # open_page fails if a dialog or an error came of it.


def test_the_keyboard_reaches_text_and_examples(app: str, open_page: OpenPage) -> None:
    page = open_page(f"{app}/explore")
    finished(page)
    box(page).focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("radio", name="Easy")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name="Hard")).to_be_checked()
    expect(box(page)).to_have_value(re.compile("wins prizes"))

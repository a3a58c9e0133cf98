"""See and What if by hand: sliders, clicks on charts, other pages, a phone, the dark."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import ROOT
from tests.e2e.conftest import OpenPage

TEXT = "A dull story, but the music is lovely."


def trace(**change: Any) -> Any:
    from budgetformer import Checkpoint, predict
    from budgetformer.interventions import Intervention

    checkpoint = Checkpoint.from_pretrained(ROOT / "checkpoints" / "imdb")
    return predict(checkpoint, TEXT, policy=Intervention(**change).policy(checkpoint.config))


def link(app: str, part: str) -> str:
    return f"{app}/explore?explore_part={part}&explore_text={quote(TEXT)}"


def settled(page: Page, charts: int) -> None:
    expect(page.locator(".js-plotly-plot .infolayer")).to_have_count(charts)
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()


def shows(page: Page, key: str, sentence: re.Pattern[str]) -> None:
    """Wait for a figure with this sentence, as a screen reader hears it.

    While the page changes, the figure that goes may stand beside the one that comes.
    """
    expect(page.locator(f".st-key-{key}").get_by_role("figure", name=sentence)).to_be_visible()


def says(found: Any, layer: int) -> re.Pattern[str]:
    heads = ", ".join(rf"head {head + 1} \([^)]*\)" for head in found.layers[layer].heads)
    return re.compile(rf"layer {layer + 1} runs {heads} of")


def click_cell(page: Page, key: str, layer: int, head: int, n_layers: int, n_heads: int) -> None:
    plot = page.locator(f".st-key-{key} .nsewdrag").first
    plot.scroll_into_view_if_needed()
    area = plot.bounding_box()
    assert area is not None
    position = {
        "x": area["width"] * (head + 0.5) / n_heads,
        "y": area["height"] * (layer + 0.5) / n_layers,
    }
    # Plotly only takes a click on what it has seen the pointer enter, as it does with a hand's.
    page.mouse.move(0, 0)
    plot.hover(position=position)  # type: ignore[arg-type]
    expect(page.locator(f".st-key-{key} .hovertext").first).to_be_visible()
    plot.click(position=position)  # type: ignore[arg-type]


def forced_in_address(page: Page) -> Any:
    found = parse_qs(urlsplit(page.url).query).get("explore_what_if")
    return json.loads(found[0]) if found else None


def test_a_slider_moves_the_heads_and_reset_brings_them_back(app: str, open_page: OpenPage) -> None:
    own = trace()
    page = open_page(link(app, "what-if"))
    settled(page, 3)
    shows(page, "explore_if_heads", says(own, 0))
    slider = page.locator(".st-key-explore_if_budget_1").get_by_role("slider")
    slider.focus()
    page.keyboard.press("End")
    everything = trace(budgets=(1.0, None))
    shows(page, "explore_if_heads", says(everything, 0))
    settled(page, 3)
    assert forced_in_address(page) == {"budgets": [1.0, None]}
    page.get_by_role("button", name="Reset").click()
    shows(page, "explore_if_heads", says(own, 0))
    expect(page.get_by_role("button", name="Reset")).to_be_disabled()


def test_a_click_keeps_a_head_out_and_a_second_one_lets_it_back(
    app: str, open_page: OpenPage
) -> None:
    own = trace()
    head, shape = own.layers[0].heads[0], (len(own.layers), len(own.layers[0].scores))
    page = open_page(link(app, "what-if"))
    settled(page, 3)
    without = trace(heads_out=((head,), ()))
    for expected in (without, own, without):
        click_cell(page, "explore_if_heads", 0, head, *shape)
        shows(page, "explore_if_heads", says(expected, 0))
        settled(page, 3)
    page.reload()
    settled(page, 3)
    shows(page, "explore_if_heads", says(without, 0))


def test_a_click_in_see_shows_the_heads_map(app: str, open_page: OpenPage) -> None:
    own = trace()
    n_heads = len(own.layers[0].scores)
    page = open_page(link(app, "see"))
    settled(page, 4)
    head = own.layers[1].heads[0]
    click_cell(page, "explore_heads", 1, head, len(own.layers), n_heads)
    shows(page, "explore_map", re.compile(f"^Layer 2, head {head + 1}\\."))
    settled(page, 4)
    head = own.layers[0].heads[0]
    click_cell(page, "explore_maps", 0, head, len(own.layers), n_heads)
    shows(page, "explore_map", re.compile(f"^Layer 1, head {head + 1}\\."))


def test_another_page_and_back_keeps_text_part_and_change(app: str, open_page: OpenPage) -> None:
    page = open_page(link(app, "what-if"))
    settled(page, 3)
    page.locator(".st-key-explore_if_budget_all").get_by_role("slider").focus()
    page.keyboard.press("End")
    everything = trace(budgets=(1.0, 1.0))
    shows(page, "explore_if_heads", says(everything, 1))
    page.get_by_role("link", name="Compare").click()
    expect(page.get_by_role("heading", name="Compare", level=1)).to_be_visible()
    page.get_by_role("link", name="Explore").click()
    shows(page, "explore_if_heads", says(everything, 1))
    expect(page.get_by_role("textbox", name="Your text")).to_have_value(TEXT)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("part", "charts"), [("see", 4), ("what-if", 3)])
def test_a_phone_shows_each_part_without_scrolling_sideways(
    app: str, open_page: OpenPage, theme: str, part: str, charts: int
) -> None:
    page = open_page(link(app, part), width=400, theme=theme)
    settled(page, charts)
    widths = page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
        ".map(e => e.scrollWidth)"
    )
    assert max(widths) <= 400
    ink = page.locator("h1").evaluate("e => getComputedStyle(e).color")
    fills = page.locator(".js-plotly-plot .infolayer text").evaluate_all(
        "texts => [...new Set(texts.map(e => getComputedStyle(e).fill))]"
    )
    assert fills == [ink]

"""What comes and goes on a page leaves the rest where it is."""

from __future__ import annotations

import re
from typing import cast

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage

# Counts headings whenever the page changes, and keeps the most that there were at once.
WATCH = """() => {
  window.most = {};
  const look = () => {
    const now = {};
    for (const heading of document.querySelectorAll("h1, h2, h3"))
      now[heading.textContent] = (now[heading.textContent] ?? 0) + 1;
    for (const [name, count] of Object.entries(now))
      window.most[name] = Math.max(window.most[name] ?? 0, count);
  };
  look();
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true });
}"""
# One is an example, with a hint on it; one is plain; one has notices of what was not read.
UNREAD = "A zyxwv story 漢字 " + "long " * 600
STEPS = ("A dull story, but the music is lovely.", UNREAD, "Loved it!")


def most_headings(page: Page) -> dict[str, int]:
    return cast(dict[str, int], page.evaluate("window.most"))


@pytest.mark.parametrize(
    ("address", "box", "last"),
    [
        ("explore", "Your text", "What the model read"),
        ("compare", "Text A", "Which words the answer hangs on"),
    ],
)
def test_nothing_is_shown_twice_when_notices_come_and_go(
    app: str, open_page: OpenPage, address: str, box: str, last: str
) -> None:
    page = open_page(f"{app}/{address}")
    expect(page.get_by_role("heading", name=last)).to_be_visible()
    expect(page.locator("[data-test-script-state=notRunning]")).to_be_attached()
    page.evaluate(WATCH)
    for text in STEPS:
        page.get_by_role("textbox", name=box).fill(text)
        page.get_by_role("textbox", name=box).press("Control+Enter")
        notice = page.get_by_text(re.compile("is longer than the model can read"))
        expect(notice).to_have_count(1 if text == UNREAD else 0)
        expect(page.locator("[data-test-script-state=running]")).to_have_count(0)
        expect(page.locator("[data-stale=true]")).to_have_count(0)
    found = most_headings(page)
    assert last in found
    assert found == dict.fromkeys(found, 1)

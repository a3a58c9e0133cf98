"""A real server, started as users start it, and a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.conftest import ROOT

SECONDS = 60  # for a slow machine; what is ready sooner is not waited for
expect.set_options(timeout=SECONDS * 1000)

OpenPage = Callable[..., Page]


@contextmanager
def running_app(log: Path) -> Iterator[str]:
    """Start a plain `streamlit run` on a free port; yield its address."""
    command = [Path(sys.executable).parent / "streamlit", "run", "streamlit_app.py"]
    options = ["--server.port=0", "--server.headless=true", "--server.address=127.0.0.1"]
    # Nothing of this process's import path may help the app to find its modules.
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    # What whoever runs the tests has trained and uploaded does not count, and is left alone.
    env |= {f"BUDGETFORMER_{name}": str(log.with_name(name)) for name in ("RUNS", "MODELS")}
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, *options], cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield _address(server, log)
    finally:
        server.terminate()
        server.wait()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the server has said where it listens, and answers there."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:[1-9]\d*", log.read_text()):
            try:
                opener.open(f"{found[0]}/_stcore/health", timeout=1).close()
                return found[0]
            except OSError:
                pass
        time.sleep(0.05)  # a poll of another process, not a guess at how long it takes
    raise AssertionError(f"the app did not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app, shared by the tests."""
    with running_app(tmp_path_factory.mktemp("app") / "log") as address:
        yield address


@pytest.fixture
def fresh_app(tmp_path: Path) -> Iterator[str]:
    """The address of an app that nobody has visited."""
    with running_app(tmp_path / "log") as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("BUDGETFORMER_BROWSER", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


FAILED = pytest.StashKey[bool]()


@pytest.fixture
def open_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    """Open an address in a new window; at the end, no script, dialog or error may have come of it.

    A failed test leaves a screenshot of each window in test-results/.
    """
    pages: list[Page] = []
    faults: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        # Streamlit looks for its server below the page's path first, and the browser logs the miss.
        if message.type == "error" and "/_stcore/" not in message.location["url"]:
            faults.append(message.text)

    def open_(url: str, width: int = 1280, theme: str = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if theme == "dark" else "light",
        )
        page = context.new_page()
        page.set_default_timeout(SECONDS * 1000)
        pages.append(page)
        page.on("console", on_console)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        page.on("request", lambda r: faults.append(r.url) if _is_outside(r.url) else None)
        page.goto(url)
        return page

    yield open_
    if request.node.stash.get(FAILED, False):
        folder = ROOT / "test-results"
        folder.mkdir(exist_ok=True)
        for i, page in enumerate(pages):
            name = re.sub(r"\W+", "-", request.node.name)
            page.screenshot(path=folder / f"{name}-{i}.png", full_page=True)
    for page in pages:
        page.context.close()
    assert faults == []


def _is_outside(url: str) -> bool:
    """True if a request leaves this machine: the app must work without a network."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1"

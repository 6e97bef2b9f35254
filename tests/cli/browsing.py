"""A real browser that shows the dashboard, and what every page of it must fulfil.

Pictures are kept in the folder `screenshots`, beside the tests' caches.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, Route, ViewportSize, expect, sync_playwright

REQUIRED = "AIOLEAD_REQUIRE_CHROMIUM"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
WITHIN = 120_000
"""How long anything may take on a machine that has other things to do, in milliseconds."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PHONE: ViewportSize = {"width": 360, "height": 740}
WALL: ViewportSize = {"width": 1920, "height": 1080}

expect.set_options(timeout=WITHIN)


@contextmanager
def chromium() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED}=1, but there is none of {', '.join(NAMES)}", pytrace=False)
        pytest.skip("needs Chromium")
    with sync_playwright() as playwright:
        # Its sandbox works neither for root nor in most containers.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def row_of(page: Page, path: str) -> Locator:
    """The row of a path in the table."""
    return page.locator("#rows > .row").filter(has=page.get_by_text(path, exact=True))


def open_path(page: Page, path: str) -> Locator:
    """Its details, opened."""
    row_of(page, path).get_by_role("link").click()
    expect(page.locator("#detail-path")).to_have_text(path)
    return page.locator("#detail")


def check_access(page: Page, name: str) -> None:
    """Checks the rules of accessibility, and keeps a picture."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
    found = Axe().run(page, options={"runOnly": RULES})
    assert found.violations_count == 0, found.generate_report()
    passed = {rule["id"] for rule in found.response["passes"]}
    assert {"color-contrast", "landmark-one-main", "page-has-heading-one"} <= passed
    # The fields of the table, or the field of the timeline.
    assert passed & {"label", "select-name"}


def check_size(page: Page) -> None:
    # Only tables, which scroll, are wider than the screen.
    fits = "() => document.documentElement.scrollWidth <= window.innerWidth"
    assert page.evaluate(fits)
    small = (
        "() => [...document.querySelectorAll('button, input:not([type=checkbox]), select')]"
        ".filter(e => e.checkVisibility()).map(e => e.offsetHeight)"
    )
    assert min(page.evaluate(small)) >= 24
    # No number or note is cut.
    assert page.evaluate(CUT) == []


CUT = """() => [...document.querySelectorAll(".overview dl > div, #rows .c-token")]
  .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth).map((e) => e.textContent)"""


LOOK = """(element) => {
  const style = getComputedStyle(element);
  return [element.querySelector(".sign").textContent, style.color, style.borderStyle,
    style.backgroundColor].join();
}"""


def looks(elements: Iterable[Locator]) -> set[str]:
    return {one.evaluate(LOOK) for one in elements}


def check_views(page: Page, name: str) -> None:
    """As `check_access`, light and dark, on a desktop's screen and on a phone's."""
    for look in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if look == "dark" else "light")
        for width, height in ((390, 800), (1280, 800)):
            page.set_viewport_size({"width": width, "height": height})
            check_access(page, f"{name}-{look}-{width}")
            check_size(page)


OVERVIEW = ("paths", "problems", "elections", "leaders", "contenders", "sessions")


def snapshot(queues: list[dict[str, Any]], count: int, **more: Any) -> dict[str, Any]:
    """A state of the server, with the same count everywhere in the overview."""
    return {
        "now": 100.0,
        "session": {"state": "connected", "id": "0x1", "is_current": True, "as_of": None},
        "overview": {**dict.fromkeys(OVERVIEW, count), "more_paths": 0, "silent": 0},
        "servers": None,
        "unreadable": {"paths": [], "more": 0},
        "queues": queues,
        "events": [],
        "gone": [],
        **more,
    }


def send(route: Route, retry: int, *events: tuple[str, dict[str, Any]]) -> None:
    """Answers a request for events in place of the server."""
    lines = [f"event: {name}\ndata: {json.dumps(news)}\n\n" for name, news in events]
    body = "".join([f"retry: {retry}\n\n", *lines])
    route.fulfill(content_type="text/event-stream", body=body)

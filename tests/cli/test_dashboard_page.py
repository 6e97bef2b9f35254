"""The dashboard's page in a real browser: what it shows, whoever looks and however.

Pictures of it are kept in the folder `screenshots`, beside the tests' caches.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright
from support.raw_client import RawClient
from support.serving import EPHEMERAL_SEQUENTIAL, Served, served

from aiolead import ACL
from aiolead.model import Permission

REQUIRED = "AIOLEAD_REQUIRE_CHROMIUM"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
WITHIN = 15_000
"""How long anything may take on a machine that has other things to do, in milliseconds."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PHONE = {"width": 360, "height": 740}
EVIL = "<img src=x onerror=document.title='owned'>"
EVIL_PATH = "/<b onclick=alert(1)>x"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{REQUIRED}=1, but there is none of {', '.join(NAMES)}", pytrace=False)
        pytest.skip("needs Chromium")
    with sync_playwright() as playwright:
        # Its own sandbox is not to be had for root, nor in most containers.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def dashboard() -> Iterator[Served]:
    with served("/", "--listen", "127.0.0.1:0") as one:
        with RawClient(one.zookeeper.connect_string) as setting:
            for path in ("/jobs", "/jobs/nightly", "/locks", "/locks/invoices", EVIL_PATH):
                setting.create(path)
        yield one


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(color_scheme="light", reduced_motion="reduce")
    context.set_default_timeout(WITHIN)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, dashboard: Served) -> Iterator[Page]:
    """The page, live. Nothing that it should not do may happen on it: it is told at the end."""
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type != "log" else None)
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    strangers: list[str] = []
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(dashboard.url) else strangers.append(asked.url),
    )
    page.goto(dashboard.url)
    expect(page.get_by_role("status")).to_have_text("Live.", timeout=WITHIN)
    yield page
    assert wrong == []
    assert strangers == []


class Contender:
    """Somebody in a line."""

    def __init__(self, dashboard: Served, line: str, name: str, mark: str = "latch-") -> None:
        self._client = RawClient(dashboard.zookeeper.connect_string)
        self._path = self._client.create(
            f"{line}/_c_x-{mark}", name.encode(), flags=EPHEMERAL_SEQUENTIAL
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.__exit__(None, None, None)

    def leave(self) -> None:
        self._client.delete(self._path)


def line_of(page: Page, path: str) -> Locator:
    return page.get_by_role("article", name=path, exact=True)


def check_access(page: Page, name: str) -> None:
    """Everybody can use it: by the rules that a program can check. Keeps a picture."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
    found = Axe().run(page, options={"runOnly": RULES})
    assert found.violations_count == 0, found.generate_report()
    passed = {rule["id"] for rule in found.response["passes"]}
    assert {"color-contrast", "label", "landmark-one-main", "page-has-heading-one"} <= passed


def test_leaders_change_and_the_page_says_so(page: Page, dashboard: Served) -> None:
    line = line_of(page, "/jobs/nightly")
    with Contender(dashboard, "/jobs/nightly", "anna") as anna:
        expect(line.locator(".holders li")).to_contain_text("anna leads", timeout=WITHIN)
        expect(line.locator(".vacant")).to_be_hidden()
        with Contender(dashboard, "/jobs/nightly", "ben") as ben:
            expect(line.locator(".waiting li")).to_contain_text("ben", timeout=WITHIN)
            expect(line).to_contain_text("1 contender in line")
            anna.leave()
            expect(line.locator(".holders li")).to_contain_text("ben leads", timeout=WITHIN)
            expect(page.locator("#news")).to_contain_text("/jobs/nightly: ben leads")
            happenings = page.locator("#happenings li")
            expect(happenings.first).to_contain_text("/jobs/nightly: ben leads (token ")
            check_timeline(page, line)
            ben.leave()
            expect(line.locator(".vacant")).to_contain_text("Nobody has led for")
            expect(happenings.first).to_contain_text("ben is gone: nobody leads")


BOXES = """(line) => [...line.querySelectorAll(".timeline .term"), line.querySelector(".timeline")]
  .map((element) => element.getBoundingClientRect().toJSON())"""


def check_timeline(page: Page, line: Locator) -> None:
    """The bars say the same as the state: who, when, and in which order."""
    state = page.evaluate("async () => (await fetch('state')).json()")
    (known,) = (one for one in state["lines"] if one["path"] == "/jobs/nightly")
    terms = known["terms"]
    assert [term["name"] for term in terms] == ["anna", "ben"]
    page.get_by_label("Timeline").select_option("60")
    expect(line.get_by_role("img")).to_have_attribute(
        "aria-label",
        "The last 1 min: 2 terms, no gap with nobody. The table of terms has the same.",
    )
    bars = line.locator(".timeline .term")
    expect(bars).to_have_text(["anna", "ben"])
    first, second, whole = line.evaluate(BOXES)  # at one moment: they move
    # A pixel or two of border and of rounding.
    assert first["right"] == pytest.approx(second["left"], abs=3)
    assert second["right"] == pytest.approx(whole["right"], abs=3)
    assert first["top"] == second["top"]
    lasted = terms[0]["ended"] - terms[0]["began"]
    assert first["width"] == pytest.approx(max(2, lasted / 60 * whole["width"]), abs=3)
    line.get_by_text("Terms (2)").click()
    rows = line.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("goes on")
    expect(rows.nth(1)).to_contain_text("anna")
    for n, term in enumerate(reversed(terms)):
        expect(rows.nth(n).locator("td").last).to_have_text(term["token"])


LAY_OUT = """async (terms) => {
  const { layOut } = await import("./timeline.js");
  return [layOut(terms, 50, 250, null), layOut(terms.slice(0, 2), 50, 250, 200)];
}"""


def test_what_the_timeline_is_made_of(page: Page) -> None:
    def term(name: str, began: int, ended: int | None, gap: int | None = None) -> dict[str, object]:
        times = {"not_before": began, "began": began, "ended": ended}
        return {"key": name, "name": name, "gap": gap, **times}

    terms = [
        term("long ago", 0, 40),
        term("anna", 40, 100, 0),
        term("ben", 110, 150, 10),
        term("carl", 120, None),
    ]
    whole, vacant = page.evaluate(LAY_OUT, terms)

    def drawn(bars: list[dict[str, Any]]) -> list[tuple[str, float, float, int]]:
        return [
            (
                bar["term"]["name"] if "term" in bar else "gap",
                bar["left"],
                bar["width"],
                bar["lane"],
            )
            for bar in bars
        ]

    assert whole["lanes"] == 2  # for two who hold at the same time
    assert drawn(whole["bars"]) == [
        ("anna", 0, 25, 0),
        ("gap", 25, 5, 0),
        ("ben", 30, 20, 0),
        ("carl", 35, 65, 1),
    ]
    assert drawn(vacant["bars"]) == [("anna", 0, 25, 0), ("gap", 75, 25, 0)]


def test_a_gap_is_seen(page: Page, dashboard: Served) -> None:
    line = line_of(page, "/locks/invoices")
    with Contender(dashboard, "/locks/invoices", "anna", "lock-"):
        expect(line.locator(".holders li")).to_contain_text("anna holds", timeout=WITHIN)
    expect(line.locator(".vacant")).to_contain_text("Nobody has held it for", timeout=WITHIN)
    with Contender(dashboard, "/locks/invoices", "ben", "lock-"):
        expect(line.locator(".holders li")).to_contain_text("ben holds", timeout=WITHIN)
        expect(line.locator(".timeline .gap")).to_have_count(1)
        label = re.compile(r"2 terms, 1 gap with nobody, the longest of \d")
        expect(line.get_by_role("img")).to_have_attribute("aria-label", label)


def test_what_comes_from_znodes_is_text(page: Page, dashboard: Served) -> None:
    with (
        Contender(dashboard, EVIL_PATH, EVIL),
        Contender(dashboard, EVIL_PATH, "</bdi><b onclick=alert(1)><script>alert(1)</script>"),
    ):
        line = line_of(page, EVIL_PATH)
        expect(line.locator(".holders bdi")).to_have_text(EVIL, timeout=WITHIN)
        expect(line.locator(".waiting bdi")).to_contain_text("</bdi><b onclick=")
        expect(line.locator("h3")).to_have_text(EVIL_PATH)
        assert page.locator("main :is(img, b, script, iframe)").count() == 0
        expect(page.locator("#happenings")).to_contain_text("<script>alert(1)</script> waits")
    expect(page.locator("#happenings")).to_contain_text(f"{EVIL} is gone", timeout=WITHIN)
    assert page.title() == "aiolead"


def test_what_may_not_be_read_is_said(page: Page, dashboard: Served) -> None:
    box = page.locator("#unreadable")
    expect(box).to_be_hidden()
    with RawClient(dashboard.zookeeper.connect_string) as raw:
        raw.create(f"/{EVIL}", acl=(ACL.world(Permission.DELETE),))
        closed = page.get_by_role("list", name="may not read these znodes")
        expect(closed.get_by_role("listitem")).to_have_text([f"/{EVIL}"], timeout=WITHIN)
        check_access(page, "unreadable")
        raw.delete(f"/{EVIL}")
        expect(box).to_be_hidden(timeout=WITHIN)


def test_the_keyboard_is_enough(page: Page, dashboard: Served) -> None:
    with Contender(dashboard, "/jobs/nightly", "anna"):
        line = line_of(page, "/jobs/nightly")
        expect(line.locator(".holders li")).to_contain_text("anna leads", timeout=WITHIN)

        def focused() -> str:
            return page.evaluate(
                "() => { const e = document.activeElement;"
                " return e.id || e.getAttribute('href') || e.tagName.toLowerCase() }"
            )

        reached = []
        for _ in range(6):
            page.keyboard.press("Tab")
            reached.append(focused())
        assert reached[:4] == ["#lines", "pause", "filter", "span"]
        # What has the focus keeps it, whatever happens meanwhile.
        page.locator("#filter").focus()
        page.keyboard.type("nightly")
        expect(page.get_by_role("article")).to_have_count(1)
        expect(page.locator("#lines-note")).to_contain_text("left out.")
        summary = line.locator("summary")
        summary.focus()
        page.keyboard.press("Enter")
        expect(line.locator("table")).to_be_visible()
        with Contender(dashboard, "/jobs/nightly", "ben"):
            expect(line.locator(".waiting li")).to_contain_text("ben", timeout=WITHIN)
            assert focused() == "summary"
        # Whoever is in the midst of reading can have it stand still.
        page.locator("#pause").focus()
        page.keyboard.press("Space")
        expect(page.get_by_role("status")).to_have_text("Paused.")
        told = page.locator("#happenings li").count()
        with Contender(dashboard, "/jobs/nightly", "carl"):
            newest = "async () => (await (await fetch('state')).json()).happenings[0].text"
            page.wait_for_function(f"() => ({newest})().then((text) => text.includes('carl'))")
        assert page.locator("#happenings li").count() == told
        page.keyboard.press("Space")
        expect(page.locator("#happenings li")).not_to_have_count(told)


@pytest.mark.parametrize("look", ["dark", "phone"])
def test_everybody_can_use_it(page: Page, dashboard: Served, look: str) -> None:
    if look == "phone":
        page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme="dark" if look == "dark" else "light")
    line = line_of(page, "/jobs/nightly")
    with (
        Contender(dashboard, "/jobs/nightly", "anna") as anna,
        Contender(dashboard, "/jobs/nightly", "host-with-a-long-name.department.example:123456"),
        Contender(dashboard, "/jobs/nightly", "carl"),
    ):
        expect(line.locator(".waiting li")).to_have_count(2, timeout=WITHIN)
        anna.leave()
        expect(line.locator(".waiting li")).to_have_count(1, timeout=WITHIN)
        expect(page.locator("#servers tbody tr")).to_have_count(1, timeout=WITHIN)
        line.locator("summary").click()
        check_access(page, look)
        # Nothing is wider than the screen, but for tables, which scroll.
        fits = "() => document.documentElement.scrollWidth <= window.innerWidth"
        assert page.evaluate(fits)
        small = (
            "() => [...document.querySelectorAll('button, input, select')].map(e => e.offsetHeight)"
        )
        assert min(page.evaluate(small)) >= 24


def test_a_page_that_is_not_live_says_so(context: BrowserContext) -> None:
    with served("/jobs", "--listen", "127.0.0.1:0") as one:
        page = context.new_page()
        page.goto(one.url)
        status = page.get_by_role("status")
        expect(status).to_have_text("Live.", timeout=WITHIN)
        expect(page.locator("#lines-note")).to_be_empty()
        one.command.process.kill()
        expect(status).to_contain_text("Not live: the command does not answer", timeout=WITHIN)
        check_access(page, "lost")
        # If a line of the page ever made markup of a text, the browser would refuse.
        refused = "() => { try { document.body.innerHTML += '<b>x' } catch (e) { return e.name } }"
        assert page.evaluate(refused) == "TypeError"


def test_the_token_lets_a_browser_in_and_leaves_its_history(context: BrowserContext) -> None:
    with served("--listen", "0.0.0.0:0") as one:
        page = context.new_page()
        token = one.url.split("?token=")[1]
        bare = f"http://127.0.0.1:{one.port}/"
        page.goto(bare)
        check_door(page)
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("Live.", timeout=WITHIN)
        assert page.url == bare


def check_door(page: Page) -> None:
    expect(page.get_by_role("heading")).to_have_text("aiolead")
    assert Axe().run(page, options={"runOnly": RULES}).violations_count == 0

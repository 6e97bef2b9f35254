"""The dashboard's page in a real browser, with the state of servers."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from cli.browsing import (
    PHONE,
    RULES,
    SCREENSHOTS,
    WALL,
    check_access,
    check_size,
    check_views,
    looks,
    open_path,
    row_of,
)
from cli.serving import EPHEMERAL_SEQUENTIAL, Served, served
from kit.cli import Command
from kit.raw_client import RawClient
from playwright.sync_api import BrowserContext, Locator, Page, expect

from aiolead import ACL
from aiolead._recipes.attempts import encode_letter
from aiolead._util.token_bucket import Numbers, Write
from aiolead.model import Permission
from aiolead.testing import BlockingEnsemble, FaultProxy
from aiolead.types import DeadLetter

EVIL = "<img src=x onerror=document.title='owned'>"
EVIL_PATH = "/<b onclick=alert(1)>x"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def dashboard() -> Iterator[Served]:
    with served("/", "--listen", "127.0.0.1:0") as one:
        with RawClient(one.zookeeper.connect_string) as setting:
            for path in ("/jobs", "/jobs/nightly", "/locks", "/locks/invoices", EVIL_PATH):
                setting.create(path)
        yield one


@pytest.fixture
def page(context: BrowserContext, dashboard: Served) -> Iterator[Page]:
    """The live page. It must show no error or dialog, and ask no other server."""
    page = context.new_page()
    wrong: list[str] = []

    def note(text: str, *, unless: bool = False) -> None:
        if not unless:
            wrong.append(text)

    page.on("pageerror", lambda error: note(str(error)))
    page.on("console", lambda said: note(said.text, unless=said.type == "log"))
    page.on("dialog", lambda dialog: note(dialog.message))
    page.on("request", lambda asked: note(asked.url, unless=asked.url.startswith(dashboard.url)))
    page.goto(dashboard.url)
    expect(page.get_by_role("status")).to_have_text("Live")
    yield page
    assert wrong == []


@contextmanager
def contender(
    dashboard: Served, queue: str, name: str, mark: str = "latch-"
) -> Iterator[Callable[[], None]]:
    """A contender in a queue; calling it deletes its znode."""
    with RawClient(dashboard.zookeeper.connect_string) as client:
        node = f"{queue}/_c_x-{mark}"
        path = client.create(node, name.encode(), flags=EPHEMERAL_SEQUENTIAL)
        yield lambda: client.delete(path)


def test_change_of_leader_is_shown(page: Page, dashboard: Served) -> None:
    row = row_of(page, "/jobs/nightly")
    with contender(dashboard, "/jobs/nightly", "anna") as anna:
        expect(row.locator(".c-holder")).to_have_text("anna")
        expect(row.locator(".c-state")).to_contain_text("held")
        expect(row.locator(".c-type")).to_have_text("election")
        with contender(dashboard, "/jobs/nightly", "ben") as ben:
            expect(row.locator(".c-contenders")).to_have_text("2")
            anna()
            expect(row.locator(".c-holder")).to_have_text("ben")
            expect(page.locator("#news")).to_contain_text("/jobs/nightly: ben leads")
            events = page.locator("#events li")
            expect(events.first).to_contain_text("/jobs/nightly ben leads (token ")
            expect(row.locator(".c-handovers span")).to_have_text("2")
            expect(row.locator(".c-handovers path")).to_have_attribute("d", re.compile("^M"))
            check_timeline(page, dashboard)
            ben()
            expect(page.locator("#nobody")).to_contain_text("Nobody leads, for")
            page.keyboard.press("Escape")
            expect(row.locator(".c-state")).to_contain_text("no leader")
            expect(row.locator(".c-holder")).to_have_text("nobody")
            expect(events.first).to_contain_text("ben is gone: nobody leads")
            expect(page.locator("#tile-problems dd").first).to_have_text("1")


BOXES = """(detail) => [...detail.querySelectorAll("#track .term"), detail.querySelector("#track")]
  .map((element) => element.getBoundingClientRect().toJSON())"""


def check_timeline(page: Page, dashboard: Served) -> None:
    """The bars of the timeline show the same terms as the state."""
    detail = open_path(page, "/jobs/nightly")
    expect(page.locator("#holders > li")).to_contain_text("ben leads, for ")
    facts = page.locator("#holders .facts")
    expect(facts).to_contain_text(re.compile(r"session 0x[0-9a-f]+"))
    expect(facts).to_contain_text(re.compile(r"address 127\.0\.0\.1"))
    expect(facts).to_contain_text("znode /jobs/nightly/_c_x-latch-")
    expect(page.locator("#series-title")).to_contain_text(
        "Last hour: 2 hand-overs (bars), at most 1"
    )
    check_copy(page)
    expect(page.locator("#waiting-title")).to_have_text("Nobody is waiting")
    key = page.evaluate("location.hash.slice(2)")
    known = page.evaluate("async (key) => (await fetch(`queue?key=${key}`)).json()", key)
    terms = known["terms"]
    assert [term["name"] for term in terms] == ["anna", "ben"]
    page.locator("#span").select_option("60")
    expect(page.locator("#timeline")).to_have_attribute(
        "aria-label",
        "Timeline. The last 1 min: 2 terms, no gap with nobody. The table of terms has the same.",
    )
    bars = detail.locator("#track .term")
    expect(bars).to_have_text(["anna", "ben"])
    first, second, whole = detail.evaluate(BOXES)
    # Borders and rounding take a pixel or two.
    assert first["right"] == pytest.approx(second["left"], abs=3)
    assert second["right"] == pytest.approx(whole["right"], abs=3)
    assert first["top"] == second["top"]
    lasted = terms[0]["ended"] - terms[0]["began"]
    assert first["width"] == pytest.approx(max(2, lasted / 60 * whole["width"]), abs=3)
    rows = detail.locator("#terms tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("goes on")
    expect(rows.nth(1)).to_contain_text("anna")
    for n, term in enumerate(reversed(terms)):
        expect(rows.nth(n).locator("td").last).to_have_text(term["token"])


def check_copy(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the command aiolead revoke /jobs/nightly").click()
    read = "() => navigator.clipboard.readText()"
    page.wait_for_function(f"async () => (await ({read})()) === 'aiolead revoke /jobs/nightly'")


def test_timeline_is_zoomed_and_shows_exact_times(page: Page, dashboard: Served) -> None:
    with contender(dashboard, "/jobs/nightly", "anna"):
        expect(row_of(page, "/jobs/nightly").locator(".c-holder")).to_have_text("anna")
        open_path(page, "/jobs/nightly")
        expect(page.locator("#track .term").last).to_have_text("anna")
        label = page.locator("#timeline")
        page.locator("#span").select_option("60")
        page.wait_for_function(f"() => ({BOXES})(document.body).at(-2).width > 5")
        box = page.locator("#track").bounding_box()
        assert box is not None
        y = box["y"] + 5
        tip = page.locator("#tip")
        page.mouse.move(box["x"] + box["width"] - 2, y)
        expect(tip).to_contain_text(re.compile(r"^\d\d:\d\d:\d\d\.\d{3}"))
        expect(tip).to_contain_text("goes on")
        expect(tip).to_contain_text("anna")
        page.locator("#span").select_option("300")
        page.mouse.move(box["x"] + box["width"] - 2, y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, y, steps=3)
        expect(page.locator("#selection")).to_be_visible()
        page.mouse.up()
        expect(page.locator("#selection")).to_be_hidden()
        # Half of the five minutes. The timeline does not move any more.
        expect(label).to_have_attribute(
            "aria-label", re.compile(r"^Timeline\. 2 min (2|3)\d s from")
        )
        still = label.get_attribute("aria-label")
        page.locator("#timeline").focus()
        page.keyboard.press("+")
        expect(label).to_have_attribute("aria-label", re.compile(r"^Timeline\. 1 min 1\d s from"))
        page.keyboard.press("-")
        expect(label).to_have_attribute(
            "aria-label", re.compile(r"^Timeline\. 2 min (2|3)\d s from")
        )
        page.keyboard.press("ArrowLeft")
        assert label.get_attribute("aria-label") != still
        page.get_by_role("button", name="Up to now").click()
        expect(label).to_have_attribute("aria-label", re.compile(r"^Timeline\. The last 5 min:"))
        page.mouse.move(0, 0)
        expect(tip).to_be_hidden()


LAY_OUT = """async (terms) => {
  const { layOut } = await import("./timeline.js");
  return [layOut(terms, 50, 250, null), layOut(terms.slice(0, 2), 50, 250, 200)];
}"""


def term(began: int, ended: int | None, name: str = "", gap: int | None = None) -> dict[str, Any]:
    times = {"not_before": began, "began": began, "ended": ended}
    return {"key": name, "name": name, "gap": gap, **times}


def test_bars_are_laid_out(page: Page) -> None:
    terms = [
        term(0, 40, "long ago"),
        term(40, 100, "anna", 0),
        term(110, 150, "ben", 10),
        term(120, None, "carl"),
    ]
    whole, vacant = page.evaluate(LAY_OUT, terms)

    def drawn(bars: list[dict[str, Any]]) -> list[tuple[str, float, float, int]]:
        names = (bar["term"]["name"] if "term" in bar else "gap" for bar in bars)
        return [
            (name, bar["left"], bar["width"], bar["lane"])
            for name, bar in zip(names, bars, strict=True)
        ]

    assert whole["lanes"] == 2  # for two that hold at the same time
    assert drawn(whole["bars"]) == [
        ("anna", 0, 25, 0),
        ("gap", 25, 5, 0),
        ("ben", 30, 20, 0),
        ("carl", 35, 65, 1),
    ]
    assert drawn(vacant["bars"]) == [("anna", 0, 25, 0), ("gap", 75, 25, 0)]


OVERLAPS = """async (terms) => {
  const { overlaps } = await import("./timeline.js");
  return [1, 2].map((most) => overlaps(terms, 50, 250, most));
}"""


def test_overlapping_terms_are_marked(page: Page) -> None:
    terms = [term(0, 60), term(60, 110), term(100, 200), term(105, None)]
    one, two = page.evaluate(OVERLAPS, terms)
    # A term that begins as another one ends is no overlap.
    assert [(each["begin"], each["end"], each["count"]) for each in one] == [(100, 200, 3)]
    assert [(each["begin"], each["end"], each["count"]) for each in two] == [(105, 110, 3)]
    assert (one[0]["left"], one[0]["width"]) == (25, 50)


def test_gap_between_terms_is_shown(page: Page, dashboard: Served) -> None:
    row = row_of(page, "/locks/invoices")
    with contender(dashboard, "/locks/invoices", "anna", "lock-"):
        expect(row.locator(".c-holder")).to_have_text("anna")
    expect(row.locator(".c-state")).to_contain_text("free")
    with contender(dashboard, "/locks/invoices", "ben", "lock-"):
        expect(row.locator(".c-holder")).to_have_text("ben")
        open_path(page, "/locks/invoices")
        expect(page.locator("#track .gap")).to_have_count(1)
        label = re.compile(r"2 terms, 1 gap with nobody, the longest of \d")
        expect(page.locator("#timeline")).to_have_attribute("aria-label", label)
    expect(page.locator("#nobody")).to_contain_text("Nobody holds it, for")


def test_data_of_znodes_is_shown_as_text(page: Page, dashboard: Served) -> None:
    with (
        contender(dashboard, EVIL_PATH, EVIL),
        contender(dashboard, EVIL_PATH, "</bdi><b onclick=alert(1)><script>alert(1)</script>"),
    ):
        row = row_of(page, EVIL_PATH)
        expect(row.locator(".c-holder bdi")).to_have_text(EVIL)
        expect(row.locator(".c-path bdi")).to_have_text(EVIL_PATH)
        open_path(page, EVIL_PATH)
        expect(page.locator("#holders bdi")).to_have_text(EVIL)
        expect(page.locator("#contenders-list bdi")).to_contain_text("</bdi><b onclick=")
        expect(page.locator("#track .term")).to_have_text(EVIL)
        assert page.locator("main :is(img, b, script, iframe)").count() == 0
        expect(page.locator("#detail-events")).to_contain_text("<script>alert(1)</script> waits")
    expect(page.locator("#detail-events")).to_contain_text(f"{EVIL} is gone")
    assert page.title() == "aiolead"
    assert page.locator("main :is(img, b, script, iframe)").count() == 0


HOSTILE = {
    "/long": "/" + "n" * 1000,
    "/mirrored": "/\\u202emoc.elpmaxe",
    "/script": "/<script>document.title='owned'<b>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_leave_the_page_usable(page: Page, dashboard: Served, name: str) -> None:
    shown = HOSTILE[name]
    path = shown.replace("\\u202e", "\u202e")
    data = "\u202e\x1b[2J<script>\r\n\0".encode() * 100
    with RawClient(dashboard.zookeeper.connect_string) as raw:
        raw.create(path)
        znodes = [
            raw.create(f"{path}/_c_x-latch-", data, flags=EPHEMERAL_SEQUENTIAL) for _ in range(50)
        ]
        page.get_by_label("Search").fill(shown[:20])
        page.locator("#rows > .row").filter(has=page.get_by_title(shown[:190])).locator("a").click()
        expect(page.locator("#detail-path")).to_have_text(shown)
        expect(page.locator("#contenders-list li")).to_have_count(49)
        expect(page.locator("#holders bdi").first).to_contain_text("\\u202e\\x1b[2J<script>\\r\\n")
        assert page.locator("main script").count() == 0
        for size in (PHONE, WALL):
            page.set_viewport_size(size)
            check_size(page)
        page.keyboard.press("Escape")
        check_size(page)
        expect(page).to_have_title("aiolead")
        for znode in (*znodes, path):
            raw.delete(znode)


def test_unreadable_path_is_shown(page: Page, dashboard: Served) -> None:
    row = row_of(page, f"/{EVIL}")
    expect(row).to_have_count(0)
    with RawClient(dashboard.zookeeper.connect_string) as raw:
        raw.create(f"/{EVIL}", acl=(ACL.world(Permission.DELETE),))
        expect(row.locator(".c-state")).to_contain_text("unreadable")
        expect(row.locator(".c-holder")).to_have_text("")
        check_access(page, "unreadable")
        raw.delete(f"/{EVIL}")
        expect(row).to_have_count(0)


def test_recipe_without_contenders_has_members_and_no_terms(page: Page, dashboard: Served) -> None:
    with (
        RawClient(dashboard.zookeeper.connect_string) as setting,
        RawClient(dashboard.zookeeper.connect_string) as raw,
    ):
        setting.create("/mail")
        item = setting.create("/mail/queue-", b"item", flags=2)
        setting.create("/workers")
        for name in ("web-1", "web-2"):
            raw.create(f"/workers/{name}", flags=1)
        holder = row_of(page, "/workers").locator(".c-holder")
        expect(holder).to_have_text("2 members: web-1, web-2")
        page.get_by_label("Search").fill("web-2")
        expect(row_of(page, "/workers")).to_be_visible()
        expect(row_of(page, "/mail")).to_have_count(0)
        page.get_by_label("Search").fill("")
        open_path(page, "/workers")
        expect(page.locator("#waiting-title")).to_have_text("2 members")
        members = page.locator("#contenders-list li")
        expect(members).to_have_text([re.compile("^web-1"), re.compile("^web-2")])
        expect(members.first).to_contain_text(re.compile(r"0x[0-9a-f]+ · 127\.0\.0\.1"))
        expect(page.locator("#commands")).to_contain_text("aiolead tree /workers")
        expect(page.locator("#series-title")).to_contain_text("members, now 2")
        for hidden in ("#timeline", "#terms-title", "#nobody", "#detail-events-title"):
            expect(page.locator(hidden)).not_to_be_visible()
        check_size(page)
        page.screenshot(path=SCREENSHOTS / "members.png")
        raw.delete("/workers/web-1")
        expect(members).to_have_text([re.compile("^web-2")])
        page.keyboard.press("Escape")
        open_path(page, "/mail")
        expect(page.locator("#detail-type")).to_have_text("queue · 1 item, 0 claimed")
        expect(page.locator("#contenders-list li")).to_have_count(0)
        expect(page.locator("#things-title")).to_contain_text("1 item, the oldest for")
        expect(page.locator("#things td").first).to_have_text("queue-0000000000")
        page.screenshot(path=SCREENSHOTS / "queue-path.png")
        assert Axe().run(page, options={"runOnly": RULES}).violations_count == 0
        check_size(page)
        page.keyboard.press("Escape")
        raw.delete("/workers/web-2")
        for path in (item, "/mail", "/workers"):
            setting.delete(path)
        expect(row_of(page, "/mail")).to_have_count(0)


RUNS = {
    "/keys": [("/2026-11-20", b"__DONE__host-1:3", 0), ("/2026-11-21", EVIL.encode(), 1)],
    "/limit": [("", Write(Numbers(100, 60, 20), take=18, least=18).encode(), 0)],
    "/dead": [("/queue-", encode_letter([b"x"], DeadLetter("/mail/queue-7", 3, EVIL)), 2)],
    "/ranked": [
        ("/0123456789abcdef-1-priority9-latch-", b"__REVOKE__anna", 3),
        ("/0123456789abcdef-2-priority4-latch-", b"__UNREADY__ben", 3),
    ],
}


@pytest.mark.parametrize(
    ("path", "kind", "shown"),
    [
        (
            "/keys",
            "once · 1 running, 1 done: ",
            ["2026-11-21", "running", EVIL, "0x", "2026-11-20", "done", "host-1:3"],
        ),
        ("/limit", "rate limit · 100 in 60 s, at most 20 at once", ["20 of 20", "18"]),
        ("/dead", "queue · 1 item", [f"/mail/queue-7, after 3 attempts: {EVIL}"]),
        ("/ranked", "election", []),
    ],
)
def test_each_recipe_has_a_page(
    page: Page, dashboard: Served, path: str, kind: str, shown: list[str]
) -> None:
    with RawClient(dashboard.zookeeper.connect_string) as raw:
        if RUNS[path][0][0]:
            raw.create(path)
        znodes = [raw.create(f"{path}{name}", data, flags=f) for name, data, f in RUNS[path]]
        open_path(page, path)
        expect(page.locator("#detail-type")).to_contain_text(kind)
        for text in shown:
            expect(page.locator(".things table")).to_contain_text(text)
        if path == "/ranked":
            expect(page.locator("#holders")).to_contain_text("priority 9 · asked to resign")
            expect(page.locator("#contenders-list")).to_contain_text("priority 4 · not ready")
            expect(page.locator("#detail-events")).to_contain_text("ben waits")
        assert Axe().run(page, options={"runOnly": RULES}).violations_count == 0
        check_size(page)
        page.set_viewport_size(PHONE)
        check_size(page)
        for znode in dict.fromkeys([*znodes, path]):
            raw.delete(znode)
    page.keyboard.press("Escape")
    expect(row_of(page, path).locator(".is-in-use")).to_have_count(0)


def focused(page: Page) -> str:
    found: str = page.evaluate(
        "() => { const e = document.activeElement;"
        " return e.id || e.getAttribute('href') || e.tagName.toLowerCase() }"
    )
    return found


def test_page_is_usable_by_keyboard(page: Page, dashboard: Served) -> None:
    with (
        contender(dashboard, "/jobs/nightly", "anna"),
        contender(dashboard, "/locks/invoices", "zoe", "lock-"),
    ):
        row = row_of(page, "/jobs/nightly")
        expect(row.locator(".c-holder")).to_have_text("anna")
        expect(row_of(page, "/locks/invoices").locator(".c-holder")).to_have_text("zoe")
        reached = []
        for _ in range(8):
            page.keyboard.press("Tab")
            reached.append(focused(page))
        assert reached == [
            *("#filter", "pause", "theme", "help-open", "filter", "type", "state", "scroller")
        ]
        page.locator("h1").click()
        page.keyboard.press("/")
        assert focused(page) == "filter"
        # Changes of the page do not move the focus.
        page.keyboard.type("nightly")
        expect(page.locator("#rows > .row")).to_have_count(1)
        expect(page.locator("#note")).to_contain_text("1 of ")
        assert page.url.endswith("?filter=nightly")
        page.locator("#scroller").focus()
        page.keyboard.press("j")
        link = row.get_by_role("link")
        expect(link).to_be_focused()
        with contender(dashboard, "/jobs/nightly", "ben"):
            expect(row.locator(".c-contenders")).to_have_text("2")
            expect(link).to_be_focused()
            page.keyboard.press("Enter")
            expect(page.locator("#detail-path")).to_be_focused()
            expect(page.locator("#contenders-list li")).to_contain_text("ben")
            page.keyboard.press("Escape")
            expect(link).to_be_focused()
        # The page can be paused.
        page.keyboard.press("p")
        expect(page.get_by_role("status")).to_have_text("Paused")
        told = page.locator("#events li").count()
        with contender(dashboard, "/jobs/nightly", "carl"):
            newest = "async () => (await (await fetch('state')).json()).events.at(-1).text"
            page.wait_for_function(f"() => ({newest})().then((text) => text.includes('carl'))")
        assert page.locator("#events li").count() == told
        page.keyboard.press("p")
        expect(page.locator("#events li")).not_to_have_count(told)
        # Keys can be turned off.
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.get_by_label("Use single keys").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("p")
        expect(page.get_by_role("status")).to_have_text("Live")


def test_address_has_the_filter_and_the_path(page: Page, dashboard: Served) -> None:
    with contender(dashboard, "/jobs/nightly", "anna"):
        row = row_of(page, "/jobs/nightly")
        expect(row.locator(".c-holder")).to_have_text("anna")
        page.locator("#type").select_option("election")
        page.locator("#state").select_option("held")
        expect(page.locator("#rows > .row")).to_have_count(1)
        page.reload()
        expect(row.locator(".c-holder")).to_have_text("anna")
        expect(page.locator("#rows > .row")).to_have_count(1)
        assert page.locator("#type").input_value() == "election"
        open_path(page, "/jobs/nightly")
        page.reload()
        expect(page.locator("#detail-path")).to_have_text("/jobs/nightly")
        page.go_back()
        expect(page.locator("#list")).to_be_visible()
        page.get_by_label("Search").fill("nobody has this")
        expect(page.locator("#no-match")).to_contain_text("No path matches.")
        expect(page.locator("#events-none")).to_have_text(
            re.compile(r"^None of \d+ events? matches the search\.$")
        )
        page.get_by_role("button", name="Clear search and filters").click()
        expect(row).to_be_visible()
        page.get_by_label("Search").fill("anna")
        expect(page.locator("#events li").first).to_contain_text("anna")
        page.goto(f"{dashboard.url}#/none")
        expect(page.locator("#detail-missing")).to_be_visible()


def test_rows_are_sorted_by_the_clicked_column(page: Page, dashboard: Served) -> None:
    with (
        contender(dashboard, "/jobs/nightly", "anna"),
        contender(dashboard, "/locks/invoices", "ben", "lock-"),
        contender(dashboard, "/locks/invoices", "carl", "lock-"),
    ):
        page.locator("#state").select_option("held")
        paths = page.locator("#rows .c-path")
        invoices = row_of(page, "/locks/invoices")
        expect(invoices.locator(".c-contenders")).to_have_text("2")
        expect(paths).to_have_text(["/jobs/nightly", "/locks/invoices"])
        heading = page.get_by_role("columnheader", name="Contenders")
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", "ascending")
        expect(paths).to_have_text(["/locks/invoices", "/jobs/nightly"])
        heading.get_by_role("button").click()
        expect(paths).to_have_text(["/jobs/nightly", "/locks/invoices"])


@pytest.mark.parametrize("look", ["dark", "phone", "wall"])
def test_page_is_accessible(page: Page, dashboard: Served, look: str) -> None:
    sizes = {"phone": PHONE, "wall": WALL}
    if look in sizes:
        page.set_viewport_size(sizes[look])
    page.emulate_media(color_scheme="dark" if look == "dark" else "light")
    row = row_of(page, "/jobs/nightly")
    with (
        contender(dashboard, "/jobs/nightly", "anna") as anna,
        contender(dashboard, "/jobs/nightly", "host-with-a-long-name.department.example:123456"),
        contender(dashboard, "/jobs/nightly", "carl"),
        contender(dashboard, "/locks/invoices", "curator", "lock-"),
        contender(dashboard, "/locks/invoices", "other", "latch-"),
    ):
        expect(row.locator(".c-holder")).to_contain_text("anna")
        anna()
        expect(row.locator(".c-holder")).to_contain_text("host-with-a-long-name")
        expect(page.locator("#servers li")).to_have_count(1)
        expect(row_of(page, "/locks/invoices").locator(".c-state")).to_contain_text("not exclusive")
        check_access(page, look)
        check_size(page)
        open_path(page, "/jobs/nightly")
        expect(page.locator("#contenders-list li")).to_have_count(1)
        expect(page.locator("#terms tr").nth(1)).to_be_visible()
        check_access(page, f"{look}-path")
        check_size(page)


SHIFTS = """() => { window.shifts = []; new PerformanceObserver((list) => {
  for (const { sources } of list.getEntries()) {
    // New events come above the others, and move them.
    const moved = sources.map(({ node }) => node?.parentElement).filter((e) => !e?.closest(".log"));
    window.shifts.push(...moved.map((element) => element?.outerHTML));
  }
}).observe({ type: "layout-shift" }); }"""


def test_many_paths_make_few_rows_that_do_not_shift(context: BrowserContext) -> None:
    """There are 500 paths with 5,000 contenders."""
    with served("/", "--listen", "127.0.0.1:0") as one:
        with RawClient(one.zookeeper.connect_string) as raw:
            raw.create("/many")
            for n in range(500):
                raw.create(f"/many/{n:03}")
                for who in range(10):
                    name = f"host-{who}:{n}".encode()
                    raw.create(f"/many/{n:03}/_c_x-latch-", name, flags=EPHEMERAL_SEQUENTIAL)
            page = context.new_page()
            page.set_viewport_size({"width": 1280, "height": 800})
            page.goto(one.url)
            contenders = page.locator("#tile-contenders dd").first
            expect(contenders).to_have_text("5000")
            expect(page.locator("#note")).to_have_text("500 paths")
            assert page.locator("#table").get_attribute("aria-rowcount") == "501"
            assert page.locator("#rows > .row").count() < 40
            page.evaluate(SHIFTS)
            last = "/many/499"
            page.locator("#scroller").evaluate("(e) => e.scrollTop = e.scrollHeight")
            expect(row_of(page, last)).to_be_visible()
            assert page.locator("#rows > .row").count() < 40
            for zxid, holder in ((0, "host-1:499"), (1, "host-2:499")):
                raw.delete(f"{last}/_c_x-latch-{zxid:010d}")
                expect(row_of(page, last).locator(".c-holder")).to_have_text(holder)
            expect(contenders).to_have_text("4998")
            assert page.evaluate("window.shifts") == []
            page.get_by_label("Search").fill("many/12")
            expect(page.locator("#rows > .row")).to_have_count(10)


@pytest.fixture
def three(real_ensemble: BlockingEnsemble) -> Iterator[BlockingEnsemble]:
    """A real ensemble, whose servers the test may stop and pause."""
    real_ensemble.ensure_serving()
    yield real_ensemble
    real_ensemble.ensure_serving()


@pytest.mark.timeout(600)
def test_failures_of_a_real_ensemble_are_shown(
    context: BrowserContext, three: BlockingEnsemble, chroot: str
) -> None:
    """A paused holder, an unreadable path, and servers that are down, silent or leaderless."""
    leader, followers, hosts = three.leader(), three.followers(), three.connect_string
    with RawClient(hosts) as raw:
        raw.create(chroot)
        raw.create(f"{chroot}/closed", acl=(ACL.world(Permission.DELETE),))
    arguments = ("dashboard", "--listen", "127.0.0.1:0", "--patience", "1", "--json")
    holder = ("run", "--forever", "/nightly", "--id", "anna", "--session-timeout", "10", "--json")
    with (
        Command(*arguments, hosts=hosts + chroot) as dashboard,
        Command(*holder, hosts=hosts + chroot) as anna,
    ):
        anna.out.expect('"leading"')
        page = context.new_page()
        page.goto(json.loads(dashboard.out.expect("url").string)["url"])
        servers, tile = page.locator("#servers li"), page.locator("#tile-servers")
        state = row_of(page, "/nightly").locator(".c-state")

        def look_of(server: object) -> Locator:
            return servers.filter(has_text=str(server))

        expect(page.get_by_role("status")).to_have_text("Live")
        expect(state).to_contain_text("held")
        expect(row_of(page, "/closed").locator(".c-state")).to_contain_text("unreadable")
        expect(tile).to_contain_text("3 / 3")
        expect(tile).to_contain_text("1 more may fail")
        expect(look_of(leader.connect_string)).to_contain_text("leader")
        for each in followers:
            expect(look_of(each.connect_string)).to_contain_text("follower")
        check_views(page, "ensemble")

        anna.process.send_signal(signal.SIGSTOP)
        expect(state).to_contain_text("paused holder")
        expect(page.locator("#tile-problems dd").first).to_have_text("1")
        check_access(page, "ensemble-paused")
        expect(state).to_contain_text("no leader")  # its session is over
        anna.process.send_signal(signal.SIGCONT)
        expect(state).to_contain_text("held")

        down, silent = followers
        down.kill()
        expect(tile).to_contain_text("2 / 3")
        expect(tile).to_contain_text("no more may fail")
        expect(tile).to_have_class("is-warning")
        problems, events = page.locator("#tile-problems"), page.locator("#events li")
        expect(problems).to_contain_text("1 server")
        refused = f"{down.connect_string}: Connection refused"
        expect(events.filter(has_text=refused)).to_have_count(1)
        expect(look_of(down.connect_string)).to_contain_text("Connection refused")
        silent.pause()
        expect(tile).to_contain_text("no leader")
        expect(tile).to_contain_text("1 / 3")
        expect(look_of(leader.connect_string)).to_contain_text("looking for a leader")
        expect(look_of(silent.connect_string)).to_contain_text("no answer within 1 s")
        for each, wanted in ((down, "unreachable"), (silent, "silent"), (leader, "looking")):
            expect(look_of(each.connect_string)).to_have_class(f"server is-{wanted}")
        assert len(looks(servers.all())) == 3
        expect(page.get_by_role("status")).to_contain_text("No connection to ZooKeeper (")
        # Three servers that do not serve, and no quorum.
        expect(problems).to_contain_text("43 servers, no quorum")
        expect(events.first).to_contain_text("no quorum: ")
        check_views(page, "ensemble-apart")

        silent.resume()
        expect(tile).to_contain_text("2 / 3")
        down.start()
        expect(tile).to_contain_text("3 / 3")
        expect(page.get_by_role("status")).to_have_text("Live")
        expect(state).to_contain_text("held")
        expect(problems).to_contain_text("all well")
        expect(events.filter(has_text="there is a quorum again: ")).to_have_count(1)
        expect(events.filter(has_text=f"{down.connect_string} is up again (")).to_have_count(1)


def test_lost_connections_are_shown(context: BrowserContext) -> None:
    with served("/jobs", "--listen", "127.0.0.1:0") as one:
        page = context.new_page()
        page.goto(one.url)
        status = page.get_by_role("status")
        expect(status).to_have_text("Live")
        expect(page.locator("#empty")).to_be_visible()
        check_access(page, "empty")
        one.zookeeper.stop()
        expect(status).to_have_text("No connection to ZooKeeper (suspended)")
        expect(page.locator("#tile-age dd").first).to_have_text(re.compile(r"^\d+ s$"))
        expect(page.locator("#servers li")).to_have_class("server is-unreachable")
        check_access(page, "cut")
        one.command.process.kill()
        expect(status).to_have_text("The dashboard does not answer")
        check_access(page, "lost")
        # The browser refuses to make markup of a text.
        refused = "() => { try { document.body.innerHTML += '<b>x' } catch (e) { return e.name } }"
        assert page.evaluate(refused) == "TypeError"


@pytest.mark.parametrize("fault", ["down", "blackhole"])
def test_page_without_a_network_shows_the_age_of_its_data(
    context: BrowserContext, dashboard: Served, fault: str
) -> None:
    """The browser loses the network, with an error of the connection or without a word."""
    with (
        contender(dashboard, "/jobs/nightly", "anna"),
        FaultProxy("127.0.0.1", dashboard.port) as network,
    ):
        page = context.new_page()
        page.goto(f"http://{network.connect_string}/")
        status = page.get_by_role("status")
        holder = row_of(page, "/jobs/nightly").locator(".c-holder")
        expect(status).to_have_text("Live")
        expect(holder).to_have_text("anna")
        getattr(network, fault)()
        expect(status).to_have_text("The dashboard does not answer")
        expect(holder).to_have_text("anna")
        age = page.locator("#tile-age dd")
        expect(age.last).to_have_text(re.compile(r"^as of \d\d:\d\d:\d\d UTC$"))
        expect(age.first).to_have_text(re.compile(r"^([5-9]|\d\d+) s$"))  # it grows
        expect(page.locator("#advice")).to_contain_text("can this browser reach it?")
        check_access(page, f"network-{fault}")
        network.heal()
        expect(status).to_have_text("Live")
        expect(holder).to_have_text("anna")
        expect(age.last).to_have_text("")


def test_token_is_asked_for_and_leaves_the_address(context: BrowserContext) -> None:
    with served("--listen", "0.0.0.0:0") as one:
        page = context.new_page()
        token = one.told_token()
        bare = f"http://127.0.0.1:{one.port}/"
        page.goto(bare)
        check_door(page)
        page.get_by_label("Token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("This token is wrong.")
        check_door(page)
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("Live")
        assert page.url == bare


def check_door(page: Page) -> None:
    expect(page.get_by_role("heading")).to_have_text("aiolead")
    assert Axe().run(page, options={"runOnly": RULES}).violations_count == 0

"""How the dashboard's page shows each state, sent to it in place of a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from cli.browsing import check_access, check_size, looks, row_of, send, snapshot
from cli.serving import Served, served
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from aiolead.cli.scene_values import QueueState

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def dashboard() -> Iterator[Served]:
    with served("/", "--listen", "127.0.0.1:0") as one:
        yield one


SERVERS = [
    {"server": "zk1:2181", "state": "serving", "role": "leader", "problem": None},
    {"server": "zk2:2181", "state": "looking", "role": None, "problem": "is looking for a leader"},
    {"server": "zk3:2181", "state": "silent", "role": None, "problem": "no answer within 3 s"},
    {"server": "zk4:2181", "state": "unreachable", "role": None, "problem": "Connection refused"},
    {"server": "zk5:2181", "state": "read-only", "role": "read-only", "problem": None},
    {"server": "zk6:2181", "state": "unknown", "role": None, "problem": "says nothing to srvr"},
]
NUMBERS = {"version": "3.9.3", "latency": 0.4, "behind": "7", "connections": 12}
QUEUES = [state.value for state in QueueState if state is not QueueState.UNREADABLE]
NOBODY = ("vacant", "free", "unused")
IN_USE = {"key": "q", "path": "/q", "type": "queue", "state": "in use", "note": "3 items"}


HOLDER = {
    "key": "k",
    "name": "host-1:4711",
    "token": "7",
    "began": 90.0,
    "not_before": 90.0,
    "ended": None,
    "silent_since": None,
    "is_paused": False,
    "gap": None,
}


def test_each_state_has_its_own_look(context: BrowserContext, dashboard: Served) -> None:
    queues = [
        {
            "key": f"k{n}",
            "path": f"/{state}",
            "state": state,
            "note": "",
            "type": "" if state == "unused" else "election",
            "holders": [] if state in NOBODY else [HOLDER],
            "more_holders": 0,
            "contenders": 1,
            "changed": 90.0,
            "vacant_since": None,
            "handovers": [],
            "families": [],
            "leaders": 1,
        }
        for n, state in enumerate(QUEUES)
    ]
    state = snapshot([*queues, {**IN_USE, "contenders": 0}], 7)
    state["overview"] |= {"more_paths": 3, "sessions": 5, "silent": 1}
    state["unreadable"] = {"paths": ["/closed"], "more": 2}
    state["servers"] = {
        "asked": 99.0,
        "has_quorum": False,
        "voters": 6,
        "looking": 0,
        "up": 1,
        "tolerates": -1,
        "problems": 5,
        "all": [{**NUMBERS, **each} for each in SERVERS],
    }
    page = context.new_page()
    page.route("**/events", lambda route: send(route, 60_000, ("snapshot", state)))
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(dashboard.url)
    rows = page.locator("#rows > .row")
    expect(rows).to_have_count(len(QUEUES) + 2)
    assert len(looks(row.locator(".state") for row in rows.all())) == len(QUEUES) + 2
    expect(row_of(page, "/q").locator(".c-holder")).to_have_text("3 items")
    servers = page.locator("#servers li")
    expect(servers.nth(0)).to_contain_text("leader0.4 ms · 12 connections · 7 behind · 3.9.3")
    expect(servers.nth(1)).to_contain_text("is looking for a leader")
    assert len(looks(servers.all())) == len(SERVERS)
    expect(page.locator("#tile-servers")).to_contain_text("1 / 6")
    expect(page.locator("#tile-servers")).to_contain_text("no quorum")
    expect(page.locator("#tile-problems")).to_contain_text("127 paths, 4 servers, no quorum")
    expect(page.locator("#tile-sessions")).to_contain_text("1 silent")
    expect(page.locator("#note")).to_have_text(
        f"{len(QUEUES) + 2} paths, 3 more than fit here, 2 more unreadable"
    )
    check_access(page, "states")


MERGED = """async () => {
  const { merged } = await import(new URL("dashboard.js", document.baseURI).href);
  let all = null;
  for (let n = 0; n < 5000; n++) {
    const news = { queues: [{ key: `k${n}` }], gone: [`k${n - 1}`], events: [{ number: n }] };
    all = merged(all, "change", { ...news, overview: { n } });
  }
  return [all.queues.size, all.gone.size, all.events.length, all.sections.overview.n];
}"""


def test_paused_page_keeps_only_the_latest_state(
    context: BrowserContext, dashboard: Served
) -> None:
    def row(name: str, note: str = "") -> dict[str, object]:
        return {**IN_USE, "key": name, "path": f"/{name}", "note": note, "contenders": 0}

    changes = [
        {"queues": [row("a", f"{n} items"), row(f"new-{n}")], "gone": [f"new-{n - 1}"]}
        for n in range(300)
    ]
    is_paused = False

    def answer(route: Route) -> None:
        if is_paused:
            send(route, 60_000, *(("change", one) for one in [*changes, {"gone": ["b"]}]))
        else:
            send(route, 50, ("snapshot", snapshot([row("a"), row("b")], 0)))

    page = context.new_page()
    page.route("**/events", answer)
    page.goto(dashboard.url)
    rows = page.locator("#rows > .row")
    expect(rows).to_have_count(2)
    page.locator("#pause").click()
    with page.expect_response("**/events"):
        is_paused = True
    page.locator("#pause").click()
    expect(row_of(page, "/new-299")).to_be_visible()
    expect(row_of(page, "/a").locator(".c-holder")).to_have_text("299 items")
    expect(rows).to_have_count(2)
    assert page.evaluate(MERGED) == [1, 0, 100, 4999]


HANDMADE = """
window.EventSource = class extends EventTarget {
  readyState = 1;
  constructor() {
    super();
    window.source = this;
  }
  say(name, news) { this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(news) })); }
  fail() { this.dispatchEvent(new Event("error")); }
};
"""
"""Makes the stream of events one that the test writes."""


def opened(
    context: BrowserContext,
    dashboard: Served,
    state: dict[str, Any],
    *,
    width: int = 0,
    at: str = "",
) -> Page:
    """The page with a stream of events that the test writes, which begins with a state."""
    page = context.new_page()
    if width:
        page.set_viewport_size({"width": width, "height": 800})
    page.add_init_script(HANDMADE)
    page.goto(f"{dashboard.url}{at}")
    say(page, "snapshot", state)
    return page


def say(page: Page, name: str, news: dict[str, Any]) -> None:
    page.evaluate("([name, news]) => window.source.say(name, news)", [name, news])


NOT_CURRENT = {"state": "suspended", "id": "0x1", "is_current": False, "as_of": 60.0}
READING = {**NOT_CURRENT, "state": "connected", "as_of": None}


@pytest.mark.parametrize(
    ("session", "is_open", "status", "age", "note"),
    [
        ({}, True, "Live", r"[0-4] s", ""),
        (NOT_CURRENT, True, "No connection to ZooKeeper (suspended)", r"4\d s", "00:01:00 UTC"),
        (READING, True, "Reading …", "–", ""),
        ({}, False, "The dashboard does not answer", r"\d s", "00:01:40 UTC"),
        # The state was old before the dashboard ended.
        (NOT_CURRENT, False, "The dashboard does not answer", r"4\d s", "00:01:00 UTC"),
    ],
    ids=["live", "cut", "reading", "lost", "cut and lost"],
)
def test_age_of_the_data_is_shown(
    context: BrowserContext,
    dashboard: Served,
    session: dict[str, Any],
    is_open: bool,
    status: str,
    age: str,
    note: str,
) -> None:
    state = snapshot([], 0)
    state["session"] |= session
    page = opened(context, dashboard, state)
    if not is_open:
        page.evaluate("() => window.source.fail()")
    expect(page.get_by_role("status")).to_have_text(status)
    tile = page.locator("#tile-age dd")
    expect(tile.first).to_have_text(re.compile(f"^{age}$"))
    expect(tile.last).to_have_text(f"as of {note}" if note else "")
    advice = {"The dashboard does not answer": "still running", "No connection": "aiolead doctor"}
    wanted = next((text for begin, text in advice.items() if status.startswith(begin)), "")
    expect(page.locator("#advice")).to_contain_text(wanted)
    expect(page.locator("#advice")).to_be_visible(visible=bool(wanted))
    well = "servers not asked yet" if status == "Live" else "last known"
    expect(page.locator("#tile-problems .note")).to_have_text(well)


def test_paused_page_shows_how_old_it_is(context: BrowserContext, dashboard: Served) -> None:
    page = opened(context, dashboard, snapshot([], 0))
    page.locator("#pause").click()
    say(page, "beat", {"now": 160})
    age = page.locator("#tile-age dd").first
    expect(age).to_have_text("1 min")
    page.locator("#pause").click()
    say(page, "beat", {"now": 161})
    expect(age).to_have_text("0 s")


def test_times_are_in_utc(browser: Browser, dashboard: Served) -> None:
    context = browser.new_context(
        timezone_id="America/New_York", viewport={"width": 1920, "height": 1080}
    )
    what = {"number": 1, "at": 90.0, "what": "began", "key": "k", "path": "/a", "text": "x leads"}
    page = opened(context, dashboard, snapshot([{**IN_USE, "contenders": 0}], 1, events=[what]))
    expect(page.locator("#events time")).to_have_text("00:01:30")
    expect(page.locator("#events-title")).to_have_text("Events (UTC)")
    expect(page.locator("#clock")).to_have_text(re.compile(r"^00:01:4\d UTC$"))
    expect(page.get_by_role("columnheader", name="Since (UTC)")).to_be_visible()
    # Neither midnight nor another day makes a time ambiguous.
    clock = """async ([now, at]) => {
      const { clock, setClock } = await import(new URL("elements.js", document.baseURI).href);
      setClock(now);
      return clock(at);
    }"""
    assert page.evaluate(clock, [86_410, 86_390]) == "23:59:50"
    assert page.evaluate(clock, [86_410 + 43_200, 86_390]) == "1970-01-01 23:59:50"
    context.close()


LONG = "/jobs/billing/billing-reconciliation-worker-of-the-department"

END_IS_VISIBLE = """(tail) => {
  const last = document.createRange(), length = tail.firstChild.length;
  last.setStart(tail.firstChild, length - 6);
  last.setEnd(tail.firstChild, length);
  const end = last.getBoundingClientRect(), cell = tail.closest(".row > *").getBoundingClientRect();
  return end.width > 10 && end.left >= cell.left && end.right <= cell.right + 1;
}"""


@pytest.mark.parametrize(("width", "least"), [(390, 150), (1280, 440), (1920, 550)])
@pytest.mark.parametrize("count", [5, 300])
def test_ends_of_long_paths_are_visible(
    context: BrowserContext, dashboard: Served, width: int, least: int, count: int
) -> None:
    rows = [
        {**IN_USE, "contenders": 0, "key": f"k{n}", "path": f"{LONG}-{n:03}"} for n in range(count)
    ]
    page = opened(context, dashboard, snapshot(rows, count), width=width)
    path = row_of(page, f"{LONG}-003").locator(".c-path")
    expect(path).to_have_text(f"{LONG}-003")
    tail = path.locator(".end")
    expect(tail).to_have_text("er-of-the-department-003")
    assert tail.evaluate(END_IS_VISIBLE)
    box = path.bounding_box()
    assert box is not None
    assert box["width"] >= least
    # A tooltip has all of it.
    expect(path.locator("bdi")).to_have_attribute("title", f"{LONG}-003")
    check_access(page, f"paths-{count}-{width}")
    check_size(page)


DIFFERENCE_IS_VISIBLE = """(end) => {
  const range = document.createRange(), cell = end.closest(".c-path").getBoundingClientRect();
  const at = end.textContent.search(/[0-9]{3}/);
  range.setStart(end.firstChild, at);
  range.setEnd(end.firstChild, at + 3);
  const box = range.getBoundingClientRect();
  return at >= 0 && box.left >= cell.left && box.right <= cell.right;
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_paths_that_differ_in_the_middle_are_told_apart(
    context: BrowserContext, dashboard: Served, width: int
) -> None:
    paths = [f"{LONG}-{n:03}-and-an-end-that-all-of-them-have" for n in range(20)]
    rows = [{**IN_USE, "contenders": 0, "key": path, "path": path} for path in paths]
    page = opened(context, dashboard, snapshot(rows, 20), width=width)
    tail = row_of(page, paths[3]).locator(".c-path .end")
    assert tail.evaluate(DIFFERENCE_IS_VISIBLE)
    # The next one is not like any other, and is cut as usual.
    other = {**rows[0], "key": "other", "path": f"/a{LONG}"}
    say(page, "change", {"now": 101.0, "queues": [other]})
    expect(row_of(page, f"/a{LONG}").locator(".c-path .early")).to_have_count(0)


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_holders_of_one_department_are_told_apart(
    context: BrowserContext, dashboard: Served, width: int
) -> None:
    name = "scheduler-1.billing.department.example.org:{}"
    rows = [
        {
            **IN_USE,
            "key": f"k{n}",
            "path": f"/jobs/{n}",
            "state": "held",
            "holders": [{**HOLDER, "name": name.format(4000 + n)}],
            "more_holders": n,
            "note": "",
        }
        for n in range(3)
    ]
    page = opened(context, dashboard, snapshot(rows, 3), width=width)
    holder = row_of(page, "/jobs/2").locator(".c-holder")
    expect(holder).to_have_text(name.format(4002) + " +2")
    assert holder.locator(".end").evaluate(END_IS_VISIBLE)
    machine = holder.locator(".begin").bounding_box()
    assert machine is not None
    assert machine["width"] > 80  # "scheduler-1"
    assert holder.locator(".soft").evaluate(IS_INSIDE)
    expect(holder.locator("bdi")).to_have_attribute("title", name.format(4002))
    changed = {**rows[2], "holders": [{**HOLDER, "name": "ben"}]}
    say(page, "change", {"now": 101.0, "queues": [changed]})
    expect(holder).to_have_text("ben +2")


IS_INSIDE = """(part) => {
  const box = part.getBoundingClientRect(), whole = part.parentElement.getBoundingClientRect();
  return box.width > 0 && box.left >= whole.left && box.right <= whole.right + 1;
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_times_at_the_end_of_the_timeline_are_not_cut(
    context: BrowserContext, dashboard: Served, width: int
) -> None:
    row = {**IN_USE, "type": "lock", "state": "free", "contenders": 0, "note": ""}
    state = snapshot([{**row, "key": "q"}], 1, now=602.0)  # 2 s after a mark
    page = opened(context, dashboard, state, width=width, at="#/q")
    page.locator("#axis span").first.wait_for()
    shown = [mark for mark in page.locator("#axis span").all() if mark.is_visible()]
    assert shown
    assert all(mark.evaluate(IS_INSIDE) for mark in shown)


def test_permits_of_a_semaphore_are_counted(context: BrowserContext, dashboard: Served) -> None:
    held = {"type": "semaphore", "state": "held", "holders": [HOLDER, {**HOLDER, "key": "l"}]}
    row = {**IN_USE, **held, "more_holders": 3, "contenders": 6, "note": ""}
    page = opened(context, dashboard, snapshot([row], 1), at="#/q")
    expect(page.locator("#detail-type")).to_have_text("semaphore · 5 permits held")
    expect(page.locator("#holders > li")).to_have_count(2)

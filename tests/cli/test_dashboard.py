"""The dashboard as HTTP has it: whom it answers, and what it says."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from typing import Any, Self
from urllib.parse import urlsplit

import anyio
import pytest
from cli.serving import EPHEMERAL_SEQUENTIAL, Served, served
from kit.cli import WITHIN, outcome
from kit.raw_client import RawClient

from aiolead import ACL
from aiolead.cli.dashboard.connections import MOST_ADMITTED, MOST_UNAUTHENTICATED
from aiolead.cli.dashboard.doors import Doors, host_of, is_loopback
from aiolead.cli.dashboard.state import MOST_QUEUES, MOST_TERMS, MOST_WAITING
from aiolead.cli.dashboard.state import detail as detail_as_value
from aiolead.cli.dashboard.state import queue as queue_as_value
from aiolead.cli.dashboard.state_stream import StateStream
from aiolead.cli.scene import Scene
from aiolead.errors import NodeExistsError
from aiolead.model import Permission, SessionState, Stat

pytestmark = pytest.mark.exhaustive("an edge of the command")

TOKEN = "a-token-of-some-length+/="
ELECTED = "/jobs/one/_c_x-latch-"
SCRIPTS = tuple(f"/{name}.js" for name in ("dashboard", "detail", "elements", "table", "timeline"))
PAGES = ("/", "/dashboard.css", *SCRIPTS, "/icon.svg", "/state")


@pytest.fixture(scope="module")
def open_one() -> Iterator[Served]:
    """One that answers this machine, without a token."""
    with served("/jobs", "--listen", "127.0.0.1:0", "--allow-host", "proxy.example") as one:
        yield one


@pytest.fixture(scope="module")
def locked() -> Iterator[Served]:
    """One that answers whoever reaches it, and knows the token."""
    env = {"AIOLEAD_DASHBOARD_TOKEN": TOKEN}
    with served("--listen", "0.0.0.0:0", **env) as one:
        yield one


# --- whom it answers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost:1", "LOCALHOST.", "[::1]:8764", "proxy.example", "127.0.0.1:"],
)
def test_it_answers_by_its_own_names(open_one: Served, host: str) -> None:
    assert open_one.status(Host=host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "10.1.2.3",
        "",
        "[::1",
        "localhost:port",
    ],
)
@pytest.mark.parametrize("target", ["/", "/state", "/events", "/icon.svg", "/none"])
def test_it_answers_by_no_other_name(open_one: Served, host: str, target: str) -> None:
    response, body = open_one.ask(target, Host=host)
    assert (response.status, b"jobs" in body) == (421, False)


def test_a_host_must_be_named_once(open_one: Served) -> None:
    for hosts in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        answer = open_one.say(b"GET / HTTP/1.1\r\n" + hosts + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
    assert open_one.say(b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 421 ")


def test_beyond_this_machine_it_takes_the_token(locked: Served) -> None:
    assert TOKEN not in locked.url
    assert urlsplit(locked.url).hostname == socket.gethostname().lower()
    assert locked.url.endswith("/?token=a-token-of-some-length%2B%2F%3D")
    for target in ("/", "/state", "/events", "/dashboard.js", "/none", "/?token=", "/?token=no"):
        response, body = locked.ask(target)
        assert response.status == 401, target
        assert response.headers["WWW-Authenticate"].startswith("Bearer ")
        assert TOKEN.encode() not in body
    # Whoever has no token may see how it is asked for, and that well dressed.
    assert locked.status("/dashboard.css") == locked.status("/icon.svg") == 200
    assert b'name="token"' in locked.ask("/")[1]
    assert locked.status("/?token=" + "a" * 10_000) == 401


def test_whoever_knows_the_token_gets_in(locked: Served) -> None:
    assert locked.status("/state", Authorization=f"Bearer {TOKEN}") == 200
    assert locked.status("/state", Authorization=f"Basic {TOKEN}") == 401
    assert locked.status("/state", Authorization="Bearer \xff") == 401
    split = urlsplit(locked.url)
    response, body = locked.ask(f"{split.path}?{split.query}")
    # The address that has the token is left at once, and its cookie does not have it.
    assert (response.status, response.headers["Location"], body) == (303, "./", b"")
    cookie, *attributes = response.headers["Set-Cookie"].split("; ")
    assert attributes == ["HttpOnly", "SameSite=lax"]
    assert "token" not in cookie
    assert locked.status("/state", Cookie=f"other=1; {cookie}") == 200
    for wrong in (cookie[:-1], cookie.replace("=", "x=", 1), "a=\xff", f"{cookie.split('=')[0]}="):
        assert locked.status("/state", Cookie=wrong) == 401


def test_listening_everywhere_it_answers_by_the_address_that_was_asked(locked: Served) -> None:
    # A name that leads here is not enough, but an address is no name.
    for own in ("127.0.0.1", "localhost", "0.0.0.0", socket.gethostname()):
        assert locked.status("/icon.svg", Host=f"{own}:{locked.port}") == 200
    assert locked.status("/icon.svg", Host="10.1.2.3") == 421
    assert locked.status("/icon.svg", Host="evil.example") == 421


def test_a_token_is_made_up_where_it_takes_one() -> None:
    with served("--listen", "0.0.0.0:0") as one:
        token = urlsplit(one.url).query.removeprefix("token=")
        assert len(token) >= 32
        assert one.status("/state") == 401
        assert one.status("/state", Authorization=f"Bearer {token}") == 200


def test_names_and_addresses_of_hosts() -> None:
    assert host_of("Name.Example.:80") == "name.example"
    assert host_of("[::FFFF:127.0.0.1]:80") == "127.0.0.1"
    assert host_of("[0::1]") == "::1"
    for bad in ("", ":80", "a:b", "a:1:2", "[::1]x", "a:٣"):
        assert host_of(bad) is None
    assert is_loopback("127.8.0.1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("::")
    # Who has bound an address of the network is not asked for as localhost.
    assert not Doors("192.0.2.1", 1).knows("localhost", "192.0.2.1")
    assert Doors("192.0.2.1", 1).knows("192.0.2.1:1", "192.0.2.1")
    assert not Doors("127.0.0.1", 1).opens_to("")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--listen", "8764"], "--listen: must be ADDRESS:PORT"),
        (["--listen", "127.0.0.1:65536"], "--listen"),
        (["--listen", "::1:x"], "--listen"),
        (["--token", "short"], "--token: must have 16 characters or more"),
        (["relative"], "relative"),
        (["--leaders", "0"], "--leaders"),
        (["--max-znodes", "0"], "--max-znodes"),
        (["--backend", "trio"], "--backend: the dashboard's web server runs on asyncio alone"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], complaint: str) -> None:
    code, out, err = outcome("dashboard", *arguments, hosts="127.0.0.1:1")
    assert (code, out, len(err)) == (2, [], 1)
    assert complaint in err[0]
    assert "short" not in err[0]


def test_a_port_that_is_taken(open_one: Served) -> None:
    hosts, taken = open_one.zookeeper.connect_string, f"127.0.0.1:{open_one.port}"
    code, out, err = outcome("dashboard", "--listen", taken, hosts=hosts)
    assert (code, out) == (1, [])
    assert err == [f"aiolead: cannot listen on {taken}: Address already in use (see: --listen)"]


# --- what it serves ------------------------------------------------------------------------------


def test_every_answer_has_the_headers_that_keep_browsers_from_harm(open_one: Served) -> None:
    for target, status in [*((page, 200) for page in PAGES), ("/none", 404)]:
        response, _ = open_one.ask(target)
        assert response.status == status
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["Access-Control-Allow-Origin"] is None


@pytest.mark.parametrize(
    "target",
    [
        "/../state.py",
        "/..%2fstate.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/dashboard.html",
        "/pages/dashboard.js",
        "/dashboard.js/",
        "/dashboard.js%00",
        "/Dashboard.js",
        "/\\..\\state.py",
        "http://127.0.0.1/state",
        "/__init__.py",
        "*",
    ],
)
def test_nothing_but_its_pages(open_one: Served, target: str) -> None:
    response, body = open_one.ask(target)
    assert (response.status, body) == (404, b"There is no such page.\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_it_can_only_be_read(open_one: Served, method: str) -> None:
    response, _ = open_one.ask("/state", method, body=b"{}")
    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")


def test_head_says_what_get_would(open_one: Served) -> None:
    response, body = open_one.ask("/dashboard.js", "HEAD")
    whole = open_one.ask("/dashboard.js")[1]
    assert (response.status, body) == (200, b"")
    assert response.headers["Content-Length"] == str(len(whole))
    assert open_one.ask("/events", "HEAD")[1] == b""


def test_connections_are_kept_and_requests_may_follow_each_other(open_one: Served) -> None:
    one = b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert open_one.say(one * 3).count(b"HTTP/1.1 200 ") == 3


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_request_is_no_harm(open_one: Served, nonsense: bytes) -> None:
    answer = open_one.say(nonsense)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert open_one.status("/state") == 200


# --- what it says --------------------------------------------------------------------------------


class Listener:
    """Reads server-sent events, and puts the changes together, as the page does.

    Attributes:
        state: everything by now.
        sizes: how many bytes each event had.
    """

    def __init__(self, port: int, **headers: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=WITHIN)
        self._connection.request("GET", "/events", headers=headers)
        self.response = self._connection.getresponse()
        self.state: dict[str, Any] = {}
        self.sizes: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def event(self) -> tuple[str, str]:
        """The next one, with its data."""
        fields: dict[str, str] = {}
        while line := self.response.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields.get("event", ""), fields.get("data", "")

    def take(self) -> str:
        """Takes the next event; its name."""
        name, data = self.event()
        if name not in ("snapshot", "change"):
            return name
        self.sizes.append(len(data))
        news = json.loads(data)
        state = {} if name == "snapshot" else self.state
        queues = {key: state.get("queues", {})[key] for key in state.get("queues", {})}
        for key in news.pop("gone", ()):
            queues.pop(key, None)
        queues |= {each["key"]: each for each in news.pop("queues", ())}
        events = [*state.get("events", ()), *news.pop("events", ())]
        self.state = {**state, **news, "queues": queues, "events": events}
        return name

    def until(self, condition: Callable[[dict[str, Any]], Any]) -> Any:
        """Waits for a state that is current and for which the condition holds; what that gives."""
        while True:
            is_current = self.state and self.state["session"]["is_current"]
            if is_current and (found := condition(self.state)):
                return found
            self.take()

    def queue(self, path: str) -> dict[str, Any]:
        return next((each for each in self.state["queues"].values() if each["path"] == path), {})

    def until_held(self, path: str, holder: str | None) -> dict[str, Any]:
        """The queue, once that one holds; None if nobody does any more."""

        def holds(_: object) -> dict[str, Any] | None:
            queue = self.queue(path)
            names = [one["name"] for one in queue.get("holders", ())]
            return queue if queue and names == [holder] * (holder is not None) else None

        found: dict[str, Any] = self.until(holds)
        return found


def detail_of(one: Served, key: str) -> dict[str, Any]:
    response, body = one.ask(f"/queue?key={key}", Authorization=f"Bearer {TOKEN}")
    assert response.status == 200
    found: dict[str, Any] = json.loads(body)
    return found


@pytest.mark.parametrize("name", ["open_one", "locked"])
def test_a_leader_changes(request: pytest.FixtureRequest, name: str) -> None:
    one: Served = request.getfixturevalue(name)
    with Listener(one.port, Authorization=f"Bearer {TOKEN}") as listener:
        content_type = listener.response.headers["Content-Type"]
        assert content_type == "text/event-stream; charset=utf-8"
        assert listener.event() == ("", "")  # how soon to try again
        # What is there at the first look is no event.
        listener.until(lambda state: state)
        with (
            RawClient(one.zookeeper.connect_string) as anna,
            RawClient(one.zookeeper.connect_string) as ben,
        ):
            anna.create("/jobs")
            anna.create("/jobs/one")
            path = anna.create(ELECTED, b"anna", flags=EPHEMERAL_SEQUENTIAL)
            queue = listener.until_held("/jobs/one", "anna")
            assert (queue["type"], queue["state"], queue["contenders"]) == ("election", "held", 1)
            ben.create(ELECTED, b"ben\x1b[31m\xe2\x80\xae", flags=EPHEMERAL_SEQUENTIAL)
            listener.until(lambda _: listener.queue("/jobs/one")["contenders"] == 2)
            detail = detail_of(one, queue["key"])
            assert [who["name"] for who in detail["waiting"]] == ["ben\\x1b[31m\\u202e"]
            anna.delete(path)
            queue = listener.until_held("/jobs/one", "ben\\x1b[31m\\u202e")
            detail = detail_of(one, queue["key"])
            first, second = detail["terms"]
            assert (first["name"], second["ended"]) == ("anna", None)
            assert second["gap"] >= 0
            assert first["ended"] == pytest.approx(second["began"] - second["gap"], abs=0.002)
            assert isinstance(second["token"], str)
            assert [each["path"] for each in detail["events"]] == ["/jobs/one"] * 3
            assert sum(count for _, count in queue["handovers"]) == 2
        queue = listener.until_held("/jobs/one", None)
        assert queue["vacant_since"] >= second["began"]
        assert queue["state"] == "vacant"
        state = json.loads(one.ask("/state", Authorization=f"Bearer {TOKEN}")[1])
        assert state["events"][-1]["what"] == "vacant"
        (server,) = listener.until(lambda state: state["servers"])["all"]
        assert (server["role"], server["state"]) == ("standalone", "serving")
        assert one.status("/queue?key=none", Authorization=f"Bearer {TOKEN}") == 404


def test_what_may_not_be_read_is_told(locked: Served) -> None:
    with (
        Listener(locked.port, Authorization=f"Bearer {TOKEN}") as listener,
        RawClient(locked.zookeeper.connect_string) as raw,
    ):
        raw.create("/closed", acl=(ACL.world(Permission.DELETE),))
        listener.until(lambda state: state["unreadable"]["paths"] == ["/closed"])
        raw.delete("/closed")
        listener.until(lambda state: state["unreadable"]["paths"] == [])


def test_a_link_that_is_lost_is_told_and_it_ends_well_all_the_same() -> None:
    with served("--listen", "127.0.0.1:0") as one, Listener(one.port) as listener:
        listener.until(lambda state: True)
        one.zookeeper.stop()
        while not listener.state or listener.state["session"]["state"] != "suspended":
            listener.take()
        assert not listener.state["session"]["is_current"]
        assert listener.state["session"]["as_of"] <= listener.state["now"]
        one.command.signal(signal.SIGTERM)
        assert one.command.finish() == 0
        assert one.command.err.rest() == []


# --- too many connections ------------------------------------------------------------------------

KNOWN = {"Authorization": f"Bearer {TOKEN}"}
FLOOD = MOST_UNAUTHENTICATED + MOST_ADMITTED + 50
BEGINNINGS = (b"", b"GET /sta", b"GET /state HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")


def head_of(target: str, **headers: str) -> bytes:
    """Asks for an answer without a body, which comes in one piece."""
    lines = [f"HEAD {target} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def until_closed(link: socket.socket) -> bytes:
    """What comes until the other end has closed it; a reset is an end as well."""
    data = b""
    with suppress(ConnectionResetError):
        while more := link.recv(65536):
            data += more
    return data


@pytest.mark.parametrize("name", ["open_one", "locked"])
def test_half_open_connections_lock_nobody_out(request: pytest.FixtureRequest, name: str) -> None:
    one: Served = request.getfixturevalue(name)
    path = f"/jobs/flood-{name}"
    with (
        Listener(one.port, **KNOWN) as before,
        RawClient(one.zookeeper.connect_string) as raw,
        ExitStack() as links,
    ):
        before.until(lambda _: True)
        for n in range(FLOOD):
            link = links.enter_context(socket.create_connection(("127.0.0.1", one.port), WITHIN))
            with suppress(ConnectionError):  # it may have been dropped by now
                link.sendall(BEGINNINGS[n % len(BEGINNINGS)])
        for _ in range(20):
            assert one.status("/state", **KNOWN) == 200
        with Listener(one.port, **KNOWN) as after:
            for each in ("/jobs", path):
                with suppress(NodeExistsError):
                    raw.create(each)
            raw.create(f"{path}/_c_x-latch-", b"anna", flags=EPHEMERAL_SEQUENTIAL)
            # Neither who came later nor who was there before has lost anything.
            after.until_held(path, "anna")
            before.until_held(path, "anna")


def test_a_flood_that_goes_on_locks_nobody_out(locked: Served) -> None:
    where = "127.0.0.1", locked.port
    with ExitStack() as links:
        asked = links.enter_context(socket.create_connection(where, WITHIN))
        asked.sendall(head_of("/icon.svg", **KNOWN))
        assert asked.recv(65536).startswith(b"HTTP/1.1 200 ")
        for _ in range(FLOOD // MOST_UNAUTHENTICATED + 1):
            for _ in range(MOST_UNAUTHENTICATED + 1):
                links.enter_context(socket.create_connection(where, WITHIN))
            # On a connection that is kept since before, and on a new one.
            asked.sendall(head_of("/state", **KNOWN))
            assert asked.recv(65536).startswith(b"HTTP/1.1 200 ")
            assert locked.status("/state", **KNOWN) == 200


@pytest.mark.promise
def test_a_token_that_is_wrong_earns_no_place(locked: Served) -> None:
    where = "127.0.0.1", locked.port
    with ExitStack() as links:
        guessed, shared, kept = (
            links.enter_context(socket.create_connection(where, WITHIN)) for _ in range(3)
        )
        guessed.sendall(head_of("/state", Authorization="Bearer wrong"))
        assert guessed.recv(65536).startswith(b"HTTP/1.1 401 ")
        # A proxy sends what different people ask on one connection: the last one counts.
        for each in (shared, kept):
            each.sendall(head_of("/icon.svg", **KNOWN))
            assert each.recv(65536).startswith(b"HTTP/1.1 200 ")
        shared.sendall(head_of("/icon.svg"))
        assert shared.recv(65536).startswith(b"HTTP/1.1 200 ")
        for _ in range(MOST_UNAUTHENTICATED):
            links.enter_context(socket.create_connection(where, WITHIN))
        until_closed(guessed)
        until_closed(shared)
        kept.sendall(head_of("/state", **KNOWN))
        assert kept.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_who_is_idle_makes_room_and_who_is_answered_does_not(locked: Served) -> None:
    where = "127.0.0.1", locked.port
    with ExitStack() as links:
        idle = links.enter_context(socket.create_connection(where, WITHIN))
        idle.sendall(head_of("/icon.svg", **KNOWN))
        assert idle.recv(65536).startswith(b"HTTP/1.1 200 ")
        listeners = [
            links.enter_context(Listener(locked.port, **KNOWN)) for _ in range(MOST_ADMITTED)
        ]
        assert all(each.response.status == 200 for each in listeners)
        until_closed(idle)
        response, body = locked.ask("/state", **KNOWN)
        assert (response.status, response.headers["Retry-After"]) == (503, "10")
        assert body == b"There are too many connections.\n"
        assert locked.status("/state") == 401  # without the token that is not even told
        assert listeners[0].event() == ("", "")
        assert listeners[0].until(lambda _: True)
    while locked.status("/state", **KNOWN) == 503:
        pass  # until it has noticed that they are gone


# --- the state -----------------------------------------------------------------------------------

NOTHING = Stat(**dict.fromkeys(Stat._fields, 0))


def scene_with(paths: int, contenders: int) -> Scene:
    scene = Scene()
    scene.set_session(SessionState.CONNECTED, 1, 0.0)
    for path in range(paths):
        for n in range(1, contenders + 1):
            stat = NOTHING._replace(czxid=n, ephemeral_owner=n, ctime=1000)
            scene.put(f"/{'p' * 300}{path}/lock-{n:010d}", stat, b"x" * 1000)
    scene.settle(1.0)
    return scene


def test_the_page_does_not_grow_without_a_bound() -> None:
    scene = scene_with(MOST_QUEUES + 7, 5)
    state = json.loads(StateStream(scene, lambda: 2.0).snapshot())
    assert (len(state["queues"]), state["overview"]["more_paths"]) == (MOST_QUEUES, 7)
    # Paths that are too long look alike, and are told apart all the same.
    assert len({queue["key"] for queue in state["queues"]}) == MOST_QUEUES
    assert len(json.dumps(state)) < 1_000_000

    scene = scene_with(1, MOST_WAITING + 6)
    (queue,) = scene.queues
    detail = detail_as_value(scene, queue, 2.0)
    assert (len(detail["waiting"]), detail["more_waiting"]) == (MOST_WAITING, 5)
    assert len(queue_as_value(scene, queue)["path"]) < 250
    for n in range(1, MOST_TERMS + 6):
        scene.remove(f"/{'p' * 300}0/lock-{n:010d}")
        scene.settle(1.0 + n)
    (queue,) = scene.queues
    terms = detail_as_value(scene, queue, 500.0)["terms"]
    assert len(terms) == MOST_TERMS
    assert len({term["key"] for term in terms}) == MOST_TERMS
    assert terms[-1]["ended"] is None


def test_members_of_a_group() -> None:
    scene = Scene()
    for n in range(MOST_WAITING + 5):
        scene.put(f"/g/web-{n:03}", NOTHING._replace(ephemeral_owner=1, czxid=n), b"")
    scene.settle(1.0)
    stream = StateStream(scene, lambda: 2.0)
    (row,) = (each for each in json.loads(stream.snapshot())["queues"] if each["path"] == "/g")
    assert (row["state"], row["note"]) == ("in use", "205 members: web-000, web-001, web-002, ...")
    detail = json.loads(stream.queue(row["key"]) or b"")
    assert (len(detail["waiting"]), detail["more_waiting"]) == (MOST_WAITING, 5)
    assert (detail["waiting"][0]["name"], detail["holders"], detail["terms"]) == ("web-000", [], [])


def test_a_change_has_only_what_has_changed() -> None:
    """With 500 paths, one that changes costs its row: less than a kilobyte."""
    scene = scene_with(500, 10)
    stream = StateStream(scene, lambda: 2.0)

    async def story() -> None:
        events = stream.events()
        assert await anext(events) == b"retry: 1000\n\n"
        whole = await anext(events)
        assert whole.startswith(b"event: snapshot\n")
        assert len(json.loads(whole.split(b"data: ")[1])["queues"]) == 500
        scene.remove(f"/{'p' * 300}7/lock-0000000001")
        scene.settle(3.0)
        stream.changed()
        change = await anext(events)
        assert change.startswith(b"event: change\n")
        news = json.loads(change.split(b"data: ")[1])
        assert set(news) == {"now", "overview", "queues", "events"}
        (queue,) = news["queues"]
        assert (queue["contenders"], queue["holders"][0]["token"]) == (9, "2")
        assert [event["what"] for event in news["events"]] == ["began"]
        # The path, of which 200 characters are shown, is in it twice.
        assert len(change) < 1800
        # Whoever comes now gets everything.
        assert (await anext(aiter_after_retry(stream))).startswith(b"event: snapshot\n")
        stream.end()
        assert [event async for event in events] == []

    anyio.run(story)


def aiter_after_retry(stream: StateStream) -> AsyncIterator[bytes]:
    async def rest() -> AsyncIterator[bytes]:
        events = stream.events()
        await anext(events)
        async for event in events:
            yield event

    return rest()


def test_queues_that_are_gone_are_told() -> None:
    scene = Scene(["/a"])
    scene.set_session(SessionState.CONNECTED, 1, 0.0)
    scene.settle(1.0)
    stream = StateStream(scene, lambda: 2.0)

    async def story() -> None:
        events = aiter_after_retry(stream)
        (before,) = json.loads((await anext(events)).split(b"data: ")[1])["queues"]
        assert (before["path"], before["state"]) == ("/a", "unused")
        # What was looked under is left out as soon as there is something below it.
        stat = NOTHING._replace(czxid=1, ephemeral_owner=1, ctime=1000)
        scene.put("/a/b/lock-0000000001", stat, b"x")
        scene.settle(2.0)
        stream.changed()
        news = json.loads((await anext(events)).split(b"data: ")[1])
        assert news["gone"] == [before["key"]]
        assert [queue["path"] for queue in news["queues"]] == ["/a/b"]

    anyio.run(story)

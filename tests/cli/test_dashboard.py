"""The dashboard's HTTP: which requests it answers, and with what."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import ExitStack, aclosing, asynccontextmanager, suppress
from http.client import HTTPConnection
from typing import Any, Self
from urllib.parse import quote, urlsplit

import pytest
from cli.scenes import NOTHING, StagedScene
from cli.serving import EPHEMERAL_SEQUENTIAL, Served, served
from kit.cli import WITHIN, outcome
from kit.raw_client import RawClient

from aiolead import ACL
from aiolead._recipes.attempts import encode_letter
from aiolead._util.token_bucket import Numbers, Write
from aiolead.cli import exits
from aiolead.cli.dashboard.connections import (
    MOST_ADMITTED,
    MOST_STREAMS,
    MOST_UNAUTHENTICATED,
    BrowserConnections,
)
from aiolead.cli.dashboard.doors import Doors, host_of, is_loopback
from aiolead.cli.dashboard.site import make_site
from aiolead.cli.dashboard.state import MOST_QUEUES, MOST_TERMS, MOST_WAITING
from aiolead.cli.dashboard.state import detail as detail_as_value
from aiolead.cli.dashboard.state import queue as queue_as_value
from aiolead.cli.dashboard.state_stream import StateStream
from aiolead.cli.scene import Scene
from aiolead.cli.server_inquiry import ClientConnection
from aiolead.errors import NodeExistsError
from aiolead.model import Permission
from aiolead.types import ConfigVersion, DeadLetter

pytestmark = pytest.mark.exhaustive("an edge of the command")

TOKEN = "a-token-of-some-length+/="
ELECTED = "/jobs/one/_c_x-latch-"
SCRIPTS = tuple(f"/{name}.js" for name in ("dashboard", "detail", "elements", "table", "timeline"))
PAGES = ("/", "/dashboard.css", *SCRIPTS, "/icon.svg", "/state")


@pytest.fixture(scope="module")
def open_one() -> Iterator[Served]:
    """A dashboard that answers requests of this machine, without a token."""
    with served("/jobs", "--listen", "127.0.0.1:0", "--allow-host", "proxy.example") as one:
        yield one


@pytest.fixture(scope="module")
def locked() -> Iterator[Served]:
    """A dashboard that listens everywhere, and asks for a token."""
    env = {"AIOLEAD_DASHBOARD_TOKEN": TOKEN}
    with served("--listen", "0.0.0.0:0", **env) as one:
        yield one


# --- hosts and tokens ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:1", "LOCALHOST.", "[::1]:8764", "proxy.example", "127.0.0.1:"]
)
def test_own_host_is_answered(open_one: Served, host: str) -> None:
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
def test_other_host_is_refused(open_one: Served, host: str, target: str) -> None:
    response, body = open_one.ask(target, Host=host)
    assert (response.status, b"jobs" in body) == (421, False)


def test_missing_or_repeated_host_is_refused(open_one: Served) -> None:
    for hosts in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        answer = open_one.say(b"GET / HTTP/1.1\r\n" + hosts + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
    assert open_one.say(b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 421 ")


def test_request_without_the_token_is_refused(locked: Served) -> None:
    # A given token is a secret, which a supervisor would write into its log.
    assert urlsplit(locked.url).hostname == socket.gethostname().lower()
    assert locked.url.endswith(f":{locked.port}/")
    for target in ("/", "/state", "/events", "/dashboard.js", "/none", "/?token=", "/?token=no"):
        response, body = locked.ask(target)
        assert response.status == 401, target
        assert response.headers["WWW-Authenticate"].startswith("Bearer ")
        assert TOKEN.encode() not in body
    # The page that asks for the token needs its style.
    assert locked.status("/dashboard.css") == locked.status("/icon.svg") == 200
    asked, refused = locked.ask("/")[1], locked.ask("/?token=no")[1]
    assert b'name="token"' in asked
    assert b'role="alert"' not in asked
    assert b'<p class="bad" role="alert">This token is wrong.</p>' in refused
    assert locked.status("/?token=" + "a" * 10_000) == 401


def test_token_and_its_cookie_are_accepted(locked: Served) -> None:
    assert locked.status("/state", Authorization=f"Bearer {TOKEN}") == 200
    assert locked.status("/state", Authorization=f"Basic {TOKEN}") == 401
    assert locked.status("/state", Authorization="Bearer \xff") == 401
    response, body = locked.ask(f"/?token={quote(TOKEN, safe='')}")
    # The browser leaves the address with the token at once. The cookie does not contain it.
    assert (response.status, response.headers["Location"], body) == (303, "./", b"")
    cookie, *attributes = response.headers["Set-Cookie"].split("; ")
    assert attributes == ["HttpOnly", "SameSite=lax"]
    assert "token" not in cookie
    assert locked.status("/state", Cookie=f"other=1; {cookie}") == 200
    for wrong in (cookie[:-1], cookie.replace("=", "x=", 1), "a=\xff", f"{cookie.split('=')[0]}="):
        assert locked.status("/state", Cookie=wrong) == 401


def test_own_addresses_are_answered_when_listening_everywhere(locked: Served) -> None:
    for own in ("127.0.0.1", "localhost", "0.0.0.0", socket.gethostname()):
        assert locked.status("/icon.svg", Host=f"{own}:{locked.port}") == 200
    assert locked.status("/icon.svg", Host="10.1.2.3") == 421
    assert locked.status("/icon.svg", Host="evil.example") == 421


def test_token_is_generated() -> None:
    with served("--listen", "0.0.0.0:0") as one:
        token = one.told_token()
        assert len(token) >= 32
        # Standard output may be kept in a log.
        assert urlsplit(one.url).query == ""
        assert one.status("/state") == 401
        assert one.status("/state", Authorization=f"Bearer {token}") == 200


def test_hosts_are_normalized() -> None:
    assert host_of("Name.Example.:80") == "name.example"
    assert host_of("[::FFFF:127.0.0.1]:80") == "127.0.0.1"
    assert host_of("[0::1]") == "::1"
    for bad in ("", ":80", "a:b", "a:1:2", "[::1]x", "a:٣"):
        assert host_of(bad) is None
    assert is_loopback("127.8.0.1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("::")
    # A server that is bound to an address of the network is not localhost.
    assert not Doors("192.0.2.1", 1).knows("localhost", "192.0.2.1")
    assert Doors("192.0.2.1", 1).knows("192.0.2.1:1", "192.0.2.1")
    assert not Doors("127.0.0.1", 1).opens_to("")


def test_taken_port_is_reported(open_one: Served) -> None:
    hosts, taken = open_one.zookeeper.connect_string, f"127.0.0.1:{open_one.port}"
    code, out, err = outcome("dashboard", "--listen", taken, hosts=hosts)
    assert (code, out) == (1, [])
    assert err == [f"aiolead: cannot listen on {taken}: Address already in use (see: --listen)"]


def test_unreadable_path_is_reported_before_the_address(embedded: str) -> None:
    with RawClient(embedded) as raw:
        raw.create("/unreadable", acl=(ACL.world(Permission.DELETE),))
        try:
            listen = ("--listen", "127.0.0.1:0")
            code, out, err = outcome("dashboard", "/unreadable", *listen, hosts=embedded)
        finally:
            raw.delete("/unreadable")
    assert (code, out) == (exits.REFUSED, [])
    (line,) = err
    assert line.startswith("aiolead: not allowed by the znode's ACL: /unreadable (--auth or --sasl")


# --- pages ---------------------------------------------------------------------------------------


def test_every_answer_has_security_headers(open_one: Served) -> None:
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
def test_other_pages_do_not_exist(open_one: Served, target: str) -> None:
    response, body = open_one.ask(target)
    assert (response.status, body) == (404, b"There is no such page.\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(open_one: Served, method: str) -> None:
    response, _ = open_one.ask("/state", method, body=b"{}")
    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")


def test_head_has_the_length_of_get(open_one: Served) -> None:
    response, body = open_one.ask("/dashboard.js", "HEAD")
    whole = open_one.ask("/dashboard.js")[1]
    assert (response.status, body) == (200, b"")
    assert response.headers["Content-Length"] == str(len(whole))
    assert open_one.ask("/events", "HEAD")[1] == b""


def test_requests_are_pipelined(open_one: Served) -> None:
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
def test_malformed_request_is_refused(open_one: Served, nonsense: bytes) -> None:
    answer = open_one.say(nonsense)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert open_one.status("/state") == 200


# --- events --------------------------------------------------------------------------------------


class Listener:
    """Reads server-sent events, and applies the changes to its `state`, as the page does."""

    def __init__(self, port: int, **headers: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=WITHIN)
        self._connection.request("GET", "/events", headers=headers)
        self.response = self._connection.getresponse()
        self.state: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def link(self) -> socket.socket:
        assert self._connection.sock is not None
        return self._connection.sock

    def event(self) -> tuple[str, str]:
        """The name and the data of the next event."""
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
        news = json.loads(data)
        state = {} if name == "snapshot" else self.state
        queues = dict(state.get("queues", {}))
        for key in news.pop("gone", ()):
            queues.pop(key, None)
        queues |= {each["key"]: each for each in news.pop("queues", ())}
        events = [*state.get("events", ()), *news.pop("events", ())]
        self.state = {**state, **news, "queues": queues, "events": events}
        return name

    def until(self, condition: Callable[[dict[str, Any]], Any]) -> Any:
        """Waits for a current state in which a condition is true; returns its value."""
        while True:
            is_current = self.state and self.state["session"]["is_current"]
            if is_current and (found := condition(self.state)):
                return found
            self.take()

    def queue(self, path: str) -> dict[str, Any]:
        return next((each for each in self.state["queues"].values() if each["path"] == path), {})

    def until_held(self, path: str, holder: str | None) -> dict[str, Any]:
        """Waits until a contender is the only holder, or there is none; returns the queue."""

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
def test_change_of_leader_is_sent(request: pytest.FixtureRequest, name: str) -> None:
    one: Served = request.getfixturevalue(name)
    with Listener(one.port, Authorization=f"Bearer {TOKEN}") as listener:
        content_type = listener.response.headers["Content-Type"]
        assert content_type == "text/event-stream; charset=utf-8"
        assert listener.event() == ("", "")  # how soon to try again
        # The first state makes no events.
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


def test_unreadable_path_is_sent(locked: Served) -> None:
    with (
        Listener(locked.port, Authorization=f"Bearer {TOKEN}") as listener,
        RawClient(locked.zookeeper.connect_string) as raw,
    ):
        raw.create("/closed", acl=(ACL.world(Permission.DELETE),))
        listener.until(lambda state: state["unreadable"]["paths"] == ["/closed"])
        raw.delete("/closed")
        listener.until(lambda state: state["unreadable"]["paths"] == [])


def test_lost_connection_is_sent_and_a_signal_ends_the_command() -> None:
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
    """A HEAD request, whose answer comes in one piece."""
    lines = [f"HEAD {target} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def until_closed(link: socket.socket) -> bytes:
    """Reads until the other end closes or resets the connection."""
    data = b""
    with suppress(ConnectionResetError):
        while more := link.recv(65536):
            data += more
    return data


@pytest.mark.parametrize("name", ["open_one", "locked"])
def test_half_open_connections_block_no_client(request: pytest.FixtureRequest, name: str) -> None:
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
            # Old and new listeners get the event.
            after.until_held(path, "anna")
            before.until_held(path, "anna")


def answered(link: socket.socket, target: str, **headers: str) -> int:
    """Asks on an open connection; the status of the answer."""
    link.sendall(head_of(target, **headers))
    return int(link.recv(65536).split()[1])


@pytest.fixture
def dial(locked: Served) -> Iterator[Callable[[], socket.socket]]:
    """Opens connections to the locked dashboard."""
    with ExitStack() as links:
        where = "127.0.0.1", locked.port
        yield lambda: links.enter_context(socket.create_connection(where, WITHIN))


def test_continued_flood_blocks_no_client(
    locked: Served, dial: Callable[[], socket.socket]
) -> None:
    kept = dial()
    assert answered(kept, "/icon.svg", **KNOWN) == 200
    for _ in range(FLOOD // MOST_UNAUTHENTICATED + 1):
        for _ in range(MOST_UNAUTHENTICATED + 1):
            dial()
        # On a connection from before, and on a new one.
        assert answered(kept, "/state", **KNOWN) == 200
        assert locked.status("/state", **KNOWN) == 200


@pytest.mark.promise
def test_connection_with_a_wrong_token_is_dropped_in_a_flood(
    dial: Callable[[], socket.socket],
) -> None:
    guessed, shared, kept = dial(), dial(), dial()
    assert answered(guessed, "/state", Authorization="Bearer wrong") == 401
    # A proxy sends the requests of several users on one connection. The last one counts.
    for each in (shared, kept):
        assert answered(each, "/icon.svg", **KNOWN) == 200
    assert answered(shared, "/icon.svg") == 200
    for _ in range(MOST_UNAUTHENTICATED):
        dial()
    until_closed(guessed)
    until_closed(shared)
    assert answered(kept, "/state", **KNOWN) == 200


@pytest.mark.parametrize("name", ["open_one", "locked"])
def test_listeners_of_one_user_keep_out_nobody(request: pytest.FixtureRequest, name: str) -> None:
    one: Served = request.getfixturevalue(name)
    with ExitStack() as links:
        listeners = [
            links.enter_context(Listener(one.port, **KNOWN)) for _ in range(MOST_ADMITTED + 5)
        ]
        assert all(each.response.status == 200 for each in listeners)
        # The oldest ones made room for the newest, who may belong to somebody else.
        assert until_closed(listeners[0].link) is not None
        assert one.status("/state", **KNOWN) == 200
        assert listeners[-1].event() == ("", "")
        assert listeners[-1].until(lambda _: True)


async def test_request_is_refused_while_too_many_are_answered() -> None:
    connections = BrowserConnections(most_admitted=1)
    first, second = (connections.open("127.0.0.1", lambda: None) for _ in range(2))
    assert connections.admit(first)
    site = make_site(Doors("127.0.0.1", 1), connections, StateStream(Scene(), lambda: 1.0))
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/state",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
        "server": ("127.0.0.1", 1),
    }
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def status() -> int:
        sent.clear()
        await site({**scope, "state": {"connection": second}}, receive, send)
        return int(sent[0]["status"])

    assert await status() == 503
    assert (b"retry-after", b"10") in sent[0]["headers"]
    connections.rest(first)
    assert await status() == 200


def test_browsers_have_streams_of_their_own(locked: Served) -> None:
    def cookie() -> str:
        response, _ = locked.ask(f"/?token={quote(TOKEN, safe='')}")
        return str(response.headers["Set-Cookie"].partition(";")[0])

    first, second = cookie(), cookie()
    assert first != second
    with Listener(locked.port, Cookie=first) as kept, ExitStack() as links:
        for _ in range(MOST_STREAMS + 5):
            links.enter_context(Listener(locked.port, Cookie=second))
        assert kept.until(lambda _: True)
        assert locked.status("/state", Cookie=first) == 200


# --- the state -----------------------------------------------------------------------------------


PATH = f"/{'p' * 300}"


def scene_with(paths: int, contenders: int) -> StagedScene:
    scene = StagedScene()
    for path in range(paths):
        for n in range(1, contenders + 1):
            scene.enter(f"{PATH}{path}", n, name=f"lock-{n:010d}", data=b"x" * 1000)
    scene.settle(1.0)
    return scene


def test_state_is_bounded() -> None:
    scene = scene_with(MOST_QUEUES + 7, 5)
    state = json.loads(StateStream(scene, lambda: 2.0).snapshot())
    assert (len(state["queues"]), state["overview"]["more_paths"]) == (MOST_QUEUES, 7)
    # Long paths are cut, but their keys differ.
    assert len({queue["key"] for queue in state["queues"]}) == MOST_QUEUES
    assert len(json.dumps(state)) < 1_000_000

    scene = scene_with(1, MOST_WAITING + 6)
    (queue,) = scene.queues
    detail = detail_as_value(scene, queue, 2.0)
    assert (len(detail["waiting"]), detail["more_waiting"]) == (MOST_WAITING, 5)
    assert len(queue_as_value(scene, queue)["path"]) < 250
    for n in range(1, MOST_TERMS + 6):
        scene.remove(f"{PATH}0/lock-{n:010d}")
        scene.settle(1.0 + n)
    (queue,) = scene.queues
    terms = detail_as_value(scene, queue, 500.0)["terms"]
    assert len(terms) == MOST_TERMS
    assert len({term["key"] for term in terms}) == MOST_TERMS
    assert terms[-1]["ended"] is None


async def test_crowd_at_one_path_is_sent_in_few_bytes() -> None:
    scene = StagedScene()
    for n in range(1, 2001):
        scene.enter("/crowd", n)
    scene.settle(1.0)
    detail = await detail_in(scene, "/crowd")
    assert (len(detail["waiting"]), detail["more_waiting"]) == (200, 1799)
    assert len(json.dumps(detail)) < 60_000
    assert len(StateStream(scene, lambda: 2.0).snapshot()) < 1500


async def test_members_of_a_group_are_sent() -> None:
    scene = Scene()
    for n in range(MOST_WAITING + 5):
        scene.put(f"/g/web-{n:03}", NOTHING._replace(ephemeral_owner=1, czxid=n), b"")
    scene.settle(1.0)
    stream = StateStream(scene, lambda: 2.0)
    (row,) = (each for each in json.loads(stream.snapshot())["queues"] if each["path"] == "/g")
    assert (row["state"], row["note"]) == ("in use", "205 members: web-000, web-001, web-002, ...")
    detail = json.loads(await stream.queue(row["key"]) or b"")
    assert (len(detail["waiting"]), detail["more_waiting"]) == (MOST_WAITING, 5)
    assert (detail["waiting"][0]["name"], detail["holders"], detail["terms"]) == ("web-000", [], [])


async def detail_in(scene: Scene, path: str, **more: Any) -> dict[str, Any]:
    stream = StateStream(scene, lambda: 2000.0, **more)
    rows = json.loads(stream.snapshot())["queues"]
    (key,) = (each["key"] for each in rows if each["path"] == path)
    found: dict[str, Any] = json.loads(await stream.queue(key) or b"")
    return found


def table_of(detail: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the table of what a recipe has, by its columns."""
    things = detail["things"]
    return [dict(zip(things["columns"], row["cells"], strict=True)) for row in things["rows"]]


async def test_items_of_a_queue_are_sent_with_their_claimants_and_attempts() -> None:
    scene = Scene()
    for n in range(MOST_WAITING + 7):
        stat = NOTHING._replace(czxid=n, ctime=1_000_000 + n, data_length=n, cversion=2 * n)
        scene.put(f"/q/queue-{n:010d}", stat, b"")
    claim = NOTHING._replace(ephemeral_owner=7, czxid=900, ctime=1_500_000)
    scene.put("/q-claims/queue-0000000001", claim, b"host-1:4711")
    scene.settle(1000.0)
    scene.set_connected({7: ClientConnection("192.0.2.1:50000")}, 1001.0)
    detail = await detail_in(scene, "/q")
    things = detail["things"]
    assert (len(things["rows"]), things["more"], things["oldest"]) == (200, 7, 1000.0)
    first, second, third = table_of(detail)[:3]
    assert (first["Item"], first["Bytes"], first["Claimed by"]) == ("queue-0000000000", "0", "")
    assert (first["Attempts"], third["Attempts"], second["Age"]) == ("", "2", {"age": 1000.001})
    assert (second["Claimed by"], second["Session"]) == ("host-1:4711", "0x7")
    assert (second["Address"], second["For"]) == ("192.0.2.1:50000", {"age": 1500.0})
    assert detail["commands"] == ["aiolead ls -l /q"]


async def test_dead_letters_are_sent_with_their_reasons_and_read_once() -> None:
    letter = encode_letter([b'{"item":1}'], DeadLetter("/q/queue-0000000003", 5, "E: \x1b"))
    data = {"/dead/queue-0000000000": letter, "/dead/queue-0000000001": b"an item"}
    asked: list[str] = []

    async def read_data(paths: Sequence[str]) -> Mapping[str, bytes]:
        asked.extend(paths)
        return data

    scene = Scene()
    for n, path in enumerate(data):
        scene.put(path, NOTHING._replace(czxid=n), b"")
    scene.put("/dead/queue-0000000002", NOTHING._replace(data_length=1_000_000), b"")
    scene.settle(1.0)
    stream = StateStream(scene, lambda: 2.0, read_data=read_data)
    (row,) = (one for one in json.loads(stream.snapshot())["queues"] if one["path"] == "/dead")
    for _ in range(2):
        detail = json.loads(await stream.queue(row["key"]) or b"")
        assert [one["Dead letter of"] for one in table_of(detail)] == [
            "/q/queue-0000000003, after 5 attempts: E: \\x1b",
            "",
            "",
        ]
    assert asked == list(data)


async def test_open_tasks_of_a_board_are_sent_with_their_workers() -> None:
    scene = Scene()
    for n in range(2):
        scene.put(f"/b/tasks/task-{n:010d}", NOTHING._replace(czxid=n), b"")
    for part in ("tasks", "claims", "results"):
        scene.put(f"/b/{part}", NOTHING, b"")
    claim = NOTHING._replace(ephemeral_owner=7, czxid=9)
    scene.put("/b/claims/task-0000000001", claim, b'{"worker":"w1","progress":null,"note":""}')
    scene.settle(1000.0)
    detail = await detail_in(scene, "/b")
    assert [one["Claimed by"] for one in table_of(detail)] == ["", "w1"]


async def test_versions_of_a_configuration_say_which_keys_differ() -> None:
    """Values are not sent: they may be secret."""
    history = [
        ConfigVersion(5, {"rate": b"20", "new": b"secret"}, "ben", 2000),
        ConfigVersion(4, {"rate": b"10", "old": b"x"}, "ann", 1000),
    ]
    asked: list[str] = []

    async def read_history(path: str) -> list[ConfigVersion]:
        asked.append(path)
        return history

    scene = Scene()
    for path in ("/c/keys", "/c/history", "/c/keys/rate", "/c/history/0000000005"):
        scene.put(path, NOTHING, b"")
    scene.settle(1000.0)
    detail = await detail_in(scene, "/c", read_history=read_history)
    assert [(one["Version"], one["By"], one["Changes"]) for one in table_of(detail)] == [
        ("5", "ben", "added: new; changed: rate; removed: old"),
        # The version before it is not kept.
        ("4", "ann", "none known"),
    ]
    assert "secret" not in json.dumps(detail)
    assert detail["commands"] == ["aiolead config history /c", "aiolead config get /c"]
    assert asked == ["/c"]


async def test_keys_of_a_once_are_sent_with_who_runs_or_ran_them() -> None:
    scene = Scene()
    for n, key in enumerate(("2026-11-20", "a%2Fb")):
        stat = NOTHING._replace(czxid=n, ctime=1_000_000 + n)
        scene.put(f"/n/{key}", stat, b"__DONE__host-1:3")
    running = NOTHING._replace(ephemeral_owner=7, czxid=9, ctime=1_500_000)
    scene.put("/n/2026-11-21", running, b"host-2:4")
    scene.settle(1000.0)
    scene.set_connected({7: ClientConnection("192.0.2.1:50000")}, 1001.0)
    detail = await detail_in(scene, "/n")
    assert detail["things"]["title"] == "1 running, 2 done, the newest first"
    assert (detail["waiting"], detail["counted"]) == ([], "running")
    found = [
        (one["Key"], one["State"], one["By"], one["Address"], one["Began or done (UTC)"])
        for one in table_of(detail)
    ]
    assert found == [
        ("2026-11-21", "running", "host-2:4", "192.0.2.1:50000", {"at": 1500.0}),
        ("a/b", "done", "host-1:3", "", {"at": 1000.001}),
        ("2026-11-20", "done", "host-1:3", "", {"at": 1000.0}),
    ]


async def test_rate_limit_is_sent_with_the_calls_that_are_allowed_now() -> None:
    scene = Scene()
    stat = NOTHING._replace(mtime=1_990_000, mzxid=1)
    scene.put("/l", stat, Write(Numbers(6, 60, 20), lack=0, take=15, least=15).encode())
    scene.settle(1000.0)
    detail = await detail_in(scene, "/l")
    (row,) = table_of(detail)
    assert row == {
        "Calls": "6 in 60 s",
        "At most at once": "20",
        "Free now, about": {"level": 6.0, "at": 2000.0, "speed": 0.1, "most": 20},
        "Last share": "15",
        "Taken (UTC)": {"at": 1990.0},
    }
    assert (detail["counted"], detail["commands"]) == (None, ["aiolead get /l", "aiolead stat /l"])


async def test_contenders_are_sent_with_priority_and_readiness() -> None:
    scene = StagedScene()
    for n, data in enumerate((b"__REVOKE__a", b"__REVOKE__b", b"__UNREADY__c"), 1):
        scene.enter("/e", n, data=data, name=f"0123456789abcdef-{n}-priority{n}-latch-{n:010d}")
    scene.settle(1000.0)
    detail = await detail_in(scene, "/e")
    assert [(one["name"], one["notes"]) for one in (*detail["holders"], *detail["waiting"])] == [
        ("a", ["priority 1", "asked to resign"]),
        ("b", ["priority 2", "asked to step behind"]),
        ("c", ["priority 3", "not ready"]),
    ]


async def test_holder_is_sent_with_session_address_and_znode() -> None:
    scene = StagedScene()
    scene.enter("/it's", 1)
    scene.enter("/it's", 2)
    scene.settle(1000.0)
    scene.set_connected({1: ClientConnection("192.0.2.1:50000")}, 1001.0)
    scene.leave("/it's", 2)
    scene.settle(1025.0)
    detail = await detail_in(scene, "/it's")
    (holder,) = detail["holders"]
    assert (holder["session"], holder["address"]) == ("0x1", "192.0.2.1:50000")
    assert holder["znode"] == "/it's/_c_x-latch-0000000001"
    assert detail["commands"][0] == "aiolead contenders '/it'\"'\"'s'"
    # One waited from 1000 on, and nobody since 1020.
    assert detail["series"] == [[1000.0, 1, 1], [1020.0, 0, 0]]
    scene.enter("/\u202e", 3)
    scene.settle(1030.0)
    assert (await detail_in(scene, "/\\u202e"))["commands"] == []


@asynccontextmanager
async def listening(stream: StateStream) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """A function that waits for the next event; its name and its value."""
    async with aclosing(stream.events()) as events:
        assert await anext(events) == b"retry: 1000\n\n"

        async def event() -> tuple[str, dict[str, Any]]:
            name, data = (await anext(events)).split(b"\ndata: ")
            return name.decode().removeprefix("event: "), json.loads(data)

        yield event


async def test_change_has_only_what_has_changed() -> None:
    """With 500 paths, a change of one path has less than two kilobytes."""
    scene = scene_with(500, 10)
    stream = StateStream(scene, lambda: 2.0)
    async with listening(stream) as event, listening(stream) as other:
        name, whole = await event()
        assert (name, len(whole["queues"])) == ("snapshot", 500)
        scene.remove(f"{PATH}7/lock-0000000001")
        scene.settle(3.0)
        stream.changed()
        name, news = await event()
        assert (name, set(news)) == ("change", {"now", "overview", "queues", "events"})
        (queue,) = news["queues"]
        assert (queue["contenders"], queue["holders"][0]["token"]) == (9, "2")
        assert [event["what"] for event in news["events"]] == ["began"]
        # The path, which is cut to 200 characters, is in it twice.
        assert len(json.dumps(news)) < 1800
        # A new listener gets everything.
        assert (await other())[0] == "snapshot"
        stream.end()
        with pytest.raises(StopAsyncIteration):
            await event()


async def test_removed_queues_are_sent() -> None:
    scene = StagedScene("/a")
    scene.settle(1.0)
    stream = StateStream(scene, lambda: 2.0)
    async with listening(stream) as event:
        (before,) = (await event())[1]["queues"]
        assert (before["path"], before["state"]) == ("/a", "unused")
        # A given path is left out as soon as there is a queue below it.
        scene.enter("/a/b", 1, mark="lock-")
        scene.settle(2.0)
        stream.changed()
        _, news = await event()
        assert news["gone"] == [before["key"]]
        assert [queue["path"] for queue in news["queues"]] == ["/a/b"]

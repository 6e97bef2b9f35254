"""Where the servers are: a connect string, a file, the DNS, a function; and what if these fail."""

from __future__ import annotations

import logging
import random
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import anyio
import dns.asyncresolver
import dns.message
import dns.rcode
import dns.rrset
import pytest
from client.login.certificates import Authority
from client.network import ONE, THREE, TWO, Network
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.clients import PATIENCE, SESSION, eventually, stopped_clock, why_not_connected
from kit.virtual_time import embedded, virtually

import aiolead
from aiolead import TLS, CreateMode, Hosts, Lock
from aiolead._client.net import host_sources
from aiolead._client.net.host_list import HostList, Server, moves
from aiolead._client.net.host_sources import Answer, servers_of
from aiolead._client.net.known_addresses import KnownAddresses
from aiolead.errors import (
    AioleadError,
    ConfigurationError,
    ConnectFailed,
    ConnectionLossError,
    InvalidConnectStringError,
    Outcome,
)
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer


class Provider:
    """A provider with answers of the test, which counts how often it is asked."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers: list[Answer | Exception] = list(answers)
        self.asked = 0

    async def __call__(self) -> Answer:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def hosts(self, **options: Any) -> Hosts:
        return Hosts.provider(self, **{"refresh": 0.02, **options})


# --- answers ----------------------------------------------------------------------------------

ANSWERS: list[tuple[Answer, Sequence[tuple[str, int]]]] = [
    ("zk1,zk2:1", [("zk1", 2181), ("zk2", 1)]),
    ("zk1\nzk2:1\n", [("zk1", 2181), ("zk2", 1)]),
    (" zk1 , \n\n# the old ones:\n[::1]:7 # beside\n", [("zk1", 2181), ("::1", 7)]),
    ([("zk1", 2181), ("::1", 7)], [("zk1", 2181), ("::1", 7)]),
    ("", []),
    ("# nothing\n\n", []),
    ([], []),
]


@pytest.mark.parametrize(("answer", "servers"), ANSWERS)
def test_answer_names_these_servers(answer: Answer, servers: Sequence[tuple[str, int]]) -> None:
    assert list(servers_of(answer)) == list(servers)


NONSENSE: list[Any] = [
    "zk1:0", "zk1 zk2", "zk1/app", "zk1\nzk2/app", [("zk1", 0)], [("zk1",)], ["zk1"], [("a/b", 1)],
    [("zk1", "x")], [7],
]  # fmt: skip


@pytest.mark.parametrize("answer", NONSENSE)
def test_invalid_answer_is_refused(answer: Any) -> None:
    with pytest.raises(ConfigurationError, match="hosts: "):
        servers_of(answer)


# --- providers ---------------------------------------------------------------------------------


async def test_provider_is_asked_before_the_first_connection(network: Network) -> None:
    provider = Provider(ONE)
    hosts = provider.hosts(refresh=3600, chroot="/app")
    assert str(hosts) == "the provider/app"
    async with network, network.connect(hosts) as client:
        await client.ensure_path("/")
        assert network.server.znodes() == ["/app"]
        assert provider.asked == 1
        assert network.dialled == [ONE]


async def test_provider_is_asked_again_from_time_to_time(network: Network) -> None:
    provider = Provider(ONE)
    async with network:
        async with network.connect(provider.hosts()) as client:
            session = client.session_id
            provider.answers[:] = [[(TWO, 2181), (THREE, 2181)]]
            await eventually(lambda: network.dialled[-1] != ONE, "it moves")
            await client.ready()
            assert client.session_id == session
        asked = provider.asked
        await anyio.wait_all_tasks_blocked()
        assert provider.asked == asked


@virtually
async def test_provider_is_asked_again_when_no_server_answers(network: Network) -> None:
    provider = Provider(ONE)
    async with network, network.connect(provider.hosts(refresh=3600)) as client:
        network.crash(ONE)
        provider.answers[:] = [TWO]
        await eventually(lambda: network.dialled[-1] == TWO, "it is asked, and used")
        await client.ready()
        assert provider.asked == 2


async def test_failed_answer_is_ignored(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "aiolead")
    provider = Provider(ONE, KeyError("no such key"), "", "zk1:0", ONE)
    async with network, network.connect(provider.hosts()) as client:
        await eventually(lambda: provider.asked > 6, "it goes on asking")
        await client.sync()
        assert client.state is SessionState.CONNECTED
        assert network.dialled == [ONE]
    for said in ("the provider: 'no such key'", "the provider: names no server", "is no port"):
        assert said in caplog.text


async def test_first_answer_is_waited_for(network: Network) -> None:
    provider = Provider(OSError("not yet"), OSError("not yet"), "", ONE)
    async with network, network.connect(provider.hosts()):
        assert provider.asked == 4


@virtually
async def test_first_answer_is_waited_for_within_connect_timeout(network: Network) -> None:
    provider = Provider(OSError("out of order"))
    with pytest.raises(ConnectFailed, match=r"the provider: out of order") as raised:
        async with network, network.connect(provider.hosts(), connect_timeout=0.2):
            raise AssertionError
    assert [name for name, _ in raised.value.attempts] == ["the provider"]


async def test_provider_that_hangs_is_asked_again(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_sources, "PATIENCE", 0.05)
    asked = 0

    async def hangs_at_first() -> str:
        nonlocal asked
        asked += 1
        if asked == 1:
            await anyio.sleep_forever()
        return "10.0.0.1"

    hosts = Hosts.provider(hangs_at_first, refresh=0.02)
    async with network, network.connect(hosts) as client:
        await client.sync()


async def test_update_hosts_holds_until_the_next_answer(network: Network) -> None:
    async with network, network.connect(Provider(ONE).hosts(refresh=3600)) as client:
        client.update_hosts(TWO)
        await eventually(lambda: network.dialled[-1] == TWO, "it moves")


async def test_with_observe_config_it_is_only_where_to_begin(network: Network) -> None:
    config = "server.1=10.0.0.1:2888:3888;2181\nserver.2=10.0.0.2:2888:3888;2181"
    network.server = embedded(config=config)
    async with network:
        provider = Provider("10.0.0.9")
        async with network.connect(provider.hosts(), observe_config=True):
            await eventually(lambda: network.dialled[-1] in (ONE, TWO), "it moves")
            await anyio.sleep(0.1)
        assert provider.asked == 1


# --- a file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Path, str])
async def test_changed_file_is_followed(
    network: Network, tmp_path: Path, kind: Callable[[Path], Path | str]
) -> None:
    file = tmp_path / "servers"
    file.write_text("10.0.0.1\n")
    hosts = Hosts.file(kind(file), refresh=0.02)
    async with network, network.connect(hosts) as client:
        file.unlink()
        await anyio.sleep(0.05)
        file.write_text("# two now\n10.0.0.2,\n10.0.0.3")
        await eventually(lambda: network.dialled[-1] != ONE, "it moves")
        await client.sync()


async def test_missing_file_is_the_reason(tmp_path: Path) -> None:
    hosts = Hosts.file(tmp_path / "servers", refresh=0.02, chroot="/app")
    failed = await why_not_connected(hosts, session_timeout=SESSION)
    assert re.search(r"servers/app within .*No such file", str(failed))


# --- DNS ---------------------------------------------------------------------------------------

NAME = "_zookeeper._tcp.example.test."


class Dns:
    """A DNS server for one name, over UDP on loopback. A context manager.

    Attributes:
        records: its answer; with None, there is no such name.
    """

    def __init__(self) -> None:
        self.records: list[str] | None = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def resolver(self) -> dns.asyncresolver.Resolver:
        resolver = dns.asyncresolver.Resolver(configure=False)
        resolver.nameservers = ["127.0.0.1"]
        resolver.port = self._socket.getsockname()[1]
        return resolver

    def _serve(self) -> None:
        while (received := self._socket.recvfrom(4096))[0] != b"end":
            answer = dns.message.make_response(dns.message.from_wire(received[0]))
            if self.records is None:
                answer.set_rcode(dns.rcode.NXDOMAIN)
            elif self.records:
                answer.answer.append(dns.rrset.from_text_list(NAME, 1, "IN", "SRV", self.records))
            self._socket.sendto(answer.to_wire(), received[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.sendto(b"end", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


async def test_srv_records_are_followed() -> None:
    with Dns() as zone:
        async with EmbeddedServer() as first, EmbeddedServer() as second:
            zone.records = [f"10 0 {first.port} localhost."]
            hosts = Hosts.srv(NAME, resolver=zone.resolver(), refresh=0.05)
            # The second server knows nothing of the session, which is given up in the end.
            async with aiolead.connect(hosts, session_timeout=1) as client:
                assert client.session_id in first.sessions()
                zone.records = None  # no such name: nothing changes
                await anyio.sleep(0.1)
                await client.sync()
                zone.records = [f"10 5 {second.port} localhost.", f"20 0 {second.port} localhost."]
                await eventually(lambda: client.session_id in second.sessions(), "it moves")


async def test_missing_srv_records_are_the_reason() -> None:
    with Dns() as zone:
        for records, why in ((None, "does not exist"), ([], "does not contain an answer")):
            zone.records = records
            hosts = Hosts.srv(NAME, resolver=zone.resolver())
            failed = await why_not_connected(hosts, session_timeout=SESSION)
            assert why in str(failed)


@pytest.mark.exhaustive("a refusal waits for real", one_in=2)
@pytest.mark.parametrize(
    ("identity", "trust_targets", "is_served"),
    [
        # The name of a target is an attacker's choice: its own certificate proves nothing.
        ("localhost", False, False),
        ("localhost", True, True),
        ("example.test", False, True),
        ("other.test", False, False),
    ],
)
async def test_srv_target_elsewhere_must_have_the_certificate_of_the_domain(
    tmp_path: Path, identity: str, trust_targets: bool, is_served: bool
) -> None:
    authority = Authority(tmp_path)
    context = authority.server_context(authority.issue(identity))
    with Dns() as zone:
        async with EmbeddedServer(ssl_context=context) as server:
            zone.records = [f"10 0 {server.port} localhost."]
            hosts = Hosts.srv(NAME, resolver=zone.resolver(), trust_targets=trust_targets)
            options: dict[str, Any] = {"session_timeout": SESSION, "tls": TLS(ca=authority.pem)}
            if is_served:
                async with aiolead.connect(hosts, connect_timeout=PATIENCE, **options) as client:
                    await client.exists("/")
            else:
                failed = await why_not_connected(hosts, **options)
                assert "certificate was refused" in str(failed)


@pytest.mark.parametrize(
    ("name", "host", "checked"),
    [
        ("_zookeeper._tcp.example.com", "zk1.example.com", "zk1.example.com"),
        ("_zookeeper._tcp.Example.com.", "ZK1.example.COM", "ZK1.example.COM"),
        ("_zookeeper._tcp.example.com", "example.com", "example.com"),
        ("_zookeeper._tcp.example.com", "evilexample.com", "example.com"),
        ("_zookeeper._tcp.example.com", "example.com.evil.org", "example.com"),
        ("_zookeeper._tcp.example.com", "10.0.0.1", "example.com"),
        ("zk.example.com", "a.zk.example.com", "a.zk.example.com"),
        ("zk.example.com", "b.example.com", "zk.example.com"),
        ("_zookeeper._tcp", "zk1", "_zookeeper._tcp"),
    ],
)
def test_certificate_name_of_an_srv_target(name: str, host: str, checked: str) -> None:
    assert Hosts.srv(name).certificate_name(host) == checked
    assert Hosts.srv(name, trust_targets=True).certificate_name(host) == host


def test_missing_dnspython_is_reported() -> None:
    code = "import sys; sys.modules['dns'] = None; import aiolead; aiolead.Hosts.srv('_zk._tcp.x')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ConfigurationError: Hosts.srv: needs dnspython: install aiolead[dns]" in result.stderr


# --- invalid hosts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Hosts.provider("zk1"), "provider: "),  # type: ignore[arg-type]
        (lambda: Hosts.file(7), "path: "),  # type: ignore[arg-type]
        (lambda: Hosts.srv(""), "name: "),
        (lambda: Hosts.srv(NAME, resolver="8.8.8.8"), "resolver: "),
        (lambda: Hosts.srv(NAME, trust_targets=1), "trust_targets: "),  # type: ignore[arg-type]
        (lambda: Hosts.file("x", refresh=0), "refresh: "),
        (lambda: Hosts.file("x", refresh=float("nan")), "refresh: "),
        (lambda: Hosts.file("x", chroot="app"), "chroot: "),
    ],
)
def test_invalid_hosts_are_refused(make: Any, complaint: str) -> None:
    with pytest.raises(AioleadError, match=complaint) as raised:
        make()
    assert isinstance(raised.value, ConfigurationError)


# --- a list that changes -------------------------------------------------------------------------


async def test_removed_server_is_left_and_the_session_goes_on(network: Network) -> None:
    async with network, network.connect(ONE) as client:
        session = client.session_id
        await client.create("/e", mode=CreateMode.EPHEMERAL)
        watch = client.backend.make_watch()
        await client.get("/e", watch=watch)
        client.update_hosts("10.0.0.2,10.0.0.3")
        await eventually(lambda: len(network.dialled) == 2, "it moves")
        await client.ready()
        assert client.session_id == session
        assert network.dialled[1] in (TWO, "10.0.0.3")
        assert network.server.connections == 1
        await client.set("/e", b"1")  # the watch is set again
        assert (await watch.wait()).path == "/e"


async def test_requests_keep_their_order_across_moves(network: Network) -> None:
    async with network, network.connect(ONE) as client:
        await client.create("/n")
        replies = []
        for n in range(60):
            if n % 10 == 5:
                client.update_hosts(f"10.0.0.{n}")
            replies.append(client.set("/n", b"%d" % n, version=n))
            await anyio.lowlevel.checkpoint()
        for n, reply in enumerate(replies):
            assert (await reply).version == n + 1
        await eventually(lambda: network.dialled[-1] == "10.0.0.55", "the last one is reached")


async def test_list_with_the_current_server_causes_no_move(network: Network) -> None:
    async with network, network.connect("10.0.0.1,10.0.0.2") as client:
        current = network.dialled[0]
        client.update_hosts(current)
        client.update_hosts(current)
        await client.sync()
        assert network.dialled == [current]
        network.server.disconnect()
        await eventually(lambda: len(network.dialled) == 2, "it comes back")
        assert network.dialled == [current] * 2


async def test_requests_in_flight_are_answered_before_a_move(network: Network) -> None:
    """The clock stands still, so that nothing else ends the connection."""
    network.server = embedded(max_session_timeout=80)
    options = {"session_timeout": 80, "clock": stopped_clock}
    async with network, network.connect(ONE, **options) as client:
        network.server.pause()
        write = client.create("/a")
        await anyio.wait_all_tasks_blocked()
        client.update_hosts(TWO)
        later = client.create("/b")
        await anyio.wait_all_tasks_blocked()
        assert client.state is SessionState.CONNECTED
        network.server.resume()
        assert (await write).path == "/a"
        assert (await later).path == "/b"
        assert network.dialled == [ONE, TWO]


async def test_answers_are_waited_for_within_the_session_timeout(network: Network) -> None:
    async with (
        network,
        network.connect(ONE, session_timeout=2, clock=stopped_clock) as client,
        client.observe() as states,
    ):
        network.server.pause()
        write = client.create("/a")
        await anyio.wait_all_tasks_blocked()
        client.update_hosts(TWO)
        with pytest.raises(ConnectionLossError) as raised:
            await write
        assert raised.value.outcome is Outcome.UNKNOWN
        assert (await anext(states)).state is SessionState.SUSPENDED
        network.server.resume()
        await client.ready()
        assert network.dialled[-1] == TWO


@virtually
async def test_hold_outlives_moves(network: Network) -> None:
    async with network, network.connect(ONE) as client, Lock(client, "/lock").acquire() as held:
        await eventually(lambda: network.server.requests["MULTI"] > 0, "the first renewal")
        for n in range(2, 6):
            client.update_hosts(f"10.0.0.{n}")
            await eventually(lambda n=n: len(network.dialled) == n, "it moves")
            await client.ready()
            renewals = network.server.requests["MULTI"]
            await eventually(
                lambda renewals=renewals: network.server.requests["MULTI"] > renewals, "renewed"
            )
            held.check()
        assert held.remaining() > 0


async def test_new_list_is_used_while_no_server_answers(network: Network) -> None:
    async with network, network.connect(ONE) as client:
        session = client.session_id
        network.down.add(ONE)
        network.server.disconnect()
        await eventually(lambda: client.state is SessionState.SUSPENDED, "the connection is lost")
        client.update_hosts("10.0.0.1,10.0.0.2")
        await client.ready()
        assert network.dialled == [ONE, TWO]
        assert client.session_id == session


async def test_server_removed_during_its_handshake_is_left(network: Network) -> None:
    async with network, network.connect(ONE) as client:
        network.server.pause()
        network.server.disconnect()
        await eventually(lambda: len(network.dialled) == 2, "a second connection")
        client.update_hosts(TWO)
        network.server.resume()
        await eventually(lambda: network.dialled[-1] == TWO, "the server is left again")
        await client.ready()
        await client.sync()


@pytest.mark.parametrize("hosts", ["", "zk1:0", "zk1,zk2/a,zk3/b", "zk1/a,zk2", None, 7])
async def test_invalid_connect_string_changes_nothing(network: Network, hosts: Any) -> None:
    async with network, network.connect(ONE) as client:
        with pytest.raises(InvalidConnectStringError):
            client.update_hosts(hosts)
        with pytest.raises(ConfigurationError, match="keeps its chroot"):
            client.update_hosts("10.0.0.2/app")
        await client.sync()
        assert network.dialled == [ONE]


async def test_closed_client_does_not_move(network: Network) -> None:
    async with network:
        async with network.connect(ONE) as client:
            pass
        client.update_hosts(TWO)
        await anyio.wait_all_tasks_blocked()
        assert network.dialled == [ONE]


# --- which clients move --------------------------------------------------------------------------

# What "even" means is counted over many clients, each of which decides alone.


def servers(first: int, count: int) -> list[Server]:
    return [(f"zk{n}", 2181) for n in range(first, first + count)]


class Strata(random.Random):
    """Its first draw is the middle of the k-th of n strata: over all k, chance is counted out."""

    def __init__(self, k: int, n: int) -> None:
        super().__init__(k)
        self._first: float | None = (k + 0.5) / n

    def random(self) -> float:
        first, self._first = self._first, None
        return super().random() if first is None else first

    def shuffle(self, x: Any) -> None:
        """In place, without a draw: which server of a group it is does not matter here."""


CLIENTS = 200


@settings(deadline=None)
@given(stay=st.integers(0, 6), gone=st.integers(0, 6), came=st.integers(0, 6))
def test_each_group_gets_its_share(stay: int, gone: int, came: int) -> None:
    """Exactly, but for the rounding: one client per server that clients leave."""
    before, now = servers(0, stay + gone), servers(gone, stay + came)
    if not before or not now:
        return
    load: Counter[str] = Counter()
    for server in before:
        for k in range(CLIENTS):
            order = moves(before, now, server, Strata(k, CLIENTS))
            where = order[0] if order else server
            load["old" if where in before else "new"] += 1
    even = CLIENTS * len(before) / len(now)
    assert load["old"] == pytest.approx(stay * even, abs=len(before))
    assert load["new"] == pytest.approx(came * even, abs=len(before))


@settings(deadline=None)
@given(
    stay=st.integers(0, 6), gone=st.integers(0, 6), came=st.integers(0, 6), seed=st.integers(0, 999)
)
def test_moving_clients_may_go_to_any_server(stay: int, gone: int, came: int, seed: int) -> None:
    before, now = servers(0, stay + gone), servers(gone, stay + came)
    if not before or not now:
        return
    for server in before:
        order = moves(before, now, server, random.Random(seed))
        assert sorted(order) == sorted(now) or (order == [] and server in now)
        if server not in now:
            assert order
        if len(now) <= len(before) and server in now:
            assert order == []  # its server lacks load: nobody leaves it
        if order and len(now) > len(before):
            assert order[0] not in before  # the old ones have too much


CHANGES = [
    pytest.param(servers(0, 3), servers(0, 5), id="two added"),
    pytest.param(servers(0, 5), servers(0, 3), id="two removed"),
    pytest.param(servers(0, 3), servers(2, 3), id="two replaced"),
    pytest.param(servers(0, 4), servers(3, 3), id="three removed, two added"),
    pytest.param(servers(0, 3), servers(1, 5), id="one removed, three added"),
    pytest.param(servers(0, 3), servers(3, 3), id="all replaced"),
]


@pytest.mark.parametrize(("before", "now"), CHANGES)
def test_load_is_even_on_each_server(before: list[Server], now: list[Server]) -> None:
    rng = random.Random(20)
    each = 6000
    load: Counter[Server] = Counter()
    for server in before:
        for _ in range(each):
            order = moves(before, now, server, rng)
            load[order[0] if order else server] += 1
    even = each * len(before) / len(now)
    # Binomial: five standard deviations, of which one in a million draws is beyond.
    assert set(load) == set(now)
    assert all(abs(count - even) < 5 * even**0.5 for count in load.values()), load


@pytest.mark.parametrize(("before", "now"), CHANGES)
def test_no_client_moves_without_need(before: list[Server], now: list[Server]) -> None:
    """As many as have to come to the new servers, or have to leave the old ones, and no more."""
    rng = random.Random(21)
    each = 6000
    moved = sum(bool(moves(before, now, server, rng)) for server in before for _ in range(each)) / (
        each * len(before)
    )
    gone = sum(server not in now for server in before) / len(before)
    came = sum(server not in before for server in now) / len(now)
    assert moved == pytest.approx(max(gone, came), abs=0.02)


def test_second_choice_is_drawn_like_the_first() -> None:
    """A server that does not take us is passed over, and the draw is repeated while it can be."""
    before, now = servers(0, 4), servers(3, 3)  # one stays, two come: an old one for 1 of 9
    seconds: Counter[bool] = Counter()
    rng = random.Random(22)
    for _ in range(9000):
        first, second, _third = moves(before, now, ("zk0", 2181), rng)
        if first not in before:
            seconds[second in before] += 1
    assert seconds[True] / seconds.total() == pytest.approx(1 / 9, abs=0.02)


# --- the list that clients keep ----------------------------------------------------------------


def listed(hosts: list[Server], rng: random.Random) -> HostList:
    return HostList(hosts, rng, KnownAddresses(lambda _job: None))


def at(hosts: HostList, server: Server) -> HostList:
    assert hosts.opened(server)
    return hosts


def test_lost_server_comes_last() -> None:
    for seed in range(20):
        hosts = at(listed(servers(0, 3), random.Random(seed)), ("zk1", 2181))
        assert hosts.round()[-1] == ("zk1", 2181)


def test_same_servers_in_another_order_are_no_change() -> None:
    hosts = at(listed(servers(0, 3), random.Random(1)), ("zk1", 2181))
    assert not hosts.update([*reversed(servers(0, 3)), ("zk0", 2181)])
    assert not hosts.has_changed


def test_removed_server_is_left_by_plan_for_one_round() -> None:
    hosts = at(listed(servers(0, 3), random.Random(1)), ("zk0", 2181))
    assert hosts.update(servers(1, 4))  # more than before: new ones first
    assert hosts.has_changed
    planned = hosts.round()
    assert set(planned[:2]) == {("zk3", 2181), ("zk4", 2181)}
    assert sorted(planned) == servers(1, 4)
    assert not hosts.has_changed
    assert {hosts.round()[0] for _ in range(50)} == set(servers(1, 4))


def test_unconnected_client_uses_the_new_list() -> None:
    hosts = listed(servers(0, 3), random.Random(1))
    assert not hosts.update(servers(5, 2))
    assert hosts.has_changed
    assert sorted(hosts.round()) == servers(5, 2)


def test_server_removed_while_it_answers_is_not_used() -> None:
    hosts = listed(servers(0, 3), random.Random(1))
    hosts.update(servers(1, 2))
    assert not hosts.opened(("zk0", 2181))
    assert hosts.opened(("zk1", 2181))


def test_two_changes_in_a_row_are_as_even_as_one() -> None:
    """A client that moves counts for the server that it moves to."""
    load: Counter[Server] = Counter()
    rng = random.Random(23)
    each = 3000
    for server in servers(0, 3):
        for _ in range(each):
            hosts = at(listed(servers(0, 3), rng), server)
            one = hosts.update(servers(0, 5))
            two = hosts.update(servers(2, 6))
            load[hosts.round()[0] if one or two else server] += 1
    even = each * 3 / 6
    assert set(load) == set(servers(2, 6))
    assert all(abs(count - even) < 5 * even**0.5 for count in load.values()), load

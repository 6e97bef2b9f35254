"""Where the servers are: a connect string, a file, the DNS, a function; and what if these fail."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import dns.asyncresolver
import dns.message
import dns.rcode
import dns.rrset
import pytest
from client.login.certificates import Authority
from client.login.login_servers import why_not_connected
from client.many_addresses import a_fleet
from conftest import ServerUnderTest
from kit.clients import SESSION, eventually
from kit.virtual_time import virtually

import aiolead
from aiolead import TLS, Hosts
from aiolead._client.net.host_sources import Answer, servers_of
from aiolead.errors import AioleadError, ConfigurationError, ConnectFailed
from aiolead.model import SessionState
from aiolead.testing import EmbeddedServer


class RecordedEvents:
    """A provider that says what it is told to, and counts how often."""

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


# --- what an answer is -------------------------------------------------------------------------

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
def test_answers(answer: Answer, servers: Sequence[tuple[str, int]]) -> None:
    assert list(servers_of(answer)) == list(servers)


NONSENSE: list[Any] = [
    "zk1:0", "zk1 zk2", "zk1/app", "zk1\nzk2/app", [("zk1", 0)], [("zk1",)], ["zk1"], [("a/b", 1)],
    [("zk1", "x")], [7],
]  # fmt: skip


@pytest.mark.parametrize("answer", NONSENSE)
def test_what_is_no_answer(answer: Any) -> None:
    with pytest.raises(ConfigurationError, match="hosts: "):
        servers_of(answer)


# --- a function --------------------------------------------------------------------------------


async def test_it_is_asked_before_the_first_connection() -> None:
    async with a_fleet() as fleet:
        told = RecordedEvents("10.0.0.1")
        hosts = told.hosts(refresh=3600, chroot="/app")
        assert str(hosts) == "the provider/app"
        async with fleet.connect(hosts) as client:
            await client.ensure_path("/")
            assert fleet.server.znodes() == ["/app"]
        assert told.asked == 1
        assert fleet.dialled == ["10.0.0.1"]


async def test_it_is_asked_again_from_time_to_time() -> None:
    async with a_fleet() as fleet:
        told = RecordedEvents("10.0.0.1")
        async with fleet.connect(told.hosts()) as client:
            session = client.session_id
            told.answers[:] = [[("10.0.0.2", 2181), ("10.0.0.3", 2181)]]
            await eventually(lambda: fleet.dialled[-1] != "10.0.0.1", "it moves")
            await client.ready()
            assert client.session_id == session
        asked = told.asked
        await anyio.wait_all_tasks_blocked()
        assert told.asked == asked


@virtually
async def test_it_is_asked_again_when_no_server_answers() -> None:
    async with a_fleet() as fleet:
        told = RecordedEvents("10.0.0.1")
        async with fleet.connect(told.hosts(refresh=3600)) as client:
            fleet.down.add("10.0.0.1")
            told.answers[:] = ["10.0.0.2"]
            fleet.server.disconnect()
            await eventually(lambda: fleet.dialled[-1] == "10.0.0.2", "it is asked, and used")
            await client.ready()
        assert told.asked == 2


async def test_what_fails_leaves_the_list_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "aiolead")
    async with a_fleet() as fleet:
        told = RecordedEvents("10.0.0.1", KeyError("no such key"), "", "zk1:0", "10.0.0.1")
        async with fleet.connect(told.hosts()) as client:
            await eventually(lambda: told.asked > 6, "it goes on asking")
            await client.sync()
            assert client.state is SessionState.CONNECTED
        assert fleet.dialled == ["10.0.0.1"]
        logged = "\n".join(record.getMessage() for record in caplog.records)
        assert "the provider: 'no such key'" in logged
        assert "the provider: names no server" in logged
        assert "is no port" in logged


async def test_the_first_answer_is_waited_for() -> None:
    async with a_fleet() as fleet:
        told = RecordedEvents(OSError("not yet"), OSError("not yet"), "", "10.0.0.1")
        async with fleet.connect(told.hosts()):
            assert told.asked == 4


async def test_but_no_longer_than_connecting_may_take() -> None:
    async with a_fleet() as fleet:
        told = RecordedEvents(OSError("out of order"))
        with pytest.raises(ConnectFailed, match=r"the provider: out of order") as raised:
            async with fleet.connect(told.hosts(), connect_timeout=0.2):
                raise AssertionError
        assert [name for name, _ in raised.value.attempts] == ["the provider"]


async def test_a_function_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiolead._client.net import host_sources as discovery

    monkeypatch.setattr(discovery, "PATIENCE", 0.05)
    asked = 0

    async def hangs_at_first() -> str:
        nonlocal asked
        asked += 1
        if asked == 1:
            await anyio.sleep_forever()
        return "10.0.0.1"

    async with a_fleet() as fleet:
        async with fleet.connect(Hosts.provider(hangs_at_first, refresh=0.02)) as client:
            await client.sync()


async def test_the_list_may_be_replaced_by_hand_until_the_next_answer() -> None:
    async with a_fleet() as fleet:
        async with fleet.connect(RecordedEvents("10.0.0.1").hosts(refresh=3600)) as client:
            client.update_hosts("10.0.0.2")
            await eventually(lambda: fleet.dialled[-1] == "10.0.0.2", "it moves")


async def test_with_the_ensembles_own_configuration_it_is_only_where_to_begin() -> None:
    config = "server.1=10.0.0.1:2888:3888;2181\nserver.2=10.0.0.2:2888:3888;2181"
    async with a_fleet(config=config) as fleet:
        told = RecordedEvents("10.0.0.9")
        async with fleet.connect(told.hosts(), observe_config=True):
            await eventually(lambda: fleet.dialled[-1] in ("10.0.0.1", "10.0.0.2"), "it moves")
            await anyio.sleep(0.1)
        assert told.asked == 1


# --- a file ------------------------------------------------------------------------------------


async def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "servers"
    file.write_text("10.0.0.1\n")
    async with a_fleet() as fleet:
        for path in (file, str(file)):
            async with fleet.connect(Hosts.file(path, refresh=0.02)) as client:
                file.unlink()
                await anyio.sleep(0.05)
                file.write_text("# two now\n10.0.0.2,\n10.0.0.3")
                await eventually(lambda: fleet.dialled[-1] != "10.0.0.1", "it moves")
                await client.sync()
            file.write_text("10.0.0.1")
            fleet.dialled.clear()


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    hosts = Hosts.file(tmp_path / "servers", refresh=0.02, chroot="/app")
    with pytest.raises(ConnectFailed, match=r"servers/app within .*No such file"):
        async with aiolead.connect(hosts, session_timeout=SESSION, connect_timeout=0.2):
            raise AssertionError


async def test_a_file_of_real_servers(server: ServerUnderTest, tmp_path: Path) -> None:
    file = tmp_path / "servers"
    file.write_text(server.hosts)
    hosts = Hosts.file(file, chroot=server.chroot)
    async with aiolead.connect(hosts, session_timeout=SESSION) as client:
        await client.create("/a")


# --- the DNS -----------------------------------------------------------------------------------

NAME = "_zookeeper._tcp.example.test."


class Dns:
    """A DNS server for one name, over UDP on loopback."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self.records: list[str] | None = []
        """What it answers; nothing is there with None."""

    def resolver(self) -> dns.asyncresolver.Resolver:
        resolver = dns.asyncresolver.Resolver(configure=False)
        resolver.nameservers = ["127.0.0.1"]
        resolver.port = self._link.getsockname()[1]
        return resolver

    def serve(self) -> None:
        while True:
            try:
                data, client = self._link.recvfrom(4096)
            except OSError:
                return
            if data == b"end":
                return
            query = dns.message.from_wire(data)
            answer = dns.message.make_response(query)
            if self.records is None:
                answer.set_rcode(dns.rcode.NXDOMAIN)
            elif self.records:
                answer.answer.append(dns.rrset.from_text_list(NAME, 1, "IN", "SRV", self.records))
            self._link.sendto(answer.to_wire(), client)


@contextmanager
def a_dns() -> Iterator[Dns]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.bind(("127.0.0.1", 0))
        server = Dns(link)
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            link.sendto(b"end", link.getsockname())
            thread.join()


async def test_srv_records_of_servers() -> None:
    with a_dns() as zone:
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


async def test_a_name_that_has_no_such_records() -> None:
    with a_dns() as zone:
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
async def test_a_target_elsewhere_has_the_certificate_of_the_domain_that_was_written(
    tmp_path: Path, identity: str, trust_targets: bool, is_served: bool
) -> None:
    authority = Authority(tmp_path)
    context = authority.server_context(authority.issue(identity))
    with a_dns() as zone:
        async with EmbeddedServer(ssl_context=context) as server:
            zone.records = [f"10 0 {server.port} localhost."]
            hosts = Hosts.srv(NAME, resolver=zone.resolver(), trust_targets=trust_targets)
            # Refused once, it is tried again until the time is over.
            connection = aiolead.connect(
                hosts, session_timeout=SESSION, connect_timeout=2, tls=TLS(ca=authority.pem)
            )
            if is_served:
                async with connection as client:
                    await client.exists("/")
                return
            with pytest.raises(ConnectFailed, match="certificate was refused"):
                async with connection:
                    raise AssertionError


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
def test_the_name_that_a_target_must_have(name: str, host: str, checked: str) -> None:
    assert Hosts.srv(name).certificate_name(host) == checked
    assert Hosts.srv(name, trust_targets=True).certificate_name(host) == host


def test_without_dnspython_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['dns'] = None; import aiolead; aiolead.Hosts.srv('_zk._tcp.x')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ConfigurationError: Hosts.srv: needs dnspython: install aiolead[dns]" in result.stderr


# --- what is no Hosts --------------------------------------------------------------------------


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
        (lambda: aiolead.connect(7), "hosts: "),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense(make: Any, complaint: str) -> None:
    with pytest.raises(AioleadError, match=complaint) as raised:
        make()
    assert isinstance(raised.value, ConfigurationError)

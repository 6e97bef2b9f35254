"""What servers say of themselves is bounded, parsed in linear time, and a value or nothing."""

from __future__ import annotations

import resource
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
from cli import hostile_servers as hostile
from cli.hostile_servers import HostileServer
from kit.cli import Run, environment
from kit.raw_client import RawClient

import aiolead
from aiolead import TLS
from aiolead.cli import server_inquiry as words
from aiolead.cli.doctor.queue_checks import look_at
from aiolead.cli.doctor.server_checks import judge_ensemble, judge_server, judge_settings
from aiolead.cli.scene import Scene
from aiolead.cli.server_inquiry import (
    ClientConnection,
    Inquirer,
    NotToldError,
    ServerAddress,
    sessions_in_cons,
    sessions_in_dump,
)
from aiolead.cli.server_survey import ServerAnswers, ask_all, members_besides, quorum_of
from aiolead.model import EnsembleConfig, ServerSpec

CPU_SECONDS = 10
"""What parsing a megabyte may take of a processor. It takes 0.1; in quadratic time, hours."""

PARSERS = (
    "by_colon",
    "by_equals",
    "by_tab",
    "sessions_in_cons",
    "sessions_in_dump",
    "ephemerals_in_dump",
)
PATTERNS = {
    "a client without an end": " /" + "a[1](" * 200_000,
    "clients without a session": " /a[1](" + "sid=0" * 200_000,
    "many of them": (" /" + "a[1](sid=" * 7_000 + "\n") * 16,
    "blanks": " " * 1_000_000,
    "blank lines": " \n" * 50_000,
    "empty lines": "\n" * 1_000_000,
    "digits": "0x" + "f" * 1_000_000,
    "names": "a: =\t" * 200_000,
}


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_parsing_takes_time_in_proportion_to_the_size(pattern: str) -> None:
    """In a process that dies if it takes more of a processor than that."""
    code = f"""
import sys
from aiolead.cli import server_inquiry as words
said = sys.stdin.read()
for name in {PARSERS}:
    try:
        getattr(words, name)(said)
    except words.NotToldError:
        pass
"""
    limit = (CPU_SECONDS, CPU_SECONDS)
    ended = subprocess.run(
        [sys.executable, "-c", code],
        input=pattern,
        text=True,
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
        check=False,
    )
    assert ended.returncode == 0


@pytest.mark.parametrize("name", PARSERS)
def test_too_many_lines_are_refused(name: str) -> None:
    with pytest.raises(NotToldError, match="says too much"):
        getattr(words, name)("\n" * (words.MOST_LINES + 1))


def test_sessions_that_are_told_well_and_badly() -> None:
    cons = (
        " /127.0.0.1:1234[1](queued=0,recved=1,sent=1,sid=0x1000000000a,lop=SESS,to=4000)\n"
        " /[0:0:0:0:0:0:0:1]:5678[1](recved=1,sent=1,sid=0xffffffffffffffff,lop=NA,to=9x)\r\n"
        " /0:0:0:0:0:0:0:1:9[0](queued=0,recved=1,sent=0)\n"
        " /1.2.3.4:1[1](sid=0x12345678901234567,)\n"
        " /1.2.3.4:2[1](sid=0x,)\n"
        " /1.2.3.4:3[1](sid=12,)\n"
        "/1.2.3.4:4[1](sid=0x12,)\n"
        f" /1.2.3.4:5[1]({'x' * words.LONGEST_LINE},sid=0x13)\n"
    )
    assert sessions_in_cons(cons) == {
        0x1000000000A: ClientConnection("127.0.0.1:1234", 1, 4.0),
        -1: ClientConnection("[0:0:0:0:0:0:0:1]:5678", 1, 0.0),
    }
    assert sessions_in_dump("0x1\n \t0x2\t4000ms\n0xx\n0x12345678901234567\n\n1\n") == {1, 2}


def plain(port: int, admin_port: int = 0) -> tuple[Inquirer, ServerAddress]:
    return Inquirer(None, 10.0, admin_port), ServerAddress("127.0.0.1", port)


async def test_what_is_no_number_is_not_known() -> None:
    with HostileServer(hostile.names) as server:
        inquirer, where = plain(server.port)
        (answers,) = await ask_all(inquirer, [where], thoroughly=True)
    assert (answers.mode, answers.version) == ("leader", "3.9.2")
    unknown = (answers.zxid, answers.connections, answers.mean_latency)
    assert unknown == (None, None, None)
    assert answers.configured_seconds("tickTime") is None
    quorum = quorum_of([answers], None)
    assert (quorum.voters, quorum.source, quorum.up) == (1, "hosts", 1)
    found = [*judge_server(answers), *judge_settings(answers, 10.0)]
    assert [*found, *judge_ensemble([answers], quorum, 1, has_names=False)]


@pytest.mark.parametrize("digits", ["9" * 5000, "\u0663", "\u00b2", "-1", "1e3", ""])
def test_numbers_of_a_configuration(digits: str) -> None:
    conf = {"tickTime": "2000", "syncLimit": digits}
    monitor = {"open_file_descriptor_count": digits, "max_file_descriptor_count": digits}
    answers = ServerAnswers(ServerAddress("zk", 1), mode="leader", conf=conf, monitor=monitor)
    assert [each.details.get("sync_limit") for each in judge_settings(answers, 10.0)] == [None]


@pytest.mark.parametrize("host", ["a" * 70, "a..b", "a\0b", "\udc80"])
async def test_hosts_that_cannot_be_looked_up(host: str) -> None:
    """As the configuration of an ensemble may name them."""
    config = EnsembleConfig((ServerSpec(1, ((host, 1, 2),), client=(host, 2181)),))
    member = (await members_besides(config, [], secure=False))[0]
    (answers,) = await ask_all(
        Inquirer(None, 10.0, 0),
        [
            member,
        ],
    )
    assert answers.problem


async def test_a_mode_that_is_too_long() -> None:
    with HostileServer(lambda link: link.send(b"Mode: " + b"x" * 60_000 + b"\n")) as server:
        inquirer, where = plain(server.port)
        (answers,) = await ask_all(inquirer, [where])
    assert (answers.mode, answers.is_serving) == ("x" * 40, False)


async def test_ports_that_are_none() -> None:
    (answers,) = await ask_all(Inquirer(None, 10.0, 0), [ServerAddress("127.0.0.1", 70_000)])
    assert answers.problem


# --- admin servers -------------------------------------------------------------------------------


async def test_an_admin_server_says_too_much() -> None:
    body = b'{"command": "x", "a": "' + b"x" * words.MOST_ADMIN_BYTES + b'"}'
    with HostileServer(hostile.admin(body)) as admin:
        inquirer, where = plain(1, admin.port)
        with pytest.raises(NotToldError, match="says too much"):
            await inquirer.admin(where, "monitor")


@pytest.mark.parametrize(
    "date", [hostile.LATE, b"Fri, 31 Dec 2021 99:99:99 +9999999", b"9" * 5000, b"\xff", b""]
)
async def test_a_date_that_is_none(date: bytes) -> None:
    body = b'{"command": "x", "number": 1, "text": "t", "list": [], "nothing": null}'
    with HostileServer(hostile.admin(body, date)) as admin:
        inquirer, where = plain(1, admin.port)
        answer = await inquirer.admin(where, "monitor")
    assert answer.date is None
    assert answer.values == {"command": "x", "number": "1", "text": "t"}


async def test_an_error_is_cut() -> None:
    with HostileServer(hostile.admin(hostile.HOSTILE_JSON[3])) as admin:
        inquirer, where = plain(1, admin.port)
        with pytest.raises(NotToldError) as caught:
            await inquirer.admin(where, "monitor")
    assert len(str(caught.value)) == words.LONGEST_REASON


async def test_with_tls_an_admin_server_is_asked_over_tls(tmp_path: Path) -> None:
    """Or without, if that is asked for: what it says could have been written by anybody."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    tls, where = TLS(ca=tmp_path / "ca.pem"), ServerAddress("127.0.0.1", 1)
    answer = b'HTTP/1.0 200 OK\r\n\r\n{"command": "monitor", "error": null}'
    asked: list[bytes] = []

    def in_the_clear(link: hostile.Link) -> None:
        asked.append(link.receive())
        link.send(answer)

    with HostileServer(in_the_clear) as admin:
        with pytest.raises(NotToldError, match=r"https://.*--admin-plain-http"):
            await Inquirer(tls, 10.0, admin.port).admin(where, "monitor")
        assert not any(b"GET" in question for question in asked)
        inquirer = Inquirer(tls, 10.0, admin.port, admin_plain_http=True)
        assert (await inquirer.admin(where, "monitor")).values["command"] == "monitor"
        assert b"GET /commands/monitor" in asked[-1]

    def over_tls(link: hostile.Link) -> None:
        with link.secured(context) as secured:
            assert secured.receive().startswith(b"GET /commands/monitor")
            secured.send(answer)

    with HostileServer(over_tls) as admin:
        inquirer = Inquirer(tls, 10.0, admin.port)
        assert (await inquirer.admin(where, "monitor")).values["command"] == "monitor"


@pytest.mark.parametrize("command", ["ensemble", "doctor", "dashboard"])
def test_the_option_is_there(run: Run, command: str) -> None:
    _, out, err = run(command, "--help")
    assert "--admin-plain-http" in " ".join(out), err


# --- what is computed is bounded -----------------------------------------------------------------


async def test_below_a_semaphore_there_is_no_other(embedded: str, chroot: str) -> None:
    """Else looking at a path would double with each level of what anybody has created there."""
    path = "/s"
    with RawClient(embedded + chroot) as client:
        for above in ("", path):
            client.create(above)
        for _ in range(7):
            client.create(f"{path}/locks")
            path += "/leases"
            client.create(path)
    async with aiolead.connect(embedded + chroot) as client:
        looks = await look_at(client, "/s")
    assert [look.path for look in looks] == ["/s/leases", "/s/locks"]


def test_of_what_a_contender_says_the_beginning_is_kept(run: Run, somewhere: str) -> None:
    with RawClient(somewhere) as client:
        client.create("")
        client.create("/long")
        client.create("/long/x-lock-", b"x" * 900_000, flags=3)
        _, out, _ = run("contenders", "/long", "--json", hosts=somewhere)
    assert len(out[0]) < 5000


def test_lines_below_each_other() -> None:
    scene = Scene(["/", "/a", "/b"])
    stat = aiolead.model.Stat(**dict.fromkeys(aiolead.model.Stat._fields, 0))
    stat = stat._replace(ephemeral_owner=1)
    scene.put("/a/c/x-lock-0000000001", stat, b"")
    scene.put("/ab/x-lock-0000000001", stat, b"")
    scene.settle(1.0)
    assert [line.path for line in scene.queues] == ["/a/c", "/ab", "/b"]

"""The answers of servers about themselves: parsed in linear time, bounded, a value or nothing."""

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
from kit.cli import environment
from kit.raw_client import RawClient

from aiolead import TLS
from aiolead.cli import server_inquiry as words
from aiolead.cli.doctor.server_checks import judge_ensemble, judge_server, judge_settings
from aiolead.cli.server_inquiry import (
    ClientConnection,
    Inquirer,
    NotToldError,
    ServerAddress,
    ephemerals_in_dump,
    sessions_in_cons,
    sessions_in_dump,
)
from aiolead.cli.server_survey import ServerAnswers, ask_all, members_besides, quorum_of
from aiolead.model import CreateMode, EnsembleConfig, ServerSpec
from aiolead.testing import ZooKeeperServer

CPU_SECONDS = 10
"""A limit for parsing a megabyte. It takes 0.1 s of a processor; in quadratic time, hours."""

PARSERS = (
    *(("pairs_in", word) for word in ("srvr", "conf", "mntr")),
    *(("sessions_in_cons",), ("sessions_in_dump",), ("ephemerals_in_dump",)),
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
PARSE = f"""
import sys
from aiolead.cli import server_inquiry as words
said = sys.stdin.read()
for name, *word in {PARSERS}:
    try:
        getattr(words, name)(said, *word)
    except words.NotToldError:
        pass
"""


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_parsing_takes_linear_time(pattern: str) -> None:
    """The process is killed if it takes more than `CPU_SECONDS`."""
    limit = (CPU_SECONDS, CPU_SECONDS)
    ended = subprocess.run(
        [sys.executable, "-c", PARSE],
        input=pattern,
        text=True,
        env=environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
        check=False,
    )
    assert ended.returncode == 0


@pytest.mark.parametrize("parser", PARSERS, ids=" ".join)
def test_too_many_lines_are_refused(parser: tuple[str, ...]) -> None:
    name, *word = parser
    with pytest.raises(NotToldError, match="says too much"):
        getattr(words, name)("\n" * (words.MOST_LINES + 1), *word)


def test_malformed_sessions_are_skipped() -> None:
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


def test_dump_of_a_follower_with_local_sessions_is_parsed() -> None:
    dump = (
        "SessionTracker dump:\nLocal Session Sets (1)/(1):\n1 expire at Sat Nov 21 18:00:00 UTC:\n"
        "\t0x10000000001\nGlobal Sessions(2):\n0x100000000a1\t4000ms\n0xf00000000000000b\t6000ms\n"
        "ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x100000000ff:\n\t/dead\n"
        "Connections dump:\n"
    )
    assert sessions_in_dump(dump) == {0x10000000001, 0x100000000A1, 0xF00000000000000B - 2**64}
    assert ephemerals_in_dump(dump) == {0x100000000FF: 9}


@pytest.mark.exhaustive("an edge of the command")
def test_answers_of_a_real_server_are_parsed(zookeeper: ZooKeeperServer) -> None:
    ask = zookeeper.blocking.four_letter
    with RawClient(zookeeper.connect_string) as client:
        session = client.session.session_id
        for path in ("/told", "/told-2"):
            client.create(path, flags=CreateMode.EPHEMERAL)
        dump = ask("dump")
        assert session in sessions_in_dump(dump)
        assert ephemerals_in_dump(dump)[session] == 4 + len("/told") + 4 + len("/told-2")
        connection = sessions_in_cons(ask("cons"))[session]
        assert "127.0.0.1" in connection.address
        assert connection.received > 0
        assert connection.timeout > 0
    assert session not in sessions_in_dump(ask("dump"))


def plain(port: int, admin_port: int = 0) -> tuple[Inquirer, ServerAddress]:
    return Inquirer(None, 10.0, admin_port), ServerAddress("127.0.0.1", port)


async def test_malformed_numbers_are_unknown() -> None:
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
def test_malformed_settings_are_unknown(digits: str) -> None:
    conf = {"tickTime": "2000", "syncLimit": digits}
    monitor = {"open_file_descriptor_count": digits, "max_file_descriptor_count": digits}
    answers = ServerAnswers(ServerAddress("zk", 1), mode="leader", conf=conf, monitor=monitor)
    assert [each.details.get("sync_limit") for each in judge_settings(answers, 10.0)] == [None]


@pytest.mark.parametrize("host", ["a" * 70, "a..b", "a\0b", "\udc80"])
async def test_invalid_host_in_an_ensemble_configuration_is_a_problem(host: str) -> None:
    config = EnsembleConfig((ServerSpec(1, ((host, 1, 2),), client=(host, 2181)),))
    members = await members_besides(config, [], secure=False)
    (answers,) = await ask_all(Inquirer(None, 10.0, 0), members[:1])
    assert answers.problem


async def test_port_that_hangs_up_in_a_handshake_speaks_no_tls() -> None:
    with HostileServer(hostile.close) as server:
        inquirer, where = plain(server.port)
        assert not await inquirer.speaks_tls(where)


async def test_invalid_port_is_a_problem() -> None:
    (answers,) = await ask_all(Inquirer(None, 10.0, 0), [ServerAddress("127.0.0.1", 70_000)])
    assert answers.problem


async def test_long_mode_is_cut() -> None:
    with HostileServer(lambda link: link.send(b"Mode: " + b"x" * 60_000 + b"\n")) as server:
        inquirer, where = plain(server.port)
        (answers,) = await ask_all(inquirer, [where])
    assert (answers.mode, answers.is_serving) == ("x" * 40, False)


# --- admin servers -------------------------------------------------------------------------------


async def refusal(behave: hostile.Behaviour) -> str:
    """Why the answer of an admin server cannot be used."""
    with HostileServer(behave) as admin:
        inquirer, where = plain(1, admin.port)
        with pytest.raises(NotToldError) as caught:
            await inquirer.admin(where, "monitor")
    return str(caught.value)


async def test_long_answer_of_an_admin_server_is_refused() -> None:
    body = b'{"command": "x", "a": "' + b"x" * words.MOST_ADMIN_BYTES + b'"}'
    assert "says too much" in await refusal(hostile.admin(body))


async def test_long_error_of_an_admin_server_is_cut() -> None:
    assert len(await refusal(hostile.admin(hostile.HOSTILE_JSON[3]))) == words.LONGEST_REASON


@pytest.mark.parametrize(
    "date", [hostile.LATE, b"Fri, 31 Dec 2021 99:99:99 +9999999", b"9" * 5000, b"\xff", b""]
)
async def test_invalid_date_of_an_admin_server_is_ignored(date: bytes) -> None:
    body = b'{"command": "x", "number": 1, "text": "t", "list": [], "nothing": null}'
    with HostileServer(hostile.admin(body, date)) as admin:
        inquirer, where = plain(1, admin.port)
        answer = await inquirer.admin(where, "monitor")
    assert answer.date is None
    assert answer.values == {"command": "x", "number": "1", "text": "t"}


async def test_admin_server_is_asked_over_tls_unless_allowed_otherwise(tmp_path: Path) -> None:
    """Without TLS, anybody could have written the answer."""
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

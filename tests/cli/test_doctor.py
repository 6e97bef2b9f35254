"""`aiolead doctor`."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trustme
from cli.hostile_servers import HostileServer, answering
from kit.cli import NOBODY, Run, kazoo_client, report
from kit.raw_client import RawClient

import aiolead
from aiolead._util.token_bucket import Numbers, Write
from aiolead.cli.contender_queue import QueuedContender, places_of
from aiolead.cli.doctor.findings import DoctorReport, Finding, Level
from aiolead.cli.doctor.queue_checks import (
    KnownSessions,
    judge_ghosts,
    judge_sequence,
    look_at,
    look_for_ghosts,
)
from aiolead.cli.doctor.server_checks import (
    judge_ensemble,
    judge_server,
    judge_sessions,
    judge_settings,
)
from aiolead.cli.server_inquiry import ClientConnection, ServerAddress
from aiolead.cli.server_survey import Quorum, ServerAnswers
from aiolead.model import Stat
from aiolead.testing import EmbeddedServer, ZooKeeperServer

pytestmark = pytest.mark.exhaustive("an edge of the command")

EPHEMERAL = aiolead.CreateMode.EPHEMERAL_SEQUENTIAL
GUID = "01234567-89ab-cdef-0123-456789abcdef"


def examine(
    run: Run, *arguments: str, hosts: str = "", code: int = 0
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    """Runs `doctor` with an expected exit code; the findings by check, and their counts."""
    *findings, summary = report(run, "doctor", *arguments, hosts=hosts, code=code)
    found: dict[str, list[dict[str, Any]]] = {}
    for one in findings:
        found.setdefault(one["check"], []).append(one)
    return found, summary["summary"]


def without_age(text: str) -> str:
    return re.sub(r" for \d+ s\)$", " for N s)", text)


def test_lock_in_order_has_no_failure(run: Run, hosts: str) -> None:
    with kazoo_client(hosts, {"/l/_c_x-lock-": b"me"}):
        found, summary = examine(run, "/l", "/nowhere")
    assert summary["fail"] == 0
    assert summary["ok"] >= 8
    assert found["session"][0]["timeout"] == 10
    assert "ip:127.0.0.1" in found["login"][0]["identities"]
    assert [one["level"] for one in found["quorum"]] == ["ok", "warn"]  # one server alone
    assert [without_age(one["text"]) for one in found["path"]] == [
        "/l: 1 contender, held by me (there for N s)",
        "/nowhere: there is no such znode",
    ]
    assert found["queue"][0]["numbers_left"] == 0x7FFF_FFFE
    assert "ghost" not in found


def test_text_output_has_a_summary(run: Run, somewhere: str) -> None:
    code, out, _ = run("doctor", "--admin-port", "0")
    assert (code, out[-2]) == (0, "")
    assert out[-1].startswith(f"{len([line for line in out if line.startswith('ok ')])} ok, ")
    code, quiet, _ = run("doctor", "-q", "--admin-port", "0")
    assert code == 0
    assert {line.split()[0] for line in quiet[:-2] if line[0] != " "} <= {"warn", "unknown"}


def test_foreign_children_of_a_lock_are_reported(run: Run, hosts: str) -> None:
    znodes = {"/l/ghost-lock-0000000000": b"old\x1b[2J", "/l/-note": b"", "/l/readme": b""}
    with kazoo_client(hosts, znodes) as client:
        kazoo_lock = "/l/0123456789abcdef0123456789abcdef__lock__"
        client.create(kazoo_lock, b"kazoo", ephemeral=True, sequence=True)
        found, _ = examine(run, "/l", code=1)
        (ghost,) = found["ghost"]
        assert (ghost["level"], ghost["path"]) == ("fail", "/l/ghost-lock-0000000000")
        assert (ghost["session"], ghost["identity"]) == (None, "old\x1b[2J")
        line = {(one["level"], one.get("name"), str(one.get("families"))) for one in found["queue"]}
        assert line == {
            ("ok", None, "None"),
            ("fail", None, "['curator lock', 'kazoo lock']"),
            ("fail", "-note", "None"),
            ("warn", "readme", "None"),
        }
        code, out, _ = run("doctor", "/l")
        assert code == 1
        assert all(text.isprintable() for text in out)


def test_contender_without_a_connection_is_a_warning(run: Run) -> None:
    with EmbeddedServer.in_thread(max_session_timeout=100) as server:
        gone = RawClient(server.connect_string, session_timeout=100)
        gone.create("/l")
        gone.create("/l/_c_x-lock-", b"me", flags=3)
        gone.drop()
        found, _ = examine(run, "/l", hosts=server.connect_string)
    (ghost,) = found["ghost"]
    # The session may get a connection again.
    assert ghost["level"] == "warn"
    assert ghost["session"] == f"{gone.session.session_id:#x}"
    assert "the session has no connection now" in ghost["text"]


def test_permits_of_a_semaphore_are_counted(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere, {"/s/locks": b"", "/s/leases/_c_x-lease-": b"one"}):
        found, _ = examine(run, "/s")
    assert [without_age(one["text"]) for one in found["path"]] == [
        "/s/leases: 1 contender, held by one (there for N s)",
        "/s/locks: 0 contenders",
    ]


@pytest.mark.promise
async def test_semaphores_below_a_semaphore_are_not_examined(embedded: str, chroot: str) -> None:
    """Otherwise each level of nesting, which any client may create, would double the work."""
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


def test_unreadable_path_is_unknown(run: Run, somewhere: str) -> None:
    run("create", "/l", "-p", "--acl", f"{NOBODY}:r")
    (path,) = examine(run, "/l")[0]["path"]
    assert (path["level"], path["text"]) == ("unknown", "/l: may not be listed")


def test_unreachable_servers_are_failures(run: Run) -> None:
    found, _ = examine(run, "/l", hosts="127.0.0.1:1,nowhere.invalid", code=69)
    levels = {check: [one["level"] for one in each] for check, each in found.items()}
    assert levels == {"tcp": ["fail"], "dns": ["fail"], "session": ["fail"]}


def test_foreign_server_is_a_failure(run: Run) -> None:
    with HostileServer(answering({})) as stranger:
        options = ["--connect-timeout", "0.2", "--admin-port", "0"]
        found, _ = examine(run, *options, hosts=stranger.hosts, code=69)
    assert (found["tcp"][0]["level"], found["session"][0]["level"]) == ("ok", "fail")
    assert "says nothing to srvr" in found["server"][0]["text"]


def test_refused_credentials_are_a_failure(run: Run) -> None:
    with EmbeddedServer.in_thread(sasl_users={"ann": "secret"}) as server:
        hosts = server.connect_string
        (login,) = examine(run, "--sasl", "digest-md5:ann:open sesame", hosts=hosts, code=77)[0][
            "login"
        ]
        assert login["level"] == "fail"
        assert "sesame" not in str(login)
        found, _ = examine(run, "--sasl", "digest-md5:ann:secret", hosts=hosts)
        assert "sasl:ann" in found["login"][0]["identities"]


def test_tls_certificate_is_checked(run: Run, tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    for name, ca in (("ca", authority), ("other", other)):
        ca.cert_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusted = ["--tls-ca", str(tmp_path / "ca.pem")]
    foreign = ["--tls-ca", str(tmp_path / "other.pem"), "--connect-timeout", "0.2"]
    with EmbeddedServer.in_thread(ssl_context=context) as server:
        hosts = server.connect_string
        (tls,) = examine(run, *trusted, hosts=hosts)[0]["tls"]
        assert tls["level"] == "ok"
        assert tls["days_left"] > 30
        (tls,) = examine(run, *foreign, hosts=hosts, code=69)[0]["tls"]
        assert tls["level"] == "fail"
        assert "unable to get local issuer certificate" in tls["text"]
        (ensemble,) = report(run, "ensemble", *trusted, hosts=hosts)
        assert ensemble["servers"][0]["role"] == "standalone"
        # Without TLS at a port for TLS.
        plain = ["--patience", "0.5", "--connect-timeout", "0.2", "--admin-port", "0"]
        found, _ = examine(run, *plain, hosts=hosts, code=69)
        (wrong,) = [each for each in found["server"] if each["level"] == "fail"]
        assert wrong["text"] == f"{hosts}: speaks TLS on this port, and does not answer plain text"
        assert wrong["advice"].startswith("use --tls")
        assert found["quorum"][0]["advice"].startswith("nothing is known: ")
        assert run("ensemble --connect-timeout 0.2", hosts=hosts)[0] == 69


# --- how findings are judged ---------------------------------------------------------------------


def levels(findings: list[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ("3.4.14", Level.FAIL),
        ("3.5.10", Level.WARN),
        ("3.8.4", Level.WARN),
        ("3.8.5", None),
        ("3.9.1", Level.WARN),
        ("3.9.2", None),
        ("3.10.0", None),
        ("", None),
    ],
)
def test_outdated_version_is_reported(version: str, level: Level | None) -> None:
    answers = ServerAnswers(ServerAddress("zk", 2181), mode="follower", version=version)
    assert levels(list(judge_server(answers)))[1:] == ([] if level is None else [level])


def settings(timeout: float = 10, **more: Any) -> list[Finding]:
    conf = {"tickTime": "2000", "minSessionTimeout": "4000", "maxSessionTimeout": "40000"}
    conf |= more.pop("conf", {})
    answers = ServerAnswers(ServerAddress("zk", 2181), mode="leader", conf=conf, **more)
    return list(judge_settings(answers, timeout))


FILES = {"open_file_descriptor_count": "90", "max_file_descriptor_count": "100"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"conf": {"syncLimit": "2"}}, [Level.OK]),
        ({"conf": {"syncLimit": "5"}}, [Level.OK, Level.NOTE]),
        ({"timeout": 3}, [Level.OK, Level.FAIL]),
        ({"conf": {"minSessionTimeout": "1000"}}, [Level.OK, Level.WARN]),
        # The admin server reports -1 for a missing setting.
        ({"conf": {"minSessionTimeout": "-1"}}, [Level.OK]),
        ({"conf": {"tickTime": "?"}}, []),
        ({"properties": {"zookeeper.forceSync": "no"}}, [Level.OK, Level.FAIL]),
        ({"properties": {"zookeeper.skipACL": "yes"}}, [Level.OK, Level.WARN]),
        ({"monitor": FILES}, [Level.OK, Level.WARN]),
        ({"clock_ahead": -60.0}, [Level.OK, Level.WARN]),
        ({"clock_ahead": 0.4}, [Level.OK, Level.OK]),
    ],
    ids=str,
)
def test_settings_are_judged(given: dict[str, Any], expected: list[Level]) -> None:
    assert levels(settings(**given)) == expected


def test_advice_names_the_time_that_outlasts_the_session() -> None:
    found = settings(conf={"syncLimit": "5"})[1]
    assert found.advice.startswith("--session-timeout 25 outlasts that")
    assert "wait 10 s (syncLimit) before they elect another one" in found.text


def test_same_finding_of_several_servers_is_printed_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def findings() -> list[Finding]:
        conf = {"tickTime": "2000", "syncLimit": "5"}
        servers = [ServerAddress(f"zk{n}", 2181) for n in (1, 2, 3)]
        return [
            each
            for server in servers
            for each in judge_settings(
                ServerAnswers(server, mode="follower", conf=conf, clock_ahead=server.port - 2181),
                10,
            )
        ]

    report = DoctorReport(as_json=False, quiet=False)
    report.add(findings())
    lines = capsys.readouterr().out.splitlines()
    notes = [line for line in lines if line.startswith("note")]
    assert len(notes) == 1
    assert "zk1:2181, zk2:2181, zk3:2181: if the servers' leader freezes" in notes[0]
    assert sum("outlasts" in line for line in lines) == 1
    # For programs, each server has its own.
    DoctorReport(as_json=True, quiet=False).add(findings())
    objects = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [each["server"] for each in objects if each["level"] == "note"] == [
        "zk1:2181",
        "zk2:2181",
        "zk3:2181",
    ]


def test_refused_settings_are_unknown() -> None:
    refused = {"conf": "it is secret"}
    answers = ServerAnswers(ServerAddress("zk", 2181), mode="leader", not_told=refused)
    (finding,) = judge_settings(answers, 10)
    assert finding.level is Level.UNKNOWN
    assert "it is secret" in finding.text


def test_session_with_many_ephemeral_bytes_is_a_warning() -> None:
    found = list(judge_sessions({1: 100, 0x2A: 600_000, 3: 512 * 1024}))
    assert [each.level for each in found] == [Level.WARN, Level.WARN]
    assert found[0].details == {"session": "0x2a", "ephemeral_bytes": 600_000}
    assert "ZOOKEEPER-4306" in found[0].advice


def test_ephemeral_bytes_of_a_session_on_a_real_server(
    run: Run, zookeeper: ZooKeeperServer, chroot: str
) -> None:
    hosts = zookeeper.connect_string + chroot
    with kazoo_client(hosts) as client:
        for number in range(600):
            client.create(f"/{number:03d}" + "n" * 996, ephemeral=True)
        found, _ = examine(run, hosts=hosts)
    sizes = [each["ephemeral_bytes"] for each in found["session"][1:]]
    assert sizes == [600 * (4 + len(chroot) + 1000)]


def test_ensembles_are_judged() -> None:
    def judged(
        voters: int, up: int, *, leads: bool = True, hosts: int = 3, names: bool = False
    ) -> list[Level]:
        quorum = Quorum(voters, voters // 2 + 1, up, leads, "config")
        return levels(list(judge_ensemble([], quorum, hosts, names)))

    assert judged(3, 3) == [Level.OK]
    assert judged(3, 2) == [Level.WARN]
    assert judged(3, 1, leads=False) == [Level.FAIL]
    assert judged(1, 1, hosts=1) == [Level.WARN]
    assert judged(4, 4) == [Level.OK, Level.WARN]
    assert judged(3, 3, hosts=1) == [Level.OK, Level.WARN]
    assert judged(3, 3, hosts=1, names=True) == [Level.OK]


def stat(**values: int) -> Stat:
    return Stat(**(dict.fromkeys(Stat._fields, 0) | values))


@pytest.mark.parametrize(
    ("used", "there", "level"),
    [
        (0, 0, Level.OK),
        (1_600_000_000, 3, Level.OK),
        (1_700_000_000, 3, Level.WARN),
        (0x7FFF_FFFE, 0, Level.WARN),
        (0x7FFF_FFFF, 1, Level.FAIL),
    ],
)
def test_remaining_sequence_numbers_are_judged(used: int, there: int, level: Level) -> None:
    # Servers count creates and deletes, as a signed number.
    changes = (2 * used - there + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000
    (finding,) = judge_sequence("/l", stat(cversion=changes, num_children=there))
    assert (finding.level, finding.details["numbers_left"]) == (level, 0x7FFF_FFFF - used)


def contender(name: str, owner: int) -> QueuedContender:
    (place,) = places_of([name])
    return QueuedContender(place, f"/l/{name}", stat(ephemeral_owner=owner), b"me")


def test_contender_of_a_dead_session_is_a_ghost() -> None:
    def judged(
        *line: QueuedContender,
        alive: set[int] | None = None,
        connected: Sequence[int] | None = None,
    ) -> list[Level]:
        known = None if connected is None else {one: ClientConnection() for one in connected}
        return levels(list(judge_ghosts("/l", line, KnownSessions(alive, known))))

    one, other = contender("_c_x-lock-0000000001", 1), contender("_c_y-lock-0000000002", -1)
    assert judged(one, other, alive={1, -1}) == []
    assert judged(one, other, alive={1}) == [Level.FAIL]
    assert judged(one, other) == [Level.UNKNOWN]
    # The servers keep the session of a dead process until it times out.
    assert judged(one, other, alive={1, -1}, connected=[1]) == [Level.WARN]
    assert judged(one, other, alive={1}, connected=[1]) == [Level.FAIL]
    assert judged(contender("_c_x-lock-0000000001", 0), alive={1}) == [Level.FAIL]
    # The same contender twice. Its library does not know about the first znode.
    twice = [contender(f"_c_{GUID}-lock-000000000{n}", 1) for n in range(2)]
    assert judged(*twice, alive={1}) == [Level.WARN]


async def test_contender_that_has_just_left_is_no_ghost(embedded: str, chroot: str) -> None:
    async with aiolead.connect(embedded + chroot) as client:
        await client.ensure_path("/l")
        paths = [(await client.create("/l/_c_x-lock-", mode=EPHEMERAL)).path for _ in range(2)]
        (look,) = await look_at(client, "/l")
        await client.delete(paths[0])
        # As if both sessions were over by the time at which the servers were asked.
        (ghost,) = await look_for_ghosts(client, look, KnownSessions(set(), None))
    assert (ghost.level, ghost.details["path"]) == (Level.FAIL, paths[1])


async def test_unreadable_contender_may_be_a_ghost() -> None:
    """Newer servers hide the owner of an unreadable znode."""
    with EmbeddedServer.in_thread(version="3.9.3") as server:
        async with aiolead.connect(server.connect_string) as client:
            await client.create("/l")
            path = (await client.create("/l/_c_x-lock-", mode=EPHEMERAL)).path
            (look,) = await look_at(client, "/l")
            await client.set_acl(path, [aiolead.Auth.digest("somebody", "else").acl()])
            (ghost,) = await look_for_ghosts(client, look, KnownSessions(set(), None))
            assert (ghost.level, ghost.details["path"]) == (Level.FAIL, path)
            (look,) = await look_at(client, "/l")
            assert look.queue == []
            assert [each.level for each in look.findings if each.check == "ghost"] == [
                Level.UNKNOWN
            ]


def test_path_above_queues_is_no_broken_queue(run: Run, somewhere: str) -> None:
    """The paths below it are no contenders that other libraries would fail at."""
    with kazoo_client(somewhere, {"/locks/a/_c_x-lock-": b"one", "/locks/readme": b""}):
        found, _ = examine(run, "/locks")
    (path,) = found["path"]
    assert path["text"] == "/locks: nobody contends for it; it has 2 children"
    assert "`aiolead top --once`" in path["advice"]
    assert "queue" not in found


def test_recipes_without_contenders_are_named(run: Run, somewhere: str) -> None:
    znodes = {
        "/nightly/2026-11-20": b"__DONE__host-1:3",
        "/limit": Write(Numbers(100, 60, 20)).encode(),
        "/board/tasks/task-0000000000": b"",
        "/board/results": b"",
    }
    with kazoo_client(somewhere) as client:
        for path, data in znodes.items():
            client.create(path, data, makepath=True)
        client.create("/nightly/2026-11-21", b"host-2:4", ephemeral=True)
        found = report(run, "doctor", "/nightly", "/limit", "/board")
    assert [one["text"] for one in found[:-1] if one["check"] in ("path", "line", "ghost")] == [
        "/nightly: once: 1 running, 1 done: host-2:4",
        "/limit: rate limit: 100 in 60 s, at most 20 at once",
        "/board: task board: 1 open, 0 claimed, 0 done",
    ]


async def test_key_of_a_dead_session_is_a_ghost(embedded: str, chroot: str) -> None:
    async with aiolead.connect(embedded + chroot) as client:
        await client.ensure_path("/n")
        await client.create("/n/1", b"__DONE__a")
        await client.create("/n/2", b"b", mode=aiolead.CreateMode.EPHEMERAL)
        (look,) = await look_at(client, "/n")
        (ghost,) = await look_for_ghosts(client, look, KnownSessions(set(), None))
    assert (ghost.level, ghost.details["path"]) == (Level.FAIL, "/n/2")

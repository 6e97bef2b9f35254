"""`aiolead doctor`."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cli.words_server import WordsServer
from kit.cli import Run, objects, somebody
from kit.raw_client import RawClient

import aiolead
from aiolead.cli.contender_queue import QueuedContender, places_of
from aiolead.cli.doctor.findings import Finding, Level
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
from aiolead.cli.server_inquiry import ServerAddress
from aiolead.cli.server_survey import Quorum, ServerAnswers
from aiolead.model import Stat
from aiolead.testing import EmbeddedServer, ZooKeeperServer

pytestmark = pytest.mark.exhaustive("an edge of the command")

GUID = "01234567-89ab-cdef-0123-456789abcdef"


def by_check(lines: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The findings, by what was looked at."""
    found: dict[str, list[dict[str, Any]]] = {}
    for said in objects(lines)[:-1]:
        found.setdefault(said["check"], []).append(said)
    return found


def test_all_is_well(run: Run, hosts: str) -> None:
    with somebody(hosts) as client:
        client.create("/l")
        client.create("/l/_c_x-lock-", b"me", ephemeral=True, sequence=True)
        code, out, err = run("doctor", "/l", "/nowhere", "--json", hosts=hosts)
    assert (code, err) == (0, [])
    summary = objects(out)[-1]["summary"]
    assert summary["fail"] == 0
    assert summary["ok"] >= 8
    found = by_check(out)
    assert found["session"][0]["timeout"] == 10
    assert "ip:127.0.0.1" in found["login"][0]["identities"]
    assert [one["level"] for one in found["quorum"]] == ["ok", "warn"]  # one server alone
    assert [one["text"] for one in found["path"]] == [
        "/l: 1 contender",
        "/nowhere: there is no such znode",
    ]
    assert found["line"][0]["numbers_left"] == 0x7FFF_FFFE
    assert "ghost" not in found


def test_as_text(run: Run, somewhere: str) -> None:
    code, out, _ = run("doctor", "--admin-port", "0", hosts=somewhere)
    assert (code, out[-2]) == (0, "")
    assert out[-1].startswith(f"{len([line for line in out if line.startswith('ok ')])} ok, ")
    code, quiet, _ = run("doctor", "-q", "--admin-port", "0", hosts=somewhere)
    assert code == 0
    assert {line.split()[0] for line in quiet[:-2] if line[0] != " "} <= {"warn", "unknown"}


def test_a_line_in_disorder(run: Run, hosts: str) -> None:
    with somebody(hosts) as client:
        client.create("/l")
        client.create("/l/ghost-lock-", b"old\x1b[2J", sequence=True)
        client.create(
            "/l/0123456789abcdef0123456789abcdef__lock__", b"kazoo", ephemeral=True, sequence=True
        )
        client.create("/l/-note")
        client.create("/l/readme")
        code, out, _ = run("doctor", "/l", "--json", hosts=hosts)
        found = by_check(out)
        assert code == 1
        (ghost,) = found["ghost"]
        assert (ghost["level"], ghost["path"]) == ("fail", "/l/ghost-lock-0000000000")
        assert (ghost["session"], ghost["identity"]) == (None, "old\x1b[2J")
        line = {(one["level"], one.get("name"), str(one.get("families"))) for one in found["line"]}
        assert line == {
            ("ok", None, "None"),
            ("fail", None, "['curator lock', 'kazoo lock']"),
            ("fail", "-note", "None"),
            ("warn", "readme", "None"),
        }
        code, out, _ = run("doctor", "/l", hosts=hosts)
        assert code == 1
        assert all(text.isprintable() for text in out)


def test_a_contender_whose_process_is_gone(run: Run) -> None:
    with EmbeddedServer.in_thread(max_session_timeout=100) as server:
        gone = RawClient(server.connect_string, session_timeout=100)
        gone.create("/l")
        gone.create("/l/_c_x-lock-", b"me", flags=3)
        gone.drop()
        code, out, _ = run("doctor", "/l", "--json", hosts=server.connect_string)
    (ghost,) = by_check(out)["ghost"]
    # It may come back, as far as anybody knows.
    assert (code, ghost["level"]) == (0, "warn")
    assert ghost["session"] == f"{gone.session.session_id:#x}"
    assert "the session has no connection now" in ghost["text"]


def test_a_semaphore(run: Run, somewhere: str) -> None:
    with somebody(somewhere) as client:
        for path in ("/s", "/s/leases", "/s/locks"):
            client.create(path)
        client.create("/s/leases/_c_x-lease-", b"one", ephemeral=True, sequence=True)
        code, out, _ = run("doctor", "/s", "--json", hosts=somewhere)
    assert code == 0
    assert [one["text"] for one in by_check(out)["path"]] == [
        "/s/leases: 1 contender",
        "/s/locks: 0 contenders",
    ]


def test_what_may_not_be_seen(run: Run, somewhere: str) -> None:
    run("create", "/l", "-p", "--acl", "digest:somebody:HASH:r", hosts=somewhere)
    code, out, _ = run("doctor", "/l", "--json", hosts=somewhere)
    (path,) = by_check(out)["path"]
    assert (code, path["level"], path["text"]) == (0, "unknown", "/l: may not be listed")


def test_no_server(run: Run) -> None:
    code, out, err = run("doctor", "--json", "/l", hosts="127.0.0.1:1,nowhere.invalid")
    assert (code, err) == (69, [])
    assert [(one["check"], one["level"]) for one in objects(out)[:-1]] == [
        ("tcp", "fail"),
        ("dns", "fail"),
        ("session", "fail"),
    ]


def test_somebody_who_is_no_server(run: Run) -> None:
    with WordsServer({}) as stranger:
        options = ["--json", "--connect-timeout", "0.2", "--admin-port", "0"]
        code, out, _ = run("doctor", *options, hosts=stranger.hosts)
    found = by_check(out)
    assert code == 69
    assert (found["tcp"][0]["level"], found["session"][0]["level"]) == ("ok", "fail")
    assert "says nothing to srvr" in found["server"][0]["text"]


def test_credentials_that_are_refused(run: Run) -> None:
    with EmbeddedServer.in_thread(sasl_users={"ann": "secret"}) as server:
        login = ["--sasl", "digest-md5:ann:open sesame"]
        code, out, _ = run("doctor", "--json", *login, hosts=server.connect_string)
        assert (code, by_check(out)["login"][0]["level"]) == (77, "fail")
        assert "sesame" not in "".join(out)
        login = ["--sasl", "digest-md5:ann:secret"]
        code, out, _ = run("doctor", "--json", *login, hosts=server.connect_string)
        assert (code, "sasl:ann" in by_check(out)["login"][0]["identities"]) == (0, True)


def test_tls(run: Run, tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    for name, ca in (("ca", authority), ("other", other)):
        ca.cert_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with EmbeddedServer.in_thread(ssl_context=context) as server:
        trusted = ["--tls-ca", str(tmp_path / "ca.pem"), "--json"]
        code, out, _ = run("doctor", *trusted, hosts=server.connect_string)
        (tls,) = by_check(out)["tls"]
        assert (code, tls["level"]) == (0, "ok")
        assert tls["days_left"] > 30
        code, out, _ = run("ensemble", *trusted, hosts=server.connect_string)
        assert (code, objects(out)[0]["servers"][0]["role"]) == (0, "standalone")
        foreign = ["--tls-ca", str(tmp_path / "other.pem"), "--json", "--connect-timeout", "0.2"]
        code, out, _ = run("doctor", *foreign, hosts=server.connect_string)
        (tls,) = by_check(out)["tls"]
        assert (code, tls["level"]) == (69, "fail")
        assert "unable to get local issuer certificate" in tls["text"]
        # Without TLS at a port for TLS.
        code, out, _ = run("ensemble", "--connect-timeout", "0.2", hosts=server.connect_string)
        assert code == 69


# --- the judgements ------------------------------------------------------------------------------


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
def test_versions(version: str, level: Level | None) -> None:
    answers = ServerAnswers(ServerAddress("zk", 2181), mode="follower", version=version)
    assert levels(list(judge_server(answers)))[1:] == ([] if level is None else [level])


def settings(timeout: float = 10, **more: Any) -> list[Finding]:
    conf = {"tickTime": "2000", "minSessionTimeout": "4000", "maxSessionTimeout": "40000"}
    conf |= more.pop("conf", {})
    answers = ServerAnswers(ServerAddress("zk", 2181), mode="leader", conf=conf, **more)
    return list(judge_settings(answers, timeout))


def test_times() -> None:
    assert levels(settings(conf={"syncLimit": "2"})) == [Level.OK]
    assert levels(settings(conf={"syncLimit": "5"})) == [Level.OK, Level.NOTE]
    assert settings(conf={"syncLimit": "5"})[1].advice.startswith("25 s would outlast it")
    assert levels(settings(timeout=3)) == [Level.OK, Level.FAIL]
    assert levels(settings(conf={"minSessionTimeout": "1000"})) == [Level.OK, Level.WARN]
    # The admin server says -1 of what is not set.
    assert levels(settings(conf={"minSessionTimeout": "-1"})) == [Level.OK]
    assert levels(settings(conf={"tickTime": "?"})) == []


def test_what_is_not_told() -> None:
    answers = ServerAnswers(
        ServerAddress("zk", 2181), mode="leader", not_told={"conf": "it is secret"}
    )
    (finding,) = judge_settings(answers, 10)
    assert finding.level is Level.UNKNOWN
    assert "it is secret" in finding.text


def test_other_settings() -> None:
    assert levels(settings(properties={"zookeeper.forceSync": "no"}))[1:] == [Level.FAIL]
    assert levels(settings(properties={"zookeeper.skipACL": "yes"}))[1:] == [Level.WARN]
    files = {"open_file_descriptor_count": "90", "max_file_descriptor_count": "100"}
    assert levels(settings(monitor=files))[1:] == [Level.WARN]
    assert levels(settings(clock_ahead=-60.0))[1:] == [Level.WARN]
    assert levels(settings(clock_ahead=0.4))[1:] == [Level.OK]


def test_sessions_with_many_ephemeral_znodes() -> None:
    found = list(judge_sessions({1: 100, 0x2A: 600_000, 3: 512 * 1024}))
    assert [each.level for each in found] == [Level.WARN, Level.WARN]
    assert found[0].details == {"session": "0x2a", "ephemeral_bytes": 600_000}
    assert "ZOOKEEPER-4306" in found[0].advice


def test_a_server_tells_of_a_session_with_many_ephemeral_znodes(
    run: Run, zookeeper: ZooKeeperServer, chroot: str
) -> None:
    hosts = zookeeper.connect_string + chroot
    with somebody(hosts) as client:
        for number in range(600):
            client.create(f"/{number:03d}" + "n" * 996, ephemeral=True)
        code, out, _ = run("doctor", "--json", hosts=hosts)
        assert code == 0
    sizes = [each["ephemeral_bytes"] for each in by_check(out)["session"][1:]]
    assert sizes == [600 * (4 + len(chroot) + 1000)]


def test_ensembles() -> None:
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
def test_numbers_that_are_left(used: int, there: int, level: Level) -> None:
    # As servers tell it: a signed number of creates and deletes.
    changes = (2 * used - there + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000
    (finding,) = judge_sequence("/l", stat(cversion=changes, num_children=there))
    assert (finding.level, finding.details["numbers_left"]) == (level, 0x7FFF_FFFF - used)


def contender(name: str, owner: int) -> QueuedContender:
    (place,) = places_of([name])
    return QueuedContender(place, f"/l/{name}", stat(ephemeral_owner=owner), b"me")


def test_ghosts() -> None:
    def judged(*line: QueuedContender, alive: set[int] | None = None) -> list[Level]:
        return levels(list(judge_ghosts("/l", line, KnownSessions(alive, None))))

    one, other = contender("_c_x-lock-0000000001", 1), contender("_c_y-lock-0000000002", -1)
    assert judged(one, other, alive={1, -1}) == []
    assert judged(one, other, alive={1}) == [Level.FAIL]
    assert judged(one, other) == [Level.UNKNOWN]
    assert judged(contender("_c_x-lock-0000000001", 0), alive={1}) == [Level.FAIL]
    # The same contender twice: only the first one is that which its library does not know of.
    twice = [contender(f"_c_{GUID}-lock-000000000{n}", 1) for n in range(2)]
    assert judged(*twice, alive={1}) == [Level.WARN]


async def test_whoever_has_just_left_is_no_ghost(embedded: str, chroot: str) -> None:
    async with aiolead.connect(embedded + chroot) as client:
        await client.ensure_path("/l")
        mode = aiolead.CreateMode.EPHEMERAL_SEQUENTIAL
        paths = [(await client.create("/l/_c_x-lock-", mode=mode)).path for _ in range(2)]
        (look,) = await look_at(client, "/l")
        await client.delete(paths[0])
        # As if both sessions were over by the time at which the servers were asked.
        (ghost,) = await look_for_ghosts(client, look, KnownSessions(set(), None))
    assert (ghost.level, ghost.details["path"]) == (Level.FAIL, paths[1])


async def test_who_may_no_longer_be_read_may_be_a_ghost() -> None:
    """Newer servers tell only that there is something; older ones whose it is."""
    with EmbeddedServer.in_thread(version="3.9.3") as server:
        async with aiolead.connect(server.connect_string) as client:
            await client.create("/l")
            mode = aiolead.CreateMode.EPHEMERAL_SEQUENTIAL
            path = (await client.create("/l/_c_x-lock-", mode=mode)).path
            (look,) = await look_at(client, "/l")
            await client.set_acl(path, [aiolead.Auth.digest("somebody", "else").acl()])
            (ghost,) = await look_for_ghosts(client, look, KnownSessions(set(), None))
            assert (ghost.level, ghost.details["path"]) == (Level.FAIL, path)
            (look,) = await look_at(client, "/l")
            assert look.queue == []
            assert [each.level for each in look.findings if each.check == "ghost"] == [
                Level.UNKNOWN
            ]

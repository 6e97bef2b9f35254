"""`aiolead ensemble`, and the states and quorums that it derives from the answers of servers."""

from __future__ import annotations

import json

import anyio
import anyio.abc
import pytest
from cli.hostile_servers import HostileServer, answering
from kit.checks import until
from kit.cli import WITHIN, Run, report, shown
from kit.raw_client import text_of_version

from aiolead.cli.doctor.server_checks import judge_ensemble
from aiolead.cli.ensemble import _summary, behind
from aiolead.cli.server_inquiry import Inquirer, ServerAddress
from aiolead.cli.server_survey import Quorum, ServerAnswers, ServerState, ask_all, quorum_of
from aiolead.model import EnsembleConfig, ServerSpec
from aiolead.testing import EmbeddedServer, Ensemble

pytestmark = pytest.mark.exhaustive("an edge of the command")

SRVR = """Zookeeper version: 3.9.2-e454e8c7283100c7caec6dcae2bc82aaecb63023, built on 2024-02-12
Latency min/avg/max: 0/0.31/7
Received: 3
Sent: 2
Connections: 5
Outstanding: 0
Zxid: 0x300000a17
Mode: leader
Node count: 5
Proposal sizes last/min/max: 48/48/1024
"""
REFUSED = "mntr is not executed because it is not in the whitelist.\n"
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"


def http(body: str) -> str:
    return f"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}"


def test_standalone_server_is_a_quorum(run: Run, hosts: str) -> None:
    out = shown(run, "ensemble")
    server = hosts.partition("/")[0]
    version = text_of_version(hosts)
    assert out[1].split()[:3] == [server, "standalone", version]
    assert out[2:] == ["", "1 of 1 voter up, quorum 1: no more may fail"]
    (ensemble,) = report(run, "ensemble")
    (one,) = ensemble.pop("servers")
    counts = {"voters": 1, "quorum": 1, "up": 1, "tolerates": 0}
    assert ensemble == {**counts, "has_quorum": True, "leader_answers": True, "source": "mntr"}
    known = {"server": server, "role": "standalone", "version": version, "behind": 0}
    assert one.items() >= known.items()
    assert one["connections"] >= 1


@pytest.mark.parametrize(
    ("engine", "version", "said"),
    [
        ("clickhouse-keeper", "24.8.4", "ClickHouse Keeper 24.8.4"),
        ("raftkeeper", "2.3.0", "RaftKeeper 2.3.0"),
    ],
)
def test_other_engines_are_named(run: Run, engine: str, version: str, said: str) -> None:
    with EmbeddedServer.in_thread(engine=engine, version=version) as server:
        out = shown(run, "ensemble", hosts=server.connect_string)
        assert f"standalone  {said}" in out[1]
        (one,) = report(run, "ensemble", hosts=server.connect_string)[0]["servers"]
        assert f"{one['engine']} {one['version']}" == said
        examined = "\n".join(shown(run, "doctor", hosts=server.connect_string))
        assert f"standalone, {said}" in examined
        assert "docs/how-to/clickhouse-keeper.md" in examined


def test_paused_follower_is_not_counted_as_up(run: Run, ensemble: Ensemble) -> None:
    hosts = ensemble.connect_string
    (said,) = report(run, "ensemble", hosts=hosts)
    assert (said["voters"], said["quorum"], said["tolerates"]) == (3, 2, 1)
    assert sorted(one["role"] for one in said["servers"]) == ["follower", "follower", "leader"]
    assert {one["version"] for one in said["servers"]} == {text_of_version(hosts)}
    # One server knows the others.
    (said,) = report(run, "ensemble", hosts=hosts.split(",")[0])
    assert (said["voters"], said["source"]) == (3, "config")
    servers = ensemble.blocking.servers
    follower = next(one for one in servers if "Mode: follower" in one.four_letter("srvr"))
    follower.pause()

    def is_noticed() -> bool:
        nonlocal said
        (said,) = report(run, "ensemble", "--patience", "0.5", hosts=hosts)
        return bool(said["up"] == 2)

    until(is_noticed, "the leader has noticed")
    assert (said["tolerates"], said["has_quorum"]) == (0, True)
    problems = {one["server"]: one["problem"] for one in said["servers"] if one["problem"]}
    assert problems == {f"127.0.0.1:{follower.port}": "no answer within 0.5 s"}


def test_unreachable_servers_are_no_ensemble(run: Run) -> None:
    code, out, err = run("ensemble", hosts="127.0.0.1:1,nowhere.invalid")
    assert (code, err) == (69, [])
    assert "Connection refused" in out[1]
    assert out[2].startswith("nowhere.invalid:2181  ")
    assert out[-1] == (
        "0 of 2 voters up (as far as --hosts lists them), quorum 2: there is no leader, "
        "nothing is served"
    )


def test_admin_server_replaces_refused_words(run: Run) -> None:
    """Without an admin server, the rest is reported."""
    monitor = {"command": "monitor", "error": None, "quorum_size": 5, "synced_followers": 3}
    asked = "GET /commands/monitor HTTP/1.0\r\n"
    with (
        HostileServer(answering({"srvr": SRVR, "mntr": REFUSED})) as server,
        HostileServer(answering({asked: http(json.dumps(monitor))})) as admin,
        HostileServer(answering({"GET": http("<html>")})) as stranger,
    ):
        hosts, brief = server.hosts, ("ensemble", "--connect-timeout", "0.1", "--admin-port")
        (said,) = report(run, *brief, str(admin.port), hosts=hosts)
        assert (said["voters"], said["up"], said["tolerates"]) == (5, 4, 1)
        assert (said["source"], said["servers"][0]["synced_followers"]) == ("mntr", 3)
        for port in (0, stranger.port):
            (said,) = report(run, *brief, str(port), hosts=hosts)
            assert (said["voters"], said["source"]) == (1, "hosts")
            assert said["servers"] == [
                {
                    "server": hosts,
                    "problem": None,
                    "state": "serving",
                    "role": "leader",
                    "engine": "ZooKeeper",
                    "version": "3.9.2",
                    "zxid": 0x300000A17,
                    "behind": 0,
                    "connections": 5,
                    "latency_ms": 0.31,
                    "synced_followers": None,
                }
            ]
        code, _, err = run(*brief, "0", hosts=hosts)
        assert code == 0
        assert "mntr is not in 4lw.commands.whitelist" in err[-1]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (NOT_SERVING, "up, looking for a leader"),
        ("", "says nothing to srvr"),
        ("\x1b[2J\nMode: \x1b[2Jleader\n", r"\x1b[2Jleader"),
    ],
)
def test_problem_of_a_server_is_shown(run: Run, answer: str, problem: str) -> None:
    with HostileServer(answering({"srvr": answer})) as server:
        options = ["--admin-port", "0", "--connect-timeout", "0.1"]
        code, out, _ = run("ensemble", *options, hosts=server.hosts)
    assert code == 69
    assert all(line.isprintable() for line in out)
    assert problem in out[1]


def test_ensemble_without_its_leader_serves_nothing(run: Run) -> None:
    """Followers that have not missed it yet say that they serve; a script must not go on."""
    words = {"srvr": SRVR.replace("leader", "follower"), "mntr": "zk_quorum_size\t3\n"}
    with HostileServer(answering(words)) as one, HostileServer(answering(words)) as other:
        hosts = f"{one.hosts},{other.hosts},127.0.0.1:1"
        code, out, _ = run("ensemble", "--connect-timeout", "0.1", hosts=hosts)
    assert out[-1].endswith("nothing is written until it does, or another one is elected")
    assert code == 69


# --- quorums and states --------------------------------------------------------------------------


def answers(mode: str, zxid: int | None = None, **monitor: str) -> ServerAnswers:
    return ServerAnswers(ServerAddress("zk", 2181), mode=mode, zxid=zxid, monitor=monitor)


def members(voters: int, observers: int = 0) -> EnsembleConfig:
    numbers = range(voters + observers)
    specs = (ServerSpec(n, (("zk", 1, 2),), is_observer=n >= voters) for n in numbers)
    return EnsembleConfig(tuple(specs))


def test_tolerated_failures_are_counted() -> None:
    three = [answers("leader"), answers("follower"), answers("follower")]
    assert quorum_of(three, members(3)).tolerates == 1
    assert quorum_of([*three, answers(""), answers("")], members(5)).tolerates == 0
    # Observers have no vote.
    assert quorum_of([*three, answers("observer")], members(3, 1)).tolerates == 1
    assert quorum_of([*three, answers("observer")], None).voters == 3
    # A follower has a leader, which has a quorum. The number of other servers is unknown.
    assert quorum_of([answers("follower")], members(3)) == Quorum(3, 2, 2, True, "config", False)
    assert quorum_of([answers("follower")], members(3)).tolerates is None
    assert quorum_of([answers(""), answers(""), answers("")], members(3)).tolerates == -2
    # The leader knows the servers that were not asked.
    assert quorum_of([answers("leader", synced_followers="3")], members(5)).tolerates == 1
    assert quorum_of([answers("leader", synced_followers="?")], members(5)).up == 3


def test_removed_server_that_still_follows_has_no_vote() -> None:
    """It follows until it is stopped: one more failure is one too many."""
    followers = [answers("follower"), answers("follower")]
    for monitor in ({}, {"synced_followers": "2", "synced_non_voting_followers": "1"}):
        quorum = quorum_of([answers("leader", None, **monitor), *followers], members(2))
        assert (quorum.up, quorum.tolerates) == (2, 0)
    one = {"synced_followers": "1", "synced_non_voting_followers": "1"}
    assert quorum_of([answers("leader", None, **one), followers[0]], members(3)).up == 1


def test_server_that_looks_for_a_leader_is_up() -> None:
    """Without a quorum, "0 of 3 voters up" would hide the server that works."""
    looking = answers("")
    looking.failed = ServerState.LOOKING
    quorum = quorum_of([looking, answers(""), answers("")], members(3))
    assert (quorum.up, quorum.looking, quorum.tolerates, quorum.is_met) == (1, 1, -1, False)
    assert _summary(quorum) == (
        "1 of 3 voters up, 1 looking for a leader, quorum 2: there is no leader, nothing is served"
    )
    # A server that has not joined the quorum yet is not part of it.
    quorum = quorum_of([answers("leader"), answers("follower"), looking], members(3))
    assert (quorum.up, quorum.looking, quorum.tolerates) == (2, 1, 0)
    assert _summary(quorum) == (
        "2 of 3 voters up, 1 looking for a leader, quorum 2: no more may fail"
    )


def test_silent_leader_is_reported() -> None:
    """Followers serve on until they miss a frozen leader, for syncLimit; no write is answered."""
    followers, silent = [answers("follower"), answers("follower")], answers("")
    quorum = quorum_of([*followers, silent], members(3))
    assert (quorum.is_met, quorum.is_led) == (True, False)
    assert _summary(quorum) == (
        "2 of 3 voters up, quorum 2: no more may fail; the leader does not answer, and nothing is "
        "written until it does, or another one is elected"
    )
    findings = list(judge_ensemble([*followers, silent], quorum, 3, has_names=False))
    assert [each.text for each in findings][1:] == ["the leader does not answer"]
    # One that was not asked may lead.
    assert quorum_of(followers, members(3)).is_led
    assert quorum_of([*followers, silent], None).is_led
    assert quorum_of([*followers, answers("leader")], members(3)).is_led


async def test_each_failure_of_a_server_is_a_state() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as silent:
        where = ServerAddress("127.0.0.1", silent.extra(anyio.abc.SocketAttribute.local_port))
        with (
            HostileServer(answering({"srvr": NOT_SERVING})) as looking,
            HostileServer(answering({"srvr": SRVR})) as serving,
        ):
            asked = [ServerAddress("127.0.0.1", 1), ServerAddress("nowhere.invalid", 1)]
            asked += [ServerAddress("127.0.0.1", one.port) for one in (looking, serving)]
            found = await ask_all(Inquirer(None, 0.3, 0), [where])
            # A busy machine may take long to answer, or to refuse.
            found += await ask_all(Inquirer(None, WITHIN, 0), asked)
    assert [one.state for one in found] == [
        *(ServerState.SILENT, ServerState.UNREACHABLE, ServerState.UNREACHABLE),
        *(ServerState.LOOKING, ServerState.SERVING),
    ]
    assert found[0].problem == "no answer within 0.3 s"


def test_transactions_behind_the_leader_are_counted() -> None:
    newest = answers("leader", 0x300000005)
    old = answers("follower", 0x300000001)
    older = answers("follower", 0x200000009)
    all_of_them = [newest, old, older, answers("follower")]
    assert [behind(one, all_of_them) for one in all_of_them] == [0, 4, "epoch 2 of 3", None]

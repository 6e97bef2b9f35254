"""`aiolead ensemble`, and what it makes of what servers say."""

from __future__ import annotations

import json
import time

import anyio
import anyio.abc
import pytest
from cli.words_server import WordsServer
from kit.cli import WITHIN, Run, objects
from kit.raw_client import RawClient, text_of_version

from aiolead.cli.ensemble import _summary, behind
from aiolead.cli.server_inquiry import (
    Inquirer,
    ServerAddress,
    ephemerals_in_dump,
    sessions_in_cons,
    sessions_in_dump,
)
from aiolead.cli.server_survey import Quorum, ServerAnswers, ServerState, ask_all, quorum_of
from aiolead.model import CreateMode, EnsembleConfig, ServerSpec
from aiolead.testing import Ensemble, ZooKeeperServer

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


def http(values: dict[str, object]) -> str:
    return f"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{json.dumps(values)}"


def test_a_server_alone(run: Run, hosts: str) -> None:
    code, out, err = run("ensemble", hosts=hosts)
    assert (code, err) == (0, [])
    server = hosts.partition("/")[0]
    version = text_of_version(hosts)
    assert out[1].split()[:3] == [server, "standalone", version]
    assert out[2:] == ["", "1 of 1 voter up, quorum 1: no more may fail"]
    code, out, _ = run("ensemble", "--json", hosts=hosts)
    (said,) = objects(out)
    assert {key: said[key] for key in said if key != "servers"} == {
        "voters": 1,
        "quorum": 1,
        "up": 1,
        "tolerates": 0,
        "has_quorum": True,
        "source": "mntr",
    }
    (one,) = said["servers"]
    assert (one["server"], one["role"], one["version"], one["behind"]) == (
        *(server, "standalone", version),
        0,
    )
    assert one["connections"] >= 1


def test_three_servers_then_two(run: Run, ensemble: Ensemble) -> None:
    hosts = ensemble.connect_string
    code, out, _ = run("ensemble", "--json", hosts=hosts)
    (said,) = objects(out)
    assert (code, said["voters"], said["quorum"], said["tolerates"]) == (0, 3, 2, 1)
    assert sorted(one["role"] for one in said["servers"]) == ["follower", "follower", "leader"]
    assert {one["version"] for one in said["servers"]} == {text_of_version(hosts)}
    # One of them is enough to know of the others.
    code, out, _ = run("ensemble", "--json", hosts=hosts.split(",")[0])
    (said,) = objects(out)
    assert (code, said["voters"], said["source"]) == (0, 3, "config")
    servers = ensemble.blocking.servers
    follower = next(one for one in servers if "Mode: follower" in one.four_letter("srvr"))
    follower.pause()
    deadline = time.monotonic() + WITHIN
    said["up"] = 3
    while said["up"] != 2:  # until the leader has noticed
        assert time.monotonic() < deadline
        code, out, _ = run("ensemble", "--json", "--patience", "0.5", hosts=hosts)
        (said,) = objects(out)
    assert (code, said["tolerates"], said["has_quorum"]) == (0, 0, True)
    problems = {one["server"]: one["problem"] for one in said["servers"] if one["problem"]}
    assert problems == {f"127.0.0.1:{follower.port}": "no answer within 0.5 s"}


def test_nobody(run: Run) -> None:
    code, out, err = run("ensemble", hosts="127.0.0.1:1,nowhere.invalid")
    assert (code, err) == (69, [])
    assert "Connection refused" in out[1]
    assert out[2].startswith("nowhere.invalid:2181  ")
    assert out[-1] == (
        "0 of 2 voters up (as far as --hosts lists them): there is no leader, nothing is served"
    )


def test_words_that_are_whitelisted_away(run: Run) -> None:
    """Then the admin server is asked; and if nobody is there, the rest is said all the same."""
    monitor = {"command": "monitor", "error": None, "quorum_size": 5, "synced_followers": 3}
    with (
        WordsServer({"srvr": SRVR, "mntr": REFUSED}) as server,
        WordsServer({"GET /commands/monitor HTTP/1.0\r\n": http(monitor)}) as admin,
        WordsServer({"GET": "HTTP/1.0 200 OK\r\n\r\n<html>"}) as stranger,
    ):
        options = ["--connect-timeout", "0.1", "--json"]
        code, out, _ = run(
            *("ensemble", "--admin-port", str(admin.port), *options), hosts=server.hosts
        )
        (said,) = objects(out)
        assert (code, said["voters"], said["up"], said["tolerates"]) == (0, 5, 4, 1)
        assert (said["source"], said["servers"][0]["synced_followers"]) == ("mntr", 3)
        for port in (0, stranger.port):
            code, out, _ = run(
                *("ensemble", "--admin-port", str(port), *options), hosts=server.hosts
            )
            (said,) = objects(out)
            assert (code, said["voters"], said["source"]) == (0, 1, "hosts")
            assert said["servers"][0] | {"server": ""} == {
                "server": "",
                "problem": None,
                "state": "serving",
                "role": "leader",
                "version": "3.9.2",
                "zxid": 0x300000A17,
                "behind": 0,
                "connections": 5,
                "latency_ms": 0.31,
                "synced_followers": None,
            }
        code, out, err = run("ensemble", "--admin-port", "0", *options[:2], hosts=server.hosts)
        assert code == 0
        assert "mntr is not in 4lw.commands.whitelist" in err[-1]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (NOT_SERVING, "up, looking for a leader"),
        ("", "says nothing to srvr"),
        ("\x1b[2J\nMode: \x1b[2Jleader\n", "\x1b[2Jleader"),
    ],
)
def test_servers_that_do_not_serve(run: Run, answer: str, problem: str) -> None:
    with WordsServer({"srvr": answer}) as server:
        options = ["--admin-port", "0", "--connect-timeout", "0.1"]
        code, out, _ = run("ensemble", *options, hosts=server.hosts)
        assert code == 69
        assert all(line.isprintable() for line in out)
        assert problem.replace("\x1b", r"\x1b") in out[1]


# --- what follows from it ------------------------------------------------------------------------


def answers(mode: str, zxid: int | None = None, **monitor: str) -> ServerAnswers:
    return ServerAnswers(ServerAddress("zk", 2181), mode=mode, zxid=zxid, monitor=monitor)


def members(voters: int, observers: int = 0) -> EnsembleConfig:
    return EnsembleConfig(
        tuple(
            ServerSpec(n, (("zk", 1, 2),), is_observer=n >= voters)
            for n in range(voters + observers)
        )
    )


def test_how_many_may_fail() -> None:
    three = [answers("leader"), answers("follower"), answers("follower")]
    assert quorum_of(three, members(3)).tolerates == 1
    assert quorum_of([*three, answers(""), answers("")], members(5)).tolerates == 0
    # Observers have no vote.
    assert quorum_of([*three, answers("observer")], members(3, 1)).tolerates == 1
    assert quorum_of([*three, answers("observer")], None).voters == 3
    # Whoever follows has a leader, and that one a quorum; how many more there are is not known.
    assert quorum_of([answers("follower")], members(3)) == Quorum(3, 2, 2, True, "config", False)
    assert quorum_of([answers("follower")], members(3)).tolerates is None
    assert quorum_of([answers(""), answers(""), answers("")], members(3)).tolerates == -2
    # The leader knows of those that were not asked.
    assert quorum_of([answers("leader", synced_followers="3")], members(5)).tolerates == 1
    assert quorum_of([answers("leader", synced_followers="?")], members(5)).up == 3


def test_a_server_that_is_up_and_looks_for_a_leader_is_counted_as_up() -> None:
    """Without a quorum, "0 of 3 voters up" would hide the one that works."""
    three = [answers(""), answers(""), answers("")]
    three[0].failed = ServerState.LOOKING
    quorum = quorum_of(three, members(3))
    assert (quorum.up, quorum.looking, quorum.tolerates, quorum.is_met) == (1, 1, -1, False)
    assert _summary(quorum) == (
        "1 of 3 voters up (1 up, looking for a leader; the quorum is 2): there is no leader, "
        "nothing is served"
    )
    # One that has not joined the others yet takes no part.
    late = [answers("leader"), answers("follower"), three[0]]
    quorum = quorum_of(late, members(3))
    assert (quorum.up, quorum.looking, quorum.tolerates) == (2, 1, 0)
    assert _summary(quorum) == (
        "2 of 3 voters up, 1 up, looking for a leader, quorum 2: no more may fail"
    )


async def test_each_failure_of_a_server_is_a_state_of_its_own() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as silent:
        where = ServerAddress("127.0.0.1", silent.extra(anyio.abc.SocketAttribute.local_port))
        with WordsServer({"srvr": NOT_SERVING}) as looking, WordsServer({"srvr": SRVR}) as serving:
            asked = [ServerAddress("127.0.0.1", 1), ServerAddress("nowhere.invalid", 1)]
            for one in (looking, serving):
                host, _, port = one.hosts.partition(":")
                asked.append(ServerAddress(host, int(port)))
            # Those that answer, or refuse, have all the time that a busy machine takes.
            found = await ask_all(Inquirer(None, 0.3, 0), [where])
            found += await ask_all(Inquirer(None, WITHIN, 0), asked)
    assert [one.state for one in found] == [
        ServerState.SILENT,
        ServerState.UNREACHABLE,
        ServerState.UNREACHABLE,
        ServerState.LOOKING,
        ServerState.SERVING,
    ]
    assert found[0].problem == "no answer within 0.3 s"


def test_how_far_behind() -> None:
    newest = answers("leader", 0x300000005)
    old = answers("follower", 0x300000001)
    older = answers("follower", 0x200000009)
    all_of_them = [newest, old, older, answers("follower")]
    assert [behind(one, all_of_them) for one in all_of_them] == [0, 4, "epoch 2 of 3", None]


def test_the_sessions_that_servers_tell_of(zookeeper: ZooKeeperServer) -> None:
    with RawClient(zookeeper.connect_string) as client:
        session = client.session.session_id
        assert session in sessions_in_dump(zookeeper.blocking.four_letter("dump"))
        said = sessions_in_cons(zookeeper.blocking.four_letter("cons"))[session]
        assert "127.0.0.1" in said.address
        assert said.received > 0
        assert said.timeout > 0
    assert session not in sessions_in_dump(zookeeper.blocking.four_letter("dump"))


def test_the_ephemeral_znodes_that_servers_tell_of(zookeeper: ZooKeeperServer) -> None:
    with RawClient(zookeeper.connect_string) as client:
        session = client.session.session_id
        for path in ("/told", "/told-2"):
            client.create(path, flags=CreateMode.EPHEMERAL)
        sizes = ephemerals_in_dump(zookeeper.blocking.four_letter("dump"))
        assert sizes[session] == 4 + len("/told") + 4 + len("/told-2")


def test_what_a_follower_and_an_ensemble_with_local_sessions_say() -> None:
    dump = (
        "SessionTracker dump:\nLocal Session Sets (1)/(1):\n1 expire at Sat Nov 21 18:00:00 UTC:\n"
        "\t0x10000000001\nGlobal Sessions(2):\n0x100000000a1\t4000ms\n0xf00000000000000b\t6000ms\n"
        "ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x100000000ff:\n\t/dead\n"
        "Connections dump:\n"
    )
    assert sessions_in_dump(dump) == {0x10000000001, 0x100000000A1, 0xF00000000000000B - 2**64}
    assert ephemerals_in_dump(dump) == {0x100000000FF: 9}

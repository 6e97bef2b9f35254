"""How the servers of the model lead and follow, lose each other, and come back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from assurance.simulation.ensemble_model import STEP, Client, Stage, create, started

from aiolead._wire.codes import OpCode
from aiolead._wire.requests import Delete, GetData, SetData
from aiolead.errors import UsageError
from aiolead.testing.simulation.ensemble import Server
from aiolead.testing.simulation.ensemble.sync import SyncKind


def write(client: Client, count: int, prefix: str = "n") -> None:
    for number in range(count):
        assert client.create(f"/{prefix}{number}").err == 0


def same(stage: Stage) -> None:
    first, *rest = stage.ensemble.servers
    for server in rest:
        assert server.znodes() == first.znodes()
        assert server.sessions() == first.sessions()


def test_highest_id_leads_a_new_ensemble(stage: Stage) -> None:
    assert stage.leader.id == 3
    assert [server.state for server in stage.ensemble.servers] == ["following"] * 2 + ["leading"]
    assert stage.leader.zxid == 1 << 32
    # The others have no transaction of the new epoch yet.
    assert [server.zxid for server in stage.followers()] == [0, 0]
    assert stage.told("leader-elected") == [
        {"kind": "leader-elected", "at": leader_since(stage), "server": 3, "epoch": 1}
    ]
    assert stage.ensemble.connect_string == "10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181"


def leader_since(stage: Stage) -> float:
    return float(stage.told("leader-elected")[0]["at"])


def test_quorum_serves_without_the_rest() -> None:
    stage = Stage()
    stage.even_out()
    for server in stage.ensemble.servers[:2]:
        server.start()
    stage.until(lambda: stage.ensemble.leader() is not None)
    client = stage.client(stage.ensemble.servers[1])
    assert client.create("/a").err == 0
    stage.ensemble.servers[2].start()
    assert stage.settle().id == 2
    same(stage)


def test_minority_does_not_serve() -> None:
    stage = Stage(voters=5)
    stage.even_out()
    for server in stage.ensemble.servers[:2]:
        server.start()
    stage.run(20.0)
    assert {server.state for server in stage.ensemble.servers} == {"looking", "down"}


def test_observers_serve_and_do_not_vote() -> None:
    stage = started(observers=2)
    one, other = stage.ensemble.servers[3:]
    assert one.state == "observing"
    client = stage.client(one)
    assert client.create("/a").err == 0
    stage.run(5 * STEP)
    same(stage)
    for server in stage.ensemble.servers[:2]:
        server.kill()
    stage.run(3.0)
    assert other.state == "looking"


def test_server_with_the_longest_log_leads_next(stage: Stage) -> None:
    one, other = stage.followers()
    client = stage.client(stage.leader)
    stage.cut(other)
    write(client, 5)
    stage.leader.kill()
    stage.heal()
    stage.until(lambda: stage.ensemble.leader() is not None)
    assert stage.ensemble.leader() is one
    stage.leader.start()
    stage.settle()
    same(stage)


def test_follower_leaves_after_the_sync_limit() -> None:
    stage = started(tick=0.5, sync_limit=4)
    client = stage.client(stage.follower)
    stage.run(1.0)
    stage.cut(stage.follower)
    cut = stage.now
    stage.until(lambda: stage.follower.state == "looking")
    # Two seconds from the last packet, which came less than half a tick before the cut.
    assert 2.0 - 0.25 - 2 * STEP < stage.now - cut <= 2.0
    stage.run(3 * STEP)
    assert client.is_closed
    assert stage.leader.state == "leading"


def test_leader_without_a_quorum_leaves_at_its_next_tick() -> None:
    stage = started(tick=0.5, sync_limit=4)
    client = stage.client(stage.leader)
    stage.run(1.0)
    stage.cut(stage.leader)
    cut = stage.now
    stage.until(lambda: stage.leader.state == "looking")
    assert 4 * 0.5 - 0.25 < stage.now - cut <= 5 * 0.5
    assert stage.told("leader-lost", server=stage.leader.id, epoch=1)
    stage.run(3 * STEP)
    assert client.is_closed


@pytest.mark.parametrize(("later", "kind"), [(0, SyncKind.TRUNC), (2, SyncKind.SNAP)])
def test_old_leader_drops_uncommitted_writes(stage: Stage, later: int, kind: SyncKind) -> None:
    client = stage.client(stage.leader)
    write(client, 3)
    stage.cut(stage.leader)
    lost = [client.send(create(f"/lost{number}")) for number in range(3)]
    stage.until(lambda: stage.ensemble.leader() not in (None, stage.leader))
    newer = stage.ensemble.leader()
    assert newer is not None
    if later:
        write(stage.client(newer), later, "later")
    newer.syncs.clear()
    stage.heal()
    stage.settle()
    # Nothing is truncated back into an earlier epoch.
    assert newer.syncs == {kind: 1}
    assert not any(xid in client.replies for xid in lost)
    assert not any("lost" in path for path in stage.leader.znodes())
    same(stage)


def test_log_of_a_new_leader_is_committed(stage: Stage) -> None:
    """A write without an answer: its leader died before it could count the acknowledgements."""
    client = stage.client(stage.leader)
    for follower in stage.followers():
        stage.network.path(follower.host, stage.leader.host).silence()
    xid = client.send(create("/found"))
    stage.run(5 * STEP)
    stage.leader.kill()
    stage.until(lambda: stage.ensemble.leader() is not None)
    assert xid not in client.replies
    found = stage.told("znode-created", path="/found")
    assert len(found) == 1
    assert found[0]["at"] == stage.told("leader-elected")[-1]["at"]


def test_learner_gets_the_missing_transactions(stage: Stage) -> None:
    client = stage.client(stage.leader)
    write(client, 10)
    stage.follower.kill()
    write(client, 10, "m")
    stage.leader.syncs.clear()
    stage.follower.start()
    stage.settle()
    assert stage.leader.syncs == {SyncKind.DIFF: 1}
    same(stage)


def test_learner_that_lacks_too_much_gets_a_snapshot() -> None:
    stage = started(history=4)
    client = stage.client(stage.leader)
    write(client, 10)
    stage.follower.kill()
    write(client, 20, "m")
    stage.leader.syncs.clear()
    stage.follower.start()
    stage.settle()
    assert stage.leader.syncs == {SyncKind.SNAP: 1}
    same(stage)
    # From then on it has the same as everybody, on its own.
    write(client, 3, "later")
    client.ask(SetData("/n0", b"new", -1))
    stage.run(5 * STEP)
    same(stage)
    assert stage.follower.znodes()["/n0"][0] == b"new"


def test_killed_server_keeps_its_data_and_loses_its_watches(stage: Stage) -> None:
    follower = stage.follower
    client = stage.client(follower)
    write(client, 3)
    client.ask(GetData("/n1", watch=True))
    before = dict(follower.znodes())
    follower.kill()
    stage.run(3 * STEP)
    assert client.is_closed
    assert follower.state == "down"
    assert follower.znodes() == before
    assert not follower.watches()
    follower.start()
    assert stage.settle() is stage.leader
    same(stage)


def test_acknowledged_writes_survive_the_death_of_all_servers(stage: Stage, client: Client) -> None:
    write(client, 5)
    before = stage.ensemble.leader().znodes()  # type: ignore[union-attr]
    for server in stage.ensemble.servers:
        server.kill()
    stage.run(10.0)
    stage.ensemble.start()
    leader = stage.settle()
    assert leader.znodes() == before
    assert leader.sessions() == [client.session_id]
    again = stage.client(leader, session=client.session, seen=client.zxid)
    assert again.session_id == client.session_id
    assert again.create("/more").zxid == (2 << 32) + 1


def test_write_that_is_not_on_disk_dies_with_the_servers(stage: Stage) -> None:
    one, other = stage.followers()
    client = stage.client(stage.leader)
    for server in (one, other, stage.leader):
        server.disk_delay = 1.0
    client.send(create("/gone"))
    stage.run(5 * STEP)
    for server in stage.ensemble.servers:
        server.kill()
        server.disk_delay = 0.0
    stage.ensemble.start()
    assert not stage.settle().znodes()


def test_thawed_follower_answers_late() -> None:
    stage = started(tick=0.5, sync_limit=4)
    follower = stage.follower
    client, other = stage.client(follower), stage.client(stage.leader)
    follower.freeze()
    assert follower.is_frozen
    client.ping()
    other.create("/a")
    stage.run(1.0)
    assert not client.pings
    assert not follower.znodes()
    follower.thaw()
    stage.run(3 * STEP)
    assert client.pings
    assert "/a" in follower.znodes()
    assert stage.settle() is stage.leader
    assert [fact["state"] for fact in stage.told("server", server=follower.id)][-2:] == [
        "frozen",
        "thawed",
    ]


def test_thawed_leader_finds_itself_replaced() -> None:
    stage = started(tick=0.5, sync_limit=4)
    leader = stage.leader
    client = stage.client(leader)
    leader.freeze()
    stage.until(lambda: stage.ensemble.leader() not in (None, leader))
    asked = client.send(create("/late"))
    stage.run(3.0)
    leader.thaw()
    # It learns at once that its followers are gone, and draws the conclusion at its next tick.
    stage.until(lambda: leader.state == "looking", 0.5 + STEP)
    stage.settle()
    assert asked not in client.replies
    assert client.is_closed
    assert "/late" not in leader.znodes()
    assert [fact["server"] for fact in stage.told("leader-lost")] == [leader.id]


def test_frozen_server_accepts_connections_silently(stage: Stage) -> None:
    stage.follower.freeze()
    client = stage.knock(stage.follower)
    client.greet()
    stage.run(0.5)
    assert not client.session_id
    stage.follower.thaw()
    stage.until(lambda: client.session_id)


def test_learner_that_does_not_acknowledge_is_dropped() -> None:
    stage = started(tick=0.5, sync_limit=4)
    stage.follower.disk_delay = 60.0
    client = stage.client(stage.leader)
    assert client.create("/a").err == 0
    stage.run(1.9)
    assert stage.follower.state == "following"
    stage.until(lambda: stage.follower.state == "looking", 0.5)
    stage.follower.disk_delay = 0.0
    stage.settle()
    same(stage)


def test_leader_without_followers_looks_again() -> None:
    stage = Stage(tick=0.5, init_limit=4, voters=2)
    stage.even_out()
    one, other = stage.ensemble.servers
    stage.ensemble.start()
    stage.until(lambda: other.state == "leading")
    one.kill()
    stage.until(lambda: other.state == "looking")
    assert not stage.told("leader-elected")
    one.start()
    stage.settle()


def test_single_voter_is_a_quorum() -> None:
    stage = started(voters=1)
    client = stage.client(stage.leader)
    assert client.create("/a").err == 0


def test_leader_reaps_containers_and_expired_znodes() -> None:
    stage = started(container_interval=5.0)
    client = stage.client(stage.follower)
    container = create("/c", 4)
    client.keep_pinging(0.5)
    assert client.ask(replace(container, op=OpCode.CREATE_CONTAINER)).err == 0
    assert client.create("/c/child").err == 0
    assert client.ask(replace(create("/t", 5), ttl_ms=3000, op=OpCode.CREATE_TTL)).err == 0
    stage.run(5.5)
    assert set(stage.followers()[0].znodes()) == {"/c", "/c/child"}
    client.ask(Delete("/c/child", -1))
    stage.run(5.5)
    same(stage)
    assert not stage.followers()[0].znodes()


def test_operator_deletes_znodes_and_ends_sessions(stage: Stage, client: Client) -> None:
    client.create("/a", 1)
    stage.ensemble.delete("/a")
    stage.ensemble.delete("/none")
    stage.run(5 * STEP)
    assert not stage.leader.znodes()
    assert client.ask(GetData("/")).err == 0
    stage.ensemble.expire(client.session_id)
    stage.run(5 * STEP)
    assert client.is_closed
    for server in stage.ensemble.servers:
        server.kill()
    with pytest.raises(UsageError):
        stage.ensemble.delete("/a")


def test_server_of_a_client_is_known(stage: Stage) -> None:
    one, other = stage.followers()
    client = stage.client(one)
    found: Server | None = stage.ensemble.server_of(client.session_id)
    assert found is one
    client.reset()
    stage.run(3 * STEP)
    assert stage.ensemble.server_of(client.session_id) is None
    stage.client(other, session=client.session)
    assert stage.ensemble.server_of(client.session_id) is other


def test_idle_ensemble_takes_few_steps(stage: Stage) -> None:
    """Two pings and two answers in each half tick, and one look at each of the five silences."""
    stage.client(stage.follower).reset()
    stage.run(20.0)
    timeline = stage.timeline
    done = []
    original = timeline.count
    timeline.count = lambda steps: (done.append(steps), original(steps))  # type: ignore[method-assign]
    stage.run(10.0)
    assert sum(done) < 250

"""The order of answers and events that clients of the model see, and lost messages.

`test_conformance.py` compares everything else that a client can see with a real ensemble:
handshakes, sessions that move, transactions, ACLs, closed sessions, broken requests.
"""

from __future__ import annotations

import pytest
from assurance.simulation.ensemble_model import STEP, Client, Stage, create, started

from aiolead._wire.codes import OpCode
from aiolead._wire.replies import DataReply, PathReply
from aiolead._wire.requests import Exists, GetChildren, GetData, Sync
from aiolead._wire.versions import Engine, release_in
from aiolead.model import EventType


def test_new_session_is_known_to_every_server(stage: Stage) -> None:
    ids = {stage.client(server).session_id for server in stage.ensemble.servers}
    assert len(ids) == 3
    assert {id_ >> 56 for id_ in ids} == {1, 2, 3}
    stage.run(10 * STEP)
    assert all(server.sessions() == sorted(ids) for server in stage.ensemble.servers)
    assert [server.attached() for server in stage.ensemble.servers] == [
        [id_] for id_ in sorted(ids)
    ]
    assert stage.ensemble.sessions() == sorted(ids)
    assert {fact["timeout"] for fact in stage.told("session-created")} == {2.0}


def test_servers_report_their_version(stage: Stage) -> None:
    for server in stage.ensemble.servers:
        client, told = stage.knock(server), bytearray()
        client.received = told.extend  # type: ignore[method-assign,assignment]
        client.say(b"sr")
        stage.run(STEP)
        client.say(b"vr")
        stage.until(lambda client=client: client.is_closed)  # type: ignore[misc]
        assert release_in(bytes(told)) == (Engine.ZOOKEEPER, (3, 8, 0))


def test_wrong_password_ends_the_existing_connection(stage: Stage, client: Client) -> None:
    stranger = stage.client(stage.follower, session=(client.session_id, bytes(16)))
    stage.run(5 * STEP)
    assert stranger.is_refused
    assert stranger.is_closed
    assert client.is_closed
    assert stage.client(stage.follower, session=client.session).session_id == client.session_id


def test_reads_at_a_lagging_follower_are_stale_until_a_sync(stage: Stage) -> None:
    writer, reader = stage.client(stage.leader), stage.client(stage.follower)
    path = stage.network.path(stage.leader.host, stage.follower.host)
    path.range = (0.1, 0.1)
    assert writer.create("/a").err == 0
    assert reader.ask(Exists("/a")).err == -101
    assert reader.ask(Sync("/a")).err == 0
    assert reader.ask(Exists("/a")).err == 0


def test_read_waits_for_an_earlier_write_of_its_session(stage: Stage) -> None:
    busy, other = stage.client(stage.follower), stage.client(stage.follower)
    stage.network.path(stage.leader.host, stage.follower.host).silence()
    wrote, read = busy.send(create("/a")), busy.send(Exists("/a"))
    busy.ping()
    stage.run(0.3)
    assert not busy.replies
    assert not busy.pings
    assert other.ask(Exists("/a")).err == -101  # A session that has not written does not wait.
    stage.heal()
    stage.until(lambda: busy.pings)
    assert busy.heard == [wrote, read]
    assert busy.replies[read][0].err == 0


def test_answers_arrive_in_order(stage: Stage, client: Client) -> None:
    asked = []
    for number in range(10):
        asked.append(client.send(create(f"/{number}")))
        asked.append(client.send(GetChildren("/")))
        asked.append(client.send(Sync("/")))
    stage.until(lambda: len(client.replies) == len(asked))
    assert client.heard == asked
    zxids = [client.replies[xid][0].zxid for xid in asked]
    assert zxids == sorted(zxids)


def test_event_arrives_before_the_answer_that_shows_its_change(stage: Stage) -> None:
    for server in (stage.leader, stage.followers()[0]):
        path = f"/{server.id}"
        client = stage.client(server)
        client.ask(Exists(path, watch=True))
        asked = client.send(create(path))
        stage.until(lambda asked=asked, client=client: asked in client.replies)
        assert client.heard[-2:] == [(EventType.CREATED, path), asked]


def test_event_arrives_when_its_server_applies_the_change(stage: Stage) -> None:
    slow, quick = stage.followers()
    near, far, writer = stage.client(quick), stage.client(slow), stage.client(stage.leader)
    stage.network.path(stage.leader.host, slow.host).range = (0.2, 0.2)
    for client in (near, far):
        client.ask(Exists("/a", watch=True))
    assert slow.watches() == {"/a": [far.session_id]}
    writer.create("/a")
    stage.until(lambda: far.events)
    assert far.heard_at[0] - near.heard_at[0] > 0.1
    assert not slow.watches()


def test_sync_at_a_follower_waits_for_earlier_proposals(stage: Stage) -> None:
    one, other = stage.followers()
    writer, reader = stage.client(stage.leader), stage.client(one)
    for server in (one, other):
        server.disk_delay = 0.1
    wrote = writer.send(create("/a"))
    stage.run(2 * STEP)
    asked, read = reader.send(Sync("/a")), reader.send(Exists("/a"))
    stage.until(lambda: read in reader.replies)
    assert wrote in writer.replies
    assert reader.acked[asked] > 0.1
    assert reader.replies[read][0].err == 0
    assert PathReply.read(reader.replies[asked][1]).path == "/a"


def test_only_two_slow_disks_delay_a_write() -> None:
    for slow, least, most in ((1, 0.0, 0.02), (2, 0.1, 0.13)):
        stage = Stage()
        leader = stage.start()
        for server in stage.followers()[:slow]:
            server.disk_delay = 0.1
        client = stage.client(leader)
        asked = stage.now
        client.create("/a")
        assert least < stage.now - asked < most


def test_lost_reply_leaves_the_write_applied(stage: Stage, client: Client) -> None:
    stage.follower.drop_reply(OpCode.CREATE2)
    xid = client.send(create("/a"))
    stage.until(lambda: client.is_closed)
    assert xid not in client.replies
    assert "/a" in stage.follower.znodes()
    again = stage.client(stage.follower, session=client.session)
    assert again.create("/b").err == 0


def test_lost_request_is_not_applied(stage: Stage, client: Client) -> None:
    stage.follower.drop_request(OpCode.CREATE2)
    client.send(create("/a"))
    stage.until(lambda: client.is_closed)
    stage.run(10 * STEP)
    assert not stage.follower.znodes()


def test_lost_handshake_reply_leaves_a_session(
    stage: Stage,
) -> None:
    stage.follower.drop_reply(OpCode.CREATE_SESSION)
    assert stage.client(stage.follower).is_closed
    assert len(stage.ensemble.sessions()) == 1
    stage.follower.drop_request(OpCode.CREATE_SESSION)
    assert stage.client(stage.follower).is_closed
    assert len(stage.ensemble.sessions()) == 1


def test_late_replies_stay_in_order(stage: Stage, client: Client) -> None:
    stage.follower.reply_delay = 0.2
    sent = stage.now
    first = client.send(GetData("/"))
    stage.run(0.05)
    stage.follower.reply_delay = 0.0
    second = client.send(GetData("/"))
    stage.until(lambda: second in client.replies)
    assert client.heard == [first, second]
    assert client.acked[first] - sent > 0.2
    assert client.acked[second] - client.acked[first] < STEP


def test_looking_server_closes_connections() -> None:
    stage = Stage()
    stage.even_out()
    stage.ensemble.servers[0].start()
    client = stage.knock(stage.ensemble.servers[0])
    stage.run(1.0)
    assert not client.is_closed
    client.greet()
    stage.run(3 * STEP)
    assert client.is_closed


def test_too_many_connections_of_one_host_are_refused() -> None:
    stage = started(max_connections=2)
    first = stage.client(stage.leader)
    others = [Client(stage, first.host, stage.leader) for _ in range(2)]
    stage.run(5 * STEP)
    assert [other.wire is None for other in others] == [False, True]
    assert stage.client(stage.leader).session_id


@pytest.mark.parametrize("voters", [1, 3])
def test_requests_sent_with_the_handshake_are_answered(voters: int) -> None:
    stage = started(voters=voters)
    client = stage.knock(stage.ensemble.servers[0])
    client.greet()
    wrote, read = client.send(create("/a")), client.send(GetData("/a"))
    stage.until(lambda: read in client.replies)
    assert client.heard == [wrote, read]
    assert DataReply.read(client.replies[read][1]).data == b""


def test_client_that_has_seen_a_later_change_is_turned_away(stage: Stage) -> None:
    zxid = stage.client(stage.leader).create("/a").zxid
    assert stage.client(stage.follower, seen=zxid).session_id
    client = stage.client(stage.follower, seen=zxid + 100)
    assert client.is_closed
    assert not client.is_refused

"""When the model ends sessions: the same margins as were measured on real servers.

The margin of a trial is the instant at which the ensemble deletes a session's znode, minus the
instant at which its last acknowledged request was sent plus the session's timeout.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from assurance.simulation.ensemble_model import STEP, Client, Stage, check, started

from aiolead._wire.requests import CloseSession, GetData, SetData, Sync
from aiolead.testing.simulation.ensemble import Server

TICK = 0.5
TAU = 2.0


def holder(stage: Stage, server: Server, path: str = "/held") -> Client:
    """A client with an ephemeral znode."""
    client = stage.client(server, timeout=TAU)
    assert client.create(path, 1).err == 0
    return client


def deletion(stage: Stage, path: str = "/held", limit: float = 30.0) -> float:
    stage.until(lambda: stage.told("znode-deleted", path=path), limit)
    return float(stage.told("znode-deleted", path=path)[0]["at"])


def instants(count: int) -> Iterator[float]:
    """Delays that together cover all of a tick, and the half ticks in it."""
    rng = random.Random(7)
    for number in range(count):
        yield TICK * (number + rng.random()) / count


def margins(where: str, act: str, count: int = 24) -> list[float]:
    stage = Stage(tick=TICK)
    leader = stage.start()
    server = leader if where == "leader" else stage.followers()[0]
    found = []
    for number, delay in enumerate(instants(count)):
        client = holder(stage, server, f"/held-{number}")
        stage.run(delay)
        if act == "ping":
            client.ping()
        else:
            request = GetData("/") if act == "get" else SetData(f"/held-{number}", b"", -1)
            xid = client.send(request)
        sent = stage.now
        stage.run(0.05)
        assert client.pings if act == "ping" else xid in client.replies
        found.append(deletion(stage, f"/held-{number}") - sent - TAU)
    return found


@pytest.mark.parametrize("act", ["ping", "get", "set"])
def test_session_at_the_leader_lives_up_to_a_tick_longer(act: str) -> None:
    found = margins("leader", act)
    # The request takes one step to the leader, and the end one more to be agreed on and back.
    assert min(found) > 0.0
    assert max(found) <= TICK + 3 * STEP
    assert max(found) - min(found) > 0.8 * TICK


@pytest.mark.parametrize("act", ["ping", "get", "set"])
def test_session_at_a_follower_lives_up_to_half_a_tick_more(act: str) -> None:
    found = margins("follower", act)
    assert min(found) > 0.0
    assert TICK < max(found) <= 1.5 * TICK + 5 * STEP


def trial_of_a_kill(h: float, act: str, delay: float) -> float:
    """The follower dies right after an acknowledgement."""
    stage = Stage(tick=TICK, sync_limit=10)
    stage.start()
    victim = stage.followers()[0]
    client = holder(stage, victim)
    stage.run(delay)
    sent = 0.0
    for number in range(1, 4):
        stage.run(h)
        sent = stage.now
        if act == "ping":
            client.ping()
            stage.until(lambda number=number: len(client.pings) == number)
        else:
            assert (
                client.ask(check("/held") if act == "check" else SetData("/held", b"", -1)).err == 0
            )
    victim.kill()
    return deletion(stage) - sent - TAU


@pytest.mark.parametrize(("act", "h"), [("ping", 1.2), ("set", 1.2), ("set", 0.5)])
def test_last_touches_die_with_their_follower(act: str, h: float) -> None:
    found = [trial_of_a_kill(h, act, delay) for delay in instants(16)]
    # Measured: -1.165 and -1.074 for 1.2 s, -0.397 for 0.5 s.
    assert -(h + TICK / 2) - 5 * STEP < min(found) < -h + TICK / 2


def cut_off(delay: float, act: str, h: float) -> tuple[Stage, Client, list[float], float]:
    """A client at a follower that is isolated; its requests that were acknowledged."""
    stage = Stage(tick=TICK, sync_limit=10)
    stage.start()
    victim = stage.followers()[0]
    client = holder(stage, victim)
    acked: list[float] = []
    requests = {"get": GetData("/held"), "set": SetData("/held", b"", -1), "check": check("/held")}
    sent: dict[int, float] = {}

    def again() -> None:
        if client.is_closed:
            return
        if act == "ping":
            client.ping()
        elif act == "sync":
            sent[client.send(Sync("/held"))] = stage.now
        else:
            sent[client.send(requests[act])] = stage.now
        stage.timeline.after(h, again)

    again()
    stage.run(1.0 + delay)
    stage.cut(victim)
    cut = stage.now
    stage.run(8.0)
    if act == "ping":
        acked = [when for when, _ in client.pings]
    else:
        acked = [sent[xid] for xid in client.replies if xid in sent]
    assert client.is_closed
    return stage, client, acked, cut


@pytest.mark.parametrize("act", ["ping", "get"])
def test_isolated_follower_answers_pings_of_dead_sessions(act: str) -> None:
    for delay in instants(6):
        stage, client, acked, cut = cut_off(delay, act, 0.1)
        gone = deletion(stage)
        # Its own link to the leader is given up after S * T = 5 s without a packet.
        assert 4.6 < acked[-1] - cut < 5.0
        assert acked[-1] > gone + 2.0
        before = max(sent for sent in acked if sent < gone)
        assert -TAU <= gone - (before + TAU) < -TAU + 0.1 + STEP
        assert client.is_closed


@pytest.mark.parametrize("act", ["set", "check", "sync"])
def test_isolated_follower_answers_no_write(act: str) -> None:
    least = 0.0
    for delay in instants(8):
        stage, _, acked, cut = cut_off(delay, act, 0.5)
        assert max(acked) < cut
        margin = deletion(stage) - (max(acked) + TAU)
        # Measured: -0.229 (set), -0.240 (check), -0.321 (sync).
        assert margin > -(0.5 + TICK / 2) - 5 * STEP
        least = min(least, margin)
    assert least < 0.0


@pytest.mark.parametrize("fault", ["killed", "cut off"])
@pytest.mark.parametrize("act", ["set", "check"])
def test_lease_counts_from_the_renewal_before_the_last(act: str, fault: str) -> None:
    """The rule of safety.md. Counted from the acknowledged one itself it would not hold."""
    h, before, latest = 0.375, [], []
    for delay in instants(12):
        stage = Stage(tick=TICK, sync_limit=10)
        stage.start()
        victim = stage.followers()[0]
        client = holder(stage, victim)
        request = SetData("/held", b"", -1) if act == "set" else check("/held")
        stage.run(delay)
        sent = []
        for _ in range(5):
            stage.run(h)
            sent.append(stage.now)
            assert client.ask(request).err == 0
        if fault == "killed":
            victim.kill()
        else:
            stage.cut(victim)
        gone = deletion(stage)
        before.append(gone - sent[-2] - TAU)
        latest.append(gone - sent[-1] - TAU)
    # Measured, for both faults and kinds: from +0.060 up.
    assert min(before) > 0.0
    assert min(latest) < 0.0


def isolated_leader(act: str) -> tuple[list[float], list[float], Stage]:
    stage = Stage(tick=TICK, sync_limit=10)
    leader = stage.start()
    client = holder(stage, leader)
    sent: dict[int, float] = {}

    def again() -> None:
        if not client.is_closed:
            if act == "sync":
                sent[client.send(Sync("/"))] = stage.now
            elif act == "set":
                sent[client.send(SetData("/held", b"", -1))] = stage.now
            else:
                client.ping()
            stage.timeline.after(0.1, again)

    again()
    stage.run(0.777)
    stage.cut(leader)
    cut = stage.now
    stage.run(9.0)
    acked = [sent[xid] for xid in client.replies if xid in sent]
    acked += [when for when, _ in client.pings]
    return acked, [when - cut for when in acked if when > cut], stage


@pytest.mark.parametrize("act", ["ping", "sync"])
def test_isolated_leader_answers_until_its_tick_check(act: str) -> None:
    _, late, _ = isolated_leader(act)
    # Measured: acknowledgements for 5.0 to 5.4 s, with S * T = 5 s; the source allows (S + 1) * T.
    assert 4.9 < max(late) <= 5.5


def test_isolated_leader_answers_no_write() -> None:
    acked, late, stage = isolated_leader("set")
    assert acked
    assert not late
    # The new leader of the others starts the session timeout again.
    assert deletion(stage) > 2.0


def test_new_leader_restarts_every_session_timeout(stage: Stage) -> None:
    client = holder(stage, stage.followers()[0])
    stage.run(TAU - 0.1)
    stage.leader.kill()
    client.reset()
    stage.until(lambda: stage.ensemble.leader() is not None)
    elected = stage.told("leader-elected")[-1]["at"]
    gone = deletion(stage)
    assert TAU < gone - elected <= TAU + TICK + 3 * STEP


def test_forwarded_request_does_not_touch_its_session(stage: Stage) -> None:
    """The leader learns of a session by the answer to its ping, and not before."""
    client = holder(stage, stage.follower)
    stage.run(1.3)
    xid = client.send(SetData("/held", b"", -1))
    stage.run(6.5 * STEP)  # To the leader, to a quorum and back, and to the client.
    assert xid in client.replies
    assert stage.leader.role is not None
    before = stage.leader.role.broadcast.sessions.next_expiry_ms()
    stage.run(TICK / 2)
    assert stage.leader.role.broadcast.sessions.next_expiry_ms() > before


def test_reconnection_touches_the_session_at_the_leader(stage: Stage) -> None:
    one, other = stage.followers()
    client = holder(stage, one)
    stage.run(TAU - 0.2)
    client.reset()
    again = stage.client(other, timeout=TAU, session=client.session)
    assert again.session_id == client.session_id
    came = stage.now
    other.kill()  # Its touch table is lost.
    assert TAU - 4 * STEP < deletion(stage) - came <= TAU + TICK


def test_closed_session_is_gone_on_every_server(stage: Stage) -> None:
    client = holder(stage, stage.followers()[0])
    assert client.ask(CloseSession()).err == 0
    asked = stage.now
    stage.run(10 * STEP)
    assert client.is_closed
    assert deletion(stage) <= asked
    assert stage.told("session-ending", why="closed")
    assert all(not server.znodes() and not server.sessions() for server in stage.ensemble.servers)


def test_client_of_an_expired_session_is_disconnected(stage: Stage) -> None:
    client = holder(stage, stage.followers()[0])
    stage.run(1.0)
    stage.ensemble.expire(client.session_id)
    stage.run(10 * STEP)
    assert client.is_closed
    assert stage.told("session-ending", why="expired")
    assert stage.told("session-ended", session=client.session_id)
    again = stage.client(stage.follower, session=client.session)
    assert again.is_refused


def test_write_of_a_session_that_is_ending_is_refused() -> None:
    """An isolated leader ends a session without touches, and then refuses its writes."""
    stage = started(tick=TICK, sync_limit=20)
    follower, other = stage.followers()
    client = holder(stage, follower)
    # The follower's answers to pings do not reach the leader. It goes on, since the other one
    # answers.
    stage.network.path(follower.host, stage.leader.host).silence()
    stage.network.path(other.host, stage.leader.host).silence()
    stage.run(3.0)
    assert stage.told("session-ending", session=client.session_id)
    assert not stage.told("session-ended")
    xid = client.send(SetData("/held", b"", -1))
    stage.heal()
    stage.run(2.0)
    # The end was proposed first: the client is disconnected before its write is answered.
    assert client.is_closed
    assert xid not in client.replies


def test_sessions_end_by_the_clock_of_their_server() -> None:
    fast, slow = (Stage(tick=TICK, rates=(rate,), voters=1) for rate in (1.05, 0.95))
    times = []
    for stage in (fast, slow):
        client = holder(stage, stage.start())
        client.ping()
        touched = stage.now + STEP
        times.append(deletion(stage) - touched)
    assert TAU / 1.05 < times[0] <= (TAU + TICK) / 1.05
    assert TAU / 0.95 < times[1] <= (TAU + TICK) / 0.95

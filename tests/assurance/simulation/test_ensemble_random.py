"""Random faults among the servers of the model, then healing: all agree, nothing is lost."""

from __future__ import annotations

import random
from functools import cache

import pytest
from assurance.simulation.ensemble_model import Client, Stage, create

from aiolead.testing.simulation.ensemble import Server

FAULTY = 12.0
"""For how long things go wrong, in seconds."""

SEEDS = range(20)


class Writer:
    """A client that writes one znode after the other, and comes back when it is disconnected."""

    def __init__(self, stage: Stage, name: str, rng: random.Random) -> None:
        self.stage = stage
        self.name = name
        self.rng = rng
        self.written: dict[str, int] = {}
        self.client: Client | None = None
        self.is_over = False
        self._asked: dict[int, str] = {}
        self._number = 0
        self._session = (0, bytes(16))
        self._tick()

    def _tick(self) -> None:
        if self.is_over:
            return
        client = self.client
        if client is None or client.is_closed:
            self._connect()
        elif client.session_id:
            self._collect(client)
            self._write(client)
        elif client.is_refused:
            self._session = (0, bytes(16))
            client.reset()
        elif client.wire is not None and not client.has_greeted:
            client.greet(session=self._session, seen=client.seen)
        self.stage.timeline.after(self.rng.uniform(0.005, 0.1), self._tick)

    def _connect(self) -> None:
        seen = 0
        if self.client is not None:
            self._collect(self.client)
            seen = max(self.client.zxid, self.client.seen)
            if self.client.session_id:
                self._session = self.client.session
        server = self.rng.choice(self.stage.ensemble.servers)
        self.client = Client(self.stage, f"10.0.2.{self.name}", server)
        self.client.seen = seen
        self._asked = {}

    def _write(self, client: Client) -> None:
        if len(self._asked) < 4:
            self._number += 1
            path = f"/{self.name}-{self._number}"
            self._asked[client.send(create(path, self.rng.choice((0, 0, 1))))] = path

    def _collect(self, client: Client) -> None:
        for xid, path in list(self._asked.items()):
            if xid in client.replies:
                del self._asked[xid]
                header, _ = client.replies[xid]
                if header.err == 0:
                    self.written[path] = header.zxid

    def end(self) -> None:
        self.is_over = True
        if self.client is not None:
            self._collect(self.client)
            if self.client.wire is not None:
                self.client.reset()


def fault(stage: Stage, rng: random.Random) -> None:
    """Something goes wrong now, and for a while."""
    servers, timeline = stage.ensemble.servers, stage.timeline
    server = rng.choice(servers)
    span = rng.uniform(0.01, 4.0)
    match rng.randrange(9):
        case 0 | 1:
            server.kill()
            timeline.after(span, server.start)
        case 2:
            server.freeze()
            timeline.after(span, server.thaw)
        case 3:
            server.disk_delay = rng.uniform(0.0, 0.5)
            timeline.after(span, lambda: setattr(server, "disk_delay", 0.0))
        case 4:
            other = rng.choice(servers)
            if other is not server:
                stage.network.reset(server.host, other.host)
        case 5 | 6:
            others = [other for other in servers if other is not server]
            silence(stage, rng, server, others, span)
        case 7:
            silence(stage, rng, server, [rng.choice(servers)], span)
        case 8:
            for one in servers:
                one.kill()
                timeline.after(span + rng.uniform(0.0, 1.0), one.start)


def silence(
    stage: Stage, rng: random.Random, server: Server, others: list[Server], span: float
) -> None:
    keep = rng.random() < 0.5
    ways = rng.choice(((True, True), (True, False), (False, True)))
    for other in others:
        if other is server:
            continue
        pairs = (server.host, other.host), (other.host, server.host)
        for (one, two), wanted in zip(pairs, ways, strict=True):
            if wanted:
                path = stage.network.path(one, two)
                path.silence()
                stage.timeline.after(span, lambda path=path: path.heal(keep=keep))


@cache
def play(seed: int) -> Stage:
    """Runs the schedule of a seed, and checks all that has to hold in the end."""
    rng = random.Random(seed)
    voters, observers = rng.choice(((3, 0), (3, 0), (5, 0), (3, 1), (2, 0), (1, 0)))
    stage = Stage(
        seed,
        step=None,
        voters=voters,
        observers=observers,
        history=rng.choice((5, 20, 500)),
        phases=None,
        rates=(1.0, 1.0005, 0.9995),
        sync_limit=rng.choice((2, 4)),
        init_limit=rng.choice((3, 10)),
        last_repeat=1.0,
    )
    stage.ensemble.start()
    writers = [Writer(stage, str(number), rng) for number in range(1, 4)]
    for _ in range(rng.randrange(1, 12)):
        stage.timeline.at(rng.uniform(0.0, FAULTY), lambda: fault(stage, rng))
    stage.run(FAULTY + 5.0)
    for server in stage.ensemble.servers:
        server.start()
        server.thaw()
    stage.heal()
    stage.until(lambda: stage.ensemble.leader() is not None, 40.0)
    for writer in writers:
        writer.end()
    stage.settle(40.0)
    stage.run(0.5)

    first, *rest = stage.ensemble.servers
    for server in rest:
        assert server.znodes() == first.znodes(), seed
        assert server.sessions() == first.sessions(), seed
    leader = stage.ensemble.leader()
    assert leader is not None
    znodes = leader.znodes()
    deleted = {fact["path"]: fact["zxid"] for fact in stage.told("znode-deleted")}
    for writer in writers:
        for path, zxid in writer.written.items():
            if path not in znodes:
                assert deleted[path] > zxid, (seed, path)
            else:
                assert znodes[path][1].czxid == zxid, (seed, path)
    created = {path for writer in writers for path in writer.written}
    assert created <= {fact["path"] for fact in stage.told("znode-created")}, seed
    changes = [f["zxid"] for f in stage.facts if f["kind"].startswith("znode-")]
    assert changes == sorted(changes), seed
    epochs = [fact["epoch"] for fact in stage.told("leader-elected")]
    assert len(set(epochs)) == len(epochs), seed
    assert epochs == sorted(epochs), seed
    assert {path: (stat.czxid, stat.ephemeral_owner) for path, (_, stat) in znodes.items()} == (
        leader.truth.znodes
    ), seed
    return stage


@pytest.mark.exhaustive("each is one seed", one_in=2)
@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_agree_after_random_faults(seed: int) -> None:
    play(seed)


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = play(3), play.__wrapped__(3)
    assert one.facts == other.facts
    assert one.now == other.now


def test_seeds_reach_every_way_to_synchronise() -> None:
    stages = [play(seed) for seed in SEEDS]
    servers = [server for stage in stages for server in stage.ensemble.servers]
    for kind in ("difference", "truncation", "snapshot"):
        assert sum(n for s in servers for k, n in s.syncs.items() if k.value == kind), kind
    assert any(len(stage.told("leader-elected")) > 2 for stage in stages)

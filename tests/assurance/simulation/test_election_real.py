"""The election kernel, and the choice of how to synchronise, against real ensembles.

The vote of each server is read from its disk before it is started, and the kernel names the leader.
Then the servers elect. They are all down in between, and so many are started that each of
them is needed for a majority: otherwise those that are up first could do without the last one.
Where more are to vote, each is frozen as soon as it looks for a leader; then all go on together.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from assurance.simulation.disks import Disk, is_logged, read_disk
from kit.raw_client import RawClient

from aiolead.errors import NoNodeError, UsageError
from aiolead.testing.ensemble import BlockingEnsemble
from aiolead.testing.launch import LOOPBACK, free_ports, wait_until
from aiolead.testing.servers import BlockingServer
from aiolead.testing.simulation.ensemble.election import quorum_size
from aiolead.testing.simulation.ensemble.rehearsal import rehearse
from aiolead.testing.simulation.ensemble.sync import SyncKind, plan_sync

# A test starts up to twenty servers, one JVM each.
pytestmark = [
    pytest.mark.usefixtures("zookeeper_installed"),
    pytest.mark.timeout(180),
    pytest.mark.exhaustive("compares simulated elections with real ensembles"),
]

PATIENCE = 30.0

SYNCHRONISED = {
    "Getting a diff from": SyncKind.DIFF,
    "Truncating log": SyncKind.TRUNC,
    "Getting a snapshot from": SyncKind.SNAP,
}
"""How a learner was brought up to date, in the words of its log. The last word is the zxid."""


class Trials:
    """A real ensemble, all of whose servers are down between two elections."""

    def __init__(self, ensemble: BlockingEnsemble) -> None:
        self.members = dict(enumerate(ensemble.servers, start=1))
        self.quorum = quorum_size(len(self.members))
        self._up: dict[int, BlockingServer] = {}
        self._disks: dict[int, Disk] = {}
        self._marks: dict[int, int] = {}
        self._written = 0

    def elect(self, *names: int) -> int:
        """Has a bare majority elect; checks who leads, and how the others are brought up to date.

        Returns:
            The server that was elected, which is the one that the kernel has named.
        """
        assert len(names) == self.quorum
        expected = self._prepare(*names)
        for server in self._up.values():
            server.launch()
        self._wait_serving()
        assert self._elected() == expected, self._disks
        best = self._disks[expected]
        for name, server in self._up.items():
            if name != expected:
                plan = plan_sync(self._disks[name].zxid, best.in_memory, best.zxid)
                said = _synchronised(_log(server, self._marks[name]))
                assert said == (plan.kind, plan.zxid), self._disks
        self._check_the_command(expected)
        return expected

    def _check_the_command(self, leader: int) -> None:
        """`aiolead demo ensemble` says what the servers' logs say."""
        arguments = ["--servers", str(len(self.members))]
        arguments += ["--down", ",".join(str(each) for each in self.members.keys() - self._up)]
        epochs = [self._disks[n].epoch if n in self._disks else 0 for n in self.members]
        arguments += ["--epochs", ",".join(map(str, epochs))]
        for name in self.members:
            disk = self._disks.get(name)
            zxids = [] if disk is None else [*disk.in_memory] or [*filter(None, [disk.zxid])]
            log = ",".join(f"{zxid >> 32}.{zxid & 0xFFFF_FFFF}" for zxid in zxids)
            arguments += ["--log", f"{name}={log}"]
        command = [sys.executable, "-m", "aiolead", "demo", "ensemble", "--json", *arguments]
        output = subprocess.run(command, capture_output=True, check=True).stdout
        value = json.loads(output)
        assert value["leaders"] == [leader]
        told = {each["server"]: each for each in value["synchronisation"]}
        for name, server in self._up.items():
            if name != leader:
                kind, zxid = _synchronised(_log(server, self._marks[name]))
                assert told[name]["by"].split("+")[0] == kind.name, (command, self._disks)
                assert told[name]["zxid"] == f"{zxid >> 32}.{zxid & 0xFFFF_FFFF}"

    def elect_all(self) -> int:
        """Has all servers elect, who begin to look at the same time; returns who was elected."""
        for _ in range(3):
            expected = self._prepare(*self.members)
            self._look_together()
            self._wait_serving()
            elected = self._elected()
            heard = _heard(_log(self._up[elected], self._marks[elected]))
            if heard | {elected} == set(self.members):
                assert elected == expected, self._disks
                return expected
            # A server was held up for longer than the last wait of the others: not what was asked.
            self.kill()
        pytest.fail("the machine is too busy for servers to vote within 200 ms of each other")

    def _prepare(self, *names: int) -> int:
        """Reads what servers have on disk; returns whom the kernel elects."""
        assert not self._up
        self._up = {name: self.members[name] for name in names}
        self._disks = {name: read_disk(server) for name, server in self._up.items()}
        self._marks = {name: _log_size(server) for name, server in self._up.items()}
        votes = {name: (disk.epoch, disk.zxid) for name, disk in self._disks.items()}
        leader = rehearse(votes, voters=self.members).leader
        assert leader is not None
        return leader

    def _wait_serving(self) -> None:
        for server in self._up.values():
            server.wait_serving(PATIENCE)

    def _look_together(self) -> None:
        names = list(self._up)
        # Never as many at a time as would be a majority.
        step = self.quorum - 1
        for first in range(0, len(names), step):
            group = {name: self._up[name] for name in names[first : first + step]}
            for server in group.values():
                server.launch()
            assert wait_until(lambda group=group: all(map(self._looks, group)), PATIENCE)
            for server in group.values():
                server.pause()
        for server in self._up.values():
            server.resume()

    def _looks(self, name: int) -> bool:
        return "New election. My id" in _log(self._up[name], self._marks[name])

    def _elected(self) -> int:
        """Whom all servers took for the leader, when each of them had decided for the first time.

        Afterwards another one may have come to lead: in ZooKeeper 3.8.0 a learner may acknowledge
        a transaction before it acknowledges the new leader, which then waits for `initLimit` in
        vain and is given up (ZOOKEEPER-4685).
        """
        decided = {name: _decisions(_log(s, self._marks[name])) for name, s in self._up.items()}
        leading = [name for name, roles in decided.items() if roles[0] == "LEADING"]
        assert len(leading) == 1, decided
        if all(len(roles) == 1 for roles in decided.values()):
            assert leading == [self._leading()]
        return leading[0]

    def _leading(self) -> int:
        (leader,) = [name for name, server in self._up.items() if _mode(server) == "leader"]
        return leader

    def write(self, times: int = 1) -> None:
        """Writes, and waits until all that are up have it on disk."""
        with RawClient(self._up[self._leading()].connect_string) as client:
            for _ in range(times):
                self._written += 1
                client.create(f"/{self._written}", b"agreed")
        assert wait_until(
            lambda: len({read_disk(server).zxid for server in self._up.values()}) == 1, PATIENCE
        )

    def write_in_vain(self) -> str:
        """Has the leader log what nobody else gets, and kills all; returns the path."""
        self._written += 1
        path = f"/{self._written}-in-vain"
        leading = self._leading()
        with RawClient(self._up[leading].connect_string) as client:
            for name, server in self._up.items():
                if name != leading:
                    server.pause()
            client.wait(0.1)
            with pytest.raises(TimeoutError):
                client.create(path, path.encode())
            # The goodbye would have to be agreed on, too.
            client.drop()
        assert wait_until(lambda: is_logged(self._up[leading], path.encode()), PATIENCE)
        self.kill()
        return path

    def exists(self, path: str) -> bool:
        with RawClient(self._up[self._leading()].connect_string) as client:
            try:
                client.exists(path)
            except NoNodeError:
                return False
            return True

    def kill(self) -> None:
        """Kills all servers."""
        for server in self._up.values():
            server.kill()
        self._up = {}


def _mode(server: BlockingServer) -> str | None:
    match = re.search(r"^Mode: (\w+)$", server.four_letter("srvr"), re.MULTILINE)
    return match and match[1]


def _log_size(server: BlockingServer) -> int:
    try:
        return server.log.stat().st_size
    except UsageError:
        return 0  # It was never started.


def _log(server: BlockingServer, mark: int) -> str:
    return server.log.read_bytes()[mark:].decode()


def _decisions(log: str) -> list[str]:
    """As what a server left each election."""
    return re.findall(r"(\w+) - LEADER ELECTION TOOK", log)


def _heard(log: str) -> set[int]:
    """The servers whose votes a server had before it led."""
    before, _, _ = log.partition("LEADING - LEADER ELECTION TOOK")
    return {int(name) for name in re.findall(r"n\.sid:(\d+), n\.state:LOOKING", before)}


def _synchronised(log: str) -> tuple[SyncKind, int]:
    """How a learner was brought up to date by its first leader, and up to which zxid."""
    return next(
        (kind, int(line.split()[-1], 16))
        for line in log.splitlines()
        for words, kind in SYNCHRONISED.items()
        if words in line
    )


@pytest.fixture
def trials(request: pytest.FixtureRequest) -> Iterator[Trials]:
    # An error after an election, see above, is noticed after `init_limit` ticks.
    ensemble = BlockingEnsemble(request.param, init_limit=6)
    try:
        yield Trials(ensemble)
    finally:
        ensemble.close()


@pytest.mark.parametrize("trials", [3], indirect=True)
def test_elections_of_three_servers(trials: Trials) -> None:
    assert trials.elect(1, 2) == 2  # nobody knows anything: the greater id
    trials.write(2)
    trials.kill()
    assert trials.elect(1, 3) == 1  # the other knows nothing
    trials.kill()
    assert trials.elect(1, 2) == 1  # the same log: the later epoch, against the greater id
    trials.write()
    path = trials.write_in_vain()
    assert trials.elect(1, 2) == 1  # the same epoch: the longer log, against the greater id
    assert trials.exists(path)  # It was not in vain.
    path = trials.write_in_vain()
    assert trials.elect(2, 3) == 2
    trials.kill()
    assert trials.elect(1, 3) == 3  # the later epoch, against the greater zxid
    assert not trials.exists(path)
    trials.kill()
    assert trials.elect_all() == 3


@pytest.mark.parametrize(("trials", "seed"), [(3, 1), (5, 2)], indirect=["trials"])
def test_kernel_predicts_the_leader_of_random_elections(trials: Trials, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        trials.elect(*rng.sample(sorted(trials.members), trials.quorum))
        if rng.random() < 0.4:
            trials.write_in_vain()
        else:
            trials.write(rng.randint(1, 3))
            trials.kill()
    if len(trials.members) == 5:
        trials.elect_all()


def test_observer_is_not_elected() -> None:
    ports = free_ports(6)
    peers = {f"server.{n}": f"{LOOPBACK}:{ports[n]}:{ports[n + 3]}" for n in (1, 2)}
    peers["server.3"] = f"{LOOPBACK}:{ports[0]}:{ports[3]}:observer"
    voters = [BlockingServer(peers=peers, server_id=n) for n in (1, 2)]
    observer = BlockingServer(peers=peers, server_id=3, extra={"peerType": "observer"})
    with ExitStack() as stack:
        for server in (observer, *voters):
            stack.callback(server.close)
            server.launch()
        for server in (observer, *voters):
            server.wait_serving(PATIENCE)
        assert [_mode(server) for server in voters] == ["follower", "leader"]
        assert _mode(observer) == "observer"
    outcome = rehearse({1: (0, 0), 2: (0, 0), 3: (0, 0)}, voters=[1, 2])
    assert outcome.leader == 2

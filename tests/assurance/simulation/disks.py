"""The disk of a ZooKeeper server that is down: it decides the vote of the server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assurance.chaos.witness import transactions

from aiolead.errors import UsageError
from aiolead.testing.servers import BlockingServer


@dataclass(frozen=True)
class Disk:
    """A server's state on disk.

    Attributes:
        epoch: the last epoch that it took part in.
        snapshot: the last zxid in its newest snapshot.
        logged: the zxids in its transaction log.
    """

    epoch: int
    snapshot: int
    logged: tuple[int, ...]

    @property
    def zxid(self) -> int:
        return max(self.snapshot, *self.logged, 0)

    @property
    def in_memory(self) -> tuple[int, ...]:
        """The transactions that the server keeps for learners, when it starts."""
        return tuple(zxid for zxid in self.logged if zxid > self.snapshot)


def read_disk(server: BlockingServer) -> Disk:
    """Reads the disk of a server that does not run; all zeros if it never did."""
    try:
        directory = _directory(server)
        epoch = int((directory / "currentEpoch").read_text())
    except (FileNotFoundError, UsageError):
        return Disk(0, 0, ())
    snapshots = [int(path.suffix[1:], 16) for path in directory.glob("snapshot.*")]
    logs = sorted(directory.glob("log.*"), key=lambda path: int(path.suffix[1:], 16))
    # A follower that is brought up to date may log a transaction twice, with a
    # warning. It loads the same.
    logged = dict.fromkeys(each.zxid for log in logs for each in transactions(log.read_bytes()))
    return Disk(epoch, max(snapshots, default=0), tuple(logged))


def is_logged(server: BlockingServer, data: bytes) -> bool:
    """Whether a server has a transaction with this data in its log."""
    return any(data in log.read_bytes() for log in _directory(server).glob("log.*"))


def _directory(server: BlockingServer) -> Path:
    return server.log.parent / "data" / "version-2"

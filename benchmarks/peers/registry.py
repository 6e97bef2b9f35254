"""The peers: their names, how each is started, and which of them it is compared with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from . import curator, go


@dataclass(frozen=True, slots=True)
class PeerKind:
    """Somebody who takes part.

    Attributes:
        name: its name in tables and on the command line.
        library: the library that it measures.
        loop: the event loop it runs on; threads for those that have none.
        command: the command line of its process.
        limit: the name of the limit on the same event loop, which its ratios are to.
        warm_up: how often a workload is done for nothing before it is measured.
        is_cold: whether each sample takes a new process.
        only: the workloads that it can do, by how their names begin; all if there are none.
    """

    name: str
    library: str
    loop: str
    command: Callable[[], list[str]]
    limit: str = "limit"
    warm_up: int = 1
    is_cold: bool = False
    only: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        return self.library == "aiolead"

    def can_do(self, workload: str) -> bool:
        """Whether it has what a workload asks for."""
        return not self.only or workload.startswith(self.only)

    @property
    def is_other_loop(self) -> bool:
        """Whether it is a library once more, on another event loop."""
        return self.loop in ("uvloop", "trio")

    @property
    def is_rival(self) -> bool:
        """Whether it is a library beside aiolead, and not the limit, or a process just started."""
        return self.library not in ("aiolead", "limit") and not self.is_cold


def _python(library: str, loop: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", "benchmarks.peers.host", library, loop]


def _of(library: str, loop: str, **more: object) -> PeerKind:
    name = library if loop in ("asyncio", "threads") else f"{library}-{loop}"
    limit = "limit" if loop in ("asyncio", "threads") else f"limit-{loop}"
    return PeerKind(name, library, loop, _python(library, loop), limit, **more)  # type: ignore[arg-type]


_JVM_WARM_UP = 5
"""How often Curator does a workload before it counts: its machine compiles what is done often."""

_OF_GO = (
    "sequential",
    "pipelined",
    "lock",
    "handover-10",
    "crowd-3000",
    "connect",
    "recover",
)
"""Its only recipe is a lock; it does only the work of the comparison."""

PEERS: dict[str, PeerKind] = {
    kind.name: kind
    for kind in (
        _of("limit", "asyncio"),
        _of("limit", "uvloop"),
        _of("limit", "trio"),
        _of("aiolead", "asyncio"),
        _of("aiolead", "uvloop"),
        _of("aiolead", "trio"),
        PeerKind("aiolead-threads", "aiolead", "threads", _python("aiolead_threads", "threads")),
        _of("kazoo", "threads"),
        _of("aiozk", "asyncio"),
        PeerKind("curator", "curator", "threads", curator.command, warm_up=_JVM_WARM_UP),
        PeerKind("go", "go", "threads", go.command, only=_OF_GO),
        PeerKind("curator-cold", "curator", "threads", curator.command, warm_up=0, is_cold=True),
    )
}

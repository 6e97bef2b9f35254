"""The embedded server and a real ZooKeeper play the same stories, and must answer alike.

The embedded one is of the version of the real one, which `ZOOKEEPER_HOME` chooses, and has what was
brought to that: 3.8.0, 3.9.3 and 3.9.6 were compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from assurance.conformance import differential_sessions, differential_znodes
from assurance.conformance.differential import Stage, Story, compare, stories_in
from kit.checks import PATIENCE
from kit.raw_client import backports_of, version_of

from aiolead.testing import EmbeddedServer, ThreadedServer
from aiolead.testing.servers import BlockingServer

STORIES = [*stories_in(differential_znodes), *stories_in(differential_sessions)]


@pytest.fixture(scope="module")
def own_server(real_server: BlockingServer) -> Iterator[BlockingServer]:
    """A real server that nobody else uses: others' changes would move the zxid.

    It comes on top of the shared one, whose fixture says what to do where there is no ZooKeeper.
    """
    # As long a session as the stories ask for, or idle ones end on a busy machine.
    with BlockingServer(extra={"maxSessionTimeout": round(PATIENCE * 1000)}) as server:
        yield server


@pytest.fixture(scope="module")
def embedded_server(real_server: BlockingServer) -> Iterator[ThreadedServer]:
    """Like the real one. The shared one is asked, since finding out takes znodes."""
    hosts = real_server.connect_string
    version = ".".join(map(str, version_of(hosts)))
    backports = backports_of(hosts)
    with EmbeddedServer.in_thread(
        version=version, backports=backports, max_session_timeout=PATIENCE
    ) as server:
        yield server


@pytest.mark.real
@pytest.mark.parametrize("tale", STORIES, ids=lambda tale: tale.__name__)
def test_same_answers(
    tale: Story, own_server: BlockingServer, embedded_server: ThreadedServer, chroot: str
) -> None:
    real = Stage("127.0.0.1", own_server.port, chroot)
    ours = Stage("127.0.0.1", embedded_server.port, chroot)
    compare(tale, real, ours)

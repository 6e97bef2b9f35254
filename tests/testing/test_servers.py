"""Real servers: their life, and what the verbs do to those who are connected."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import anyio
import pytest
from kit.checks import PATIENCE
from kit.raw_client import RawClient, text_of_version

from aiolead.errors import NoNodeError, UsageError
from aiolead.testing.installation import find_installations
from aiolead.testing.launch import LaunchError, free_ports, wait_until
from aiolead.testing.servers import BlockingServer, ZooKeeperServer


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
@pytest.mark.usefixtures("zookeeper_installed")
async def test_server_of_each_version() -> None:
    for found in find_installations():
        async with ZooKeeperServer(version=found.version) as server:
            assert text_of_version(server.connect_string) == found.version


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
async def test_data_survive_a_restart(zookeeper: ZooKeeperServer, chroot: str) -> None:
    with RawClient(zookeeper.connect_string) as client:
        client.create(chroot, b"kept")
    await zookeeper.restart()
    with RawClient(zookeeper.connect_string) as client:
        assert client.get(chroot) == b"kept"


async def test_data_survive_a_kill(zookeeper: ZooKeeperServer, chroot: str) -> None:
    with RawClient(zookeeper.connect_string) as client:
        client.create(chroot, b"kept")
    pid = zookeeper.pid
    await zookeeper.kill()
    assert not _is_alive(pid)
    assert not zookeeper.is_running
    with pytest.raises(ConnectionRefusedError):
        RawClient(zookeeper.connect_string)
    await zookeeper.start()
    with RawClient(zookeeper.connect_string) as client:
        assert client.get(chroot) == b"kept"


async def test_stop_ends_the_process_and_frees_the_port(
    zookeeper: ZooKeeperServer,
) -> None:
    pid = zookeeper.pid
    await zookeeper.stop()
    assert not _is_alive(pid)
    with pytest.raises(ConnectionRefusedError):
        RawClient(zookeeper.connect_string)


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
async def test_paused_server_is_silent_until_it_is_resumed(zookeeper: ZooKeeperServer) -> None:
    with RawClient(zookeeper.connect_string) as client:
        client.wait(0.2)
        await zookeeper.pause()
        with pytest.raises(TimeoutError):
            client.get("/")
        assert zookeeper.is_running
        await zookeeper.resume()
        client.wait(PATIENCE)
        header, _ = client.receive()
        assert header.err == 0


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
async def test_paused_server_can_be_stopped(zookeeper: ZooKeeperServer) -> None:
    pid = zookeeper.pid
    await zookeeper.pause()
    await zookeeper.stop()
    assert not _is_alive(pid)


async def test_four_letter_words(zookeeper: ZooKeeperServer) -> None:
    assert await zookeeper.four_letter("ruok") == "imok"
    assert (await zookeeper.mntr())["server_state"] == "standalone"


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
async def test_verbs_need_a_process(zookeeper: ZooKeeperServer) -> None:
    with pytest.raises(UsageError, match="runs already"):
        await zookeeper.start()
    await zookeeper.kill()
    for verb in (zookeeper.kill, zookeeper.pause, zookeeper.resume):
        with pytest.raises(UsageError, match="does not run"):
            await verb()


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
@pytest.mark.usefixtures("real_server")
async def test_context_manager_leaves_nothing_behind() -> None:
    async with ZooKeeperServer(tick_time=0.1) as server:
        pid, log = server.pid, server.blocking.log
        assert "tickTime=100" in (await server.four_letter("conf")).splitlines()
        assert log.exists()
    assert not _is_alive(pid)
    assert not log.parent.exists()


@pytest.mark.exhaustive("the test kit's servers, which other tests start, kill and isolate")
@pytest.mark.usefixtures("real_server")
async def test_cancelled_caller_leaves_no_server() -> None:
    with anyio.CancelScope() as scope:
        async with ZooKeeperServer() as server:
            pid = server.pid
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert not _is_alive(pid)


def test_ttl_znodes_expire_soon(real_server: BlockingServer, chroot: str) -> None:
    with RawClient(real_server.connect_string) as client:
        client.create_ttl(chroot, ttl_ms=10)

        def is_gone() -> bool:
            try:
                client.exists(chroot)
            except NoNodeError:
                return True
            return False

        assert wait_until(is_gone, PATIENCE)


@pytest.mark.usefixtures("real_server")
def test_server_that_cannot_start_shows_its_log() -> None:
    server = BlockingServer(extra={"tickTime": "soon"})
    with pytest.raises(LaunchError, match=r"(?s)ended while it started.*NumberFormatException"):
        server.start()
    directory = server.log.parent
    server.close()
    assert not directory.exists()


_OWNER = """
import sys
from aiolead.testing.servers import BlockingServer

server = BlockingServer()
server.launch()
print(server.pid, server.log.parent, flush=True)
sys.stdin.read()
"""


@pytest.mark.usefixtures("real_server")
def test_server_ends_with_its_killed_owner(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_OWNER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline().split()[0])
        assert _is_alive(pid)
        os.kill(owner.pid, signal.SIGKILL)
    assert wait_until(lambda: not _is_running(pid), PATIENCE)


def _is_running(pid: int) -> bool:
    """Whether a process that is not our child runs; a zombie that nobody reaps does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_ports_are_reserved_once() -> None:
    """Though nobody listens on it yet: an ensemble asks for its own, and then for its links'."""
    ports = [port for _ in range(300) for port in free_ports(2)]
    assert len(set(ports)) == 600


def test_ports_are_reserved_across_processes() -> None:
    """The tests of one run are several processes, and each starts ensembles."""
    (port,) = free_ports(1)
    code = (
        "import random\n"
        "from aiolead.testing.launch import free_ports\n"
        f"drawn = iter([{port}, {port}, 29_999, 29_998, 29_997])\n"
        "random.SystemRandom.randrange = lambda *_: next(drawn)\n"
        "print(*free_ports(1))\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(said.stdout) in {29_999, 29_998, 29_997} - {port}


def test_port_reservations_end() -> None:
    """Each reservation is an open file."""
    free_ports(200)
    before = len(list(Path("/proc/self/fd").iterdir()))
    free_ports(200)
    assert len(list(Path("/proc/self/fd").iterdir())) == before

"""The session guardian: after a crash the session is closed, and in no other case.

Session timeouts are longer than the tests wait, so what ends was closed. What must not happen is
checked against another owner: it is killed afterwards, and once its session is closed, a guardian
that had been wrong about the first owner would have closed that one, too.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from client.control_groups import limited_memory
from client.guarded import MAY_NOT_TRACE, TIMEOUT, Owner, exists, guardian_of, is_running
from client.login.certificates import Authority
from kit.checks import PATIENCE, until
from kit.raw_client import RawClient

import aiolead
from aiolead import SASL, TLS, SessionGuardian, blocking
from aiolead._client import guardian_control, guardian_process
from aiolead._client.guardian_control import GuardianControl
from aiolead._client.net.opener import dial_tcp
from aiolead.errors import ConfigurationError
from aiolead.testing import BlockingEnsemble, EmbeddedServer, FaultProxy, Hooks, ThreadedServer
from aiolead.testing.history import ClosedByGuardian, History, Lived

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

LOOPS = ["asyncio", "trio"]
REAL_TIMEOUT = 10.0
"""The longest that the servers of the test kit grant, in seconds."""


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread(max_session_timeout=2 * TIMEOUT) as server:
        yield server


def closed(server: ThreadedServer, session: int) -> None:
    """Wait until a session is over, which it would not be by itself."""
    until(lambda: session not in server.sessions(), "the session is closed")


def still_open(server: ThreadedServer, session: int, folder: Path) -> None:
    """Check that a session is open after another guardian, moved later, has closed another one."""
    with Owner(server.connect_string, folder, lock=False) as other:
        others = other.expect("connected")["session"]
        other.kill()
        closed(server, others)
    assert session in server.sessions()


# --- crashes -------------------------------------------------------------------------------------


@pytest.mark.exhaustive("each case starts processes", one_in=2)
@pytest.mark.parametrize("backend", LOOPS)
@pytest.mark.parametrize("end", ["SIGKILL", "segfault", "abort", "os._exit"])
def test_the_next_one_holds(server: ThreadedServer, tmp_path: Path, backend: str, end: str) -> None:
    with Owner(server.connect_string, tmp_path, backend=backend) as first, ExitStack() as stack:
        first.holds()
        second = stack.enter_context(Owner(server.connect_string, tmp_path, backend=backend))
        second.expect("connected")
        if end == "SIGKILL":
            first.process.kill()
        else:
            first.order(end)
        assert second.expect("holds")["at"] > first.last_sign_of_life > 0
        first.process.wait()
        until(lambda: not is_running(first.guardian), "the guardian has ended")


def test_ten_threads(server: ThreadedServer, tmp_path: Path) -> None:
    """One of them is in a system call for ever, nine show that they live."""
    with Owner(server.connect_string, tmp_path, threads=9) as first, ExitStack() as stack:
        first.holds()
        second = stack.enter_context(Owner(server.connect_string, tmp_path))
        second.expect("connected")
        first.process.kill()
        assert second.expect("holds")["at"] > first.last_sign_of_life > 0


def test_a_thread_holds(server: ThreadedServer, tmp_path: Path) -> None:
    with Owner(server.connect_string, tmp_path, blocking=True) as owner:
        session = owner.holds()["session"]
        owner.order("os._exit")
        closed(server, session)


@pytest.mark.exhaustive("the same as on the embedded server")
@pytest.mark.parametrize("backend", LOOPS)
def test_on_a_real_ensemble(real_ensemble: BlockingEnsemble, tmp_path: Path, backend: str) -> None:
    """Killed again and again. `benchmarks/crash.py` does it 200 times, and takes the time."""
    hosts, history = real_ensemble.connect_string, History(time.monotonic)
    with ExitStack() as stack:

        def start() -> Owner:
            owner = Owner(
                hosts, tmp_path, backend=backend, election=True, threads=3, timeout=REAL_TIMEOUT
            )
            return stack.enter_context(owner)

        leader, sessions = start(), {}
        holds = leader.holds()
        for number in range(4):
            follower = start()
            sessions[leader.pid] = holds["session"]
            connected = follower.expect("connected")
            leader.kill()
            holds = connected | follower.expect("holds")
            # By itself, it could end two thirds of its timeout after a ping at the earliest.
            assert holds["at"] < leader.last_sign_of_life + REAL_TIMEOUT * 2 / 3
            name = f"leader-{number}"
            history.record(Lived(at=leader.last_sign_of_life, contender=name))
            closed = ClosedByGuardian(
                at=holds["at"], contender=name, session_id=sessions[leader.pid]
            )
            history.record(closed)
            history.killed(name)
            leader = follower
    history.check()
    assert all(event.at > 0 for event in history.events)


@pytest.fixture
def cgroup() -> Iterator[Path]:
    with limited_memory() as group:
        if group is None:
            pytest.skip("no control group with a limit of memory can be made here")
        yield group


@pytest.mark.exhaustive("one more way to lose a session")
def test_out_of_memory(server: ThreadedServer, tmp_path: Path, cgroup: Path) -> None:
    """The kernel kills the largest process of the group, and not the guardian in it."""
    with Owner(server.connect_string, tmp_path, cgroup=str(cgroup)) as owner:
        session = owner.holds()["session"]
        assert str(owner.guardian) in (cgroup / "cgroup.procs").read_text().split()
        owner.order("out-of-memory")
        closed(server, session)
        assert owner.process.wait() == -signal.SIGKILL


# --- not a crash ---------------------------------------------------------------------------------


@pytest.mark.exhaustive("each case starts processes", one_in=5)
@pytest.mark.promise(only="pipe-fork-that-lives")
@pytest.mark.parametrize(
    "act", ["fork", "fork-that-lives", "fork-and-exec", "multiprocess", "daemon"]
)
@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "pipe"])
def test_child_processes(server: ThreadedServer, tmp_path: Path, act: str, *, pidfd: bool) -> None:
    """The end of a child is not the owner's; its life does not put off what follows from that."""
    with Owner(server.connect_string, tmp_path, pidfd=pidfd) as owner:
        session = owner.holds()["session"]
        owner.do(act)
        still_open(server, session, tmp_path)
        owner.kill()
        closed(server, session)


@pytest.mark.exhaustive("each case starts processes", one_in=3)
@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "pipe"])
def test_the_process_goes_on(server: ThreadedServer, tmp_path: Path, *, pidfd: bool) -> None:
    """Its descriptors are closed, but it runs."""
    with Owner(server.connect_string, tmp_path, pidfd=pidfd) as owner:
        session = owner.holds()["session"]
        owner.do("close-descriptors")
        still_open(server, session, tmp_path)
        owner.kill()
        closed(server, session)


@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "pipe"])
@pytest.mark.parametrize("end", ["exec", "close-and-exec"])
@pytest.mark.parametrize("backend", LOOPS)
def test_another_program_is_executed(
    server: ThreadedServer, tmp_path: Path, backend: str, end: str, *, pidfd: bool
) -> None:
    """The process lives on without any thread that held: the guardian closes and ends."""
    with Owner(server.connect_string, tmp_path, backend=backend, pidfd=pidfd) as owner:
        session = owner.holds()["session"]
        owner.order(end)
        closed(server, session)
        until(lambda: not is_running(owner.guardian), "the guardian has ended")
        assert is_running(owner.pid)


def test_a_program_that_starts_itself_again(server: ThreadedServer, tmp_path: Path) -> None:
    """Each next generation holds while its process goes on, with one guardian."""
    with Owner(server.connect_string, tmp_path) as owner:
        sessions, ended = [owner.holds()["session"]], [0]
        for _ in range(2):
            owner.order("again")
            before, sessions = owner.guardian, [*sessions, owner.holds()["session"]]
            assert owner.guardian != before
            until(lambda pid=before: not is_running(pid), "the guardian has ended")
            ended = [*ended, before]
        assert set(sessions) & set(server.sessions()) == {sessions[-1]}
        # The zombie of the last one but one was reaped as the last one started.
        assert not exists(ended[1])


@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "pipe"])
def test_a_child_outlives_the_program(
    server: ThreadedServer, tmp_path: Path, *, pidfd: bool
) -> None:
    """A forked process has neither the control socket nor the mapping of its parent."""
    with Owner(server.connect_string, tmp_path, pidfd=pidfd) as owner:
        session = owner.holds()["session"]
        child = owner.do("fork-that-lives")["pid"]
        owner.order("exec")
        closed(server, session)
        assert is_running(child)


@pytest.mark.parametrize("backend", LOOPS)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to drop")
def test_dropped_privileges(server: ThreadedServer, tmp_path: Path, backend: str) -> None:
    """The guardian keeps them, so this process cannot kill it: it ends by itself."""
    with Owner(server.connect_string, tmp_path, backend=backend) as owner:
        session = owner.holds()["session"]
        owner.do("drop-privileges")
        owner.order("leave")
        owner.expect("left")
        assert session not in server.sessions()
        assert not exists(owner.guardian)
        assert owner.process.wait() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to drop")
def test_detached_after_dropped_privileges(server: ThreadedServer, tmp_path: Path) -> None:
    with Owner(server.connect_string, tmp_path, lock=False) as owner:
        session = owner.expect("connected")["session"]
        owner.do("drop-privileges")
        owner.do("detach")
        owner.order("leave")
        owner.expect("left")
        until(lambda: not is_running(owner.guardian), "the guardian has ended")
        still_open(server, session, tmp_path)


@pytest.mark.parametrize("when", ["before", "after"])
def test_hidden_memory(server: ThreadedServer, tmp_path: Path, when: str) -> None:
    """Other processes of the user may read the guardian's memory only if they may its owner's."""
    settings = {"lock": False, "may_trace": False, "hidden": when == "before"}
    with Owner(server.connect_string, tmp_path, **settings) as owner:
        owner.expect("connected")
        if when == "after":
            assert _is_readable(owner.guardian)
            owner.do("hide")
            owner.do("hosts 127.0.0.1:1")  # anything that has the guardian told
        until(lambda: not _is_readable(owner.guardian), "its memory is hidden")


def _is_readable(pid: int) -> bool:
    """Whether another process of the user, who may not trace everybody, may read a memory."""
    read = [sys.executable, "-c", "import sys; open(sys.argv[1], 'rb')", f"/proc/{pid}/mem"]
    return not subprocess.run([*MAY_NOT_TRACE, *read], check=False, capture_output=True).returncode


@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "pipe"])
def test_the_main_thread_ends_alone(server: ThreadedServer, tmp_path: Path, *, pidfd: bool) -> None:
    """The process looks like a zombie, and its other threads go on."""
    with Owner(server.connect_string, tmp_path, pidfd=pidfd) as owner:
        session = owner.holds()["session"]
        owner.do("end-main-thread")
        until(lambda: not is_running(owner.pid), "the main thread has ended")
        begin = owner.last_sign_of_life
        still_open(server, session, tmp_path)
        assert owner.last_sign_of_life > begin
        owner.kill()
        closed(server, session)


def test_stopped(server: ThreadedServer, tmp_path: Path) -> None:
    with Owner(server.connect_string, tmp_path) as owner:
        session = owner.holds()["session"]
        owner.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, owner.pid, os.WSTOPPED)
        still_open(server, session, tmp_path)
        owner.kill()
        closed(server, session)


PTRACE_ATTACH, PTRACE_DETACH = 16, 17


@pytest.mark.exhaustive("one more way to lose a session")
def test_a_debugger(server: ThreadedServer, tmp_path: Path) -> None:
    with Owner(server.connect_string, tmp_path) as owner:
        session = owner.holds()["session"]
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        if ptrace(PTRACE_ATTACH, owner.pid, None, None) != 0:
            pytest.skip(f"no debugger may attach here: {os.strerror(ctypes.get_errno())}")
        os.waitpid(owner.pid, 0)
        still_open(server, session, tmp_path)
        assert ptrace(PTRACE_DETACH, owner.pid, None, None) == 0
        still_open(server, session, tmp_path)
        owner.kill()
        closed(server, session)


@pytest.mark.exhaustive("one more way to lose a session")
@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "pipe"])
def test_a_daemon(server: ThreadedServer, tmp_path: Path, *, pidfd: bool) -> None:
    """It forks and its parents end, and then it connects: the guardian is the daemon's."""
    with Owner(server.connect_string, tmp_path, daemonise=True, pidfd=pidfd) as owner:
        pid = owner.expect("daemonised")["pid"]
        owner.process.wait()
        session = owner.holds()["session"]
        guardian = guardian_of(pid)
        still_open(server, session, tmp_path)
        os.kill(pid, signal.SIGKILL)
        closed(server, session)
        until(lambda: not is_running(guardian), "the guardian has ended")


@pytest.mark.parametrize("backend", LOOPS)
def test_a_clean_close(server: ThreadedServer, tmp_path: Path, backend: str) -> None:
    with Owner(server.connect_string, tmp_path, backend=backend) as owner:
        session = owner.holds()["session"]
        requests = server.requests["CREATE_SESSION"]
        owner.order("leave")
        owner.expect("left")
        assert session not in server.sessions()
        assert not exists(owner.guardian)  # not even a zombie
        assert owner.process.wait() == 0
        assert server.requests["CREATE_SESSION"] == requests


def test_detached(server: ThreadedServer, tmp_path: Path) -> None:
    with Owner(server.connect_string, tmp_path, lock=False) as owner:
        session = owner.expect("connected")["session"]
        assert owner.do("detach")["session"] == session
        owner.kill()
        until(lambda: not is_running(owner.guardian), "the guardian has ended")
        still_open(server, session, tmp_path)


@pytest.mark.exhaustive("one more way to lose a session")
def test_handed_over(server: ThreadedServer, tmp_path: Path) -> None:
    """The session belongs to the second owner, and so does its guardian."""
    with Owner(server.connect_string, tmp_path, lock=False) as first:
        first.expect("connected")
        told = first.do("detach")
        resume = {"resume": [told["session"], told["password"]]}
        with Owner(server.connect_string, tmp_path, lock=False, connect=resume) as second:
            assert second.expect("connected")["session"] == told["session"]
            first.kill()
            still_open(server, told["session"], tmp_path)
            second.kill()
            closed(server, told["session"])


# --- what the guardian knows ---------------------------------------------------------------------


def test_a_new_session(server: ThreadedServer, tmp_path: Path) -> None:
    with Owner(server.connect_string, tmp_path, lock=False) as owner:
        first = owner.expect("connected")["session"]
        server.expire_session(first)
        until(lambda: any(first != other for other in server.sessions()), "another session")
        second = owner.do("session")["session"]
        owner.kill()
        closed(server, second)


def test_other_servers(server: ThreadedServer, tmp_path: Path) -> None:
    """The list has changed since it connected, and the server that it was connected to is gone."""
    with FaultProxy("127.0.0.1", server.port) as proxy:
        with Owner(proxy.connect_string, tmp_path, lock=False) as owner:
            session = owner.expect("connected")["session"]
            owner.do(f"hosts {proxy.connect_string},{server.connect_string}")
            proxy.refuse()
            owner.kill()
            closed(server, session)


def test_the_first_server_does_not_answer(server: ThreadedServer, tmp_path: Path) -> None:
    with FaultProxy("127.0.0.1", server.port) as proxy:
        hosts = f"{proxy.connect_string},{server.connect_string}"
        with Owner(proxy.connect_string, tmp_path, lock=False) as owner:
            session = owner.expect("connected")["session"]
            owner.do(f"hosts {hosts}")
            proxy.blackhole()
            owner.kill()
            closed(server, session)


def test_credentials(server: ThreadedServer, tmp_path: Path) -> None:
    connect = {"auth": ["app", "secret"]}
    with Owner(server.connect_string, tmp_path, connect=connect) as owner:
        session = owner.holds()["session"]
        before = server.requests["AUTH"]
        owner.kill()
        closed(server, session)
        assert server.requests["AUTH"] == before + 1


def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pem = authority.issue()
    context = authority.server_context(pem, wants_client=True, insists=True)
    with EmbeddedServer.in_thread(ssl_context=context, max_session_timeout=2 * TIMEOUT) as server:
        tls = {"ca": str(authority.pem), "cert": str(pem.cert), "key": str(pem.key)}
        hosts = f"localhost:{server.port}"
        with Owner(hosts, tmp_path, connect={"tls": tls}) as first, ExitStack() as stack:
            first.holds()
            second = stack.enter_context(Owner(hosts, tmp_path, connect={"tls": tls}))
            second.expect("connected")
            first.kill()
            second.expect("holds")


def test_tls_is_checked_as_the_client_checks_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    here, there = socket.socketpair()
    with here, there:
        guardian = guardian_process.Guardian(here, 0, -1, -1, -1)
        files = {"ca": str(authority.pem), "cert": None, "key": None, "password": None}
        guardian.description = {"tls": {**files, "check_hostname": True}}
        guardian._load_tls()
    own = TLS(ca=authority.pem).load()
    for name in ("check_hostname", "hostname_checks_common_name", "minimum_version", "verify_mode"):
        assert getattr(guardian._context, name) == getattr(own, name), name
    assert guardian._context.hostname_checks_common_name is False


NO_DUMPS = re.compile(r"^Max core file size +1 +1 ", re.MULTILINE)


def test_no_secret_is_seen(server: ThreadedServer, tmp_path: Path) -> None:
    connect = {"auth": ["app", "hunter2"]}
    with Owner(server.connect_string, tmp_path, lock=False, connect=connect) as owner:
        owner.expect("connected")
        password = owner.do("session")["password"].encode()
        proc = Path(f"/proc/{owner.guardian}")
        shown = (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
        assert len(password) == 32
        assert password not in shown
        assert b"hunter2" not in shown
        assert b"AIOLEAD" not in shown
        until(lambda: bool(NO_DUMPS.search((proc / "limits").read_text())), "no dumps")
        kinds = sorted(str(each.readlink()).partition(":")[0] for each in (proc / "fd").iterdir())
        assert kinds == ["/dev/null"] * 3 + ["/memfd", "anon_inode", "socket"]
        assert (proc / "cwd").readlink() == Path("/")


def test_signals(server: ThreadedServer, tmp_path: Path) -> None:
    """Those to the group of its owner, as from a terminal, and those to itself."""
    with Owner(server.connect_string, tmp_path) as owner:
        session = owner.holds()["session"]
        owner.process.send_signal(signal.SIGSTOP)  # it must not act on them
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.killpg(owner.pid, number)
            os.kill(owner.guardian, number)
        os.kill(owner.guardian, signal.SIGTSTP)
        assert is_running(owner.guardian)
        os.kill(owner.pid, signal.SIGKILL)
        closed(server, session)


# --- child processes that act for the owner ------------------------------------------------------


@pytest.mark.exhaustive("each case starts processes", one_in=2)
@pytest.mark.parametrize("said", [b"", b"+-", b"+-+-"])
def test_children_are_gone(server: ThreadedServer, tmp_path: Path, said: bytes) -> None:
    source, sink = os.pipe()
    try:
        session, guardian = _dead_owner(server, source)
        os.write(sink, said)
        still_open(server, session, tmp_path)  # as long as anybody might write
    finally:
        os.close(sink)
        os.close(source)
    closed(server, session)
    assert guardian.wait(PATIENCE) == 0


@pytest.mark.exhaustive("each case starts processes", one_in=2)
@pytest.mark.parametrize("said", [b"+", b"+-+", b"-"])
def test_children_may_live(server: ThreadedServer, tmp_path: Path, said: bytes) -> None:
    source, sink = os.pipe()
    try:
        session, guardian = _dead_owner(server, source)
        os.write(sink, said)
    finally:
        os.close(sink)
        os.close(source)
    assert guardian.wait(PATIENCE) == 0
    assert session in server.sessions()


def _dead_owner(server: ThreadedServer, children: int) -> tuple[int, subprocess.Popen[bytes]]:
    """A guardian whose owner has ended: a process that has ended plays it."""
    with RawClient(server.connect_string, session_timeout=TIMEOUT) as client:
        opened = client.session
        client.socket.close()
    dead = subprocess.Popen(["true"])
    pidfd = os.pidfd_open(dead.pid)
    dead.wait()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = guardian_control.spawn(theirs.fileno(), pidfd, children)
        known = description(opened.session_id, opened.password, server.port)
        ours.sendall(json.dumps(known).encode() + b"\n")
    os.close(pidfd)
    return opened.session_id, process


def description(
    session: int, password: bytes, port: int, timeout: float = TIMEOUT
) -> dict[str, object]:
    """What a guardian is told of a session on one server."""
    return {
        "session": session,
        "password": password.hex(),
        "timeout": timeout,
        "servers": [["127.0.0.1", port, "127.0.0.1"]],
        "auth": [],
        "tls": None,
    }


# --- its own failures ----------------------------------------------------------------------------


async def test_the_guardian_is_killed(
    server: ThreadedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It is as it was without: the client goes on, and says so once."""
    async with aiolead.connect(server.connect_string, close_on_crash=True) as client:
        guardian = guardian_of(os.getpid())
        os.kill(guardian, signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            while not caplog.records:  # noqa: ASYNC110 - it is logged, and nothing else
                await anyio.sleep(0.005)
        server.disconnect()
        await client.exists("/still-here")
        client.update_hosts([server.connect_string, "127.0.0.1:1"])
        assert not exists(guardian)
    assert [r.levelname for r in caplog.records if "guardian" in r.message] == ["WARNING"]


async def test_the_guardian_cannot_be_started(
    server: ThreadedServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    async with aiolead.connect(server.connect_string, close_on_crash=True) as client:
        await client.create("/here")
    assert [r.levelname for r in caplog.records if "guardian" in r.message] == ["WARNING"]


def test_a_stopped_guardian_that_cannot_be_told(caplog: pytest.LogCaptureFixture) -> None:
    """One that knows something old is worse than none: it is ended."""
    known: dict[str, object] = {"session": 0}
    control = GuardianControl(SessionGuardian(), lambda: known)
    control.start()
    guardian = guardian_of(os.getpid())
    os.kill(guardian, signal.SIGSTOP)
    for number in range(1, 1_000_000):
        known["session"] = number
        control.notify()
        if caplog.records:
            break
    assert not exists(guardian)
    control.notify()
    control.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.exhaustive("one more way to lose a session")
def test_no_server_in_reach(server: ThreadedServer, tmp_path: Path) -> None:
    """It gives up when the session would have timed out."""
    with Owner(server.connect_string, tmp_path, lock=False, timeout=1.0) as owner:
        owner.expect("connected")
        server.stop()
        owner.kill()
        until(lambda: not is_running(owner.guardian), "the guardian has ended")


@pytest.mark.exhaustive("one more way to lose a session")
def test_servers_that_come_back(server: ThreadedServer, tmp_path: Path) -> None:
    with FaultProxy("127.0.0.1", server.port) as proxy:
        with Owner(proxy.connect_string, tmp_path, lock=False) as owner:
            session = owner.expect("connected")["session"]
            proxy.refuse()
            owner.kill()
            still_open(server, session, tmp_path)
            proxy.heal()
            closed(server, session)


def test_the_end_of_a_guardian_that_never_ran() -> None:
    """A client that is open for a moment ends it while it still starts."""
    control = GuardianControl(SessionGuardian(), lambda: {"session": 0})
    control.start()
    control.close()
    assert guardian_of(os.getpid()) == 0
    control.notify()
    control.close()


# --- forks, bad input ----------------------------------------------------------------------------


async def test_a_forked_child_leaves_the_guardian_alone(server: ThreadedServer) -> None:
    connection = aiolead.connect(server.connect_string, close_on_crash=True)
    async with connection as client:
        guardian = guardian_of(os.getpid())
        pid = os.fork()
        if pid == 0:
            try:
                assert connection._guardian is not None
                connection._guardian.notify()
                connection._guardian.close()
            finally:
                os._exit(0)
        await anyio.to_thread.run_sync(os.waitpid, pid, 0)
        await client.create("/here")
        assert is_running(guardian)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"close_on_crash": 1}, "close_on_crash: must be None, a bool or a SessionGuardian"),
        ({"close_on_crash": True, "tls": ssl.create_default_context()}, "aiolead.TLS"),
        ({"close_on_crash": True, "sasl": SASL.digest_md5("user", "password")}, "SASL"),
        ({"close_on_crash": True, "hooks": Hooks(dial=dial_tcp)}, "hooks.dial"),
    ],
)
def test_bad_input(arguments: dict[str, Any], message: str) -> None:
    for connect in (aiolead.connect, blocking.connect):
        with pytest.raises(ConfigurationError, match=message):
            connect("127.0.0.1:1", **arguments)


@pytest.mark.parametrize("children", [-1, "3", 1.0, True])
def test_bad_children(children: Any) -> None:
    with pytest.raises(ConfigurationError, match="children: must be a descriptor"):
        SessionGuardian(children=children)


def test_a_frozen_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executable is the program itself, which must not be started again."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(ConfigurationError, match="no Python interpreter"):
        aiolead.connect("127.0.0.1:1", close_on_crash=True)


async def test_process_1(
    server: ThreadedServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = GuardianControl(SessionGuardian(), lambda: {"session": 0})
    monkeypatch.setattr(guardian_control.os, "getpid", lambda: 1)
    monkeypatch.setattr(guardian_control, "spawn", _refuse)
    control.start()
    assert "process 1 of a container" in caplog.text


def _refuse(*_: object) -> None:
    raise OSError


def test_the_program_imports_nothing_of_ours() -> None:
    """Nor anything that is slow to import: it has to be ready as soon as the session."""
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1]); "
        "print(*sorted(m for m in sys.modules if not m.startswith('_')))"
    )
    program = [sys.executable, "-I", "-S", "-c", code, guardian_process.__file__]
    loaded = set(
        subprocess.run(program, check=True, stdout=subprocess.PIPE).stdout.decode().split()
    )
    assert "socket" in loaded
    assert (
        loaded & {"aiolead", "asyncio", "ssl", "logging", "ctypes", "site", "subprocess"} == set()
    )

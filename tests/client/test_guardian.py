"""The session guardian closes the session after a crash, and in no other case.

Session timeouts are longer than the tests wait, so a session that ends was closed. That a session
stays open is checked against another owner, which is killed afterwards: once its session is closed,
a guardian that was wrong about the first owner would have closed that session, too.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from client.control_groups import limited_memory
from client.guarded import MAY_NOT_TRACE, TIMEOUT, Owner, exists, guardian_of, is_running
from client.login.certificates import Authority
from kit.checks import PATIENCE, killed_at_the_end, until
from kit.raw_client import RawClient

import aiolead
from aiolead import SASL, TLS, SessionGuardian, blocking
from aiolead._client.guardian import control as guardian_control
from aiolead._client.guardian import process as guardian_process
from aiolead._client.guardian.control import GuardianControl
from aiolead._client.net.opener import dial_tcp
from aiolead.errors import ConfigurationError
from aiolead.testing import BlockingEnsemble, EmbeddedServer, FaultProxy, Hooks, ThreadedServer
from aiolead.testing.history import ClosedByGuardian, History, Lived

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

REAL_TIMEOUT = 10.0
"""The longest that the servers of the test kit grant, in seconds."""

each_loop = pytest.mark.parametrize("backend", ["asyncio", "trio"])
each_way = pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "pipe"])
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to drop")
exhaustive = pytest.mark.exhaustive("one more way to lose a session")

Start = Callable[..., Owner]


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread(max_session_timeout=2 * TIMEOUT) as server:
        yield server


@pytest.fixture
def proxy(server: ThreadedServer) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", server.port) as proxy:
        yield proxy


@pytest.fixture
def start(server: ThreadedServer, tmp_path: Path) -> Iterator[Start]:
    """Starts owners of sessions, which end with the test."""
    with ExitStack() as stack:

        def start(hosts: str = server.connect_string, **settings: Any) -> Owner:
            return stack.enter_context(Owner(hosts, tmp_path, **settings))

        yield start


def closed(server: ThreadedServer, session: int) -> None:
    """Wait until a session is over, which it would not be by itself."""
    until(lambda: session not in server.sessions(), "the session is closed")


def still_open(server: ThreadedServer, session: int, start: Start) -> None:
    """Check that a session is open after another guardian, moved later, has closed another one."""
    other = start(lock=False)
    others = other.expect("connected")["session"]
    other.kill()
    closed(server, others)
    assert session in server.sessions()


def ended(guardian: int) -> None:
    until(lambda: not is_running(guardian), "the guardian has ended")


# --- crashes -------------------------------------------------------------------------------------


@pytest.mark.exhaustive("each case starts processes", one_in=2)
@each_loop
@pytest.mark.parametrize("end", ["SIGKILL", "segfault", "abort", "os._exit"])
def test_next_contender_holds_after_a_crash(start: Start, backend: str, end: str) -> None:
    first = start(backend=backend)
    first.holds()
    second = start(backend=backend)
    second.expect("connected")
    if end == "SIGKILL":
        first.process.kill()
    else:
        first.order(end)
    assert second.expect("holds")["at"] > first.last_sign_of_life > 0
    first.process.wait()
    ended(first.guardian)


def test_no_thread_lives_when_the_next_contender_holds(start: Start) -> None:
    """One of ten is in a system call forever, nine show that they live."""
    first = start(threads=9)
    first.holds()
    second = start()
    second.expect("connected")
    first.process.kill()
    assert second.expect("holds")["at"] > first.last_sign_of_life > 0


def test_crash_of_a_program_with_threads(start: Start, server: ThreadedServer) -> None:
    owner = start(blocking=True)
    session = owner.holds()["session"]
    owner.order("os._exit")
    closed(server, session)


@pytest.mark.exhaustive("the same as on the embedded server")
@each_loop
def test_crashes_on_ensembles(real_ensemble: BlockingEnsemble, start: Start, backend: str) -> None:
    """Leaders are killed again and again. `benchmarks/crash.py` does it 200 times, and measures."""
    hosts, history = real_ensemble.connect_string, History(time.monotonic)
    settings = {"backend": backend, "election": True, "threads": 3, "timeout": REAL_TIMEOUT}
    leader = start(hosts, **settings)
    holds = leader.holds()
    for number in range(4):
        follower = start(hosts, **settings)
        session = holds["session"]
        connected = follower.expect("connected")
        leader.kill()
        holds = connected | follower.expect("holds")
        # By itself, the session could end two thirds of its timeout after a ping at the earliest.
        assert holds["at"] < leader.last_sign_of_life + REAL_TIMEOUT * 2 / 3
        name = f"leader-{number}"
        history.record(Lived(at=leader.last_sign_of_life, contender=name))
        history.record(ClosedByGuardian(at=holds["at"], contender=name, session_id=session))
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


@exhaustive
def test_lack_of_memory_is_a_crash(start: Start, server: ThreadedServer, cgroup: Path) -> None:
    """The kernel kills the largest process of the group, and not the guardian in it."""
    owner = start(cgroup=str(cgroup))
    session = owner.holds()["session"]
    assert str(owner.guardian) in (cgroup / "cgroup.procs").read_text().split()
    owner.order("out-of-memory")
    closed(server, session)
    assert owner.process.wait() == -signal.SIGKILL


# --- not a crash ---------------------------------------------------------------------------------


one_in_5 = pytest.mark.exhaustive("each case starts processes", one_in=5)
ACTS = [
    "fork-that-lives",
    "end-main-thread",  # the process looks like a zombie, and its other threads go on
    *(pytest.param(act, marks=one_in_5) for act in ("fork", "fork-and-exec", "multiprocess")),
    *(pytest.param(act, marks=one_in_5) for act in ("daemon", "close-descriptors")),
]


@each_way
@pytest.mark.parametrize("act", ACTS)
def test_process_that_goes_on_keeps_its_session(
    start: Start, server: ThreadedServer, act: str, *, pidfd: bool
) -> None:
    """The end of a child is not the owner's; its life does not delay what follows from that."""
    owner = start(pidfd=pidfd)
    session = owner.holds()["session"]
    owner.do(act)
    if act == "end-main-thread":
        until(lambda: not is_running(owner.pid), "the main thread has ended")
    seen = owner.last_sign_of_life
    still_open(server, session, start)
    assert owner.last_sign_of_life > seen
    owner.kill()
    closed(server, session)


@each_way
@pytest.mark.parametrize("end", ["exec", "close-and-exec"])
@each_loop
def test_program_that_executes_another_one_has_ended(
    start: Start, server: ThreadedServer, backend: str, end: str, *, pidfd: bool
) -> None:
    """The process lives on without any thread that held: the guardian closes and ends."""
    owner = start(backend=backend, pidfd=pidfd)
    session = owner.holds()["session"]
    owner.order(end)
    closed(server, session)
    ended(owner.guardian)
    assert is_running(owner.pid)


def test_program_that_restarts_has_one_guardian(start: Start, server: ThreadedServer) -> None:
    """Each next generation holds while its process goes on."""
    owner = start()
    sessions, before = [owner.holds()["session"]], [0]
    for _ in range(2):
        owner.order("again")
        before.append(owner.guardian)
        sessions.append(owner.holds()["session"])
        assert owner.guardian != before[-1]
        ended(before[-1])
    assert set(sessions) & set(server.sessions()) == {sessions[-1]}
    # The zombie of the last one but one was reaped as the last one started.
    assert not exists(before[1])


@each_way
def test_child_keeps_no_session(start: Start, server: ThreadedServer, *, pidfd: bool) -> None:
    """A forked process has neither the control socket nor the mapping of its parent."""
    owner = start(pidfd=pidfd)
    session = owner.holds()["session"]
    child = owner.do("fork-that-lives")["pid"]
    owner.order("exec")
    closed(server, session)
    assert is_running(child)


@pytest.mark.parametrize("drops", [False, pytest.param(True, marks=as_root)])
@each_loop
def test_clean_close_ends_the_guardian(
    start: Start, server: ThreadedServer, backend: str, *, drops: bool
) -> None:
    """A guardian keeps the privileges that its owner drops, who cannot kill it: it ends itself."""
    owner = start(backend=backend)
    session = owner.holds()["session"]
    requests = server.requests["CREATE_SESSION"]
    if drops:
        owner.do("drop-privileges")
    owner.order("leave")
    owner.expect("left")
    assert session not in server.sessions()
    assert not exists(owner.guardian)  # not even a zombie
    assert owner.process.wait() == 0
    assert server.requests["CREATE_SESSION"] == requests


@pytest.mark.parametrize("drops", [False, pytest.param(True, marks=as_root)])
def test_detached_session_stays_open(start: Start, server: ThreadedServer, *, drops: bool) -> None:
    owner = start(lock=False)
    session = owner.expect("connected")["session"]
    if drops:
        owner.do("drop-privileges")
    assert owner.do("detach")["session"] == session
    if drops:
        owner.order("leave")
        owner.expect("left")
    else:
        owner.kill()
    ended(owner.guardian)
    still_open(server, session, start)


@exhaustive
def test_detached_session_belongs_to_its_next_owner(start: Start, server: ThreadedServer) -> None:
    first = start(lock=False)
    first.expect("connected")
    credentials = first.do("detach")
    session = credentials["session"]
    second = start(lock=False, connect={"resume": [session, credentials["password"]]})
    assert second.expect("connected")["session"] == session
    first.kill()
    still_open(server, session, start)
    second.kill()
    closed(server, session)


@pytest.mark.parametrize("when", ["before", "after"])
def test_memory_of_the_guardian_is_hidden_with_that_of_its_owner(start: Start, when: str) -> None:
    """Other processes of the user may read the guardian's memory only if they may its owner's."""
    owner = start(lock=False, may_trace=False, hidden=when == "before")
    owner.expect("connected")
    if when == "after":
        assert _is_readable(owner.guardian)
        owner.do("hide")
        owner.do("hosts 127.0.0.1:1")  # any change that the guardian has to know
    until(lambda: not _is_readable(owner.guardian), "its memory is hidden")


def _is_readable(pid: int) -> bool:
    """Whether another process of the user, who may not trace everybody, may read a memory."""
    read = [sys.executable, "-c", "import sys; open(sys.argv[1], 'rb')", f"/proc/{pid}/mem"]
    return not subprocess.run([*MAY_NOT_TRACE, *read], check=False, capture_output=True).returncode


def test_stopped_process_keeps_its_session(start: Start, server: ThreadedServer) -> None:
    owner = start()
    session = owner.holds()["session"]
    owner.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, owner.pid, os.WSTOPPED)
    still_open(server, session, start)
    owner.kill()
    closed(server, session)


PTRACE_ATTACH, PTRACE_DETACH = 16, 17


@exhaustive
def test_debugged_process_keeps_its_session(start: Start, server: ThreadedServer) -> None:
    owner = start()
    session = owner.holds()["session"]
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    if ptrace(PTRACE_ATTACH, owner.pid, None, None) != 0:
        pytest.skip(f"no debugger may attach here: {os.strerror(ctypes.get_errno())}")
    os.waitpid(owner.pid, 0)
    still_open(server, session, start)
    assert ptrace(PTRACE_DETACH, owner.pid, None, None) == 0
    still_open(server, session, start)
    owner.kill()
    closed(server, session)


@exhaustive
@each_way
def test_daemon_has_its_own_guardian(start: Start, server: ThreadedServer, *, pidfd: bool) -> None:
    """It forks and its parents end, and then it connects."""
    owner = start(daemonise=True, pidfd=pidfd)
    pid = owner.expect("daemonised")["pid"]
    owner.process.wait()
    session = owner.holds()["session"]
    guardian = guardian_of(pid)
    still_open(server, session, start)
    os.kill(pid, signal.SIGKILL)
    closed(server, session)
    ended(guardian)


# --- what the guardian knows ---------------------------------------------------------------------


def test_guardian_closes_the_latest_session(start: Start, server: ThreadedServer) -> None:
    owner = start(lock=False)
    first = owner.expect("connected")["session"]
    server.expire_session(first)
    until(lambda: any(first != other for other in server.sessions()), "another session")
    second = owner.do("session")["session"]
    owner.kill()
    closed(server, second)


@pytest.mark.parametrize("fault", [FaultProxy.refuse, FaultProxy.blackhole])
def test_guardian_tries_the_latest_servers(
    start: Start, server: ThreadedServer, proxy: FaultProxy, fault: Callable[[FaultProxy], None]
) -> None:
    """The list has changed since it connected, and the server that it had connected to is gone."""
    owner = start(proxy.connect_string, lock=False)
    session = owner.expect("connected")["session"]
    owner.do(f"hosts {proxy.connect_string},{server.connect_string}")
    fault(proxy)
    owner.kill()
    closed(server, session)


def test_guardian_shows_the_credentials(start: Start, server: ThreadedServer) -> None:
    owner = start(connect={"auth": ["app", "secret"]})
    session = owner.holds()["session"]
    before = server.requests["AUTH"]
    owner.kill()
    closed(server, session)
    assert server.requests["AUTH"] == before + 1


def test_guardian_uses_tls(start: Start, authority: Authority) -> None:
    pem = authority.issue()
    context = authority.server_context(pem, wants_client=True, insists=True)
    with EmbeddedServer.in_thread(ssl_context=context, max_session_timeout=2 * TIMEOUT) as server:
        tls = {"ca": str(authority.pem), "cert": str(pem.cert), "key": str(pem.key)}
        hosts = f"localhost:{server.port}"
        first = start(hosts, connect={"tls": tls})
        first.holds()
        second = start(hosts, connect={"tls": tls})
        second.expect("connected")
        first.kill()
        second.expect("holds")
        second.kill()


def test_guardian_checks_tls_as_the_client_does(authority: Authority) -> None:
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


def test_guardian_shows_no_secret(start: Start) -> None:
    owner = start(lock=False, connect={"auth": ["app", "hunter2"]})
    owner.expect("connected")
    password = owner.do("session")["password"].encode()
    proc = Path(f"/proc/{owner.guardian}")
    shown = (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
    assert len(password) == 32
    for secret in (password, b"hunter2", b"AIOLEAD"):
        assert secret not in shown
    until(lambda: bool(NO_DUMPS.search((proc / "limits").read_text())), "no dumps")
    kinds = sorted(str(each.readlink()).partition(":")[0] for each in (proc / "fd").iterdir())
    assert kinds == ["/dev/null"] * 3 + ["/memfd", "anon_inode", "socket"]
    assert (proc / "cwd").readlink() == Path("/")


def test_guardian_ignores_signals(start: Start, server: ThreadedServer) -> None:
    """Signals to the group of its owner, as from a terminal, and signals to itself."""
    owner = start()
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
@pytest.mark.parametrize(
    ("said", "are_gone"),
    [(b"", True), (b"+-", True), (b"+-+-", True), (b"+", False), (b"+-+", False), (b"-", False)],
)
def test_session_is_closed_once_the_children_have_ended(
    start: Start, server: ThreadedServer, said: bytes, *, are_gone: bool
) -> None:
    """As far as is known: it stays open if a child may live."""
    source, sink = os.pipe()
    with _dead_owner(server, source) as (session, guardian):
        try:
            os.write(sink, said)
            if are_gone:
                still_open(server, session, start)  # as long as any process might write
        finally:
            os.close(sink)
            os.close(source)
        if are_gone:
            closed(server, session)
        assert guardian.wait(PATIENCE) == 0
        assert (session in server.sessions()) != are_gone


@contextmanager
def _dead_owner(
    server: ThreadedServer, children: int
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A guardian whose owner has ended: a process that has ended plays it."""
    with RawClient(server.connect_string, session_timeout=TIMEOUT) as client:
        opened = client.session
        client.socket.close()
    dead = subprocess.Popen(["true"])
    pidfd = os.pidfd_open(dead.pid)
    dead.wait()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        known = {
            "session": opened.session_id,
            "password": opened.password.hex(),
            "timeout": TIMEOUT,
            "servers": [["127.0.0.1", server.port, "127.0.0.1"]],
            "auth": [],
            "tls": None,
        }
        # Before the guardian starts: it closes what it knows of when it notices the owner's end.
        ours.sendall(json.dumps(known).encode() + b"\n")
        process = guardian_control.spawn(theirs.fileno(), pidfd, children)
    os.close(pidfd)
    with killed_at_the_end(process):
        yield opened.session_id, process


# --- its own failures ----------------------------------------------------------------------------


async def test_killed_guardian_is_reported_once(
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


async def test_guardian_that_cannot_be_started_is_reported(
    server: ThreadedServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    async with aiolead.connect(server.connect_string, close_on_crash=True) as client:
        await client.create("/here")
    assert [r.levelname for r in caplog.records if "guardian" in r.message] == ["WARNING"]


def test_stopped_guardian_with_old_knowledge_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    """One that knows something old is worse than none: it is ended."""
    known: dict[str, object] = {"session": 0}
    control = GuardianControl(SessionGuardian(), lambda: known)
    control.start()
    guardian = guardian_of(os.getpid())
    os.kill(guardian, signal.SIGSTOP)
    for number in range(1, 1_000_000):
        known["session"] = number
        control.on_session_changed()
        if caplog.records:
            break
    assert not exists(guardian)
    control.on_session_changed()
    control.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@exhaustive
def test_guardian_gives_up_after_the_session_timeout(start: Start, server: ThreadedServer) -> None:
    owner = start(lock=False, timeout=1.0)
    owner.expect("connected")
    server.stop()
    owner.kill()
    ended(owner.guardian)


@exhaustive
def test_guardian_awaits_servers(start: Start, server: ThreadedServer, proxy: FaultProxy) -> None:
    owner = start(proxy.connect_string, lock=False)
    session = owner.expect("connected")["session"]
    proxy.refuse()
    owner.kill()
    still_open(server, session, start)
    proxy.heal()
    closed(server, session)


def closing(servers: list[int], seconds: float) -> float:
    """Have a guardian close a session at these ports; return for how long it has tried."""
    control, other = socket.socketpair()
    with control, other:
        guardian = guardian_process.Guardian(control, os.getpid(), -1, -1, -1)
        guardian.description = {
            "session": 7,
            "password": "00" * 16,
            "timeout": TIMEOUT,
            "servers": [["127.0.0.1", port, ""] for port in servers],
            "auth": [],
            "tls": None,
        }
        began = time.monotonic()
        guardian.close_session(began + seconds)
        return time.monotonic() - began


def test_guardian_gives_up_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian_process, "REFUSED_FOR", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        # This one may be about to answer.
        assert closing([1, port], 1.0) >= 1.0
    assert closing([1, port], TIMEOUT) < TIMEOUT


def test_guardian_that_still_starts_is_ended() -> None:
    """A client that is open for a moment ends it while it still starts."""
    control = GuardianControl(SessionGuardian(), lambda: {"session": 0})
    control.start()
    control.close()
    assert guardian_of(os.getpid()) == 0
    control.on_session_changed()
    control.close()


# --- forks, bad input ----------------------------------------------------------------------------


async def test_forked_child_does_not_affect_the_guardian(server: ThreadedServer) -> None:
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
def test_invalid_combinations_are_refused(arguments: dict[str, Any], message: str) -> None:
    for connect in (aiolead.connect, blocking.connect):
        with pytest.raises(ConfigurationError, match=message):
            connect("127.0.0.1:1", **arguments)


@pytest.mark.parametrize("children", [-1, "3", 1.0, True])
def test_invalid_children_are_refused(children: Any) -> None:
    with pytest.raises(ConfigurationError, match="children: must be a descriptor"):
        SessionGuardian(children=children)


def test_frozen_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executable is the program itself, which must not be started again."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(ConfigurationError, match="no Python interpreter"):
        aiolead.connect("127.0.0.1:1", close_on_crash=True)


async def test_process_1_of_a_container_is_explained(
    server: ThreadedServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = GuardianControl(SessionGuardian(), lambda: {"session": 0})
    monkeypatch.setattr(guardian_control.os, "getpid", lambda: 1)
    monkeypatch.setattr(guardian_control, "spawn", _refuse)
    control.start()
    assert "process 1 of a container" in caplog.text


def _refuse(*_: object) -> None:
    raise OSError


def test_program_of_the_guardian_imports_little() -> None:
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


# --- workers of web servers ----------------------------------------------------------------------

CONFIG = """
import os
import aiolead.blocking

def post_worker_init(worker):
    connection = aiolead.blocking.connect({hosts!r}, session_timeout={timeout}, close_on_crash=True)
    client = worker.client = connection.__enter__()
    worker.connection = connection
    with open({file!r} + ".new", "w") as file:
        file.write(f"{{os.getpid()}} {{client.session_id}}")
    os.rename({file!r} + ".new", {file!r})
"""
APP = """
import contextlib, os
import aiolead

async def app(scope, receive, send):
    assert scope["type"] == "lifespan"
    await receive()
    async with aiolead.connect({hosts!r}, session_timeout={timeout}, close_on_crash=True) as client:
        with open({file!r} + ".new", "w") as file:
            file.write(f"{{os.getpid()}} {{client.session_id}}")
        os.rename({file!r} + ".new", {file!r})
        await send({{"type": "lifespan.startup.complete"}})
        await receive()
    await send({{"type": "lifespan.shutdown.complete"}})
"""
EMPTY = "def app(environ, start_response): return []\n"

# The command of each server, with its files.
SERVERS: dict[str, tuple[list[str], dict[str, str]]] = {
    "gunicorn": (
        ["gunicorn", "-c", "config.py", "-b", "unix:socket", "app:app"],
        {"config.py": CONFIG, "app.py": EMPTY},
    ),
    "uvicorn": (["uvicorn", "--uds", "socket", "app:app"], {"app.py": APP}),
}


@pytest.mark.exhaustive("needs gunicorn and uvicorn")
@pytest.mark.parametrize("name", SERVERS)
def test_killed_worker_loses_its_session(server: ThreadedServer, tmp_path: Path, name: str) -> None:
    """The guardian belongs to the worker that opened the client. Gunicorn starts another one."""
    said = tmp_path / "said"
    command, files = SERVERS[name]
    for file, text in files.items():
        given = {"hosts": server.connect_string, "timeout": TIMEOUT, "file": str(said)}
        (tmp_path / file).write_text(text if text is EMPTY else text.format(**given))
    process = subprocess.Popen([sys.executable, "-m", *command], cwd=tmp_path)
    try:
        until(said.exists, "a worker has connected")
        worker, session = map(int, said.read_text().split())
        guardian = guardian_of(worker)
        assert guardian
        assert worker == process.pid or guardian_of(process.pid) == 0
        said.unlink()
        os.kill(worker, signal.SIGKILL)
        closed(server, session)
        ended(guardian)
        if worker != process.pid:
            until(said.exists, "another worker has connected")
            other, _ = map(int, said.read_text().split())
            assert other != worker
            assert guardian_of(other)
    finally:
        process.terminate()
        process.wait(PATIENCE)
    until(lambda: not server.sessions(), "all sessions are closed")

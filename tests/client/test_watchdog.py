"""The watchdog: code that does not stop by itself is dealt with before its role is given away.

The tests compare the order of events on one clock: when the watchdog acted, and the last
moment at which a witness in another thread still saw the holder's znode on the server.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from client.overrun import BACKENDS, TERM
from kit.checks import no_threads
from kit.cli import SOURCE, Process
from kit.clients import PATIENCE, SESSION, JumpingClock, eventually, hooked
from kit.faults import only_on
from kit.guards import MARGIN
from kit.raw_client import RawClient

import aiolead
from aiolead import Watchdog
from aiolead._client.connect_options import lease_clock
from aiolead.errors import (
    ConfigurationError,
    ConnectFailed,
    LockLost,
    LossReason,
    NoNodeError,
    TenureLost,
    UsageError,
)
from aiolead.testing import EmbeddedServer, FaultProxy, ThreadedServer
from aiolead.types import OverdueHold, Overrun

Record = Callable[[str, object], None]

exhaustive = pytest.mark.exhaustive("one more way to lose a session")


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadedServer]:
    """In a thread of its own: it goes on when the event loop of the test is blocked."""
    with EmbeddedServer.in_thread(tick_time=0.15) as server:
        yield server


@pytest.fixture
def hosts(server: ThreadedServer, chroot: str) -> str:
    with RawClient(server.connect_string) as client:
        client.create(chroot)
    return server.connect_string + chroot


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert guards() == []


def guards() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "watchdog" in thread.name]


def test_process_that_can_start_no_thread_is_refused(hosts: str) -> None:
    async def connect() -> None:
        with pytest.raises(UsageError, match="watchdog: needs a thread, and this process can"):
            async with aiolead.connect(hosts, watchdog=True):
                raise AssertionError("it goes on without its watchdog")

    with no_threads():
        anyio.run(connect)


class Hook:
    """An `on_overrun` that lets the process go on.

    Attributes:
        calls: the overrun of each call, and its time.
        called: set by the first call.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Overrun, float]] = []
        self.called = threading.Event()

    def __call__(self, overrun: Overrun) -> None:
        self.calls.append((overrun, lease_clock()))
        self.called.set()

    def wait(self) -> None:
        """Blocks the event loop until it is called."""
        assert self.called.wait(PATIENCE), "the watchdog did nothing"

    @property
    def holds(self) -> list[tuple[str, LossReason | None]]:
        return [(hold.path, hold.reason) for overrun, _ in self.calls for hold in overrun.holds]

    def connect(self, hosts: str, **options: Any) -> aiolead.types.Connection:
        given = {"session_timeout": SESSION, "watchdog": Watchdog(on_overrun=self), **options}
        return aiolead.connect(hosts, **hooked(**given))

    def connect_with_time(self, hosts: str, session_timeout: float) -> aiolead.types.Connection:
        """With the longest grace period that is allowed, so that a busy machine does not matter."""
        return self.connect(
            hosts, session_timeout=session_timeout, grace_period=session_timeout / 4
        )


class Witness:
    """Watches over a session of its own, in a thread, until a znode is gone.

    Attributes:
        gone: set then.
        last_seen: a moment at which the znode was still there, on the lease's clock.
    """

    def __init__(self, hosts: str, path: str) -> None:
        self.gone = threading.Event()
        self.last_seen = -inf
        self._client = RawClient(hosts)
        self._client.exists(path)
        self._path = path
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        deadline = lease_clock() + PATIENCE
        with self._client, suppress(NoNodeError):
            while lease_clock() < deadline:
                asked = lease_clock()
                self._client.exists(self._path)
                self.last_seen = asked
                self.gone.wait(0.003)
        self.gone.set()

    def wait(self) -> float:
        """Waits until the znode is gone; returns `last_seen`."""
        self._thread.join(PATIENCE)
        assert self.gone.is_set()
        return self.last_seen


def check_in_time(
    hook: Hook, witness: Witness, what: str, record: Record, reason: LossReason | None
) -> OverdueHold:
    """Checks that the watchdog acted once, on one hold, while the znode was still there."""
    ((overrun, at),) = hook.calls
    (hold,) = overrun.holds
    assert hold.reason is reason
    last_seen = witness.wait()
    record(f"{MARGIN}watchdog, {what}", last_seen - at)
    assert at < last_seen, "the znode was gone when the watchdog acted"
    return hold


# --- a blocked event loop ------------------------------------------------------------------------


async def block_until_the_znode_is_gone(
    hosts: str, label: str, record: Record, session_timeout: float = TERM
) -> None:
    hook = Hook()
    async with hook.connect_with_time(hosts, session_timeout) as client:
        with pytest.raises(LockLost) as lost:
            async with aiolead.Lock(client, "/l") as held:
                witness = await anyio.to_thread.run_sync(Witness, hosts, held.path)
                session_id = client.session_id
                assert witness.gone.wait(PATIENCE)  # without letting the event loop run
        hold = check_in_time(hook, witness, label, record, None)
    assert lost.value.reason in (LossReason.UNCONFIRMED, LossReason.EXPIRED)
    assert hold.path.endswith(held.path)
    assert hold.session_id == session_id


async def test_blocked_event_loop_is_noticed_in_time(hosts: str, record_property: Record) -> None:
    await block_until_the_znode_is_gone(hosts, "the event loop is blocked", record_property)


@pytest.mark.exhaustive("the same as on the embedded server")
@only_on("trio")
@pytest.mark.real
async def test_blocked_event_loop_is_noticed_in_time_with_a_real_server(
    request: pytest.FixtureRequest, chroot: str, record_property: Record
) -> None:
    real = request.getfixturevalue("zookeeper").connect_string
    with RawClient(real) as client:
        client.create(chroot)
    label = "the event loop is blocked, ZooKeeper"
    await block_until_the_znode_is_gone(real + chroot, label, record_property, 2.0)


async def test_all_overdue_holds_are_reported_at_once(hosts: str) -> None:
    hook, clock = Hook(), JumpingClock()
    async with hook.connect(hosts, clock=clock) as client:
        election = aiolead.Election(client.chroot("/below"), "/e")
        with pytest.raises(TenureLost):
            async with aiolead.Lock(client, "/a") as a, aiolead.Lock(client, "/b") as b:
                async with election.leadership() as term:
                    clock.jump(SESSION)
                    hook.wait()
        chroot = hosts[hosts.index("/") :]
        paths = {chroot + a.path, chroot + b.path, chroot + "/below" + term.path}
        assert {path for path, _ in hook.holds} == paths
        assert len(hook.calls) == 1
        hook.called.clear()
        with pytest.raises(LockLost):
            async with aiolead.Lock(client, "/a") as again:
                clock.jump(SESSION)
                hook.wait()
        assert hook.holds[3:] == [(chroot + again.path, None)]


async def test_each_client_has_a_watchdog_of_its_own(hosts: str) -> None:
    one, two, idle, clock = Hook(), Hook(), Hook(), JumpingClock()
    async with (
        one.connect(hosts, clock=clock) as first,
        two.connect(hosts, clock=clock) as second,
        idle.connect(hosts, clock=clock) as third,
    ):
        assert len(guards()) == 3
        async with aiolead.Lock(third, "/c"):
            pass
        with pytest.raises(LockLost):
            async with aiolead.Lock(first, "/a") as a, aiolead.Lock(second, "/b") as b:
                clock.jump(SESSION)
                one.wait()
                two.wait()
    assert [len(hook.calls) for hook in (one, two, idle)] == [1, 1, 0]
    assert one.holds[0][0].endswith(a.path)
    assert two.holds[0][0].endswith(b.path)


# --- a cancelled body ---------------------------------------------------------------------------


@contextmanager
def linked(hosts: str) -> Iterator[tuple[FaultProxy, str]]:
    """A proxy in a thread of its own, and the connect string through it."""
    address, slash, chroot = hosts.partition("/")
    host, _, port = address.rpartition(":")
    with FaultProxy(host, int(port)) as proxy:
        yield proxy, proxy.connect_string + slash + chroot


@exhaustive
async def test_body_that_does_not_stop_is_reported(hosts: str, record_property: Record) -> None:
    obedient, stubborn = Hook(), Hook()
    witnesses: dict[Hook, Witness] = {}

    async def hold(through: str, hook: Hook, name: str) -> None:
        async with hook.connect_with_time(through, TERM) as client:
            with pytest.raises(LockLost) as lost:
                async with aiolead.Lock(client, name) as held:
                    witness = await anyio.to_thread.run_sync(Witness, hosts, held.path)
                    witnesses[hook] = witness
                    try:
                        await anyio.sleep_forever()
                    finally:
                        with anyio.CancelScope(shield=hook is stubborn):
                            await anyio.to_thread.run_sync(witness.wait, abandon_on_cancel=True)
            assert lost.value.reason is LossReason.UNCONFIRMED
            # Its time to be given away, and nothing else, passes.
            await anyio.to_thread.run_sync(witness.wait)

    with linked(hosts) as (proxy, through):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold, through, obedient, "/obedient")
            tasks.start_soon(hold, through, stubborn, "/stubborn")
            await eventually(lambda: len(witnesses) == 2, "both hold")
            proxy.blackhole()
    assert obedient.calls == []
    witness, reason = witnesses[stubborn], LossReason.UNCONFIRMED
    check_in_time(stubborn, witness, "a cancelled body is shielded", record_property, reason)


async def test_holder_of_a_deleted_znode_has_its_grace_period(hosts: str) -> None:
    hook = Hook()
    async with hook.connect(hosts) as client:
        with pytest.raises(LockLost) as lost:
            async with aiolead.Lock(client, "/l") as held:
                await client.check(held.path)
                with RawClient(hosts) as operator:
                    operator.delete(held.path)
                try:
                    await held.verify()
                finally:
                    hook.wait()
    assert lost.value.reason is LossReason.DELETED
    assert [reason for _, reason in hook.holds] == [LossReason.DELETED]


async def test_waiter_at_the_front_of_a_semaphore_is_not_reported(hosts: str) -> None:
    """It is next, but it holds nothing: its session may end, and nothing has to stop."""
    hook = Hook()
    with linked(hosts) as (proxy, through), RawClient(hosts) as operator:

        async def is_settled() -> bool:
            """Its permit bears the number of its place in the queue."""
            permits = operator.children("/s/leases")
            return any(re.match(r"\d{10}-", name) for name in permits)

        async def wait(client: aiolead.Client) -> None:
            async with aiolead.Semaphore(client, "/s", 1):
                pytest.fail("there is no room")

        async with (
            aiolead.connect(hosts, session_timeout=SESSION) as other,
            aiolead.Semaphore(other, "/s", 1),
            hook.connect_with_time(through, TERM) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(wait, client)
            await eventually(is_settled, "it is at the front")
            (place,) = operator.children("/s/locks")
            witness = await anyio.to_thread.run_sync(Witness, hosts, f"/s/locks/{place}")
            proxy.blackhole()
            await anyio.to_thread.run_sync(witness.wait)
            tasks.cancel_scope.cancel()
    assert hook.calls == []


# --- closing -------------------------------------------------------------------------------------


async def test_body_that_outlives_a_client_is_reported(server: ThreadedServer, hosts: str) -> None:
    """It is dealt with before the session is closed, which gives its role away."""
    there: list[bool] = []

    def hook(overrun: Overrun) -> None:
        (hold,) = overrun.holds
        assert hold.reason is LossReason.CLOSED
        there.append(hold.path in server.znodes())

    async with anyio.create_task_group() as tasks:
        holds, released = anyio.Event(), anyio.Event()
        watchdog = Watchdog(on_overrun=hook)
        async with aiolead.connect(hosts, session_timeout=SESSION, watchdog=watchdog) as client:

            async def body() -> None:
                with pytest.raises(LockLost):
                    async with aiolead.Lock(client, "/l"):
                        holds.set()
                        with anyio.CancelScope(shield=True):
                            await released.wait()

            tasks.start_soon(body)
            await holds.wait()
        await eventually(lambda: guards() == [], "the thread has ended")
        released.set()
    assert there == [True]


async def test_client_that_could_not_connect_leaves_no_thread() -> None:
    async with FaultProxy("127.0.0.1", 1) as nowhere:
        with pytest.raises(ConnectFailed):
            async with aiolead.connect(nowhere.connect_string, connect_timeout=0.05, watchdog=True):
                pytest.fail("connected")
    assert guards() == []


async def test_healthy_client_has_one_quiet_thread(hosts: str) -> None:
    hook = Hook()
    assert guards() == []
    async with aiolead.connect(hosts, session_timeout=TERM) as client:
        async with aiolead.Lock(client, "/l"):
            assert guards() == []
    async with hook.connect(hosts, session_timeout=TERM) as client:
        assert len(guards()) == 1
        lock = aiolead.Lock(client, "/l")
        for _ in range(20):
            async with lock:
                pass
        async with lock:
            deadlines = {client.backend.lease.deadline}
            await eventually(
                lambda: deadlines.add(client.backend.lease.deadline) or len(deadlines) > 2,
                "the lease is renewed, again and again",
            )
        assert len(guards()) == 1
    assert guards() == []
    assert hook.calls == []


# --- the process ---------------------------------------------------------------------------------


@contextmanager
def program(how: str, hosts: str, backend: str = "trio") -> Iterator[Any]:
    """A process that does not release its lock."""
    script = Path(__file__).with_name("overrun.py")
    with subprocess.Popen(
        [sys.executable, str(script), backend, how, hosts],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def path_of(process: Any) -> str:
    said, path = process.stdout.readline().split()
    assert said == "holds"
    return str(path)


STUCK_IN = {"sleeps": "sleeps", "computes": "computes", "does_not_stop": "anyio"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_process_ends_before_its_znode(hosts: str, backend: str, record_property: Record) -> None:
    """If its event loop is blocked; and if it is partitioned, and its body does not stop."""
    with linked(hosts) as (proxy, through), ExitStack() as stack, ThreadPoolExecutor() as pool:

        def end_of(how: str, process: Any) -> tuple[int, float, Witness]:
            # Each as soon as it holds: it lives for less than a session timeout from then on.
            witness = Witness(hosts, f"/{how}{path_of(process)}")
            if how == "does_not_stop":
                proxy.blackhole()
            return process.wait(PATIENCE), lease_clock(), witness

        processes, ends = {}, {}
        for how in STUCK_IN:
            target = through if how == "does_not_stop" else hosts
            processes[how] = stack.enter_context(program(how, f"{target}/{how}", backend))
            ends[how] = pool.submit(end_of, how, processes[how])
        for how, process in processes.items():
            code, at, witness = ends[how].result()
            check_its_last_words(process.stderr.read().splitlines(), how)
            assert process.stdout.read() == ""
            assert code == 70
            margin = witness.wait() - at
            what = f"watchdog, the process is gone, which {how.replace('_', ' ')}"
            record_property(f"{MARGIN}{what}", margin)
            assert margin > 0, "the znode was gone before the process was"


def check_its_last_words(lines: list[str], how: str) -> None:
    begun = "aiolead: held for too long: "  # behind the warnings of the log, if there are any
    first = next(n for n, each in enumerate(lines) if each.startswith(begun))
    line, *stacks = lines[first:]
    assert f"/{how}/overrun/" in line
    assert ("does not run" in line) == (how != "does_not_stop")
    assert line.endswith("this process ends with exit code 70")
    assert any("most recent call first" in stack for stack in stacks)
    assert any(STUCK_IN[how] in stack for stack in stacks)


def test_process_ends_although_nothing_reads_its_report(hosts: str) -> None:
    """The report does not wait forever, and does not keep other threads from running."""
    assert exit_code("fills_standard_error", hosts) == 70


@exhaustive
def test_process_ends_when_code_lets_go_of_the_interpreter(hosts: str) -> None:
    """A thread of Python cannot do better."""
    assert exit_code("keeps_the_interpreter", hosts) == 70


def exit_code(how: str, hosts: str) -> int:
    with program(how, hosts) as process:
        path_of(process)
        return int(process.wait(PATIENCE))


@exhaustive
def test_process_ends_although_the_hook_fails(hosts: str) -> None:
    with program("has_a_broken_hook", hosts) as process:
        path_of(process)
        assert process.wait(PATIENCE) == 70
        line = process.stderr.readline()
    assert "on_overrun raised ValueError('cannot deal with 1')" in line


def test_stacks_of_any_length_are_reported(hosts: str) -> None:
    """A stack that does not fit is left out: to wait for room would stop the whole interpreter."""
    with program("has_many_threads", hosts) as process, ThreadPoolExecutor() as pool:
        said = pool.submit(process.stderr.read)
        path_of(process)
        assert process.wait(PATIENCE) == 70
        assert said.result(PATIENCE).count("in down") > 500


@exhaustive
@pytest.mark.parametrize("how", ["leaves_a_child", "forks"])
def test_other_processes_are_not_ended(hosts: str, how: str) -> None:
    """A fork has the memory of its parent, but no watchdog."""
    with program(how, hosts) as process:
        path_of(process)
        _, pid = process.stdout.readline().split()
        with Process(int(pid)) as child:
            assert process.wait(PATIENCE) == 70
            assert child.is_running


@exhaustive
def test_stopped_process_ends_when_it_goes_on(hosts: str) -> None:
    """That is too late: only fencing can give more."""
    with program("sleeps", hosts) as process:
        witness = Witness(hosts, path_of(process))
        process.send_signal(signal.SIGSTOP)
        witness.wait()
        assert process.poll() is None
        process.send_signal(signal.SIGCONT)
        assert process.wait(PATIENCE) == 70
        assert "already" in process.stderr.read()


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"watchdog": 1.0}, "watchdog: must be None, a bool or a Watchdog"),
        ({"watchdog": Watchdog}, "watchdog: must be None, a bool or a Watchdog"),
        ({"watchdog": True, "grace_period": 0}, "leaves bodies no time"),
        ({"watchdog": Watchdog(reserve=0.6)}, "may be half of the grace period, 0.5 seconds"),
        ({"watchdog": Watchdog(reserve=0.6), "grace_period": 1.0}, "0.5 seconds, not 0.6"),
    ],
)
def test_invalid_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        aiolead.connect("127.0.0.1:1", **options)


def test_valid_arguments_are_accepted() -> None:
    for watchdog in (None, True, False, Watchdog(), Watchdog(reserve=0.5)):
        aiolead.connect("127.0.0.1:1", watchdog=watchdog)
    assert guards() == []

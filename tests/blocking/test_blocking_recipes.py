"""Every recipe used from threads, with `with` and `for`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import anyio
import pytest
from blocking.threads import Backend, connect
from kit.checks import until
from kit.clients import PATIENCE, Served, eventually
from kit.raw_client import RawClient

import aiolead
from aiolead import blocking
from aiolead.blocking._thread_task import BlockJob, ThreadProxyTask
from aiolead.testing import EmbeddedServer, ThreadedServer
from aiolead.types import Codec, TaskPhase


@pytest.fixture
def user(server: Served, backend: Backend) -> Iterator[blocking.Client]:
    """A client of each kind of server, on each event loop."""
    with connect(server, backend) as client:
        yield client


# --- queues and tasks ----------------------------------------------------------------------------


def test_queue_with_several_workers(user: blocking.Client, threads: ThreadPoolExecutor) -> None:
    """Each item is worked on once, though one worker breaks off."""
    queue = blocking.Queue(user, "/queue")
    done: list[bytes] = []

    def work() -> None:
        with queue.consume() as items:
            for item in items:
                item.check()
                if item.data == b"end":
                    return
                done.append(item.data)
                item.ack()

    queue.put_many([b"%d" % number for number in range(20)])
    with queue.get(timeout=PATIENCE) as first:
        assert first.data == b"0"  # not acknowledged: it is given back
    workers = [threads.submit(work) for _ in range(3)]
    until(lambda: len(done) == 20, "all is done")
    queue.put(b"end")
    for worker in workers:
        worker.result(PATIENCE)
    assert sorted(done, key=int) == [b"%d" % number for number in range(20)]
    with queue.get(timeout=PATIENCE) as left:
        assert left.data == b"end"
        left.ack()
    with queue.try_get() as nothing:
        assert nothing is None
    assert queue.size() == 0


def test_lost_queue_item(own: ThreadedServer, client: blocking.Client) -> None:
    told: list[aiolead.errors.TenureLost] = []
    queue = blocking.Queue(client, "/queue")
    queue.put_many([b"1", b"2"])
    with pytest.raises(aiolead.errors.ClaimLost) as lost:
        with queue.consume(on_lost=told.append) as items:
            for item in items:
                own.expire_session(client.session_id)
                assert item.lost.wait(PATIENCE)
                with pytest.raises(aiolead.errors.ClaimLost):
                    client.get("/")
                # The next one is not to be had: the whole of it is over.
    assert lost.value.token == item.token
    until(lambda: len(told) == 1, "on_lost is called")
    with queue.get(timeout=PATIENCE) as again:
        assert again.data == b"1"


def test_attempts_dead_letters_and_codec_of_a_queue(user: blocking.Client) -> None:
    queue = blocking.Queue(
        user, "/typed", codec=Codec.json(), max_attempts=2, dead_letters="/typed-dead"
    )
    queue.put({"account": 17})
    with queue.get(timeout=PATIENCE) as item:
        assert (item.value, item.attempts) == ({"account": 17}, 1)
        item.retry(delay=0.01)
    with pytest.raises(ZeroDivisionError):
        with queue.get(timeout=PATIENCE) as item:
            raise ZeroDivisionError("no such account")
    with blocking.Queue(user, "/typed-dead", codec=Codec.json()).get(timeout=PATIENCE) as letter:
        assert letter.value == {"account": 17}
        assert letter.dead_letter.attempts == 2
        assert letter.dead_letter.reason == "ZeroDivisionError: no such account"


def test_task_board(user: blocking.Client, threads: ThreadPoolExecutor) -> None:
    board = blocking.TaskBoard(user, "/board")

    def work() -> None:
        with board.claim(timeout=PATIENCE) as task:
            task.report(0.5, "half of it")
            task.finish(task.data.upper())

    name = board.submit(b"shout")
    worker = threads.submit(work)
    result = board.result(name)
    assert (result.data, result.is_failed) == (b"SHOUT", False)
    worker.result(PATIENCE)
    with board.observe() as view:
        states = next(states for states in view if states[name].phase is TaskPhase.DONE)
        assert view.is_live
    assert list(states) == [name]


# --- locks and barriers --------------------------------------------------------------------------


def test_condition(user: blocking.Client, threads: ThreadPoolExecutor) -> None:
    condition = blocking.Condition(user, "/condition")
    ready: list[int] = []

    def wait() -> tuple[int, int]:
        with condition as held:
            before = held.token
            while not ready:
                held.wait()
            held.check()
            return before, held.token

    waiting = threads.submit(wait)
    until(lambda: len(condition.waiters()) == 1, "it waits")
    with condition.acquire(timeout=PATIENCE) as held:
        assert not held.wait(timeout=0.01)
        ready.append(1)
        assert held.notify_all() == 1
    before, after = waiting.result(PATIENCE)
    assert before < after, "another hold, with a token of its own"


def test_barriers(user: blocking.Client, threads: ThreadPoolExecutor) -> None:
    barrier = blocking.Barrier(user, "/barrier")
    barrier.set()
    waiting = threads.submit(barrier.wait)
    assert barrier.is_set()
    assert not waiting.done()
    barrier.remove()
    waiting.result(PATIENCE)

    def meet(number: int) -> int:
        both = blocking.DoubleBarrier(user, "/both", 2, identity=f"thread {number}")
        with both.enter(timeout=PATIENCE) as first:
            # The other one may have left its block by now.
            assert f"thread {number}" in {member.identity for member in both.members()}
            first.check()
        with both as second:
            assert second.round > first.round
        return first.round

    rounds = [threads.submit(meet, number) for number in range(2)]
    assert len({each.result(PATIENCE) for each in rounds}) == 1


def test_multi_lock_and_reentrant_lock(user: blocking.Client, threads: ThreadPoolExecutor) -> None:
    lock, both = blocking.Lock(user, "/a"), blocking.ReadWriteLock(user, "/b")
    assert both.read is both.read
    multi = blocking.MultiLock(both.write, lock)
    assert multi.recipes == (lock, both.write)

    def others() -> list[object]:
        with lock.try_acquire() as first, multi.try_acquire() as second:
            return [first, second]

    with multi as held:
        held.check()
        held.verify()
        assert held.is_held
        assert held.remaining() > 0
        assert [type(each) for each in held.holds] == [blocking.Held, blocking.WriteHeld]
        assert threads.submit(others).result(PATIENCE) == [None, None]
        assert not held.lost.is_set()
    again = blocking.ReentrantLock(user, "/again")
    with again, again:
        assert again.hold_count == 2
        assert threads.submit(lambda: again.hold_count).result(PATIENCE) == 0


def test_loss_of_one_lock_loses_all(own: ThreadedServer, backend: Backend) -> None:
    told: list[aiolead.errors.TenureLost] = []
    with (
        connect(own, backend) as client,
        RawClient(own.connect_string) as operator,
    ):
        multi = blocking.MultiLock(blocking.Lock(client, "/a"), blocking.Lock(client, "/b"))
        with pytest.raises(aiolead.errors.LockLost, match="/b"):
            with multi.acquire(timeout=PATIENCE, on_lost=told.append) as held:
                held.verify()
                operator.delete(held.holds[1].path)
                with pytest.raises(aiolead.errors.LockLost):
                    held.verify()
                assert held.lost.wait(PATIENCE)
                with pytest.raises(aiolead.errors.LockLost):
                    held.check()
        until(lambda: len(told) == 1, "on_lost is called")


def test_unique_names(user: blocking.Client, threads: ThreadPoolExecutor) -> None:
    names = blocking.UniqueNames(user, "/names")

    def claim() -> str:
        with names.claim("worker", timeout=PATIENCE) as held:
            return held.name

    with names.claim("worker") as held:
        assert held.number == 0
        assert names.holders()[held.name].identity == names.identity
        assert threads.submit(claim).result(PATIENCE) != held.name


def test_once(user: blocking.Client, threads: ThreadPoolExecutor) -> None:
    once = blocking.Once(user, "/jobs", ttl=None)

    def claim() -> blocking.Run | None:
        with once.claim("today", timeout=PATIENCE) as run:
            return run

    with pytest.raises(KeyError), once.claim("today"):
        raise KeyError("no invoices")
    with once.claim("today") as run:
        assert run is not None
        assert not run.is_done
        run.check()
        waiting = threads.submit(claim)
        with once.try_claim("tomorrow") as other:
            assert other is not None
            other.release()
    assert run.is_done
    assert waiting.result(PATIENCE) is None
    assert once.is_done("today")
    assert not once.is_done("tomorrow")
    with once.try_claim("today") as again:
        assert again is None


def test_run_that_its_thread_has_not_entered_is_not_marked_as_done() -> None:
    """The thread is interrupted while it waits to enter, after the event loop has entered."""

    async def main() -> None:
        async with EmbeddedServer() as server, aiolead.connect(server.connect_string) as client:
            once = aiolead.Once(client, "/jobs")
            block = BlockJob(object(), once.claim("today"), lambda run: run)
            task = ThreadProxyTask()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(task.run, block)
                await eventually(block.done.is_set, "the block is entered")
                block.is_abandoned = True
                task.abandon(block)
            assert not await once.is_done("today")
            async with once.try_claim("today") as run:
                assert run is not None

    anyio.run(main)


def test_campaign(user: blocking.Client) -> None:
    election = blocking.Election(user, "/election", identity="anna")
    with election.observe() as observed, election.campaign() as states:
        for state in states:
            if state.term is not None:
                assert state.phase is aiolead.Phase.LEADING
                assert isinstance(state.term, blocking.Term)
                state.term.check()
                break
        leaders = next(each.leader for each in observed if each.leader is not None)
        assert leaders.identity == "anna"


# --- values, members, services, views ------------------------------------------------------------


def test_values(user: blocking.Client, threads: ThreadPoolExecutor) -> None:
    counter = blocking.Counter(user, "/counter")
    added = [threads.submit(counter.add, 1) for _ in range(8)]
    assert {each.result(PATIENCE) for each in added} == set(range(1, 9))
    assert counter.compare_and_set(8, 20)
    numbers = blocking.SequenceAllocator(user, "/numbers", block=3)
    assert [numbers.next(), numbers.next()] == [1, 2]
    assert numbers.at_hand == 1
    limit = blocking.RateLimit(user, "/limit", rate=0.001, burst=9)
    calls = [threads.submit(limit.try_acquire) for _ in range(12)]
    assert sum(call.result(PATIENCE) for call in calls) == 9
    with pytest.raises(aiolead.AcquireTimeout):
        limit.acquire(timeout=1)
    limit.set_rate(1000)
    limit.acquire(1000)
    shared = blocking.SharedValue(user, "/shared", 0, codec=aiolead.types.Codec.decimal())
    with shared.observe() as view:
        assert shared.update(lambda value: value + 5).value == 5
        assert next(value for value in view if value) == 5
        assert view.versioned.version == shared.get().version


def test_config(user: blocking.Client, threads: ThreadPoolExecutor) -> None:
    config = blocking.Config(user, "/config", parse=lambda keys: int(keys.get("size", b"0")))

    def wait_for(size: int) -> int:
        return next(value for value in view if value == size)

    with config.observe() as view:
        assert view.value == 0
        waiting = threads.submit(wait_for, 3)
        version = config.publish({"size": b"3"})
        assert waiting.result(PATIENCE) == 3
        until(lambda: view.version == version, "the view has it")
    assert config.get().value == 3
    assert [each.version for each in config.history()][-1:] == [version]


def test_members(user: blocking.Client) -> None:
    group = blocking.Group(user, "/group")
    with group.observe() as view:
        changes = view.changes()
        with group.join(b"1", identity="anna") as membership:
            assert next(changes).member.data == b"1"
            membership.set(b"2")
            assert group.members()["anna"].data == b"2"
            assert membership.is_present
            assert next(iter(membership)).is_present
        left = next(change for change in changes if change.kind is aiolead.types.ChangeKind.LEFT)
        assert left.member.id == "anna"
    with blocking.PersistentNode(user, "/node", b"idle") as node:
        node.set(b"busy")
        assert user.get("/node")[0] == b"busy"
    assert user.exists("/node") is None


def test_services(user: blocking.Client) -> None:
    registry = blocking.ServiceRegistry(user, "/services")
    instance = aiolead.ServiceInstance(name="web", id="1", port=80)
    with registry.register(instance) as registration, registry.observe("web") as view:
        picker = blocking.Picker(view, aiolead.types.RoundRobin())
        picked = picker.pick()
        assert picked is not None
        assert picked.port == 80
        registration.drain()
        assert not next(one for one in view if not one["1"].enabled)["1"].enabled
        assert picker.pick() is None
        assert registry.services() == ["web"]


def test_tree_cache(user: blocking.Client) -> None:
    user.ensure_path("/tree/a/b")
    with blocking.TreeCache(user, "/tree") as tree:
        assert list(tree) == ["/tree", "/tree/a", "/tree/a/b"]
        assert (len(tree), "/tree/a" in tree, tree.children("/tree")) == (3, True, ["a"])
        events = tree.events()
        user.create("/tree/c", b"new")
        assert next(iter(events)).path == "/tree/c"
        node = tree.get("/tree/c")
        assert node is not None
        assert node.data == b"new"


def test_client_operations(user: blocking.Client) -> None:
    with (
        user.watch("/", recursive=True) as events,
        user.observe_data("/a") as data,
        user.observe_children("/") as children,
        user.observe() as states,
    ):
        assert data.value is None
        created = user.create("/a", b"1")
        assert next(iter(events)).path == "/a"  # type: ignore[union-attr]
        content, stat = next(value for value in data if value is not None)
        assert (content, stat) == (b"1", created.stat)
        assert "a" in next(names for names in children if names and "a" in names)
        assert next(iter(states)).state is aiolead.model.SessionState.CONNECTED
    first, names, missing = user.reads().get("/a").get_children("/").get("/missing").result()
    assert first == (b"1", stat)
    assert "a" in names  # type: ignore[operator]
    assert isinstance(missing, aiolead.errors.NoNodeError)
    assert user.get_acl("/a")[0] == list(aiolead.model.OPEN_ACL_UNSAFE)
    with pytest.raises(aiolead.errors.NodeExistsError):
        user.create("/a")
    with pytest.raises(aiolead.errors.InvalidPathError):
        user.create("a")


# --- iterations that end, and misuse --------------------------------------------------------------


def test_iteration_ends_with_its_block_or_its_client(
    own: ThreadedServer, backend: Backend, threads: ThreadPoolExecutor
) -> None:
    seen: list[object] = []

    def follow(view: blocking.DataView) -> None:
        seen.extend(view)

    with connect(own, backend) as client:
        with client.observe_data("/a") as view:
            following = threads.submit(follow, view)
            until(lambda: seen == [None], "it follows")
        following.result(PATIENCE)
        stack = ExitStack()
        view = stack.enter_context(client.observe_data("/a"))
        following = threads.submit(follow, view)
        until(lambda: seen == [None, None], "it follows")
    with pytest.raises(aiolead.errors.ClientClosedError):
        following.result(PATIENCE)
    stack.close()


def test_context_that_is_not_entered_warns(own: ThreadedServer) -> None:
    with blocking.connect(own.connect_string) as client:
        lock = blocking.Lock(client, "/lock")
        with pytest.warns(RuntimeWarning, match="never entered, so nothing was acquired") as caught:
            lock.acquire()
        assert "write `with lock.acquire(timeout=5) as held:`" in str(caught[0].message)
        with pytest.warns(RuntimeWarning, match=r"write `with queue\.consume\(\) as items:`"):
            blocking.Queue(client, "/queue").consume()
        with pytest.raises(
            aiolead.errors.UsageError, match=r"write `with lock\.try_acquire\(\) as held:`"
        ):
            bool(lock.try_acquire())
        with pytest.raises(TypeError, match="context manager"):
            with blocking.Election(client, "/election"):  # type: ignore[attr-defined]
                pass


def test_unopened_objects_name_the_statement_of_threads(client: blocking.Client) -> None:
    with blocking.Queue(client, "/queue").consume() as items:
        pass
    for use in (
        lambda: client.observe_data("/").value,
        lambda: next(client.watch("/")),
        lambda: next(client.observe()),
        lambda: blocking.TreeCache(client, "/").get("/"),
        lambda: blocking.PersistentNode(client, "/node").set(b""),
        lambda: next(items),
    ):
        with pytest.raises(aiolead.errors.UsageError, match="in a thread, `with`"):
            use()


def test_invalid_arguments_are_refused(own: ThreadedServer) -> None:
    with blocking.connect(own.connect_string) as client, blocking.connect(own.connect_string) as b:
        with pytest.raises(
            aiolead.errors.ConfigurationError, match=r"a client of aiolead\.blocking"
        ):
            blocking.Lock(client._target, "/lock")  # type: ignore[attr-defined]
        with pytest.raises(aiolead.errors.ConfigurationError, match="objects of one"):
            blocking.MultiLock(blocking.Lock(client, "/a"), blocking.Lock(b, "/b"))
        with pytest.raises(aiolead.errors.UsageError, match="is given by methods"):
            blocking.Held()
        with pytest.raises(aiolead.errors.InvalidPathError):
            blocking.Lock(client, "lock")
        with pytest.raises(AttributeError):
            blocking.Lok  # type: ignore[attr-defined]  # noqa: B018

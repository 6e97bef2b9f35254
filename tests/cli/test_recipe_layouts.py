"""What is shown of a path: each recipe as what it is, by its layout, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AsyncExitStack

import anyio
import pytest
from kit.cli import Run, kazoo_client, objects
from kit.clients import joined

import aiolead
from aiolead import (
    Barrier,
    Config,
    DelayQueue,
    DoubleBarrier,
    Election,
    Group,
    Lock,
    PriorityQueue,
    Queue,
    Semaphore,
    ServiceInstance,
    ServiceRegistry,
    TaskBoard,
)
from aiolead.cli.contender_queue import places_of
from aiolead.cli.recipe_layouts import BARRIER_MARK
from aiolead.cli.scene import Scene
from aiolead.model import Stat
from aiolead.paths import parent
from aiolead.types import Layout

NOTHING = Stat(**dict.fromkeys(Stat._fields, 0))
OWNER = 0x1234567890ABCDEF
UUID = "8f2a1c0e-5a0b-4b0e-9c55-0123456789ab"
HEX = "0123456789abcdef0123456789abcdef"
N = "0000000007"


def shown(*znodes: str | tuple[str, bytes], paths: tuple[str, ...] = ("/",)) -> dict[str, str]:
    """What is at which path, of znodes of which `!` makes one ephemeral."""
    scene = Scene(paths)
    for one in znodes:
        path, data = (one, b"") if isinstance(one, str) else one
        for above in _above(path):
            scene.put(above, NOTHING, b"")
        stat = NOTHING._replace(ephemeral_owner=OWNER, czxid=1) if path.startswith("!") else NOTHING
        scene.put(path.removeprefix("!"), stat._replace(data_length=len(data)), data)
    scene.settle(1.0)
    found = {queue.path: queue.kind for queue in scene.queues if queue.kind}
    return found | {other.path: other.kind for other in scene.others}


def _above(path: str) -> Iterator[str]:
    above = parent(path.removeprefix("!"))
    while above != "/":
        yield above
        above = parent(above)


# --- znodes that are no contenders ---------------------------------------------------------------


@pytest.mark.parametrize(
    "znode",
    [
        "/seq-0000000000",  # create -s /seq-
        "/late1795382090530790488",
        "!/late1795382090530790488",
        "!/seq-0000000000",
        f"/_c_{UUID}-lock-{N}",  # owned by nobody: it never held anything
        "/jobs/report-2026-0000000001",
        f"!/members/worker-{N}",
        f"!/party/member-{HEX}-x{N}",
    ],
)
def test_a_name_with_a_number_makes_no_contender(znode: str) -> None:
    assert shown(znode) == {}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"_c_{UUID}-lock-{N}", "lock"),
        (f"_c_{UUID}-latch-{N}", "election"),
        (f"_c_{UUID}-__READ__{N}", "read/write lock"),
        (f"{HEX}__lock__{N}", "lock"),
        (f"{HEX}__rlock__{N}", "read/write lock"),
        (f"lock-{HEX}-{N}", "lock"),
        (f"candidate-{HEX}-{N}", "election"),
        (f"_c_{HEX}-lock-{N}", "lock"),
        (f"x-72057594037927936-{N}", "lock"),
        (f"n_{N}", "election"),
        # A layout of the application's own: the session and a count, of 16 digits each.
        (f"{OWNER:016x}000000000000001f-job-{N}", "unknown"),
    ],
)
def test_contenders_of_each_library(name: str, kind: str) -> None:
    assert shown(f"!/app/x/{name}") == {"/app/x": kind}
    assert shown(f"!/{name}") == {"/": kind}
    assert shown(f"/app/x/{name}") == {}


def test_in_a_queue_everything_with_a_number_is_waited_for() -> None:
    """A znode that no session owns blocks whoever comes after it: it must be seen."""
    scene = Scene()
    scene.put(f"/l/_c_{UUID}-lock-0000000001", NOTHING, b"ghost")
    scene.put(f"/l/_c_{UUID}-lock-0000000002", NOTHING._replace(ephemeral_owner=1), b"host")
    scene.settle(1.0)
    (queue,) = scene.queues
    assert [one.identity for one in queue.contenders] == ["ghost", "host"]


@pytest.mark.parametrize(
    ("znodes", "kind"),
    [
        (["/a/x/queue-0000000001", "/a/x/queue-0000000002"], "queue"),
        (["/a/x/queue-1000000050000000001"], "priority queue"),
        (["/a/x/queue-|0199A0B0C0D|0000000001"], "delay queue"),
        (["/a/x/queue-|id|0000000001"], "queue"),
        (["/a/x/qn-0000000001"], "queue"),
        (["/a/x/entry-100-0000000001"], "queue"),
        (["/a/x/entries/entry-100-0000000001", "/a/x/taken"], "queue"),
        (["/a/x/tasks/task-0000000001", "!/a/x/claims/task-0000000001"], "task board"),
        (["/a/x/results/task-0000000001"], "task board"),
        (["/a/x/keys/limit", "/a/x/history/0000000001"], "configuration"),
        (["!/a/x/web-1", "!/a/x/web-2"], "group"),
        ([f"!/a/x/{HEX}__party__"], "group"),
        ([f"!/a/x/{HEX}-web-1"], "group"),
        ([f"!/a/x/party-{HEX}-{N}"], "group"),
        ([f"!/a/x/{UUID}", "/a/x/ready"], "double barrier"),
        ([f"!/a/x/{UUID}"], "double barrier"),
        (["!/a/x/web-1", "/a/x/config"], None),
        ([f"!/a/x/leases/_c_{UUID}-lease-{N}", "/a/x/locks"], "semaphore"),
        ([f"!/a/x/{HEX}", "/a/x-__lock__"], "semaphore"),
        (["/a/x/leases/2026", "/a/x/other"], None),
        (["/a/x/tasks/wash up", "/a/x/results"], None),
        ([("/a/x", BARRIER_MARK)], "barrier"),
        ([("/a/x", b"something else.")], None),
    ],
)
def test_other_recipes(znodes: list[str], kind: str | None) -> None:
    assert shown(*znodes) == ({} if kind is None else {"/a/x": kind})
    assert shown(*reversed(znodes)) == ({} if kind is None else {"/a/x": kind})


def test_a_service() -> None:
    instance = json.dumps({"name": "web", "id": UUID, "address": "10.0.0.7", "port": 80}).encode()
    assert shown((f"!/services/web/{UUID}", instance)) == {"/services/web": "service"}
    assert shown((f"!/services/other/{UUID}", instance)) == {"/services/other": "double barrier"}


def test_a_semaphore_of_kazoos() -> None:
    scene = Scene()
    mine = NOTHING._replace(ephemeral_owner=1)
    scene.put("/s", NOTHING, b"")
    scene.put("/s-__lock__", NOTHING, b"")
    scene.put(f"/s-__lock__/{HEX}__lock__0000000003", mine._replace(czxid=9), b"three")
    for n, name in enumerate((HEX, HEX[::-1])):
        scene.put(f"/s/{name}", mine._replace(czxid=n + 1), f"{n}".encode())
    scene.settle(1.0)
    (queue,) = scene.queues
    assert (queue.path, queue.kind, queue.families) == ("/s", "semaphore", ["kazoo lock"])
    assert [term.identity for term in queue.terms] == ["0", "1"]
    assert [one.identity for one in queue.waiting] == ["three"]


def test_a_queue_stays_one_when_its_items_are_done() -> None:
    scene = Scene()
    for path in ("/q", "/q/queue-0000000000", "/q/queue-0000000001"):
        scene.put(path, NOTHING, b"")
    scene.put("/q-claims", NOTHING, b"")
    scene.put("/q-claims/queue-0000000000", NOTHING._replace(ephemeral_owner=1), b"")
    scene.settle(1.0)
    (queue,) = scene.others
    assert queue.counts == (("items", 2), ("claimed", 1))
    for n in range(2):
        scene.remove(f"/q/queue-000000000{n}")
    scene.settle(2.0)
    assert [(one.kind, one.counts[0]) for one in scene.others] == [("queue", ("items", 0))]
    scene.remove("/q")
    scene.settle(3.0)
    assert scene.others == []


# --- the same of real recipes, as real servers have them -----------------------------------------


async def in_use(client: aiolead.Client, stack: AsyncExitStack) -> dict[str, str]:
    """Put every recipe to use; return what is at which path."""
    await Queue(client, "/r/queue").put(b"1")
    await PriorityQueue(client, "/r/priorities").put(b"1", priority=-3)
    await DelayQueue(client, "/r/delays").put(b"1", delay=60.0)
    await TaskBoard(client, "/r/board").submit(b"1")
    await Config(client, "/r/config").publish({"limit": b"1"})
    await Barrier(client, "/r/barrier").set()
    await stack.enter_async_context(Group(client, "/r/group").join(identity="web-1"))
    instance = ServiceInstance(name="web", address="10.0.0.7", port=80)
    await stack.enter_async_context(ServiceRegistry(client, "/r/services").register(instance))
    await stack.enter_async_context(DoubleBarrier(client, "/r/double", 1).enter())
    await stack.enter_async_context(Election(client, "/r/election").leadership())
    await stack.enter_async_context(Lock(client, "/r/lock").acquire())
    await stack.enter_async_context(Lock(client, "/r/kazoos", layout=Layout.KAZOO).acquire())
    jobs = Layout(lock="{id}-job-")
    await stack.enter_async_context(Lock(client, "/r/own", layout=jobs).acquire())
    await stack.enter_async_context(Semaphore(client, "/r/semaphore", 2).acquire())
    theirs = Semaphore(client, "/r/theirs", 2, layout=Layout.KAZOO)
    await stack.enter_async_context(theirs.acquire())
    await client.create("/r/seq-", mode=aiolead.CreateMode.PERSISTENT_SEQUENTIAL)
    await client.create("/late1795382090530790488")
    return {
        "/r/queue": "queue",
        "/r/priorities": "priority queue",
        "/r/delays": "delay queue",
        "/r/board": "task board",
        "/r/config": "configuration",
        "/r/barrier": "barrier",
        "/r/group": "group",
        "/r/services/web": "service",
        "/r/double": "double barrier",
        "/r/election": "election",
        "/r/lock": "lock",
        "/r/kazoos": "lock",
        "/r/own": "unknown",
        "/r/semaphore": "semaphore",
        "/r/theirs": "semaphore",
    }


async def test_every_recipe_is_shown_as_what_it_is(hosts: str) -> None:
    from aiolead.cli.scene_feed import Feed

    async with aiolead.connect(hosts) as client, AsyncExitStack() as stack:
        expected = await in_use(client, stack)
        feed = Feed(client, ["/"])

        async def work() -> None:
            revision = -1
            while not feed.scene.is_current:
                revision = await feed.changed(revision)

        with anyio.fail_after(30):
            await feed.during(work)
        found = {queue.path: queue.kind for queue in feed.scene.queues if queue.kind}
        found |= {other.path: other.kind for other in feed.scene.others}
        assert found == expected


def test_contenders_of_a_queue_of_items(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        client.create("/q")
        client.create("/q/queue-", b"item", sequence=True)
    nobody = "aiolead: nobody contends for /q (aiolead top --once shows other recipes)"
    assert run("contenders", "/q", hosts=somewhere) == (0, [], [nobody])
    code, out, _ = run("doctor", "/q", "--json", hosts=somewhere)
    assert code == 0
    assert not any(said["check"] == "ghost" for said in objects(out)[:-1])


def test_other_recipes_as_lines_of_text(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        assert run("top", "--once", hosts=somewhere)[1][0].endswith("  /  nobody contends")
        client.create("/barrier", BARRIER_MARK)
        for path, data, count in (
            ("/group/web-{}", b"", 4),
            ("/doubles/" + HEX[:-1] + "{}", b"host:7", 1),
        ):
            client.create(parent(path))
            for n in range(count):
                client.create(path.format(n), data, ephemeral=True)
        client.create("/queue")
        client.create("/queue/queue-", b"item", sequence=True)
        code, out, err = run("top", "--once", hosts=somewhere)
    assert (code, [line.split("  ", 1)[1] for line in out], err) == (
        0,
        [
            "/barrier  barrier",
            "/doubles  double barrier: 1 member: host:7",
            "/group  group: 4 members: web-0, web-1, web-2, ...",
            "/queue  queue: 1 item, 0 claimed",
        ],
        [],
    )


# --- how many may lead ---------------------------------------------------------------------------


async def test_the_number_of_leaders_is_in_the_contenders_names(somewhere: str) -> None:
    async with aiolead.connect(somewhere) as client, anyio.create_task_group() as tasks:
        for n in range(3):
            tasks.start_soon(_lead, Election(client, "/e", identity=f"{n}", leaders=2))
            await joined(client, "/e", n + 1)
        names = await client.get_children("/e")
        assert all("-2leaders-latch-" in name for name in names)
        assert [place.holds for place in places_of(names)] == [True, True, False]
        expected = [
            (one.identity, one.is_holder)
            for one in await Election(client, "/e", leaders=2).contenders()
        ]
        assert expected == [("0", True), ("1", True), ("2", False)]
        tasks.cancel_scope.cancel()


def test_contenders_says_who_says_how_many_lead(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        client.create("/e")
        for n in range(3):
            name = f"/e/0123456789abcdef-{n}-2leaders-latch-"
            client.create(name, b"x", ephemeral=True, sequence=True)
        code, out, err = run("contenders", "/e", hosts=somewhere)
        assert (code, [line.split()[1] for line in out[1:]]) == (0, ["holds", "holds", "waits"])
        assert err == ["aiolead: 2 may lead at once, by the contenders' names"]
        _, out, err = run("contenders", "/e", "--leaders", "1", hosts=somewhere)
        assert ([line.split()[1] for line in out[1:]], err) == (["holds", "waits", "waits"], [])


async def _lead(election: Election) -> None:
    async with election.leadership():
        await anyio.sleep_forever()


@pytest.mark.parametrize(
    ("given", "said", "holding", "leaders", "by"),
    [
        (None, ("", ""), 1, 1, ""),
        (None, ("-2leaders", "-2leaders"), 2, 2, "names"),
        (2, ("", ""), 2, 2, "option"),
        (1, ("-2leaders", "-2leaders"), 1, 1, "option"),
        (None, ("", "-2leaders"), 1, 2, "names"),  # the first one allows no other
        (None, ("-3leaders", "-2leaders"), 2, 3, "names"),
        (None, ("-2leaders", ""), 1, 2, "names"),
    ],
)
def test_how_many_lead(
    given: int | None, said: tuple[str, str], holding: int, leaders: int, by: str
) -> None:
    scene = Scene(leaders=given)
    for n, part in enumerate(said):
        name = f"0123456789abcdef-1{part}-latch-000000000{n}"
        scene.put(f"/e/{name}", NOTHING._replace(ephemeral_owner=1, czxid=n), b"")
    scene.settle(1.0)
    (queue,) = scene.queues
    assert (len(queue.terms), queue.leaders, queue.leaders_by) == (holding, leaders, by)
    assert len(queue.leaders_said) == len(set(said))

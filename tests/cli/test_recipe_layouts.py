"""Each recipe is recognized by its layout, and other znodes are not."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import anyio
import pytest
from cli.scenes import NOTHING, running, until
from kit.cli import Run, kazoo_client, report
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
    Once,
    PriorityQueue,
    Queue,
    RateLimit,
    Semaphore,
    ServiceInstance,
    ServiceRegistry,
    TaskBoard,
)
from aiolead._util.token_bucket import Numbers, Write
from aiolead.cli.contender_queue import places_of
from aiolead.cli.recipe_layouts import BARRIER_MARK
from aiolead.cli.scene import Scene
from aiolead.cli.scene_feed import Feed
from aiolead.paths import parent
from aiolead.types import Layout

OWNER = 0x1234567890ABCDEF
UUID = "8f2a1c0e-5a0b-4b0e-9c55-0123456789ab"
HEX = "0123456789abcdef0123456789abcdef"
N = "0000000007"
LIMIT = Write(Numbers(100, 60, 20)).encode()


def recipes_in(scene: Scene) -> dict[str, str]:
    found = {queue.path: queue.kind for queue in scene.queues if queue.kind}
    return found | {other.path: other.kind for other in scene.others}


def shown(*znodes: str | tuple[str, bytes]) -> dict[str, str]:
    """The recipe at each path, for some znodes; `!` marks an ephemeral one."""
    scene = Scene(("/",))
    for one in znodes:
        marked, data = (one, b"") if isinstance(one, str) else one
        path = marked.removeprefix("!")
        above = path
        while (above := parent(above)) != "/":
            scene.put(above, NOTHING, b"")
        stat = NOTHING if path == marked else NOTHING._replace(ephemeral_owner=OWNER, czxid=1)
        scene.put(path, stat._replace(data_length=len(data)), data)
    scene.settle(1.0)
    return recipes_in(scene)


# --- invented znodes -----------------------------------------------------------------------------


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
def test_name_with_a_number_alone_is_no_contender(znode: str) -> None:
    assert shown(znode) == {}


@pytest.mark.parametrize(
    ("name", "kind", "what", "layout"),
    [
        (f"_c_{UUID}-lock-{N}", "lock", "lock", "curator"),
        (f"_c_{UUID}-latch-{N}", "election", "election", "curator"),
        (f"_c_{UUID}-__READ__{N}", "read/write lock", "reader", "curator"),
        (f"_c_{UUID}-__WRIT__{N}", "read/write lock", "writer", "curator"),
        (f"{HEX}__lock__{N}", "lock", "lock", "kazoo"),
        (f"{HEX}__rlock__{N}", "read/write lock", "reader", "kazoo"),
        (f"lock-{HEX}-{N}", "lock", "lock", ""),
        (f"candidate-{HEX}-{N}", "election", "election", ""),
        (f"_c_{HEX}-lock-{N}", "lock", "lock", "curator"),
        (f"x-72057594037927936-{N}", "lock", "lock", ""),
        (f"n_{N}", "election", "election", ""),
        # A layout of the application's own: the session and a count, of 16 digits each.
        (f"{OWNER:016x}000000000000001f-job-{N}", "unknown", "unknown", ""),
        (f"item{N}", None, "unknown", ""),
    ],
)
def test_contenders_of_each_library_are_recognized(
    name: str, kind: str | None, what: str, layout: str
) -> None:
    assert shown(f"!/app/x/{name}") == ({"/app/x": kind} if kind else {})
    assert shown(f"!/{name}") == ({"/": kind} if kind else {})
    assert shown(f"/app/x/{name}") == {}
    (place,) = places_of([name])
    assert (place.what, place.layout, place.holds) == (what, layout, True)


def test_unowned_znode_in_a_queue_is_a_contender() -> None:
    """It blocks the contenders after it."""
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
        ([("!/a/x/2026-11-20", b"host-1:3")], "group or once"),
        ([("!/a/x/web-1", b"port 80"), "!/a/x/web-2"], "group"),
        ([(f"!/a/x/{HEX}__party__", b"host-1")], "group"),
        (["!/a/x/web-1", "/a/x/config"], None),
        ([f"!/a/x/leases/_c_{UUID}-lease-{N}", "/a/x/locks"], "semaphore"),
        ([f"!/a/x/{HEX}", "/a/x-__lock__"], "semaphore"),
        (["/a/x/leases/2026", "/a/x/other"], None),
        (["/a/x/tasks/wash up", "/a/x/results"], None),
        ([("/a/x", BARRIER_MARK)], "barrier"),
        ([("/a/x", b"something else.")], None),
        ([("/a/x/2026-11-20", b"__DONE__host-1"), "!/a/x/2026-11-21"], "once"),
        ([("/a/x/1", b"host-1"), ("/a/x/2", b"host-2")], None),
        ([("/a/x", LIMIT)], "rate limit"),
        ([("/a/x", LIMIT.replace(b"60", b'"x"'))], None),
    ],
)
def test_recipes_without_contenders_are_recognized(znodes: list[str], kind: str | None) -> None:
    assert shown(*znodes) == ({} if kind is None else {"/a/x": kind})
    assert shown(*reversed(znodes)) == ({} if kind is None else {"/a/x": kind})


def test_service_is_recognized_by_its_data() -> None:
    instance = json.dumps({"name": "web", "id": UUID, "address": "10.0.0.7", "port": 80}).encode()
    assert shown((f"!/services/web/{UUID}", instance)) == {"/services/web": "service"}
    scene = Scene(("/",))
    scene.put(f"/services/web/{UUID}", NOTHING._replace(ephemeral_owner=OWNER), instance)
    scene.settle(1.0)
    assert [one.identity for one in scene.others[0].members] == ["10.0.0.7:80"]
    assert shown((f"!/services/other/{UUID}", instance)) == {"/services/other": "double barrier"}


def test_kazoo_semaphore_has_holders_and_waiters() -> None:
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


def test_empty_queue_stays_a_queue() -> None:
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


# --- real recipes --------------------------------------------------------------------------------


async def in_use(client: aiolead.Client, stack: AsyncExitStack) -> dict[str, str]:
    """Puts every recipe to use; returns the recipe at each path."""
    done = {
        ("/r/queue", "queue"): Queue(client, "/r/queue").put(b"1"),
        ("/r/urgent", "priority queue"): PriorityQueue(client, "/r/urgent").put(b"1", priority=-3),
        ("/r/delays", "delay queue"): DelayQueue(client, "/r/delays").put(b"1", delay=60.0),
        ("/r/board", "task board"): TaskBoard(client, "/r/board").submit(b"1"),
        ("/r/config", "configuration"): Config(client, "/r/config").publish({"limit": b"1"}),
        ("/r/barrier", "barrier"): Barrier(client, "/r/barrier").set(),
        ("/r/once", "once"): _run_key(Once(client, "/r/once")),
        ("/r/limit", "rate limit"): RateLimit(client, "/r/limit", rate=5, per=60).acquire(),
    }
    instance = ServiceInstance(name="web", address="10.0.0.7", port=80)
    registry, jobs = ServiceRegistry(client, "/r/services"), Layout(lock="{id}-job-")
    held = {
        ("/r/group", "group"): Group(client, "/r/group").join(identity="web-1"),
        ("/r/services/web", "service"): registry.register(instance),
        ("/r/double", "double barrier"): DoubleBarrier(client, "/r/double", 1).enter(),
        ("/r/election", "election"): Election(client, "/r/election").leadership(),
        ("/r/lock", "lock"): Lock(client, "/r/lock").acquire(),
        ("/r/kazoos", "lock"): Lock(client, "/r/kazoos", layout=Layout.KAZOO).acquire(),
        ("/r/own", "unknown"): Lock(client, "/r/own", layout=jobs).acquire(),
        ("/r/semaphore", "semaphore"): Semaphore(client, "/r/semaphore", 2).acquire(),
        ("/r/s", "semaphore"): Semaphore(client, "/r/s", 2, layout=Layout.KAZOO).acquire(),
    }
    for call in done.values():
        await call
    for context in held.values():
        await stack.enter_async_context(context)
    await client.create("/r/seq-", mode=aiolead.CreateMode.PERSISTENT_SEQUENTIAL)
    await client.create("/late1795382090530790488")
    return dict([*done, *held])


async def _run_key(once: Once) -> None:
    async with once.claim("2026-11-21"):
        pass


async def test_every_recipe_in_use_is_recognized(hosts: str) -> None:
    async with aiolead.connect(hosts) as client, AsyncExitStack() as stack:
        expected = await in_use(client, stack)
        feed = Feed(client, ["/"])
        async with running(feed):
            await until(feed, lambda: True)
        assert recipes_in(feed.scene) == expected


def test_queue_of_items_has_no_contenders(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere, {"/q/queue-0000000000": b"item"}):
        pass
    nobody = "aiolead: nobody contends for /q (aiolead top --once /q shows what is below)"
    assert run("contenders /q") == (0, [], [nobody])
    findings = report(run, "doctor", "/q")[:-1]
    assert not any(one["check"] == "ghost" for one in findings)


def test_recipes_without_contenders_as_text(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        assert run("top --once")[1][0].endswith("  /  nobody contends")
        client.create("/barrier", BARRIER_MARK)
        for path, data, count in (
            ("/group/web-{}", b"", 4),
            ("/doubles/" + HEX[:-1] + "{}", b"host:7", 1),
        ):
            client.create(parent(path))
            for n in range(count):
                client.create(path.format(n), data, ephemeral=True)
        client.create("/limit", LIMIT)
        client.create("/nightly")
        client.create("/nightly/2026-11-20", b"__DONE__host-1:3")
        client.create("/nightly/2026-11-21", b"host-2:4", ephemeral=True)
        client.create("/weekly")
        client.create("/weekly/2026-47", b"host-2:5", ephemeral=True)
        client.create("/queue")
        client.create("/queue/queue-", b"item", sequence=True)
        code, out, err = run("top --once")
    assert (code, [line.split("  ", 1)[1] for line in out], err) == (
        0,
        [
            "/barrier  barrier: set: processes wait at it",
            "/doubles  double barrier: 1 member: host:7",
            "/group  group: 4 members: web-0, web-1, web-2, ...",
            "/limit  rate limit: 100 in 60 s, at most 20 at once",
            "/nightly  once: 1 running, 1 done: host-2:4",
            "/queue  queue: 1 item, 0 claimed",
            "/weekly  group or once: 1 member: 2026-47",
        ],
        [],
    )


# --- how many may lead ---------------------------------------------------------------------------


async def test_names_of_contenders_have_the_number_of_leaders(somewhere: str) -> None:
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


def test_contenders_command_honours_the_number_of_leaders(run: Run, somewhere: str) -> None:
    names = [f"/e/0123456789abcdef-{n}-2leaders-latch-" for n in range(3)]
    with kazoo_client(somewhere, dict.fromkeys(names, b"x")):
        code, out, err = run("contenders /e")
        assert (code, [line.split()[1] for line in out[1:]]) == (0, ["holds", "holds", "waits"])
        assert err == ["aiolead: 2 may lead at once, by the contenders' names"]
        _, out, err = run("contenders /e --leaders 1")
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
def test_number_of_leaders_comes_from_the_option_or_the_names(
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

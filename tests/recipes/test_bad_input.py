"""What cannot be meant is refused: at the call, or before anything unsafe."""

from __future__ import annotations

import math
import os
import pickle
import re
import socket
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE, contenders_left, eventually, in_memory, nothing_left

from aiolead import ACL, CreateMode, Election, Lock, ReadWriteLock, ReentrantLock, Semaphore
from aiolead._recipes.contention.layouts import LAYOUTS, Role
from aiolead._recipes.contention.neighbours import queue_order
from aiolead.errors import (
    Blame,
    ConfigurationError,
    InvalidACLError,
    InvalidPathError,
    MixedLayoutError,
    NoAuthError,
    SequenceExhaustedError,
)
from aiolead.model import Permission
from aiolead.testing import EmbeddedServer
from aiolead.types import Layout, SequenceWarning

pytestmark = pytest.mark.timeout(60)

PATH = "/contended"
HEX = "0123456789abcdef0123456789abcdef"


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"path": "relative"}, InvalidPathError, "path: must start with '/'"),
    ({"path": "/a/"}, InvalidPathError, "path: must not end"),
    ({"path": "/a//b"}, InvalidPathError, "path: "),
    ({"path": b"/a"}, InvalidPathError, "path: must be a str"),
    ({"path": None}, InvalidPathError, "path: must be a str"),
    ({"path": "/"}, ConfigurationError, "path: the root"),
    ({"identity": ""}, ConfigurationError, "identity: "),
    ({"identity": b"me"}, ConfigurationError, "identity: "),
    ({"identity": 7}, ConfigurationError, "identity: "),
    ({"identity": "\ud800"}, ConfigurationError, "identity: is not valid Unicode"),
    ({"identity": "é" * 2049}, ConfigurationError, "identity: has 4098 bytes"),
    ({"layout": "curator"}, ConfigurationError, "layout: must be a Layout"),
    ({"layout": None}, ConfigurationError, "layout: must be a Layout"),
    ({"on_disconnect": "stay"}, ConfigurationError, "on_disconnect: "),
    ({"on_disconnect": None}, ConfigurationError, "on_disconnect: "),
    ({"acl": []}, ConfigurationError, "acl: "),
    ({"acl": ["world"]}, ConfigurationError, "acl: "),
]


@pytest.mark.parametrize("recipe", [Lock, Election])
async def test_arguments(recipe: Any) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        before = server.packets_in
        for arguments, error, says in BAD:
            with pytest.raises(error, match=f"^{says}"):
                recipe(client, **{"path": PATH, **arguments})
        await anyio.lowlevel.checkpoint()
        assert server.packets_in == before


async def test_how_many_leaders() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        for leaders in (0, -1, 1001, 1.0, "2", True, None):
            with pytest.raises(ConfigurationError, match=r"^leaders: must be from 1 to 1000"):
                Election(client, PATH, leaders=leaders)  # type: ignore[arg-type]


async def test_how_long_to_wait() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        for ask in (Lock(client, PATH).acquire, Election(client, PATH).leadership):
            for wait in (-1, -0.001, math.nan, "5", True, b""):
                with pytest.raises(ConfigurationError, match=r"^timeout: must be None or seconds"):
                    ask(timeout=wait)  # type: ignore[arg-type]


async def test_what_is_meant_is_taken() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        assert Lock(client, PATH).identity == f"{socket.gethostname()}:{os.getpid()}"
        for identity in ("x" * 4096, "é" * 2048, "名前", "a b\n"):
            election = Election(client, PATH, identity=identity, leaders=1000)
            async with election.leadership(timeout=math.inf):
                leader = await election.leader()
                assert leader is not None
                assert leader.identity == identity


# --- neighbours that do not fit ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "layout", "neighbour"),
    [
        (Lock, Layout.CURATOR, f"{HEX}__lock__0000000000"),
        (Lock, Layout.CURATOR, "latch-0000000000"),
        (Election, Layout.CURATOR, "lock-0000000000"),
        (Lock, Layout.CURATOR, f"lock-{HEX}-0000000000"),
        (Lock, Layout.KAZOO, "lock-0000000000"),
        (Election, Layout.KAZOO, "_c_x-latch-0000000000"),
        (Lock, Layout.GO, f"{HEX}__lock__0000000000"),
        (Lock, Layout.AIOZK, f"_c_{HEX}-lock-0000000000"),
        (Election, Layout.AIOZK, f"lock-{HEX}-0000000000"),
        (Lock, Layout.WRITE_LOCK, f"{HEX}__lock__0000000000"),
        (Lock, Layout(lock="{id}-job-"), f"lock-{HEX}-0000000000"),
    ],
    ids=repr,
)
async def test_who_would_not_be_excluded_is_refused(
    recipe: Any, layout: Layout, neighbour: str
) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.create(PATH)
        await client.create(f"{PATH}/{neighbour}", mode=CreateMode.EPHEMERAL)
        subject = recipe(client, PATH, layout=layout)
        hold = subject.acquire if isinstance(subject, Lock) else subject.leadership
        for wait in (None, 0, PATIENCE):
            with anyio.fail_after(PATIENCE), pytest.raises(MixedLayoutError) as caught:
                await hold(timeout=wait).__aenter__()
            assert caught.value.neighbour == f"{PATH}/{neighbour}"
            assert caught.value.session_id == client.session_id
            assert f"(of session 0x{client.session_id:x}) " in str(caught.value)
            assert caught.value.blame is Blame.CALLER
        with pytest.raises(MixedLayoutError, match="of session"):
            await (subject.holders() if isinstance(subject, Lock) else subject.leader())
        assert (stat := await client.exists(PATH)) is not None
        assert stat.cversion == 1, "nothing was written"
        await client.delete(f"{PATH}/{neighbour}")
        async with hold(timeout=0):
            pass


async def test_a_neighbour_that_goes_at_once_is_none() -> None:
    """It was listed, and has gone by the time that its owner is asked for."""
    async with EmbeddedServer() as server, in_memory(server) as client:
        names = ["lock-0000000001", f"{HEX}__lock__0000000000"]
        assert await queue_order(client, PATH, names, Layout.CURATOR, Role.LOCK) == names[:1]


FORMLESS = [
    (Election, {"layout": Layout.GO}),
    (Election, {"layout": Layout.WRITE_LOCK}),
    (Election, {"layout": Layout(lock="{id}-job-")}),
    (Lock, {"layout": Layout(election="{id}-job-")}),
    (ReentrantLock, {"layout": Layout(election="{id}-job-")}),
    (ReadWriteLock, {"layout": Layout.GO}),
    (ReadWriteLock, {"layout": Layout.WRITE_LOCK}),
    (ReadWriteLock, {"layout": Layout(lock="{id}-job-")}),
    (Semaphore, {"limit": 1, "layout": Layout.GO}),
    (Semaphore, {"limit": 1, "layout": Layout.AIOZK}),
    (Semaphore, {"limit": 1, "layout": Layout.WRITE_LOCK}),
    (Semaphore, {"limit": 1, "layout": Layout(lock="{id}-job-")}),
]


async def test_a_layout_that_a_recipe_cannot_have_is_refused_before_anything_is_sent() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        before = server.packets_in
        for recipe, arguments in FORMLESS:
            with pytest.raises(ConfigurationError, match=f"^layout: .* {recipe.__name__}"):
                recipe(client, PATH, **arguments)
        await anyio.lowlevel.checkpoint()
        assert server.packets_in == before


async def test_a_layout_of_ones_own() -> None:
    layout = Layout(lock="{id}-job-", election="{id}-boss-", read="r-{id}-", write="w-{id}-")
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        async with Lock(a, "/l", layout=layout) as held:
            assert re.fullmatch(r"/l/[0-9a-f]{32}-job-0{10}", held.path)
            async with Lock(b, "/l", layout=layout).try_acquire() as none:
                assert none is None
            # One that another program has given: its id is its own business.
            await b.create("/l/x-job-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
            assert len(await Lock(b, "/l", layout=layout).contenders()) == 2
        async with Election(a, "/e", layout=layout).leadership() as term:
            assert "-boss-" in term.path
        mine, other = (ReadWriteLock(client, "/rw", layout=layout) for client in (a, b))
        async with mine.write as writes:
            async with other.read.try_acquire() as reads:
                assert reads is None
            await writes.downgrade()
            assert writes.path.startswith("/rw/r-")
            async with other.read.try_acquire() as reads:
                assert reads is not None


@pytest.mark.parametrize("recipe", [Lock, Election])
async def test_kazoos_layout_contends_as_any_other(recipe: Any) -> None:
    entered: list[str] = []

    async def use(subject: Any, name: str) -> None:
        async with subject.acquire() if isinstance(subject, Lock) else subject.leadership():
            entered.append(name)
            await anyio.lowlevel.checkpoint()

    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        first = Lock(a, PATH, layout=Layout.KAZOO)
        async with anyio.create_task_group() as tasks, first as held:
            assert Layout.KAZOO._is_like_ours(Role.LOCK, held.path.rpartition("/")[2])
            for number, client in enumerate((b, a, b)):
                subject = recipe(client, PATH, layout=Layout.KAZOO)
                tasks.start_soon(use, subject, str(number))
                count = number + 2
                await eventually(
                    lambda count=count: len(contenders_left(server, PATH)) == count, "it has joined"
                )
            assert entered == []
        assert entered == ["0", "1", "2"]
        await nothing_left(server, PATH)


# --- the end of the numbers --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::aiolead.types.SequenceWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_the_last_number_is_given_to_nobody(layout: Layout) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.create(PATH)
        server.set_sequence(PATH, 2147483645)
        lock = Lock(client, PATH, layout=layout)
        for _ in range(2):
            async with lock:
                pass
        for _ in range(3):
            with anyio.fail_after(PATIENCE), pytest.raises(SequenceExhaustedError) as caught:
                async with lock:
                    pytest.fail("whoever has this number, another one may have it, too")
            assert caught.value.path == PATH
            await nothing_left(server, PATH)
        # The cure that the message names.
        await client.delete(PATH)
        async with lock:
            pass


async def test_the_end_is_told_of_from_afar() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.create(PATH)
        lock, last = Lock(client, PATH), 0x7FFF_FFFF
        server.set_sequence(PATH, last // 2 - 1)
        async with lock:
            pass  # Not yet.
        for used, number in ((50, last // 2 + 1), (95, last * 97 // 100), (95, last - 1)):
            server.set_sequence(PATH, number)
            with pytest.warns(SequenceWarning, match=f"^{PATH} has used up ") as told:
                async with lock:
                    pass
            (warning,) = (one.message for one in told)
            assert isinstance(warning, SequenceWarning)
            assert (warning.path, warning.sequence) == (PATH, number)
            assert warning.left == last - 1 - number
            assert vars(pickle.loads(pickle.dumps(warning))) == vars(warning)
            assert f" {used} % " in str(warning)
        # Who makes errors of warnings gets this one, and nothing is left.
        server.set_sequence(PATH, last - 10)
        with pytest.raises(SequenceWarning):
            await lock.__aenter__()
        await nothing_left(server, PATH)


@pytest.mark.filterwarnings("ignore::aiolead.types.SequenceWarning")
async def test_who_waits_as_the_numbers_end_gets_its_turn() -> None:
    entered = []

    async def use() -> None:
        async with lock:
            entered.append(1)

    async with EmbeddedServer() as server, in_memory(server) as client, in_memory(server) as late:
        await client.create(PATH)
        server.set_sequence(PATH, 2147483645)
        lock = Lock(client, PATH)
        async with anyio.create_task_group() as tasks, lock:
            tasks.start_soon(use)
            await eventually(lambda: len(contenders_left(server, PATH)) == 2, "it waits")
            with anyio.fail_after(PATIENCE), pytest.raises(SequenceExhaustedError):
                await Lock(late, PATH).acquire().__aenter__()
            await eventually(lambda: len(contenders_left(server, PATH)) == 2, "that one has left")
            assert entered == []
        assert entered == [1]
        await nothing_left(server, PATH)


# --- what the server refuses -------------------------------------------------------------------


async def test_who_may_not_create_is_told() -> None:
    read_only = [ACL(Permission.READ, "world", "anyone")]
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.create(PATH, acl=read_only)
        lock = Lock(client, PATH)
        for _ in range(2):
            with anyio.fail_after(PATIENCE), pytest.raises(NoAuthError):
                await lock.__aenter__()
        with anyio.fail_after(PATIENCE), pytest.raises(InvalidACLError):
            await Lock(client, "/other", acl=[ACL(Permission.ALL, "no", "such")]).__aenter__()
        await nothing_left(server, PATH)

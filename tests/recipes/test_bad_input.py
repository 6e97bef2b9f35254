"""What cannot be meant is refused: at the call, or before anything unsafe."""

from __future__ import annotations

import math
import os
import socket
from typing import Any

import anyio
import pytest
from support.recipes import PATIENCE, contenders_left, eventually, in_memory, nothing_left

from aiolead import (
    ACL,
    Blame,
    ConfigurationError,
    Election,
    InvalidACLError,
    InvalidPathError,
    Layout,
    Lock,
    MixedLayoutError,
    NoAuthError,
    Permission,
    SequenceExhaustedError,
)
from aiolead._recipes.layout import Role
from aiolead.testing import EmbeddedServer

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
    ({"on_suspend": "ride_out"}, ConfigurationError, "on_suspend: "),
    ({"on_suspend": None}, ConfigurationError, "on_suspend: "),
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
        for ask in (Lock(client, PATH).hold, Election(client, PATH).leadership):
            for wait in (-1, -0.001, math.nan, "5", True, b""):
                with pytest.raises(ConfigurationError, match=r"^wait: must be None or seconds"):
                    ask(wait=wait)  # type: ignore[arg-type]


async def test_what_is_meant_is_taken() -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        assert Lock(client, PATH).identity == f"{socket.gethostname()}:{os.getpid()}"
        for identity in ("x" * 4096, "é" * 2048, "名前", "a b\n"):
            election = Election(client, PATH, identity=identity, leaders=1000)
            async with election.leadership(wait=math.inf):
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
        (Lock, Layout.KAZOO, "lock-0000000000"),
        (Election, Layout.KAZOO, "_c_x-latch-0000000000"),
    ],
)
async def test_who_would_not_be_excluded_is_refused(
    recipe: Any, layout: Layout, neighbour: str
) -> None:
    async with EmbeddedServer() as server, in_memory(server) as client:
        await client.create(PATH)
        await client.create(f"{PATH}/{neighbour}")
        subject = recipe(client, PATH, layout=layout)
        hold = subject.hold if isinstance(subject, Lock) else subject.leadership
        for wait in (None, 0, PATIENCE):
            with anyio.fail_after(PATIENCE), pytest.raises(MixedLayoutError) as caught:
                await hold(wait=wait).__aenter__()
            assert caught.value.neighbour == f"{PATH}/{neighbour}"
            assert caught.value.blame is Blame.CALLER
        await eventually(lambda: len(contenders_left(server, PATH)) == 1, "only that one is left")
        await client.delete(f"{PATH}/{neighbour}")
        async with hold(wait=0):
            pass


@pytest.mark.parametrize("recipe", [Lock, Election])
async def test_kazoos_layout_contends_as_any_other(recipe: Any) -> None:
    entered: list[str] = []

    async def use(subject: Any, name: str) -> None:
        async with subject.hold() if isinstance(subject, Lock) else subject.leadership():
            entered.append(name)
            await anyio.lowlevel.checkpoint()

    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        first = Lock(a, PATH, layout=Layout.KAZOO)
        async with anyio.create_task_group() as tasks, first as held:
            assert Layout.KAZOO.is_like_ours(Role.LOCK, held.path.rpartition("/")[2])
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


@pytest.mark.parametrize("layout", Layout)
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
                await Lock(late, PATH).hold().__aenter__()
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

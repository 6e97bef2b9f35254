"""Znodes and rights that a contender cannot live with: refused before anything unsafe."""

from __future__ import annotations

import pickle
import re
from typing import Any

import anyio
import pytest
from kit.clients import PATIENCE, contenders_left, eventually, in_memory, nothing_left
from recipes.blocks import enter
from recipes.crowd import crowd

from aiolead import ACL, Client, CreateMode, Election, Lock, ReadWriteLock
from aiolead._recipes.layouts import CURATOR, LAYOUTS, Role
from aiolead._recipes.neighbours import queue_order
from aiolead.errors import (
    Blame,
    InvalidACLError,
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
LAST = 0x7FFF_FFFF


def hold(subject: Any, timeout: float | None = None) -> Any:
    return (subject.acquire if isinstance(subject, Lock) else subject.leadership)(timeout=timeout)


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
async def test_contender_is_refused_beside_one_that_it_would_not_exclude(
    local: Client, recipe: Any, layout: Layout, neighbour: str
) -> None:
    await local.create(PATH)
    await local.create(f"{PATH}/{neighbour}", mode=CreateMode.EPHEMERAL)
    subject = recipe(local, PATH, layout=layout)
    for wait in (None, 0, PATIENCE):
        with anyio.fail_after(PATIENCE), pytest.raises(MixedLayoutError) as caught:
            await hold(subject, wait).__aenter__()
        assert caught.value.neighbour == f"{PATH}/{neighbour}"
        assert caught.value.session_id == local.session_id
        assert f"(of session 0x{local.session_id:x}) " in str(caught.value)
        assert caught.value.blame is Blame.CALLER
    with pytest.raises(MixedLayoutError, match="of session"):
        await (subject.holders() if recipe is Lock else subject.leader())
    assert (stat := await local.exists(PATH)) is not None
    assert stat.cversion == 1, "nothing was written"
    await local.delete(f"{PATH}/{neighbour}")
    await enter(hold(subject, 0))


async def test_neighbour_that_is_gone_when_its_owner_is_asked_for_is_none(local: Client) -> None:
    names = ["lock-0000000001", f"{HEX}__lock__0000000000"]
    assert await queue_order(local, PATH, names, CURATOR.names[Role.LOCK]) == names[:1]


async def test_layout_of_the_application(embedded_server: EmbeddedServer, local: Client) -> None:
    layout = Layout(lock="{id}-job-", election="{id}-boss-", read="r-{id}-", write="w-{id}-")
    async with in_memory(embedded_server) as b:
        async with Lock(local, "/l", layout=layout) as held:
            assert re.fullmatch(r"/l/[0-9a-f]{32}-job-0{10}", held.path)
            async with Lock(b, "/l", layout=layout).try_acquire() as none:
                assert none is None
            # Another program may give any id.
            await b.create("/l/x-job-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
            assert len(await Lock(b, "/l", layout=layout).contenders()) == 2
        async with Election(local, "/e", layout=layout).leadership() as term:
            assert "-boss-" in term.path
        mine, other = (ReadWriteLock(each, "/rw", layout=layout) for each in (local, b))
        async with mine.write as writes:
            async with other.read.try_acquire() as reads:
                assert reads is None
            await writes.downgrade()
            assert writes.path.startswith("/rw/r-")
            async with other.read.try_acquire() as reads:
                assert reads is not None


# --- the end of the numbers --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::aiolead.types.SequenceWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_last_number_is_given_to_nobody(
    embedded_server: EmbeddedServer, local: Client, layout: Layout
) -> None:
    await local.create(PATH)
    embedded_server.set_sequence(PATH, LAST - 2)
    lock = Lock(local, PATH, layout=layout)
    for _ in range(2):
        await enter(lock)
    for _ in range(3):
        with anyio.fail_after(PATIENCE), pytest.raises(SequenceExhaustedError) as caught:
            await enter(lock)
        assert caught.value.path == PATH
        await nothing_left(embedded_server, PATH)
    # The cure that the message names.
    await local.delete(PATH)
    await enter(lock)


async def test_end_of_the_numbers_is_warned_of_early(
    embedded_server: EmbeddedServer, local: Client
) -> None:
    await local.create(PATH)
    lock = Lock(local, PATH)
    embedded_server.set_sequence(PATH, LAST // 2 - 1)
    await enter(lock)  # Not yet.
    for used, number in ((50, LAST // 2 + 1), (95, LAST * 97 // 100), (95, LAST - 1)):
        embedded_server.set_sequence(PATH, number)
        with pytest.warns(SequenceWarning, match=f"^{PATH} has used up ") as told:
            await enter(lock)
        (warning,) = (one.message for one in told)
        assert isinstance(warning, SequenceWarning)
        assert (warning.path, warning.sequence) == (PATH, number)
        assert warning.left == LAST - 1 - number
        assert vars(pickle.loads(pickle.dumps(warning))) == vars(warning)
        assert f" {used} % " in str(warning)
    # A program that makes errors of warnings gets this one, and nothing is left.
    embedded_server.set_sequence(PATH, LAST - 10)
    with pytest.raises(SequenceWarning):
        await lock.__aenter__()
    await nothing_left(embedded_server, PATH)


@pytest.mark.filterwarnings("ignore::aiolead.types.SequenceWarning")
async def test_waiter_gets_its_turn_although_the_numbers_have_ended(
    embedded_server: EmbeddedServer, local: Client
) -> None:
    async def are_queued(count: int) -> None:
        await eventually(lambda: len(contenders_left(embedded_server, PATH)) == count, "it waits")

    await local.create(PATH)
    embedded_server.set_sequence(PATH, LAST - 2)
    async with in_memory(embedded_server) as late, crowd() as them:
        async with Lock(local, PATH):
            them.come("waiter", to=Lock(local, PATH))
            await are_queued(2)
            with anyio.fail_after(PATIENCE), pytest.raises(SequenceExhaustedError):
                await Lock(late, PATH).acquire().__aenter__()
            await are_queued(2)
            assert them.log == []
        await them.are_inside("waiter")
    await nothing_left(embedded_server, PATH)


# --- what the server refuses -------------------------------------------------------------------


async def test_refused_create_is_raised(embedded_server: EmbeddedServer, local: Client) -> None:
    await local.create(PATH, acl=[ACL(Permission.READ, "world", "anyone")])
    lock = Lock(local, PATH)
    for _ in range(2):
        with anyio.fail_after(PATIENCE), pytest.raises(NoAuthError):
            await lock.__aenter__()
    with anyio.fail_after(PATIENCE), pytest.raises(InvalidACLError):
        await Lock(local, "/other", acl=[ACL(Permission.ALL, "no", "such")]).__aenter__()
    await nothing_left(embedded_server, PATH)

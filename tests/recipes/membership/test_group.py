"""Groups: their members with their data, and the changes of these."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest
from kit.clients import (
    PATIENCE,
    Link,
    catch_up,
    eventually,
    in_memory,
    losing_the_link,
    nothing_left,
    stopped_clock,
    watches_the_bytes,
)

from aiolead import Client, CreateMode, Group
from aiolead.errors import ClientClosedError
from aiolead.testing import EmbeddedServer
from aiolead.types import ChangeKind, Member, MemberChange, MembersView

pytestmark = pytest.mark.timeout(60)

PATH = "/app/group"

JOINED, UPDATED, LEFT = ChangeKind.JOINED, ChangeKind.UPDATED, ChangeKind.LEFT


def data_of(view: MembersView) -> dict[str, bytes]:
    return {name: member.data for name, member in view.value.items()}


async def sees(view: MembersView, **members: bytes) -> None:
    """Waits until the view has these members, and no others."""
    await eventually(lambda: data_of(view) == members, f"{members}, not {data_of(view)}")


async def test_view_shows_members_that_come_change_and_go(a: Client, b: Client) -> None:
    mine, theirs = Group(a, PATH), Group(b, PATH)
    async with theirs.observe() as view:
        assert dict(view.value) == {}
        async with mine.join(b"one", identity="a") as membership:
            await sees(view, a=b"one")
            member = view.value["a"]
            stat = await a.exists(membership.path)
            assert stat is not None
            assert member == Member(
                "a", b"one", a.session_id, stat.czxid, stat.mzxid, stat.ctime / 1000
            )
            assert (membership.identity, membership.path) == ("a", f"{PATH}/a")
            await membership.set(b"two")
            await sees(view, a=b"two")
            assert view.value["a"].czxid == member.czxid
            assert view.value["a"].mzxid > member.mzxid
            async with theirs.join() as one, theirs.join() as other:
                await sees(view, a=b"two", **{one.identity: b"", other.identity: b""})
                await catch_up(b)
                assert await theirs.members() == dict(view.value)
            await sees(view, a=b"two")
            await eventually(lambda: view.is_live, "it is watched")
        await sees(view)
    assert await theirs.members() == {}


async def test_missing_path_is_an_empty_group(a: Client, b: Client) -> None:
    async with Group(b, PATH).observe() as view:
        assert view.is_live
        for _ in range(2):
            await a.ensure_path(PATH)  # not a container: the server might reap that first
            async with Group(a, PATH).join(identity="a"):
                await sees(view, a=b"")
            await sees(view)
            await a.delete(PATH)
            await eventually(lambda: view.is_live, "it is watched")


async def test_changes_name_the_member_and_what_it_was_before(a: Client, b: Client) -> None:
    async with Group(b, PATH).observe() as view:
        changes = view.changes()
        async with Group(a, PATH).join(b"1", identity="a") as membership:
            joined = await anext(changes)
            await membership.set(b"2")
            updated = await anext(changes)
        left = await anext(changes)
        assert (joined.kind, joined.member.id, joined.before) == (JOINED, "a", None)
        assert (updated.kind, updated.before) == (UPDATED, joined.member)
        assert (joined.member.data, updated.member.data) == (b"1", b"2")
        assert left == MemberChange(LEFT, updated.member, updated.member)


async def test_changes_after_a_gap_are_the_differences(a: Client, b: Client) -> None:
    group = Group(a, PATH)
    async with Group(b, PATH).observe() as view:
        changes = view.changes()
        async with group.join(b"1", identity="stays") as stays:
            assert (await anext(changes)).member.id == "stays"
            async with group.join(identity="goes"):
                assert (await anext(changes)).member.id == "goes"
                async with group.join(identity="flickers"):
                    pass
                await stays.set(b"2")
                await stays.set(b"3")
            # Left, and joined again since.
            async with group.join(b"again", identity="goes"):
                await sees(view, stays=b"3", goes=b"again")
                told = [await anext(changes) for _ in range(3)]
                assert [(c.kind, c.member.id) for c in told] == [
                    (LEFT, "goes"),
                    (JOINED, "goes"),
                    (UPDATED, "stays"),
                ]
                assert told[2].before is not None
                assert (told[2].before.data, told[2].member.data) == (b"1", b"3")
                # Another reader begins with everybody.
                others = view.changes()
                both = [await anext(others), await anext(others)]
                assert {c.kind for c in both} == {JOINED}


# --- links and sessions ------------------------------------------------------------------------


@watches_the_bytes
@pytest.mark.parametrize("what", ["link", "session"])
async def test_changes_during_an_outage_are_reported_after_it(what: str) -> None:
    """A znode that was created again is another one, of the same version (CURATOR-311)."""
    async with EmbeddedServer() as server, in_memory(server) as a:
        wire = Link(server)
        await a.ensure_path(PATH)
        for name in ("deleted", "made-anew", "set", "same"):
            await a.create(f"{PATH}/{name}", b"before", mode=CreateMode.EPHEMERAL)
        async with wire.connect() as b, Group(b, PATH).observe() as view:
            changes = view.changes()
            told = [await anext(changes) for _ in range(4)]
            assert {change.member.id for change in told} == {"deleted", "made-anew", "set", "same"}
            wire.stall("to_client")
            (server.disconnect if what == "link" else server.expire_session)(b.session_id)
            await a.delete(f"{PATH}/deleted")
            await a.delete(f"{PATH}/made-anew")
            await a.create(f"{PATH}/made-anew", b"before", mode=CreateMode.EPHEMERAL)
            await a.set(f"{PATH}/set", b"after")
            await a.create(f"{PATH}/new", b"", mode=CreateMode.EPHEMERAL)
            wire.heal()
            await sees(
                view, **{"made-anew": b"before", "set": b"after", "same": b"before", "new": b""}
            )
            await eventually(lambda: view.is_live, "it is watched again")
            with anyio.fail_after(PATIENCE):
                after = [await anext(changes) for _ in range(5)]
            assert [(change.kind, change.member.id) for change in after] == [
                (LEFT, "deleted"),
                (LEFT, "made-anew"),
                (JOINED, "made-anew"),
                (JOINED, "new"),
                (UPDATED, "set"),
            ]
            await a.delete(f"{PATH}/same")
            assert (await anext(changes)).member.id == "same"


async def test_member_whose_session_expires_joins_again() -> None:
    async with EmbeddedServer() as server, in_memory(server) as a, in_memory(server) as b:
        async with Group(b, PATH).observe() as view:
            changes = view.changes()
            async with Group(a, PATH).join(b"1", identity="m") as membership:
                assert (await anext(changes)).kind is JOINED
                before = a.session_id
                server.expire_session(before)
                await membership.set(b"2")
                kinds: list[ChangeKind] = []
                while view.value.get("m") is None or view.value["m"].data != b"2" or len(kinds) < 2:
                    kinds.append((await anext(changes)).kind)
                assert kinds[:2] == [LEFT, JOINED]
                assert view.value["m"].session_id == a.session_id != before
            assert (await anext(changes)).kind is LEFT
        await nothing_left(server, PATH)


async def test_views_end_with_their_client() -> None:
    async with EmbeddedServer() as server:
        async with in_memory(server) as client:
            async with Group(client, PATH).observe() as view:
                changes = view.changes()
                other = Group(client, PATH).observe()
                await other.__aenter__()
            with pytest.raises(StopAsyncIteration):
                await anext(changes)
        with pytest.raises(ClientClosedError):
            async for _ in other.changes():
                pytest.fail("nobody is there")


# --- what it costs -----------------------------------------------------------------------------


@watches_the_bytes
async def test_each_change_costs_the_same_in_a_group_of_any_size() -> None:
    """No change has everything read again."""
    async with EmbeddedServer(tick_time=3) as server:
        a_wire, b_wire = Link(server), Link(server)
        async with (
            a_wire.connect(session_timeout=60, clock=stopped_clock) as a,
            b_wire.connect(session_timeout=60, clock=stopped_clock) as b,
        ):
            await a.ensure_path(PATH)
            for number in range(100):
                await a.create(f"{PATH}/m{number:03}", b"", mode=CreateMode.EPHEMERAL)
            before = server.requests.copy()
            async with Group(b, PATH).observe() as view:
                assert len(view.value) == 100
                assert server.requests - before == {"GET_CHILDREN": 1, "GET_DATA": 100}
                assert sum(b.session_id in who for who in server.watches().values()) == 101

                before = server.requests.copy()
                await a.set(f"{PATH}/m050", b"x")
                await eventually(lambda: view.value["m050"].data == b"x", "it is seen")
                await eventually(lambda: view.is_live, "it is watched")
                assert server.requests - before == {"SET_DATA": 1, "GET_DATA": 1}

                before = server.requests.copy()
                await a.create(f"{PATH}/new", b"", mode=CreateMode.EPHEMERAL)
                await eventually(lambda: "new" in view.value, "it is seen")
                cost = server.requests - before
                assert cost == {"CREATE2": 1, "GET_CHILDREN": 1, "GET_DATA": 1}

                before = server.requests.copy()
                await a.delete(f"{PATH}/m051")
                await eventually(lambda: "m051" not in view.value, "it is seen")
                await eventually(lambda: view.is_live, "it is watched")
                assert server.requests - before == {"DELETE": 1, "GET_CHILDREN": 1}

                before = server.requests.copy()
                async with losing_the_link(b):
                    server.disconnect(b.session_id)
                await eventually(lambda: view.is_live, "it goes on")
                more = server.requests - before
                assert more["GET_DATA"] == more["GET_CHILDREN"] == 0, "nothing has changed"
            await eventually(lambda: server.watches() == {}, "no watch is left")


@pytest.mark.parametrize("observers", [1, 100])
async def test_observers_of_one_client_share_their_reads(observers: int) -> None:
    async with (
        EmbeddedServer(tick_time=3) as server,
        in_memory(server) as a,
        Link(server).connect(session_timeout=60, clock=stopped_clock) as b,
        AsyncExitStack() as stack,
    ):
        await a.ensure_path(PATH)
        await a.create(f"{PATH}/m")
        before = server.requests.copy()
        views = [
            await stack.enter_async_context(Group(b, PATH).observe()) for _ in range(observers)
        ]
        assert all(view.is_live and data_of(view) == {"m": b""} for view in views)
        assert server.requests - before == {"GET_CHILDREN": 1, "GET_DATA": 1}
        before = server.requests.copy()
        await a.create(f"{PATH}/new")
        for view in views:
            await sees(view, m=b"", new=b"")
        assert server.requests - before == {"CREATE2": 1, "GET_CHILDREN": 1, "GET_DATA": 1}
        await stack.aclose()
        await eventually(lambda: server.watches() == {}, "no watch is left")

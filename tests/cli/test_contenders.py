"""`aiolead contenders`, and how it reads queues."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest
from kit.cli import Run, kazoo_client, objects
from kit.clients import joined
from kit.raw_client import has

import aiolead
from aiolead import Election, Lock, ReadWriteLock
from aiolead.cli.contender_queue import places_of, read_queue
from aiolead.types import Feature, Layout

GUID = "0123456789abcdef0123456789abcdef"


def test_contenders_are_listed_in_order(run: Run, hosts: str) -> None:
    with kazoo_client(hosts) as client:
        client.create("/a")
        session = f"{client.client_id[0]:#x}"
        client.create(f"/a/{GUID[:16]}-1-latch-", b"host-1", ephemeral=True, sequence=True)
        client.create("/a/_c_x-latch-", b"__REVOKE__host-2", ephemeral=True, sequence=True)
        client.create("/a/note")
        code, out, err = run("contenders", "/a", hosts=hosts)
        assert (code, err) == (0, [])
        assert [line.split()[:4] for line in out[1:]] == [
            ["1", "holds", "host-1", session],
            ["2", "waits,", "asked", "to"],
        ]
        code, out, _ = run("contenders", "/a", "--leaders", "2", "--json", hosts=hosts)
        first, second = objects(out)
        assert first["path"] == f"/a/{GUID[:16]}-1-latch-0000000000"
        assert (first["kind"], first["layout"]) == ("election", "curator")
        assert first["session"] == session
        assert first["age"] < 3600
        assert (second["identity"], second["asked_to_go"]) == ("host-2", True)
        assert [one["place"] for one in (first, second)] == [1, 2]
        assert first["holds"] is second["holds"] is True
        assert first["token"] < second["token"]


def test_mixed_layouts_are_reported(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        client.create(f"/{GUID}__lock__", b"kazoo", ephemeral=True, sequence=True)
        client.create("/_c_x-lock-", b"curator", ephemeral=True, sequence=True)
        code, out, err = run("contenders", "/", "--json", hosts=somewhere)
        assert [one["layout"] for one in objects(out)] == ["kazoo", "curator"]
        assert (code, len(err)) == (0, 1)
        assert "not all of these exclude each other: curator lock, kazoo lock" in err[0]


def test_unreadable_contender_is_listed(run: Run, old_and_new_hosts: str) -> None:
    hosts = old_and_new_hosts
    entry = "digest:somebody:HASH:r"
    is_untold = has(hosts, Feature.EXISTS_NEEDS_READ)
    with kazoo_client(hosts) as client:
        client.create("/l")
        client.create("/l/_c_y-lock-", b"first", ephemeral=True, sequence=True)
        owner = f"{client.client_id[0]:#x}"
        client.create("/l/_c_x-lock-", b"me", ephemeral=True, sequence=True)
        run("acl", "/l/_c_x-lock-0000000001", entry, hosts=hosts)
        code, out, _ = run("contenders", "/l", hosts=hosts)
        row = out[2].split("  ")
        assert (code, "(not allowed to read)" in out[2]) == (0, True)
        assert (owner in row, "?" in row) == (not is_untold, is_untold)
        code, out, _ = run("contenders", "/l", "--json", hosts=hosts)
        first, other = objects(out)
        assert (first["identity"], first["session"]) == ("first", owner)
        assert (other["identity"], other["place"], other["kind"]) == (None, 2, "lock")
        assert other["session"] == (None if is_untold else owner)
        assert other.keys() == first.keys()
        for key in ("age", "created", "token"):
            assert (other[key] is None) == is_untold, key
        code, out, _ = run("doctor", "/l", "--json", hosts=hosts)
        texts = [said["text"] for said in objects(out)[:-1] if said["check"] == "ghost"]
        assert any("may not be read: whose it is" in text for text in texts) == is_untold
        assert any("2 contenders" in line for line in out)


def test_long_identity_is_cut(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        client.create("/long")
        client.create("/long/x-lock-", b"x" * 900_000, ephemeral=True, sequence=True)
        _, out, _ = run("contenders", "/long", "--json", hosts=somewhere)
    assert len(out[0]) < 5000


def test_empty_queue_is_reported(run: Run, somewhere: str) -> None:
    run("create", "/l", "-p", hosts=somewhere)
    assert run("contenders", "/l", hosts=somewhere) == (
        0,
        [],
        ["aiolead: nobody contends for /l"],
    )


def test_permits_of_a_semaphore_are_listed_first(run: Run, hosts: str) -> None:
    with kazoo_client(hosts) as client:
        for path in ("/s", "/s/leases", "/s/locks"):
            client.create(path)
        for holder in (b"one", b"two"):
            client.create("/s/leases/_c_x-lease-", holder, ephemeral=True, sequence=True)
        client.create("/s/locks/_c_x-lock-", b"three", ephemeral=True, sequence=True)
        # The first contender has created its permit already.
        client.create("/s/leases/0000000000-y-lease-", b"three", ephemeral=True, sequence=True)
        code, out, err = run("contenders", "/s", "--json", hosts=hosts)
        assert (code, err) == (0, [])
        assert [(one["place"], one["holds"], one["identity"]) for one in objects(out)] == [
            (1, True, "one"),
            (2, True, "two"),
            (3, False, "three"),
        ]


async def test_queues_of_recipes_are_read_as_the_recipes_do(embedded: str, chroot: str) -> None:
    async with aiolead.connect(embedded + chroot) as client, AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(anyio.create_task_group())
        for name, layout in (("curator", Layout.CURATOR), ("kazoo", Layout.KAZOO)):
            for kind in (Election, Lock, ReadWriteLock):
                path = f"/{kind.__name__}-{name}"
                recipes = [kind(client, path, identity=f"{n}", layout=layout) for n in range(3)]
                seen = recipes[0].contenders
                if kind is ReadWriteLock:
                    recipes = [recipes[0].read, recipes[1].read, recipes[2].write]
                acquire = "leadership" if kind is Election else "acquire"
                contexts = [getattr(recipe, acquire)() for recipe in recipes]
                for n, context in enumerate(contexts):
                    tasks.start_soon(_enter, context)
                    await joined(client, path, n + 1)
                expected = [(who.identity, who.path, who.is_holder) for who in await seen()]
                line = await read_queue(client, path, places_of(await client.get_children(path)))
                assert [(one.identity, one.path, one.place.holds) for one in line] == expected
                assert {one.place.layout for one in line} == {name}
                assert len({one.place.family for one in line}) == 1
        tasks.cancel_scope.cancel()


async def _enter(context: aiolead.types.TenureContext[aiolead.Held]) -> None:
    async with context:
        await anyio.sleep_forever()


def test_queue_is_ordered_by_sequence_numbers() -> None:
    names = ["b-lock-0000000009", "a-lock-2147483647", "z-lock-0000000001", "note", "config"]
    assert [place.sequence for place in places_of(names)] == [1, 9, 2147483647]


@pytest.mark.parametrize(
    ("name", "what", "layout"),
    [
        ("_c_3f0e-lock-0000000001", "lock", "curator"),
        ("_c_3f0e-latch-0000000001", "election", "curator"),
        ("_c_3f0e-__READ__0000000001", "reader", "curator"),
        ("_c_3f0e-__WRIT__0000000001", "writer", "curator"),
        (f"{GUID}__lock__0000000001", "lock", "kazoo"),
        (f"{GUID}__rlock__0000000001", "reader", "kazoo"),
        (f"lock-{GUID}-0000000001", "lock", ""),
        (f"candidate-{GUID}-0000000001", "election", ""),
        ("x-72057594037927936-0000000001", "lock", ""),
        ("n_0000000001", "election", ""),
        ("item0000000001", "unknown", ""),
    ],
)
def test_names_of_contenders_tell_type_and_layout(name: str, what: str, layout: str) -> None:
    (place,) = places_of([name])
    assert (place.what, place.layout, place.holds) == (what, layout, True)

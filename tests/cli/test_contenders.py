"""`aiolead contenders`, and how it reads queues."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest
from kit.cli import NOBODY, Run, kazoo_client, objects, prints, report, shown
from kit.clients import joined
from kit.raw_client import has

import aiolead
from aiolead import Election, Lock, ReadWriteLock
from aiolead.cli.contender_queue import places_of, read_queue
from aiolead.types import Feature, Layout

GUID = "0123456789abcdef0123456789abcdef"


def test_contenders_are_listed_in_order(run: Run, hosts: str) -> None:
    first, second = f"/a/{GUID[:16]}-1-latch-", "/a/_c_x-latch-"
    znodes = {first: b"host-1", second: b"__REVOKE____UNREADY__host-2", "/a/note": b""}
    with kazoo_client(hosts, znodes) as client:
        session = f"{client.client_id[0]:#x}"
        out = shown(run, "contenders /a")
        assert [line.split()[:4] for line in out[1:]] == [
            ["1", "holds", "host-1", session],
            ["2", "waits,", "not", "ready,"],
        ]
        first, second = report(run, "contenders /a --leaders 2")
        assert first["path"] == f"/a/{GUID[:16]}-1-latch-0000000000"
        assert (first["kind"], first["layout"]) == ("election", "curator")
        assert first["session"] == session
        assert first["age"] < 3600
        assert (second["identity"], second["asked_to_go"]) == ("host-2", True)
        assert (first["is_ready"], second["is_ready"]) == (True, False)
        assert [one["place"] for one in (first, second)] == [1, 2]
        assert first["holds"] is second["holds"] is True
        assert first["token"] < second["token"]


def test_mixed_layouts_are_reported(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere, {"/_c_x-lock-": b"curator"}) as client:
        client.create(f"/{GUID}__lock__", b"kazoo", ephemeral=True, sequence=True)
        code, out, err = run("contenders / --json")
        assert [one["layout"] for one in objects(out)] == ["curator", "kazoo"]
        assert (code, len(err)) == (0, 1)
        assert "not all of these exclude each other: curator lock, kazoo lock" in err[0]


def test_unreadable_contender_is_listed(run: Run, old_and_new_hosts: str) -> None:
    hosts = old_and_new_hosts
    entry = f"{NOBODY}:r"
    is_untold = has(hosts, Feature.EXISTS_NEEDS_READ)
    with kazoo_client(hosts, {"/l/_c_y-lock-": b"first", "/l/_c_x-lock-": b"me"}) as client:
        owner = f"{client.client_id[0]:#x}"
        run("acl /l/_c_x-lock-0000000001", entry)
        row = shown(run, "contenders /l")[2].split("  ")
        assert "(not allowed to read)" in row
        assert (owner in row, "?" in row) == (not is_untold, is_untold)
        first, other = report(run, "contenders /l")
        assert (first["identity"], first["session"]) == ("first", owner)
        assert (other["identity"], other["place"], other["kind"]) == (None, 2, "lock")
        assert other["session"] == (None if is_untold else owner)
        assert other.keys() == first.keys()
        for key in ("age", "created", "token"):
            assert (other[key] is None) == is_untold, key
        findings = [(one["check"], one["text"]) for one in objects(run("doctor /l --json")[1])[:-1]]
        unknown = ("may not be read: whose it is" in t for check, t in findings if check == "ghost")
        assert any(unknown) == is_untold
        assert any("2 contenders" in text for _, text in findings)


def test_long_identity_is_cut(run: Run, somewhere: str) -> None:
    with kazoo_client(somewhere, {"/long/x-lock-": b"x" * 900_000}):
        _, out, _ = run("contenders /long --json")
    assert len(out[0]) < 5000


def test_empty_queue_is_reported(run: Run, somewhere: str) -> None:
    run("create /l -p")
    assert run("contenders /l") == prints(err="nobody contends for /l")


def test_permits_of_a_semaphore_are_listed_first(run: Run, hosts: str) -> None:
    znodes = {"/s/leases/_c_x-lease-": b"one", "/s/leases/_c_y-lease-": b"two"}
    # The first contender has created its permit already.
    znodes |= {"/s/locks/_c_z-lock-": b"three", "/s/leases/0000000000-z-lease-": b"three"}
    with kazoo_client(hosts, znodes):
        found = report(run, "contenders /s")
    assert [(one["place"], one["holds"], one["identity"]) for one in found] == [
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
    ("other", "level"), [("-2leaders", "fail"), ("-2leaders-from1", "warn"), ("", None)]
)
def test_different_numbers_of_leaders_are_reported(
    run: Run, somewhere: str, other: str, level: str | None
) -> None:
    znodes = {"/e/a-1-latch-": b"one", f"/e/b-1{other}-latch-": b"two"}
    with kazoo_client(somewhere, znodes):
        _, _, err = run("contenders /e")
        code, out, _ = run("doctor /e --json")
    found = [one for one in objects(out)[:-1] if one.get("leaders")]
    if level is None:
        assert (found, err) == ([], [])
    else:
        assert [(one["level"], one["leaders"]) for one in found] == [(level, [1, 2])]
        assert any("do not agree how many may lead: 1, 2" in line for line in err)
    assert code == (1 if level == "fail" else 0)


def test_contender_without_a_priority_is_reported_beside_others(run: Run, somewhere: str) -> None:
    znodes = {"/e/a-1-priority-3-latch-": b"one", "/e/b-1-priority2-latch-": b"two"}
    with kazoo_client(somewhere, znodes) as client:
        assert run("doctor /e")[0] == 0
        client.create("/e/c-1-latch-", b"three", ephemeral=True, sequence=True)
        code, out, _ = run("doctor /e --json")
    (found,) = [one for one in objects(out)[:-1] if "without one" in one.get("text", "")]
    assert (code, found["level"]) == (1, "fail")

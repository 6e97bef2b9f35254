"""The permitted callers of every public synchronous member, by the class that defines it.

`ANY`: any thread may call it, and a forked child. `HOLDER`: any thread may; a forked child, which
holds nothing, is refused. `HOME`: only the client's event loop, thread and process; others are
refused. `UNCHECKED`: likewise, but nothing looks whether it is so. A property without a row is
`ANY`. docs/how-to/client.md has the same as a table for users.
"""

from __future__ import annotations

import dataclasses
import enum
import gc
import inspect
import types
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from operator import methodcaller
from typing import Any

import pytest
from kit.every_recipe import AN_INSTANCE, RECIPES

import aiolead
import aiolead.types
from aiolead import Client

ANY, HOLDER, HOME, UNCHECKED = "any thread", "any thread, no child", "home", "home, unchecked"

_TABLE = {
    "Call": {
        ANY: "error is_done result",
        UNCHECKED: "abandon add_done_callback drop fail is_retried_too_long succeed",
    },
    "Claimed": {HOLDER: "check"},
    "Client": {
        ANY: "chroot fenced healthy reads statistics transaction",
        HOME: "add_auth check create credentials delete detach exists get get_acl get_children "
        "get_children_and_stat observe observe_children observe_data pipelined set set_acl sync "
        "update_hosts watch",
    },
    "ClientBackend": {
        ANY: "full_path gave sole_in unlimited",
        HOME: "bind check_connected check_home join_watch make_watch serial shared spawn subscribe",
    },
    "ClientLease": {ANY: "expire is_enough remaining", HOME: "hold"},
    "ClientWatch": {ANY: "close"},
    "ConditionHeld": {HOLDER: "check"},
    "Config": {HOME: "observe"},
    "ConsistentHash": {ANY: "choose"},
    "DoubleBarrier": {ANY: "enter"},
    "Election": {ANY: "leadership running", HOME: "campaign observe"},
    "Fence": {ANY: "transaction"},
    "FencedTransaction": {HOME: "commit"},
    "Group": {HOME: "join observe"},
    "HeldRecipe": {ANY: "acquire try_acquire"},
    "LeastLoaded": {ANY: "choose"},
    "MembersView": {ANY: "changes"},
    "MultiHeld": {ANY: "remaining", HOLDER: "check"},
    "MultiLock": {ANY: "acquire try_acquire"},
    "Once": {ANY: "claim try_claim"},
    "Partitioner": {HOME: "update_items"},
    "PendingReply": {ANY: "error", UNCHECKED: "close fail send throw"},
    "Picker": {ANY: "is_down pick report_error"},
    "Reads": {ANY: "get get_children"},
    "RoundRobin": {ANY: "choose"},
    "Semaphore": {ANY: "acquire try_acquire"},
    "ServiceRegistry": {HOME: "observe register"},
    "SharedValue": {HOME: "observe"},
    "TaskBoard": {ANY: "claim consume try_claim", HOME: "observe"},
    "Tenure": {ANY: "fenced remaining statistics", HOLDER: "add_lost_callback check"},
    "Term": {HOLDER: "check"},
    "Transaction": {ANY: "check create delete set", HOME: "commit"},
    "TreeCache": {ANY: "children get", HOME: "events"},
    "UniqueNames": {ANY: "claim try_claim"},
    "WeightedRandom": {ANY: "choose"},
    "_Queue": {ANY: "consume get try_get"},
}


def public_classes() -> Iterator[type]:
    """The classes whose objects belong to a client: neither values, errors nor protocols."""
    for module in (aiolead, aiolead.types):
        for name in module.__all__:
            kind = getattr(module, name)
            if not inspect.isclass(kind) or issubclass(kind, (BaseException, enum.Enum)):
                continue
            is_value = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
            if not is_value and not getattr(kind, "_is_protocol", False):
                yield kind


def _properties() -> Iterator[str]:
    for kind in public_classes():
        for base in kind.__mro__:
            for name, member in vars(base).items():
                if isinstance(member, property) and not name.startswith("_"):
                    yield f"{base.__name__}.{name}"


ROWS: dict[str, str] = dict.fromkeys(_properties(), ANY) | {
    f"{kind}.{member}": who
    for kind, groups in _TABLE.items()
    for who, members in groups.items()
    for member in members.split()
}
"""The permitted callers of each member: any thread may read a property that has no other row."""


async def _never(*_: object) -> None:
    raise AssertionError("it was called")


_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Client.check Client.exists Client.fenced Client.get Client.get_acl Client.get_children": (
        "/",
    ),
    "Client.get_children_and_stat Client.observe_children Client.observe_data": ("/",),
    "Client.watch ClientBackend.full_path ClientBackend.join_watch": ("/",),
    "Reads.get Reads.get_children": ("/",),
    "Transaction.check TreeCache.children TreeCache.get": ("/",),
    "Client.chroot Client.create Client.delete Transaction.create": ("/never",),
    "Transaction.delete": ("/never",),
    "Client.set": ("/", b""),
    "Transaction.set": ("/never", b""),
    "Client.set_acl": ("/", [aiolead.ACL.world()]),
    "ClientBackend.gave": (1,),
    "ClientBackend.bind": (None,),
    "ClientBackend.shared": ("/", object),
    "ClientBackend.spawn Election.running": (_never,),
    "ClientBackend.subscribe Tenure.add_lost_callback": (print,),
    "ClientLease.hold": ("/", print),
    "ConsistentHash.choose": ([AN_INSTANCE], "key"),
    "LeastLoaded.choose RoundRobin.choose WeightedRandom.choose": ([AN_INSTANCE], None),
    "Partitioner.update_items": (["never"],),
    "Picker.is_down Picker.report_error ServiceRegistry.register": (AN_INSTANCE,),
    "ServiceRegistry.observe": ("web",),
    "Client.add_auth": (aiolead.Auth.digest("ann", "secret"),),
    "Client.update_hosts": ("localhost",),
    "Once.claim Once.try_claim UniqueNames.claim UniqueNames.try_claim": ("name",),
}

CALLS: dict[str, Callable[[Any], object]] = {
    **{
        row: methodcaller(row.partition(".")[2], *arguments)
        for rows, arguments in _ARGUMENTS.items()
        for row in rows.split()
    },
    "FencedTransaction.commit": lambda t: t.delete("/never").commit(),
    "Group.join": lambda g: g.join(identity="never"),
    "Transaction.commit": lambda t: t.delete("/never").commit(),
}
"""How to call the members that take arguments."""


def members_of(kind: type) -> dict[str, str]:
    """The rows of the synchronous members of a class, by their names."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        if base.__module__.partition(".")[0] != "aiolead":
            continue
        for name, member in vars(base).items():
            function = getattr(member, "__func__", member)
            is_method = isinstance(function, types.FunctionType)
            is_sync = is_method and not inspect.iscoroutinefunction(function)
            if not name.startswith("_") and (is_sync or isinstance(member, property)):
                found[name] = f"{base.__name__}.{name}"
    return found


def call(thing: Any, row: str) -> object:
    """Call the member of a row on an object."""
    if row in CALLS:
        return CALLS[row](thing)
    member = getattr(thing, row.partition(".")[2])
    return member() if callable(member) else member


# --- one of each ---------------------------------------------------------------------------------


@asynccontextmanager
async def one_of_each(client: Client, held: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """An object of each class, by its name; `held` gets the holds, as they are acquired.

    The recipes have paths of their own, where nothing is held.
    """
    things: dict[str, Any] = {}

    def add(thing: Any, *names: str) -> Any:
        for name in names or (type(thing).__name__,):
            things[name] = thing
        return thing

    for name, recipe in RECIPES.items():
        add(recipe(client, f"/free/{name}"), name)
    blocks = {
        kind: block(client, f"/{name}")
        for name, recipe in RECIPES.items()
        for kind, block in recipe.gives.items()
    }
    holds = {kind for kind in blocks if hasattr(getattr(aiolead.types, kind, None), "is_held")}
    holds |= {kind for kind in blocks if hasattr(getattr(aiolead, kind, None), "is_held")}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        for context in (client.observe(), client.watch("/"), client.observe_children("/")):
            add(await enter(context))  # type: ignore[arg-type]
        add(await enter(client.observe_data("/")), "DataView", "View")
        for kind in blocks.keys() - holds:
            add(await enter(blocks[kind]), kind)
        reply = client.get("/")
        await reply
        strategies = (
            aiolead.types.ConsistentHash(),
            aiolead.types.LeastLoaded(),
            aiolead.types.WeightedRandom(),
            aiolead.types.RoundRobin(),
        )
        for thing in (
            *(client, client.backend, client.backend.lease),
            *(reply, client.transaction(), client.reads(), client.backend.make_watch()),
            *(client.fenced("/"), client.fenced("/").transaction()),
            *(*strategies, aiolead.types.Picker(things["ServiceView"], strategies[-1])),
            *(things["ReadWriteLock"].read, things["ReadWriteLock"].write),
            *(things["TreeCache"].events(), things["Lock"].acquire(), things["Queue"].consume()),
        ):
            add(thing)
        # The holds are last, so that they are released first.
        for kind in sorted(holds):
            held[kind] = add(await enter(blocks[kind]), kind)
        things |= {"Tenure": held["Held"], "Claimed": held["Task"]}
        yield things


@pytest.fixture(autouse=True)
def nothing_is_left_to_the_next_test() -> Iterator[None]:
    """The objects that the calls have made are dropped while their warnings are expected."""
    yield
    gc.collect()

"""The permitted callers of every public synchronous member, by the class that defines it.

`ANY`: any thread may call it, and a forked child. `HOLDER`: any thread may; a forked child, which
holds nothing, is refused. `HOME`: only the client's event loop, thread and process; others are
refused. `UNCHECKED`: likewise, but nothing looks whether it is so. docs/how-to/client.md has the
same as a table for users.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

import aiolead
import aiolead.types

ANY, HOLDER, HOME, UNCHECKED = "any thread", "any thread, no child", "home", "home, unchecked"

_TABLE = {
    "BarrierMember": {ANY: "round"},
    "Call": {
        ANY: "error is_done is_mere_read result",
        UNCHECKED: "abandon add_done_callback drop fail is_retried_too_long succeed",
    },
    "Claimed": {ANY: "attempts name", HOLDER: "check"},
    "Client": {
        ANY: "backend chroot fenced healthy reads session_id session_timeout state statistics "
        "transaction",
        HOME: "add_auth check create credentials delete detach exists get get_acl get_children "
        "get_children_and_stat observe observe_children observe_data pipelined set set_acl sync "
        "update_hosts watch",
    },
    "ClientBackend": {
        ANY: "full_path gave is_forked is_session_passed_on is_session_shared last_zxid sole_in "
        "unlimited",
        HOME: "bind check_connected check_home join_watch make_watch serial shared spawn subscribe",
    },
    "ClientLease": {ANY: "deadline expire is_enough remaining", HOME: "hold"},
    "ClientWatch": {ANY: "close event is_armed"},
    "Condition": {ANY: "path"},
    "ConditionHeld": {HOLDER: "check"},
    "Config": {HOME: "observe"},
    "ConfigView": {ANY: "invalid published version"},
    "ConsistentHash": {ANY: "choose"},
    "DoubleBarrier": {ANY: "enter"},
    "Election": {ANY: "leadership running", HOME: "campaign observe"},
    "Fence": {ANY: "transaction"},
    "FencedTransaction": {HOME: "commit"},
    "Group": {HOME: "join observe"},
    "HeldName": {ANY: "name number"},
    "HeldRecipe": {ANY: "acquire try_acquire"},
    "HoldingRecipe": {ANY: "identity path"},
    "LatestValue": {ANY: "is_live value"},
    "LeastLoaded": {ANY: "choose"},
    "MembersView": {ANY: "changes"},
    "Membership": {ANY: "identity"},
    "MultiHeld": {ANY: "holds is_held remaining", HOLDER: "check"},
    "MultiLock": {ANY: "acquire recipes try_acquire"},
    "Once": {ANY: "claim try_claim"},
    "Partitioner": {ANY: "items members owned", HOME: "update_items"},
    "PendingReply": {ANY: "cr_suspended error result", UNCHECKED: "close fail send throw"},
    "PersistentNode": {ANY: "is_present path state"},
    "Picker": {ANY: "is_down pick report_error"},
    "QueueItem": {ANY: "data dead_letter parts value"},
    "ReadWriteLock": {ANY: "identity path read write"},
    "Reads": {ANY: "get get_children"},
    "Recipe": {ANY: "path"},
    "ReentrantLock": {ANY: "hold_count"},
    "Registration": {ANY: "instance"},
    "Run": {ANY: "is_done"},
    "RoundRobin": {ANY: "choose"},
    "Semaphore": {ANY: "acquire try_acquire"},
    "SequenceAllocator": {ANY: "at_hand"},
    "ServiceRegistry": {HOME: "observe register"},
    "ServiceView": {ANY: "invalid"},
    "SessionStates": {ANY: "current"},
    "SharedValue": {HOME: "observe"},
    "SharedValueView": {ANY: "versioned"},
    "Task": {ANY: "data value"},
    "TaskBoard": {ANY: "claim consume try_claim", HOME: "observe"},
    "Tenure": {
        ANY: "fenced identity is_held is_released is_revocation_requested loss path remaining "
        "session_id statistics token",
        HOLDER: "add_lost_callback check",
    },
    "Term": {ANY: "loss", HOLDER: "check"},
    "Transaction": {ANY: "check create delete set", HOME: "commit"},
    "TreeCache": {ANY: "children get is_live path unread", HOME: "events"},
    "UniqueNames": {ANY: "claim try_claim"},
    "View": {ANY: "is_live"},
    "WatchStream": {ANY: "is_live unread"},
    "WeightedRandom": {ANY: "choose"},
    "WriteHeld": {ANY: "is_downgraded"},
    "_Queue": {ANY: "consume get try_get"},
}

ROWS: dict[str, str] = {
    f"{kind}.{member}": who
    for kind, groups in _TABLE.items()
    for who, members in groups.items()
    for member in members.split()
}
"""The permitted callers of each member."""

AN_INSTANCE = aiolead.ServiceInstance(name="web", id="i", port=80, registered_at=0.0)


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

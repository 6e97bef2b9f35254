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
from typing import Any

import aiolead
import aiolead.types

ANY, HOLDER, HOME, UNCHECKED = "any thread", "any thread, no child", "home", "home, unchecked"

_TABLE = {
    "BarrierMember": {ANY: "round"},
    "Call": {ANY: "error is_done is_mere_read result", UNCHECKED: "add_done_callback"},
    "Claimed": {ANY: "name", HOLDER: "check"},
    "Client": {
        ANY: "chroot fenced reads transaction",
        HOME: "check create delete exists get get_acl get_children get_children_and_stat "
        "get_config observe_children observe_data reconfig set set_acl sync watch",
    },
    "ClientBackend": {
        ANY: "full_path gave is_forked is_session_passed_on is_session_shared last_zxid sole_in "
        "unlimited",
        HOME: "arm check_connected check_home make_watch serial shared spawn subscribe",
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
    "HoldingRecipe": {ANY: "identity"},
    "LatestValue": {ANY: "is_live value"},
    "LeastLoaded": {ANY: "choose"},
    "MembersView": {ANY: "changes"},
    "Membership": {ANY: "identity"},
    "MultiHeld": {ANY: "holds is_held remaining", HOLDER: "check"},
    "MultiLock": {ANY: "acquire recipes try_acquire"},
    "Partitioner": {ANY: "items members owned", HOME: "update_items"},
    "PendingReply": {ANY: "cr_suspended error result", UNCHECKED: "close send throw"},
    "PersistentNode": {ANY: "is_present path state"},
    "Picker": {ANY: "is_down pick report_error"},
    "QueueItem": {ANY: "data parts"},
    "ReadWriteLock": {ANY: "identity path read write"},
    "Reads": {ANY: "get get_children"},
    "Recipe": {ANY: "path"},
    "ReentrantLock": {ANY: "hold_count"},
    "Registration": {ANY: "instance"},
    "RoundRobin": {ANY: "choose"},
    "Semaphore": {ANY: "acquire try_acquire"},
    "SequenceAllocator": {ANY: "at_hand"},
    "ServiceRegistry": {HOME: "observe register"},
    "ServiceView": {ANY: "invalid"},
    "SessionSide": {
        ANY: "backend healthy session_id session_timeout state statistics",
        HOME: "add_auth credentials detach observe pipelined update_hosts",
    },
    "SessionStates": {ANY: "current"},
    "SharedValue": {HOME: "observe"},
    "SharedValueView": {ANY: "versioned"},
    "SharedView": {ANY: "is_live"},
    "Task": {ANY: "data"},
    "TaskBoard": {ANY: "claim try_claim", HOME: "observe"},
    "Tenure": {
        ANY: "fenced identity is_held is_released is_revocation_requested loss path remaining "
        "session_id statistics token",
        HOLDER: "add_lost_callback check",
    },
    "Transaction": {ANY: "check create delete set", HOME: "commit"},
    "TreeCache": {ANY: "children get is_live path unread", HOME: "events"},
    "UniqueNames": {ANY: "claim try_claim"},
    "View": {ANY: "is_live"},
    "WatchStream": {ANY: "is_live unread"},
    "WeightedRandom": {ANY: "choose"},
    "WorkQueue": {ANY: "consume"},
    "WriteHeld": {ANY: "is_downgraded"},
    "_Queue": {ANY: "get try_get"},
}

ROWS: dict[str, str] = {
    f"{kind}.{member}": who
    for kind, groups in _TABLE.items()
    for who, members in groups.items()
    for member in members.split()
}
"""The permitted callers of each member."""

AN_INSTANCE = aiolead.ServiceInstance(name="web", id="i", port=80, registered_at=0.0)

CALLS: dict[str, Callable[[Any], object]] = {
    "Client.check": lambda c: c.check("/"),
    "Client.chroot": lambda c: c.chroot("/a"),
    "Client.create": lambda c: c.create("/never"),
    "Client.delete": lambda c: c.delete("/never"),
    "Client.exists": lambda c: c.exists("/"),
    "Client.fenced": lambda c: c.fenced("/"),
    "Client.get": lambda c: c.get("/"),
    "Client.get_acl": lambda c: c.get_acl("/"),
    "Client.get_children": lambda c: c.get_children("/"),
    "Client.get_children_and_stat": lambda c: c.get_children_and_stat("/"),
    "Client.observe_children": lambda c: c.observe_children("/"),
    "Client.observe_data": lambda c: c.observe_data("/"),
    "Client.reconfig": lambda c: c.reconfig(leaving=[1]),
    "Client.set": lambda c: c.set("/", b""),
    "Client.set_acl": lambda c: c.set_acl("/", [aiolead.ACL.world()]),
    "Client.watch": lambda c: c.watch("/"),
    "ClientBackend.arm": lambda b: b.arm([], since=0),
    "ClientBackend.gave": lambda b: b.gave(1),
    "ClientBackend.full_path": lambda b: b.full_path("/"),
    "ClientBackend.shared": lambda b: b.shared("/", object),
    "ClientBackend.spawn": lambda b: b.spawn(_never),
    "ClientBackend.subscribe": lambda b: b.subscribe(print),
    "ClientLease.hold": lambda lease: lease.hold("/", print),
    "ConsistentHash.choose": lambda s: s.choose([AN_INSTANCE], "key"),
    "FencedTransaction.commit": lambda t: t.delete("/never").commit(),
    "Group.join": lambda g: g.join(identity="never"),
    "LeastLoaded.choose": lambda s: s.choose([AN_INSTANCE], None),
    "Partitioner.update_items": lambda p: p.update_items(["never"]),
    "Picker.is_down": lambda p: p.is_down(AN_INSTANCE),
    "Picker.report_error": lambda p: p.report_error(AN_INSTANCE),
    "Reads.get": lambda r: r.get("/"),
    "Reads.get_children": lambda r: r.get_children("/"),
    "RoundRobin.choose": lambda s: s.choose([AN_INSTANCE], None),
    "Election.running": lambda e: e.running(_never),
    "ServiceRegistry.observe": lambda s: s.observe("web"),
    "ServiceRegistry.register": lambda s: s.register(AN_INSTANCE),
    "SessionSide.add_auth": lambda c: c.add_auth(aiolead.Auth.digest("ann", "secret")),
    "SessionSide.update_hosts": lambda c: c.update_hosts("localhost"),
    "Tenure.add_lost_callback": lambda t: t.add_lost_callback(int),
    "Transaction.check": lambda t: t.check("/"),
    "Transaction.commit": lambda t: t.delete("/never").commit(),
    "Transaction.create": lambda t: t.create("/never"),
    "Transaction.delete": lambda t: t.delete("/never"),
    "Transaction.set": lambda t: t.set("/never", b""),
    "TreeCache.children": lambda c: c.children("/"),
    "TreeCache.get": lambda c: c.get("/"),
    "UniqueNames.claim": lambda n: n.claim("name"),
    "UniqueNames.try_claim": lambda n: n.try_claim("name"),
    "WeightedRandom.choose": lambda s: s.choose([AN_INSTANCE], None),
}
"""How to call what takes arguments."""


async def _never(*_: object) -> None:
    raise AssertionError("it was called")


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

"""The embedded server behaves as its version: before and after each row of the table."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from testing.wire_core import Client, World, create

from aiolead._wire.codes import OpCode
from aiolead._wire.replies import MultiReply
from aiolead._wire.requests import (
    AuthPacket,
    Check,
    Exists,
    GetData,
    Multi,
    SetACL,
    SetData,
    SetWatches,
)
from aiolead._wire.versions import Version
from aiolead.model import ACL, OPEN_ACL_UNSAFE, Auth, EventType, Permission
from aiolead.testing._server.connection import Closing
from aiolead.types import Feature

ANN = Auth.digest("ann", "secret")
PRIVATE = (ANN.acl(),)
NO_AUTH, UNIMPLEMENTED, MARSHALLING, BAD_ARGUMENTS, INVALID_ACL = -102, -6, -5, -8, -114


def ann_and_other(world: World) -> tuple[Client, Client]:
    ann, other = world.client(), world.client()
    ann.ask(AuthPacket(ANN.scheme, ANN.credential))
    return ann, other


def exists_needs_read(world: World) -> bool:
    ann, other = ann_and_other(world)
    ann.ask(create("/x", acl=PRIVATE))
    error, _ = other.ask(Exists("/x", watch=True))
    assert (error == NO_AUTH) == (len(world.core.processor.watches) == 0)
    assert other.ask(Exists("/none", watch=True))[0] == -101
    assert ann.ask(Exists("/x"))[0] == 0
    return error == NO_AUTH


def events_need_read(world: World) -> bool:
    ann, other = ann_and_other(world)
    ann.ask(create("/x"))
    for client in (ann, other):
        client.ask(GetData("/x", watch=True))
    ann.ask(SetACL("/x", PRIVATE, -1))
    ann.ask(SetData("/x", b"", -1))
    assert ann.heard() == [(EventType.DATA_CHANGED, "/x")]
    assert len(world.core.processor.watches) == 0
    return other.heard() == []


def rearmed_events_need_read(world: World) -> bool:
    ann, other = ann_and_other(world)
    ann.ask(create("/x", acl=PRIVATE))
    for client in (ann, other):
        client.ask(SetWatches(0, data=("/x",), exist=("/x",), child=("/none",)))
    told = [(EventType.DATA_CHANGED, "/x"), (EventType.CREATED, "/x"), (EventType.DELETED, "/none")]
    assert ann.heard() == told
    assert len(world.core.processor.watches) == 0
    heard = other.heard()
    assert heard in (told, told[2:])
    return heard == told[2:]


def no_lone_check(world: World) -> bool:
    client = world.client()
    error, _ = client.ask_raw(OpCode.CHECK, bytes.fromhex("000000012f 00000000"))
    assert (error == UNIMPLEMENTED) == (client.closing is not Closing.NO)
    assert world.client().ask(Multi((Check("/", 0),)))[0] == 0
    return error == UNIMPLEMENTED


def create2_in_multi(world: World) -> bool:
    client = world.client()
    _, r = client.ask(Multi((create("/x", op=OpCode.CREATE2),)))
    ((op, _),) = MultiReply.read(r).results
    error, _ = client.ask(Multi((create("/y", flags=99),)))
    assert (op is OpCode.CREATE2) == (error == MARSHALLING)
    # A mode that lasts for a time, and no time, makes no sense to any of them.
    assert client.ask(Multi((create("/y", flags=5),)))[0] == MARSHALLING
    return op is OpCode.CREATE2


def early_decoding(world: World) -> bool:
    client = world.client()
    before = world.core.processor.zxid
    assert client.ask_raw(OpCode.SET_DATA, b"")[0] == MARSHALLING
    taken = world.core.processor.zxid - before
    assert client.ask_raw(OpCode.MULTI, b"")[0] == MARSHALLING
    assert world.core.processor.zxid - before == taken + 1
    return taken == 0


def ipv6_acls(world: World) -> bool:
    ann = world.connect("fe80::1")
    ann.greet()
    codes = [
        ann.ask(create(f"/{number}", acl=(ACL(Permission.ALL, "ip", id_),)))[0]
        for number, id_ in enumerate(("fe80::/16", "::2", "::1/129", "::ffff:1.2.3.4", "1.2.3.4"))
    ]
    assert codes[2:] == [INVALID_ACL, INVALID_ACL, 0]
    if codes[:2] == [0, 0]:
        assert [ann.ask(GetData(f"/{number}"))[0] for number in (0, 1, 4)] == [0, NO_AUTH, NO_AUTH]
    return codes[:2] == [0, 0]


SHOWN: dict[Feature, Callable[[World], bool]] = {
    Feature.EXISTS_NEEDS_READ: exists_needs_read,
    Feature.EVENTS_NEED_READ: events_need_read,
    Feature.REARMED_EVENTS_NEED_READ: rearmed_events_need_read,
    Feature.NO_LONE_CHECK: no_lone_check,
    Feature.CREATE2_IN_MULTI: create2_in_multi,
    Feature.EARLY_DECODING: early_decoding,
    Feature.IPV6_ACLS: ipv6_acls,
}


def just_before(release: Version) -> Version:
    major, minor, patch = release
    return (major, minor, patch - 1) if patch else (major, minor - 1, 0)


@pytest.mark.parametrize("feature", SHOWN)
def test_server_behaves_as_its_version(feature: Feature) -> None:
    for release in feature.releases:
        assert SHOWN[feature](World(version=release)), release
        before = just_before(release)
        assert SHOWN[feature](World(version=before)) is feature.is_in(before) is False, before


@pytest.mark.parametrize("feature", SHOWN)
def test_backported_feature_is_used(feature: Feature) -> None:
    assert SHOWN[feature](World(version=(3, 6, 0), backports=frozenset({feature})))


def test_children_events_need_read_on_the_parent() -> None:
    ann, other = ann_and_other(world := World(version=(3, 9, 2)))
    world.core.create("/dark", b"", world.now)
    other.ask(SetWatches(1 << 40, child=("/dark",)))
    other.ask(SetWatches(1 << 40, child=("/",)))
    nobody = ACL(Permission.ALL & ~Permission.READ, "world", "anyone")
    ann.ask(SetACL("/dark", (nobody,), -1))
    ann.ask(create("/dark/x", acl=OPEN_ACL_UNSAFE))
    ann.ask(create("/private", acl=PRIVATE))
    assert other.heard() == [(EventType.CHILDREN_CHANGED, "/")]

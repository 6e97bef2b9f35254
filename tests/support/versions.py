"""What a server under test is: its version, and what its distributor brought to that version."""

from __future__ import annotations

import socket
import uuid

from aiolead._wire.requests import Delete, GetData, SetACL, SetData
from aiolead._wire.versions import SRVR, Feature, Version, version_in
from aiolead.model import ACL, OPEN_ACL_UNSAFE, Permission
from aiolead.paths import parse_connect_string
from support.raw_client import RawClient
from support.waiting import PATIENCE


def version_of(connect_string: str) -> Version:
    """The version that the first server of a connect string tells."""
    with socket.create_connection(parse_connect_string(connect_string).hosts[0], PATIENCE) as link:
        link.sendall(SRVR)
        told = b""
        while data := link.recv(65536):
            told += data
    version = version_in(told)
    assert version is not None, told
    return version


def backports_of(connect_string: str) -> frozenset[Feature]:
    """What the server has although its version came before it: found out by trying."""
    tried = {Feature.EVENTS_NEED_READ: withholds_events(connect_string)}
    version = version_of(connect_string)
    for feature, has_it in tried.items():
        assert has_it or not feature.is_in(version), f"{version} lacks {feature}"
    return frozenset(f for f, has_it in tried.items() if has_it and not f.is_in(version))


def features_of(connect_string: str) -> frozenset[Feature]:
    """All that the server has."""
    version = version_of(connect_string)
    return backports_of(connect_string) | {f for f in Feature if f.is_in(version)}


def withholds_events(connect_string: str) -> bool:
    """Whether a watch on a znode says nothing once the client may not read it any more."""
    path = f"/versions-{uuid.uuid4().hex}"
    nobody_reads = (ACL(Permission.ALL & ~Permission.READ, "world", "anyone"),)
    with RawClient(connect_string) as writer, RawClient(connect_string) as watcher:
        writer.create(path, acl=OPEN_ACL_UNSAFE)
        watcher.call(GetData(path, watch=True))
        writer.call(SetACL(path, nobody_reads, -1))
        writer.call(SetData(path, b"", -1))
        watcher.sync("/")
        heard = list(watcher.events)
        writer.call(Delete(path, -1))
    return not heard


def text_of_version(connect_string: str) -> str:
    """The same as people write it, such as "3.9.3"."""
    return ".".join(map(str, version_of(connect_string)))


def has(connect_string: str, feature: Feature) -> bool:
    """Whether a server has a feature by its version, whatever a distributor brought to it."""
    return feature.is_in(version_of(connect_string))


def told_zxid(connect_string: str, zxid: int) -> int:
    """What a watch event says of the change with this zxid."""
    return zxid if has(connect_string, Feature.EVENT_ZXIDS) else -1

"""The wire against kazoo: equal requests byte for byte, and replies that it can read."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo import exceptions, security
from kazoo.protocol import serialization as kazoo
from kazoo.protocol.states import ZnodeStat
from wire.records import BOOL, DATA, I32, I64, STATS, acls_of, decode, encode

from aiolead._wire import replies, requests
from aiolead._wire.codes import OpCode
from aiolead._wire.handshake import ConnectRequest, ConnectResponse
from aiolead._wire.jute import Reader
from aiolead.model import ACL, Permission, Stat

# kazoo writes an empty string as null, which aiolead reads as empty (below) and writes as empty.
TEXT = st.text(min_size=1, max_size=12)
ACLS = acls_of(TEXT)


def their_acls(acls: tuple[ACL, ...]) -> list[security.ACL]:
    return [security.ACL(int(acl.permissions), security.Id(acl.scheme, acl.id)) for acl in acls]


def their_stat(stat: Stat) -> ZnodeStat:
    return ZnodeStat(*stat)


SAME = {
    requests.Delete: kazoo.Delete,
    requests.Exists: kazoo.Exists,
    requests.GetData: kazoo.GetData,
    requests.SetData: kazoo.SetData,
    requests.GetACL: kazoo.GetACL,
    requests.Sync: kazoo.Sync,
    requests.Check: kazoo.CheckVersion,
}
"""Requests with the same fields."""


def theirs(request: Any) -> Any:
    """The same request of kazoo."""
    match request:
        case ConnectRequest():
            return kazoo.Connect(
                request.protocol_version,
                request.last_zxid_seen,
                request.timeout_ms,
                request.session_id,
                request.password,
                request.read_only,
            )
        case requests.Create(path, data, acl, flags):
            made = kazoo.Create if request.op is OpCode.CREATE else kazoo.Create2
            return made(path, data, their_acls(acl), flags)
        case requests.SetACL(path, acl, version):
            return kazoo.SetACL(path, their_acls(acl), version)
        case requests.GetChildren(path, watch):
            plain = request.op is OpCode.GET_CHILDREN
            return (kazoo.GetChildren if plain else kazoo.GetChildren2)(path, watch)
        case requests.Multi(ops):
            return kazoo.Transaction([theirs(op) for op in ops])
        case requests.AuthPacket(scheme, credential):
            return kazoo.Auth(0, scheme, credential.decode())
        case requests.Ping():
            return kazoo.PingInstance
        case requests.CloseSession():
            return kazoo.CloseInstance
    fields = [getattr(request, field.name) for field in dataclasses.fields(request)]
    return SAME[type(request)](*fields)


CREATES = st.builds(
    requests.Create, TEXT, DATA, ACLS, I32, op=st.sampled_from([OpCode.CREATE, OpCode.CREATE2])
)
DELETES = st.builds(requests.Delete, TEXT, I32)
SET_DATAS = st.builds(requests.SetData, TEXT, DATA, I32)
CHECKS = st.builds(requests.Check, TEXT, I32)

REQUESTS: dict[str, st.SearchStrategy[Any]] = {
    "connect": st.builds(ConnectRequest, I64, I32, I64, DATA, BOOL, I32),
    "create": CREATES,
    "delete": DELETES,
    "exists": st.builds(requests.Exists, TEXT, BOOL),
    "get": st.builds(requests.GetData, TEXT, BOOL),
    "set": SET_DATAS,
    "get_acl": st.builds(requests.GetACL, TEXT),
    "set_acl": st.builds(requests.SetACL, TEXT, ACLS, I32),
    "get_children": st.builds(
        requests.GetChildren,
        TEXT,
        BOOL,
        st.sampled_from([OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2]),
    ),
    "sync": st.builds(requests.Sync, TEXT),
    "transaction": st.builds(
        requests.Multi, st.lists(CREATES | DELETES | SET_DATAS | CHECKS, max_size=4).map(tuple)
    ),
    "auth": st.builds(requests.AuthPacket, TEXT, TEXT.map(str.encode)),
}


# --- requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REQUESTS)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_requests_are_byte_for_byte_those_of_kazoo(name: str, data: st.DataObject) -> None:
    request = data.draw(REQUESTS[name])
    other = theirs(request)
    sent = bytes(other.serialize())
    assert encode(request) == sent
    if not isinstance(request, ConnectRequest):
        assert int(request.op) == other.type
    assert decode(request, sent) == request


@pytest.mark.parametrize(
    "request_", [requests.Ping(), requests.CloseSession()], ids=lambda r: type(r).__name__
)
def test_request_without_a_body_is_that_of_kazoo(
    request_: requests.Ping | requests.CloseSession,
) -> None:
    other = theirs(request_)
    assert encode(request_) == other.serialize()
    assert int(request_.op) == other.type


def test_nulls_of_kazoo_are_read_as_empty_except_for_data() -> None:
    acl = [security.ACL(31, security.Id("auth", ""))]
    create = kazoo.Create2("/a", None, acl, 0).serialize()
    assert requests.Create.read(Reader(bytes(create)), OpCode.CREATE2) == requests.Create(
        "/a", None, (ACL(Permission.ALL, "auth", ""),), 0
    )
    sync = kazoo.Sync("").serialize()
    assert sync == b"\xff\xff\xff\xff"
    assert requests.Sync.read(Reader(sync)) == requests.Sync("")


# --- replies -----------------------------------------------------------------------------------


@given(I32, I64, I32)
@settings(max_examples=30, deadline=None)
def test_kazoo_reads_reply_headers(xid: int, zxid: int, err: int) -> None:
    header, offset = kazoo.ReplyHeader.deserialize(encode(replies.ReplyHeader(xid, zxid, err)), 0)
    assert (header.xid, header.zxid, header.err, offset) == (xid, zxid, err, 16)


@given(I32, I64, DATA, BOOL)
@settings(max_examples=30, deadline=None)
def test_kazoo_reads_the_handshake(
    timeout: int, session: int, password: bytes, read_only: bool
) -> None:
    sent = encode(ConnectResponse(timeout, session, password, read_only))
    other, offset = kazoo.Connect.deserialize(sent, 0)
    assert other == kazoo.Connect(0, 0, timeout, session, password, read_only)
    assert offset == len(sent)


@given(I32, I32, st.text(max_size=12))
@settings(max_examples=30, deadline=None)
def test_kazoo_reads_events(type_: int, state: int, path: str) -> None:
    sent = encode(replies.WatcherEvent(type_, path, state))
    assert kazoo.Watch.deserialize(sent, 0) == (kazoo.Watch(type_, state, path), len(sent))


@given(st.text(max_size=12), DATA, ACLS, st.lists(st.text(max_size=9), max_size=4), STATS)
@settings(max_examples=100, deadline=None)
def test_kazoo_reads_replies(
    path: str, data: bytes, acls: tuple[ACL, ...], names: list[str], stat: Stat
) -> None:
    other = their_stat(stat)
    expected = [
        (kazoo.Create, replies.PathReply(path), path),
        (kazoo.Sync, replies.PathReply(path), path),
        (kazoo.Create2, replies.CreateReply(path, stat), (path, other)),
        (kazoo.Exists, replies.StatReply(stat), other if stat.czxid != -1 else None),
        (kazoo.SetData, replies.StatReply(stat), other),
        (kazoo.SetACL, replies.StatReply(stat), other),
        (kazoo.GetData, replies.DataReply(data, stat), (data, other)),
        (kazoo.GetACL, replies.ACLReply(acls, stat), (their_acls(acls), other)),
        (kazoo.GetChildren, replies.NamesReply(names), names),
        (kazoo.GetChildren2, replies.ChildrenReply(names, stat), (names, other)),
    ]
    for request, reply, answer in expected:
        assert request.deserialize(encode(reply), 0) == answer


@given(
    st.lists(st.one_of(TEXT.map(replies.PathReply), STATS.map(replies.StatReply)), max_size=3), BOOL
)
@settings(max_examples=50, deadline=None)
def test_kazoo_reads_results_of_transactions(
    made: list[replies.PathReply | replies.StatReply], deleted: bool
) -> None:
    last = OpCode.DELETE if deleted else OpCode.CHECK
    results = [
        (OpCode.CREATE if isinstance(result, replies.PathReply) else OpCode.SET_DATA, result)
        for result in made
    ]
    reply = replies.MultiReply((*results, (last, replies.DoneResult(last))))
    assert kazoo.Transaction.deserialize(encode(reply), 0) == [
        *(r.path if isinstance(r, replies.PathReply) else their_stat(r.stat) for r in made),
        True,
    ]


def test_kazoo_reads_failed_transactions() -> None:
    codes = (0, -103, -2)
    reply = replies.MultiReply(tuple((OpCode.ERROR, replies.ErrorResult(code)) for code in codes))
    found = kazoo.Transaction.deserialize(encode(reply), 0)
    assert [type(error) for error in found] == [
        exceptions.RolledBackError,
        exceptions.BadVersionError,
        exceptions.RuntimeInconsistency,
    ]

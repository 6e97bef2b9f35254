"""The table: for each case its steps, in order, on an empty tree of its own.

Who asks is client "one", unless the step says otherwise: "other" is another session, and "ann" one
that has logged in as ann, "smiling" one with another name; "later" logs in in its own time.
"""

from __future__ import annotations

from aiolead import ACL, Auth, CreateMode
from aiolead.errors import (
    BadVersionError,
    Fenced,
    InvalidACLError,
    InvalidPathError,
    LocalWireError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ReconfigDisabledError,
    RolledBackError,
    RuntimeInconsistencyError,
    UnimplementedError,
)
from aiolead.model import OPEN_ACL_UNSAFE, Permission, Quota, QuotaUsage
from aiolead.types import Feature

from .steps import (
    ANY,
    SESSION,
    Having,
    Step,
    by_version,
    differing,
    do,
    error,
    fails,
    fenced,
    having,
    hears,
    reads,
    streams,
    transaction,
    unordered,
    views,
)

M = CreateMode
ANN = Auth.digest("ann", "secret")
HERS = (ANN.acl(),)
SMILING = Auth.digest("u\U0001f600", "secret")
"""A character that Java has as two, and that servers write as none of UTF-8."""
ALL_OF_AUTH = (ACL(Permission.ALL, "auth", ""),)
READABLE = (ACL(Permission.READ, "world", "anyone"), ANN.acl())


def created(path: str, **stat: object) -> Having:
    return having(path=path, stat=having(**stat))


NEW = {
    "version": 0,
    "cversion": 0,
    "aversion": 0,
    "ephemeral_owner": 0,
    "data_length": 0,
    "num_children": 0,
}

CASES: dict[str, list[Step]] = {
    # --- creating ------------------------------------------------------------------------------
    "create": [
        do("create", "/a", gives=created("/a", **NEW)),
        do("create", "/a", gives=error(NodeExistsError, path="/a")),
        do("create", "/none/a", gives=error(NoNodeError)),
        do("create", "/a/b", b"data", gives=created("/a/b", **NEW | {"data_length": 4})),
        do("exists", "/a", gives=having(**NEW | {"cversion": 1, "num_children": 1})),
        do("create", "/ä ö/", gives=error(InvalidPathError)),
        do("create", "/ä ö", b"\0\xff", gives=created("/ä ö")),
        do("get", "/ä ö", gives=(b"\0\xff", having(data_length=2))),
    ],
    "create, sequential": [
        do("create", "/n-", mode=M.PERSISTENT_SEQUENTIAL, gives=created("/n-0000000000")),
        do("create", "/n-", mode=M.EPHEMERAL_SEQUENTIAL, gives=created("/n-0000000001")),
        do("create", "/x", gives=created("/x")),
        do("delete", "/n-0000000000"),
        do("create", "/m-", mode=M.PERSISTENT_SEQUENTIAL, gives=created("/m-0000000003")),
        do("create", "/x/", mode=M.PERSISTENT_SEQUENTIAL, gives=created("/x/0000000000")),
        do("create", "/none/n-", mode=M.PERSISTENT_SEQUENTIAL, gives=error(NoNodeError)),
        do("create", "/m-", mode=M.PERSISTENT_SEQUENTIAL, gives=created("/m-0000000004")),
    ],
    "create, ephemeral": [
        do("create", "/e", mode=M.EPHEMERAL, gives=created("/e", ephemeral_owner=SESSION)),
        do("create", "/e/a", gives=error(NoChildrenForEphemeralsError)),
        do("create", "/e", gives=error(NodeExistsError)).by("other"),
        do("get", "/e", gives=(b"", having(ephemeral_owner=ANY))).by("other"),
        do("delete", "/e").by("other"),
        do("exists", "/e", gives=None),
    ],
    "create, containers": [
        do("create", "/c", mode=M.CONTAINER, gives=created("/c")),
        do("create", "/c/a", gives=created("/c/a")),
        do("create", "/c", mode=M.CONTAINER, gives=error(NodeExistsError)),
    ],
    "create, with a time to live": [
        do("create", "/t", mode=M.PERSISTENT_WITH_TTL, ttl=3600.0, gives=created("/t")),
        do(
            "create",
            "/t-",
            mode=M.PERSISTENT_SEQUENTIAL_WITH_TTL,
            ttl=3600.0,
            gives=created("/t-0000000001"),
        ),
        do("create", "/t/a", gives=created("/t/a")),
    ],
    "ensure_path": [
        do("ensure_path", "/a/b/c"),
        do("ensure_path", "/a/b/c"),
        do("exists", "/a/b", gives=having(num_children=1)),
        do("create", "/e", mode=M.EPHEMERAL, gives=created("/e")),
        do("ensure_path", "/e/a", gives=error(NoChildrenForEphemeralsError)),
    ],
    # --- deleting ------------------------------------------------------------------------------
    "delete": [
        do("delete", "/a", gives=error(NoNodeError)),
        do("create", "/a", gives=ANY),
        do("create", "/a/b", gives=ANY),
        do("delete", "/a", gives=error(NotEmptyError)),
        do("delete", "/a/b", version=1, gives=error(BadVersionError)),
        do("delete", "/a/b", version=0),
        do("exists", "/a", gives=having(cversion=2, num_children=0)),
        do("delete", "/a"),
        do("exists", "/a", gives=None),
    ],
    "delete_all": [
        do("ensure_path", "/a/b/c"),
        do("create", "/a/d", b"data", gives=ANY),
        do("delete_all", "/a", gives=4),
        do("exists", "/a", gives=None),
        do("delete_all", "/a", gives=0),
    ],
    # --- data ----------------------------------------------------------------------------------
    "set and get": [
        do("get", "/a", gives=error(NoNodeError, path="/a")),
        do("set", "/a", b"x", gives=error(NoNodeError)),
        do("create", "/a", b"one", gives=ANY),
        do("get", "/a", gives=(b"one", having(**NEW | {"data_length": 3}))),
        do("set", "/a", b"three", gives=having(version=1, data_length=5)),
        do("set", "/a", b"", version=1, gives=having(version=2, data_length=0)),
        do("set", "/a", b"x", version=1, gives=error(BadVersionError)),
        do("get", "/a", gives=(b"", having(version=2))),
        do("set", "/a", bytes(100_000), gives=having(data_length=100_000)),
        do("get", "/a", gives=(bytes(100_000), ANY)),
        do("set", "/a", bytes(1 << 20), gives=error(LocalWireError)),
        do("set", "/", b"x", gives=having(version=1)),
    ],
    "exists": [
        do("exists", "/a", gives=None),
        do("exists", "/a/b", gives=None),
        do("create", "/a", b"data", gives=ANY),
        do("exists", "/a", gives=having(data_length=4)),
        do("exists", "a", gives=error(InvalidPathError)),
    ],
    "sync and check": [
        do("sync"),
        do("sync", "/none"),
        do("create", "/a", gives=ANY),
        do("check", "/a"),
        do("check", "/a", version=0),
        do("check", "/a", version=1, gives=error(BadVersionError)),
        do("check", "/none", gives=error(NoNodeError)),
    ],
    # --- children ------------------------------------------------------------------------------
    "get_children": [
        do("get_children", "/none", gives=error(NoNodeError)),
        do("get_children", "/", gives=[]),
        do("ensure_path", "/a/b"),
        do("create", "/c", gives=ANY),
        do("get_children", "/", gives=unordered("a", "c")),
        do("get_children", "/c", gives=[]),
        do("get_children_and_stat", "/a", gives=(["b"], having(num_children=1, cversion=1))),
        do("get_children_and_stat", "/none", gives=error(NoNodeError)),
    ],
    "get_all_children_number": [
        do("ensure_path", "/a/b/c"),
        do("create", "/a/d", gives=ANY),
        do("get_all_children_number", "/a", gives=3),
        do("get_all_children_number", "/a/d", gives=0),
        do("get_all_children_number", "/none", gives=error(NoNodeError)),
    ],
    "get_ephemerals": [
        do("get_ephemerals", gives=[]),
        do("ensure_path", "/a"),
        do("create", "/a/e", mode=M.EPHEMERAL, gives=ANY),
        do("create", "/f", mode=M.EPHEMERAL, gives=ANY),
        do("get_ephemerals", gives=unordered("/a/e", "/f")),
        do("get_ephemerals", "/a", gives=["/a/e"]),
        do("get_ephemerals", gives=[]).by("other"),
    ],
    # --- permissions ---------------------------------------------------------------------------
    "ACLs": [
        do("create", "/a", gives=ANY),
        do("get_acl", "/a", gives=(list(OPEN_ACL_UNSAFE), having(aversion=0))),
        do("set_acl", "/a", READABLE, gives=having(aversion=1)),
        do("get_acl", "/a", gives=(unordered(*READABLE), having(aversion=1))).by("ann"),
        # Who may not administer a znode is not shown whose digests may.
        do("get_acl", "/a", gives=(unordered(READABLE[0], having(id="ann:x")), ANY)),
        do("set_acl", "/a", READABLE, version=0, gives=error(NoAuthError)),
        do("set", "/a", b"x", gives=error(NoAuthError)),
        do("create", "/a/b", gives=error(NoAuthError)),
        do("get", "/a", gives=(b"", ANY)),
        do("set_acl", "/a", READABLE, version=0, gives=error(BadVersionError)).by("ann"),
        do("set_acl", "/a", OPEN_ACL_UNSAFE, version=1, gives=having(aversion=2)).by("ann"),
        do("set_acl", "/none", OPEN_ACL_UNSAFE, gives=error(NoNodeError)),
        do("get_acl", "/none", gives=error(NoNodeError)),
    ],
    "ACLs that make no sense": [
        do("create", "/a", acl=ALL_OF_AUTH, gives=error(InvalidACLError)),
        do("create", "/a", acl=[ACL(Permission.ALL, "no", "x")], gives=error(InvalidACLError)),
        do("create", "/a", acl=[ACL(Permission.ALL, "ip", "1.2")], gives=error(InvalidACLError)),
        do("exists", "/a", gives=None),
    ],
    "characters beyond U+FFFF": [
        do("create", "/a", acl=[*OPEN_ACL_UNSAFE, SMILING.acl()], gives=ANY),
        # Followers read the transaction that has it as UTF-8, and keep replacement characters.
        do(
            "get_acl",
            "/a",
            gives=differing(
                embedded=(unordered(*OPEN_ACL_UNSAFE, SMILING.acl()), ANY),
                standalone=(unordered(*OPEN_ACL_UNSAFE, SMILING.acl()), ANY),
                ensemble=ANY,
            ),
        ),
        do(
            "whoami",
            gives=unordered(
                having(scheme="ip", id="127.0.0.1"), having(scheme="digest", id="u\U0001f600")
            ),
        ).by("smiling"),
        do("get", "/a", gives=(b"", ANY)),
    ],
    "logged in": [
        do("create", "/hers", b"s", acl=ALL_OF_AUTH, gives=created("/hers")).by("ann"),
        do("get_acl", "/hers", gives=(list(HERS), ANY)).by("ann"),
        do("get", "/hers", gives=error(NoAuthError)),
        do("get_children", "/hers", gives=error(NoAuthError)),
        do(
            "exists",
            "/hers",
            gives=by_version(
                Feature.EXISTS_NEEDS_READ,
                before=having(data_length=1),
                after=error(NoAuthError),
            ),
        ),
        do("exists", "/hers/none", gives=None),
        do("exists", "/hers", gives=having(data_length=1)).by("ann"),
        do("delete", "/hers"),
        do("whoami", gives=[having(scheme="ip", id="127.0.0.1")]),
        do(
            "whoami",
            gives=unordered(having(scheme="ip", id="127.0.0.1"), having(scheme="digest", id="ann")),
        ).by("ann"),
    ],
    "logging in": [
        do("create", "/hers", acl=HERS, gives=ANY).by("later"),
        do("get", "/hers", gives=error(NoAuthError)).by("later"),
        do("add_auth", ANN).by("later"),
        do("get", "/hers", gives=(b"", ANY)).by("later"),
        do(
            "whoami",
            gives=unordered(having(scheme="ip", id="127.0.0.1"), having(scheme="digest", id="ann")),
        ).by("later"),
    ],
    # --- several at once -----------------------------------------------------------------------
    "transactions": [
        transaction(
            ("create", "/a", b"one"),
            ("create", "/a/n-", b"", {"mode": M.EPHEMERAL_SEQUENTIAL}),
            ("check", "/a", {"version": 0}),
            ("set", "/a", b"two", {"version": 0}),
            ("delete", "/a/n-0000000000"),
            gives=["/a", "/a/n-0000000000", None, having(version=1), None],
        ),
        do("get", "/a", gives=(b"two", having(num_children=0, cversion=2))),
        transaction(("check", "/a"), gives=[None]),
    ],
    "transactions that fail": [
        do("create", "/a", b"old", gives=ANY),
        transaction(
            ("set", "/a", b"new"),
            ("create", "/b"),
            ("check", "/a", {"version": 7}),
            ("delete", "/a"),
            gives=fails(2, BadVersionError),
        ),
        transaction(("delete", "/a"), ("delete", "/a"), gives=fails(1, NoNodeError)),
        transaction(("create", "/b"), ("create", "/b"), gives=fails(1, NodeExistsError)),
        transaction(("create", "/a/b"), ("delete", "/a"), gives=fails(1, NotEmptyError)),
        transaction(
            ("set", "/a", b""),
            ("check", "/none"),
            ("delete", "/a"),
            gives=error(
                fails(0, NoNodeError).error,
                results=[
                    error(RolledBackError),
                    error(NoNodeError),
                    error(RuntimeInconsistencyError),
                ],
            ),
        ),
        do("get", "/a", gives=(b"old", having(version=0))),
        do("get_children", "/", gives=["a"]),
    ],
    "reads": [
        do("create", "/a", b"data", gives=ANY),
        do("create", "/a/b", gives=ANY),
        reads(
            ("get", "/a"),
            ("get_children", "/a"),
            ("get", "/none"),
            ("get_children", "/none"),
            ("get_children", "/a/b"),
            gives=[
                (b"data", having(data_length=4)),
                ["b"],
                error(NoNodeError),
                error(NoNodeError),
                [],
            ],
        ),
    ],
    "fenced": [
        do("create", "/g", gives=ANY),
        fenced("/g", "create", "/a", b"one", gives="/a"),
        fenced("/g", "set", "/a", b"two", gives=having(version=1)),
        fenced("/g", "delete", "/none", gives=error(NoNodeError)),
        do("delete", "/g"),
        fenced("/g", "set", "/a", b"three", gives=error(Fenced)),
        do("get", "/a", gives=(b"two", ANY)),
    ],
    "quotas": [
        do("get_quota", "/a", gives=None),
        do("set_quota", "/a", Quota(count=9), gives=error(NoNodeError)),
        do("create", "/a", b"data", gives=ANY),
        do("set_quota", "/a", Quota(count=9, bytes_hard=1000)),
        do("create", "/a/b", b"x", gives=ANY),
        do("get_quota", "/a", gives=(Quota(count=9, bytes_hard=1000), QuotaUsage(2, 5))),
        do("set_quota", "/a/b", Quota(count=1), gives=error(NodeExistsError)),
        do("set_quota", "/a", Quota(bytes=7)),
        do("get_quota", "/a", gives=(Quota(bytes=7), QuotaUsage(2, 5))),
        do("delete_quota", "/a"),
        do("delete_quota", "/a", gives=error(NoNodeError)),
        do("get_quota", "/a", gives=None),
    ],
    # --- watches -------------------------------------------------------------------------------
    "one-shot watches": [
        hears("exists", "/a", do("create", "/a"), answer=None, gives=("CREATED", "/a")),
        hears("exists", "/a", do("set", "/a", b"x"), gives=("DATA_CHANGED", "/a")),
        hears("get", "/a", do("set", "/a", b"x"), gives=("DATA_CHANGED", "/a")),
        hears("get_children", "/a", do("create", "/a/b"), gives=("CHILDREN_CHANGED", "/a")),
        hears("get_children", "/a", do("delete", "/a/b"), gives=("CHILDREN_CHANGED", "/a")),
        hears("get_children", "/a", do("delete", "/a"), gives=("DELETED", "/a")),
        do("create", "/a", gives=ANY),
        hears("get", "/a", do("delete", "/a"), gives=("DELETED", "/a")),
        do("create", "/a", gives=ANY),
        hears("exists", "/a", do("delete", "/a"), gives=("DELETED", "/a")),
    ],
    "persistent watches": [
        streams(
            "/a",
            do("create", "/a"),
            do("set", "/a", b"x"),
            do("create", "/a/b"),
            do("set", "/a/b", b"x"),
            do("delete", "/a/b"),
            do("delete", "/a"),
            do("create", "/a"),
            gives=[
                ("CREATED", "/a"),
                ("DATA_CHANGED", "/a"),
                ("CHILDREN_CHANGED", "/a"),
                ("DELETED", "/a"),
                ("CREATED", "/a"),
            ],
        ),
        streams(
            "/a",
            do("create", "/a/b"),
            do("set", "/a/b", b"x"),
            do("create", "/a/b/c"),
            do("delete", "/a/b/c"),
            do("set", "/a", b"x"),
            recursive=True,
            gives=[
                ("CREATED", "/a/b"),
                ("DATA_CHANGED", "/a/b"),
                ("CREATED", "/a/b/c"),
                ("DELETED", "/a/b/c"),
                ("DATA_CHANGED", "/a"),
            ],
        ),
    ],
    "views": [
        views(
            "observe_data",
            "/a",
            do("create", "/a", b"one"),
            do("set", "/a", b"two"),
            do("delete", "/a"),
            gives=[None, (b"one", having(version=0)), (b"two", having(version=1)), None],
        ),
        do("create", "/a", gives=ANY),
        views(
            "observe_children",
            "/a",
            do("create", "/a/c"),
            do("create", "/a/b"),
            do("delete", "/a/c"),
            gives=[[], ["c"], ["b", "c"], ["b"]],
        ),
    ],
    # --- the ensemble --------------------------------------------------------------------------
    "configuration": [
        do(
            "get_config",
            gives=differing(
                embedded=having(servers=[]),
                standalone=having(servers=[]),
                ensemble=having(servers=[having(id=1), having(id=2), having(id=3)], version=ANY),
            ),
        ),
        do(
            "reconfig",
            joining=["server.9=localhost:2888:3888;2181"],
            gives=differing(
                embedded=error(ReconfigDisabledError),
                standalone=error(UnimplementedError),
                ensemble=error(ReconfigDisabledError),
            ),
        ),
    ],
    "paths": [
        do("create", "/a/../b", gives=error(InvalidPathError)),
        do("create", "/a//b", gives=error(InvalidPathError)),
        do("create", "/a\0", gives=error(InvalidPathError)),
        do("create", "/...", gives=created("/...")),
        do("create", "/a.b", gives=created("/a.b")),
        do("create", "/日本", gives=created("/日本")),
        do("get_children", "/", gives=unordered("...", "a.b", "日本")),
    ],
}

"""Stories of znodes, permissions and transactions, to be told to two servers."""

from __future__ import annotations

from assurance.conformance.differential import Stage, Story, body, create

from aiolead._wire.codes import OpCode, WatcherType
from aiolead._wire.requests import (
    AuthPacket,
    Check,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    SetACL,
    SetData,
    Sync,
)
from aiolead.model import ACL, OPEN_ACL_UNSAFE, Auth, Permission

EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, TTL, SEQUENTIAL_TTL = range(1, 7)

STORIES: list[Story] = []


def story(function: Story) -> Story:
    STORIES.append(function)
    return function


# --- znodes ------------------------------------------------------------------------------------


@story
def creating(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    for op in (OpCode.CREATE, OpCode.CREATE2):
        a.ask(create(f"{root}/{op.name}", b"data", op=op))
        a.ask(create(f"{root}/{op.name}", b"data", op=op))
        a.ask(create(f"{root}/{op.name}/eph", b"", EPHEMERAL, op=op))
        a.ask(create(f"{root}/{op.name}/eph/child", b"", op=op))
        a.ask(create(f"{root}/none/child", b"", op=op))
        for flags in range(8):
            a.ask(create(f"{root}/{op.name}/{flags}-", b"x", flags, op=op))
        a.ask(create(f"{root}/{op.name}/noacl", acl=(), op=op))
    for flags in (-1, 7, 100):
        a.ask(create(f"{root}/strange", flags=flags))
    a.ask(GetChildren(root))
    a.ask(GetChildren(root, op=OpCode.GET_CHILDREN))
    a.ask_raw(OpCode.GET_ALL_CHILDREN_NUMBER, body(root))
    a.ask_raw(OpCode.GET_ALL_CHILDREN_NUMBER, body(root + "/none"))
    a.ask(GetEphemerals(root))
    a.ask(GetEphemerals(root + "/CREATE2"))
    a.ask(GetEphemerals(""))


@story
def containers_and_ttl(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    container, with_ttl = OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL
    a.ask(create(f"{root}/c", flags=CONTAINER, op=container))
    a.ask(create(f"{root}/c2", flags=0, op=container))
    a.ask(create(f"{root}/c3-", flags=SEQUENTIAL, op=container))
    a.ask(create(f"{root}/c4", flags=EPHEMERAL, op=container))
    a.ask(create(f"{root}/c/child"))
    a.ask(create(f"{root}/c4/child"))
    a.ask(create(f"{root}/t", flags=TTL, op=with_ttl, ttl=3_600_000))
    a.ask(create(f"{root}/t-", flags=SEQUENTIAL_TTL, op=with_ttl, ttl=3_600_000))
    a.ask(create(f"{root}/t/child"))
    for ttl in (0, -1, 1 << 40, (1 << 40) - 1):
        a.ask(create(f"{root}/t{ttl}", flags=TTL, op=with_ttl, ttl=ttl))
    a.ask(create(f"{root}/flagless", flags=0, op=with_ttl, ttl=1000))
    for path in ("c", "c2", "c4", "t"):
        a.ask(Exists(f"{root}/{path}"))
    a.ask(GetEphemerals(root))
    a.ask(GetChildren(root))


@story
def sequence_numbers(stage: Stage) -> None:
    a, b, root = stage.enter("a"), stage.enter("b"), stage.root
    a.ask(create(f"{root}/p"))
    for actor in (a, b, a):
        actor.ask(create(f"{root}/p/n-", flags=EPHEMERAL_SEQUENTIAL))
    a.ask(create(f"{root}/p/plain"))
    a.ask(Delete(f"{root}/p/plain", -1))
    a.ask(Delete(f"{root}/p/n-0000000000", -1))
    a.ask(create(f"{root}/p/n-", flags=SEQUENTIAL))
    a.ask(create(f"{root}/p/", flags=SEQUENTIAL))
    a.ask(create(f"{root}/p/0000000006"))
    a.ask(create(f"{root}/p/", flags=SEQUENTIAL))
    a.ask(Exists(f"{root}/p"))
    # A failed create takes no number; a parent that is made anew starts again.
    a.ask(create(f"{root}/p/n-", flags=SEQUENTIAL, acl=()))
    a.ask(create(f"{root}/p/n-", flags=SEQUENTIAL))
    a.ask(GetChildren(f"{root}/p"))


@story
def deleting(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    a.ask(create(f"{root}/x"))
    a.ask(create(f"{root}/x/y"))
    a.ask(Delete(f"{root}/x", -1))
    a.ask(Delete(f"{root}/x/y", 1))
    a.ask(Delete(f"{root}/x/y", 0))
    a.ask(Delete(f"{root}/x/y", 0))
    a.ask(Delete(f"{root}/none/y", 0))
    a.ask(Exists(f"{root}/x"))
    a.ask(Delete(f"{root}/x", -1))
    a.ask(Exists(root))
    for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "", "none", "/none"):
        a.ask(Delete(path, -1))


@story
def data(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    a.ask(GetData(root))
    a.ask(SetData(root, b"one", -1))
    a.ask(SetData(root, b"two", 0))
    a.ask(SetData(root, b"two", 1))
    a.ask(SetData(root, b"", 2))
    a.ask(GetData(root))
    a.ask(SetData(root + "/none", b"", -1))
    a.ask(GetData(root + "/none"))
    a.ask(Exists(root + "/none"))
    a.ask(GetChildren(root + "/none"))
    a.ask(SetData(root, b"x" * 100_000, -1))
    a.ask(GetData(root))
    a.ask(Sync(root))
    a.ask(Sync("anything"))
    # Some servers close the connection over it, at a time of their own.
    for number, path in enumerate((root, root, root + "/none")):
        stage.enter(f"checking {number}").ask_raw(OpCode.CHECK, body(path, 77 * number))


@story
def null_data(stage: Stage) -> None:
    """What a client writes as null is read as null, which is not empty."""
    a, root = stage.enter("a"), stage.root
    for op in (OpCode.CREATE, OpCode.CREATE2):
        a.ask(create(f"{root}/{op.name}", None, op=op))
        a.ask(GetData(f"{root}/{op.name}"))
    a.ask(create(f"{root}/c", None, CONTAINER, op=OpCode.CREATE_CONTAINER))
    a.ask(create(f"{root}/t", None, TTL, op=OpCode.CREATE_TTL, ttl=3_600_000))
    a.ask(GetData(f"{root}/c"))
    a.ask(GetData(f"{root}/t"))
    x = f"{root}/CREATE"
    a.ask(Exists(x))
    for value in (b"", b"some", None, None, b""):
        a.ask(SetData(x, value, -1))
        a.ask(GetData(x))
    a.ask(Multi((create(f"{root}/m", None, op=OpCode.CREATE), SetData(x, None, -1))))
    a.ask(GetData(x))
    # A transaction that fails leaves what was there, null or empty.
    for path in (x, f"{root}/t", root):
        a.ask(Multi((SetData(path, b"other", -1), Check(f"{root}/none", 0))))
        a.ask(GetData(path))
    paths = (x, f"{root}/m", root)
    reads = b"".join(body(OpCode.GET_DATA, False, -1, path, False) for path in paths)
    a.ask_raw(OpCode.MULTI_READ, reads + body(-1, True, -1))
    a.ask(GetChildren(root))


@story
def the_servers_own(stage: Stage) -> None:
    a = stage.enter("a")
    a.ask(Exists("/zookeeper"))
    a.ask(GetChildren("/zookeeper"))
    a.ask(GetData("/zookeeper/quota"))
    a.ask(GetData("/zookeeper/config"))
    a.ask(GetACL("/zookeeper/config"))
    a.ask(GetACL("/zookeeper"))
    a.ask(SetData("/zookeeper/config", b"", -1))
    a.ask(create("/zookeeper/mine"))
    a.ask(Delete("/zookeeper/mine", -1))


@story
def strange_paths(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    names = (
        "", "/", "//", "/.", "/..", "/a/", "/a//b", "/./b", "/../b", "/...", "/.a", "/a.",
        "/\x01", "/\x7f", "/\x9f", "/\xa0", "/\u2028", "/\ud7ff", "/\uf8ff", "/\uf900",
        "/\ufff0", "/\uffef", "/\U0001f600", "/a\0b", "/ ", "/ä",
    )  # fmt: skip
    for name in names:
        path = root + name
        a.ask(create(path, op=OpCode.CREATE))
        a.ask(create(path, flags=SEQUENTIAL, op=OpCode.CREATE))
        a.ask(SetData(path, b"", 99))
        a.ask(Delete(path, 99))
        a.ask(Exists(path))
        a.ask(GetData(path))
        a.ask(SetACL(path, OPEN_ACL_UNSAFE, 99))
        a.ask(Multi((Check(path, 99),)))
    for path in ("", "none", "none/none", "/"):
        a.ask(create(path, op=OpCode.CREATE))
        a.ask(SetData(path, b"", 99))
        a.ask_raw(OpCode.GET_ALL_CHILDREN_NUMBER, body(path and "none"))
    for path in ("none", "none/none"):
        a.ask(Exists(path))
        a.ask(GetData(path))
        a.ask(GetChildren(path))
        a.ask(GetACL(path))


# --- permissions -------------------------------------------------------------------------------


@story
def permissions(stage: Stage) -> None:
    a, b, root = stage.enter("a"), stage.enter("b"), stage.root
    ann = Auth.digest("ann", "secret")
    a.ask(create(f"{root}/auth", acl=(ACL(Permission.ALL, "auth", ""),)))
    a.ask(AuthPacket(ann.scheme, ann.credential), xid=-4)
    a.ask(AuthPacket(ann.scheme, ann.credential), xid=-4)
    a.ask(create(f"{root}/auth", b"hers", acl=(ACL(Permission.ALL, "auth", ""),)))
    a.ask(create(f"{root}/auth/child"))
    a.ask(GetACL(f"{root}/auth"))
    for request in (
        GetData(f"{root}/auth"),
        SetData(f"{root}/auth", b"", -1),
        GetChildren(f"{root}/auth"),
        GetACL(f"{root}/auth"),
        Exists(f"{root}/auth"),
        create(f"{root}/auth/more"),
        Delete(f"{root}/auth/child", -1),
        Delete(f"{root}/auth/none", -1),
        SetACL(f"{root}/auth", OPEN_ACL_UNSAFE, -1),
        Multi((Check(f"{root}/auth", 0),)),
    ):
        b.ask(request)
    b.ask_raw(OpCode.GET_ALL_CHILDREN_NUMBER, body(f"{root}/auth"))
    for permission in Permission:
        path = f"{root}/{permission.name}"
        a.ask(create(path, acl=(ACL(permission, "world", "anyone"), ann.acl())))
        a.ask(create(f"{path}/child"))
        b.ask(GetData(path))
        b.ask(SetData(path, b"", -1))
        b.ask(create(f"{path}/more"))
        b.ask(Delete(f"{path}/child", -1))
        b.ask(GetACL(path))
        b.ask(SetACL(path, OPEN_ACL_UNSAFE, 5))
        b.ask(SetACL(path, OPEN_ACL_UNSAFE, 0))
    a.ask(SetACL(root, (ACL(Permission.READ, "world", "anyone"), ann.acl()), 0))
    b.ask(create(f"{root}/denied"))
    a.ask(create(f"{root}/allowed"))
    a.ask_raw(OpCode.WHO_AM_I)


@story
def reading_what_is_private(stage: Stage) -> None:
    """Whether `exists` needs READ depends on the version; a missing znode is told to everybody."""
    a, b, root = stage.enter("a"), stage.enter("b"), stage.root
    ann = Auth.digest("ann", "secret")
    a.ask(AuthPacket(ann.scheme, ann.credential), xid=-4)
    a.ask(create(f"{root}/x", b"hers", acl=(ann.acl(),)))
    for actor in (a, b):
        for path in ("x", "x/none", "none"):
            actor.ask(Exists(f"{root}/{path}", True))
            actor.ask_raw(OpCode.CHECK_WATCHES, body(f"{root}/{path}", WatcherType.DATA))
    a.ask(SetACL(f"{root}/x", (ACL(Permission.READ, "world", "anyone"), ann.acl()), -1))
    b.ask(Exists(f"{root}/x"))
    b.ask(AuthPacket(ann.scheme, ann.credential), xid=-4)
    a.ask(SetACL(f"{root}/x", (ann.acl(),), -1))
    b.ask(Exists(f"{root}/x"))


@story
def acl_entries(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    entries = (
        ("world", "anyone"), ("world", "else"), ("digest", "user:hash"), ("digest", "user"),
        ("digest", "user:"), ("digest", ":hash"), ("digest", "a:b:c"), ("digest", ""),
        ("ip", "127.0.0.1"), ("ip", "127.0.0.0/8"), ("ip", "10.0.0.1"), ("ip", "127.0.0"),
        ("ip", "127.0.0.1/33"), ("ip", "127.0.0.1/x"), ("ip", "300.0.0.1"), ("ip", "::1"),
        ("ip", "127.0.0.1/0"), ("ip", "127.0.0.1/"), ("ip", "fe80::1:2/64"), ("ip", "::/0"),
        ("ip", "1:2:3:4:5:6:7:8"), ("ip", "1:2:3:4:5:6:7"), ("ip", "::1/129"), ("ip", "1::2::3"),
        ("ip", "12345::"), ("ip", "::ffff:127.0.0.1"), ("ip", "fe80::1%lo"), ("ip", "::g"),
        ("sasl", "user"), ("x509", "user"),
        ("auth", ""), ("auth", "anything"), ("", ""), ("none", "none"),
    )  # fmt: skip
    for number, (scheme, id_) in enumerate(entries):
        path = f"{root}/{number}"
        a.ask(create(path, acl=(ACL(Permission.READ, scheme, id_),)))
        a.ask(GetData(path))
    one, other = ACL(Permission.READ, "world", "anyone"), ACL(Permission.ALL, "digest", "u:h")
    a.ask(create(f"{root}/doubles", acl=(one, other, one)))
    a.ask(GetACL(f"{root}/doubles"))


@story
def refused_credentials(stage: Stage) -> None:
    for scheme in ("world", "none", "auth"):
        actor = stage.enter(f"with {scheme}")
        actor.ask(AuthPacket(scheme, b"x:y"), xid=-4)
        actor.listen_until_closed()
    a = stage.enter("a")
    a.ask(AuthPacket("ip", b""), xid=-4)
    a.ask(AuthPacket("digest", b"no colon"), xid=-4)
    a.ask(create(f"{stage.root}/x", acl=(ACL(Permission.ALL, "auth", ""),)))
    a.ask(GetACL(f"{stage.root}/x"))


# --- transactions ------------------------------------------------------------------------------


@story
def transactions(stage: Stage) -> None:
    a, watcher, root = stage.enter("a"), stage.enter("watcher"), stage.root
    watcher.ask(GetChildren(root, True))
    watcher.ask(Exists(f"{root}/x", True))
    a.ask(
        Multi(
            (
                create(f"{root}/x", b"1", op=OpCode.CREATE),
                create(f"{root}/x/n-", b"", SEQUENTIAL, op=OpCode.CREATE2),
                create(f"{root}/x/n-", b"", EPHEMERAL_SEQUENTIAL, op=OpCode.CREATE),
                SetData(f"{root}/x", b"2", 0),
                Check(f"{root}/x", 1),
                Delete(f"{root}/x/n-0000000000", -1),
                create(f"{root}/c", flags=CONTAINER, op=OpCode.CREATE_CONTAINER),
                create(f"{root}/t", flags=TTL, op=OpCode.CREATE_TTL, ttl=10_000_000),
                create(f"{root}/c2", flags=CONTAINER, op=OpCode.CREATE),
                create(f"{root}/p2", flags=0, op=OpCode.CREATE_CONTAINER),
            )
        )
    )
    watcher.listen()
    a.ask(GetChildren(f"{root}/x"))
    a.ask(GetChildren(root))
    a.ask(Exists(f"{root}/c2"))
    a.ask(Multi(()))
    a.ask(Multi((Check(f"{root}/x", 1),)))
    a.ask(Multi((Check(f"{root}/none", -1),)))


@story
def creates_in_transactions(stage: Stage) -> None:
    """What comes of the operation, the flags and the time to live, whichever agree."""
    a, root = stage.enter("a"), stage.root
    ops = (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
    for op in ops:
        for flags in range(-1, 8):
            path = f"{root}/{op.name}{flags}-"
            times = (3_600_000, 0, -1) if op is OpCode.CREATE_TTL else (-1,)
            for ttl in times:
                a.ask(Multi((Check(root, 0), create(f"{path}{ttl}-", b"x", flags, op=op, ttl=ttl))))
    a.ask(GetEphemerals(root))
    a.ask(GetChildren(root))


@story
def failed_transactions(stage: Stage) -> None:
    a, watcher, root = stage.enter("a"), stage.enter("watcher"), stage.root
    a.ask(create(f"{root}/x", b"old"))
    a.ask(create(f"{root}/x/y"))
    watcher.ask(GetData(f"{root}/x", True))
    watcher.ask(GetChildren(f"{root}/x", True))
    culprits = (
        Check(f"{root}/x", 42),
        Delete(f"{root}/x", -1),
        Delete(f"{root}/none", -1),
        create(f"{root}/x/y"),
        create(f"{root}/none/y"),
        create(f"{root}/bad", flags=99),
        create(f"{root}/bad/"),
        create(f"{root}/bad", acl=()),
        SetData(f"{root}/x", b"", 42),
        SetData("bad", b"", 42),
    )
    for culprit in culprits:
        a.ask(
            Multi(
                (
                    SetData(f"{root}/x", b"new", -1),
                    create(f"{root}/x/n-", b"", EPHEMERAL_SEQUENTIAL),
                    Delete(f"{root}/x/y", -1),
                    create(f"{root}/x/y", b"another") if culprit.path == f"{root}/x/y" else
                    create(f"{root}/x/z", b"another"),
                    culprit,
                    create(f"{root}/after"),
                    Check(f"{root}/none", 1),
                )
            )
        )  # fmt: skip
        a.ask(GetData(f"{root}/x"))
        a.ask(GetChildren(f"{root}/x"))
        a.ask(GetEphemerals(root))
        a.ask(Exists(f"{root}/x/y"))
    watcher.listen()
    a.ask(create(f"{root}/x/n-", b"", SEQUENTIAL))


@story
def many_reads_at_once(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    a.ask(create(f"{root}/x", b"data"))
    reads = b"".join(
        body(op, False, -1, path, False)
        for op, path in (
            (OpCode.GET_DATA, f"{root}/x"),
            (OpCode.GET_CHILDREN, root),
            (OpCode.GET_DATA, f"{root}/none"),
            (OpCode.GET_CHILDREN, f"{root}/x"),
        )
    )
    end = body(-1, True, -1)
    a.ask_raw(OpCode.MULTI_READ, reads + end)
    a.ask_raw(OpCode.MULTI_READ, end)
    a.ask_raw(OpCode.MULTI_READ, reads)

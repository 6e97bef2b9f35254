"""Stories of znodes, permissions and transactions, for two servers: see `differential`."""

from __future__ import annotations

from assurance.conformance.differential import ANN, Stage, body, create

from aiolead._wire.codes import OpCode, WatcherType
from aiolead._wire.requests import (
    AuthPacket,
    Check,
    Delete,
    Exists,
    GetACL,
    GetData,
    Multi,
    SetACL,
    SetData,
)
from aiolead.model import ACL, OPEN_ACL_UNSAFE, Permission

EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, TTL, SEQUENTIAL_TTL = range(1, 7)

# --- znodes ------------------------------------------------------------------------------------


def creating(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    for op in ("CREATE", "CREATE2"):
        top = f"~/{op}"
        stage.play(f"""
            a: create {top} data op={op}; create {top} data op={op}
            a: create {top}/eph flags=1 op={op}; create {top}/eph/child op={op}
            a: create ~/none/child op={op}
        """)
        for flags in range(8):
            stage.play(f"a: create {top}/{flags}- x flags={flags} op={op}")
        stage.play(f"a: create {top}/noacl acl=none op={op}")
    for flags in (-1, 7, 100):
        stage.play(f"a: create ~/strange flags={flags}")
    stage.play("a: children ~; names ~")
    a.ask_raw(OpCode.GET_ALL_CHILDREN_NUMBER, body(root))
    a.ask_raw(OpCode.GET_ALL_CHILDREN_NUMBER, body(root + "/none"))
    stage.play("a: ephemerals ~; ephemerals ~/CREATE2; ephemerals")


def containers_and_ttl(stage: Stage) -> None:
    stage.play("""
        a: enters
        a: create ~/c flags=4 op=CREATE_CONTAINER; create ~/c2 flags=0 op=CREATE_CONTAINER
        a: create ~/c3- flags=2 op=CREATE_CONTAINER; create ~/c4 flags=1 op=CREATE_CONTAINER
        a: create ~/c/child; create ~/c4/child
        a: create ~/t flags=5 op=CREATE_TTL ttl=3600000
        a: create ~/t- flags=6 op=CREATE_TTL ttl=3600000; create ~/t/child
    """)
    for ttl in (0, -1, 1 << 40, (1 << 40) - 1):
        stage.play(f"a: create ~/t{ttl} flags=5 op=CREATE_TTL ttl={ttl}")
    stage.play("""
        a: create ~/flagless flags=0 op=CREATE_TTL ttl=1000
        a: exists ~/c; exists ~/c2; exists ~/c4; exists ~/t; ephemerals ~; children ~
    """)


def sequence_numbers(stage: Stage) -> None:
    stage.play("""
        a, b: enters
        a: create ~/p
        a, b, a: create ~/p/n- flags=3
        a: create ~/p/plain; delete ~/p/plain; delete ~/p/n-0000000000; create ~/p/n- flags=2
        a: create ~/p/ flags=2; create ~/p/0000000006; create ~/p/ flags=2; exists ~/p
        a: create ~/p/n- flags=2 acl=none; create ~/p/n- flags=2; children ~/p
    """)  # The create that is refused takes no number.


def deleting(stage: Stage) -> None:
    stage.play("""
        a: enters
        a: create ~/x; create ~/x/y; delete ~/x; delete ~/x/y 1; delete ~/x/y 0; delete ~/x/y 0
        a: delete ~/none/y 0; exists ~/x; delete ~/x; exists ~
        a: delete /; delete /zookeeper; delete /zookeeper/quota; delete /zookeeper/config
        a: delete ''; delete none; delete /none
    """)


def data(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    stage.play("""
        a: get ~; set ~ one; set ~ two 0; set ~ two 1; set ~ '' 2; get ~
        a: set ~/none; get ~/none; exists ~/none; children ~/none
    """)
    a.ask(SetData(root, b"x" * 100_000, -1))
    stage.play("a: get ~; sync ~; sync anything")
    # Some servers close the connection over it, at a time of their own.
    for number, path in enumerate((root, root, root + "/none")):
        stage.enter(f"checking {number}").ask_raw(OpCode.CHECK, body(path, 77 * number))


def null_data(stage: Stage) -> None:
    """Null is read as null, which is not empty."""
    a, root = stage.enter("a"), stage.root
    stage.play("""
        a: create ~/CREATE null op=CREATE; get ~/CREATE; create ~/CREATE2 null; get ~/CREATE2
        a: create ~/c null flags=4 op=CREATE_CONTAINER
        a: create ~/t null flags=5 op=CREATE_TTL ttl=3600000; get ~/c; get ~/t; exists ~/CREATE
        a: set ~/CREATE ''; get ~/CREATE; set ~/CREATE some; get ~/CREATE
        a: set ~/CREATE null; get ~/CREATE; set ~/CREATE null; get ~/CREATE
        a: set ~/CREATE ''; get ~/CREATE
        a: multi create ~/m null op=CREATE | set ~/CREATE null; get ~/CREATE
    """)
    # A transaction that fails leaves null or empty data as they were.
    for path in ("~/CREATE", "~/t", "~"):
        stage.play(f"a: multi set {path} other | check ~/none 0; get {path}")
    paths = (f"{root}/CREATE", f"{root}/m", root)
    reads = b"".join(body(OpCode.GET_DATA, False, -1, path, False) for path in paths)
    a.ask_raw(OpCode.MULTI_READ, reads + body(-1, True, -1))
    stage.play("a: children ~")


def the_servers_own(stage: Stage) -> None:
    stage.play("""
        a: enters
        a: exists /zookeeper; children /zookeeper; get /zookeeper/quota; get /zookeeper/config
        a: acl /zookeeper/config; acl /zookeeper; set /zookeeper/config
        a: create /zookeeper/mine; delete /zookeeper/mine
    """)


def quotas(stage: Stage) -> None:
    """The server counts as soon as there are statistics, and keeps them after that."""
    a, root = stage.enter("a"), stage.root
    quota = f"/zookeeper/quota{root}"
    stage.play("a: create ~/x data; create ~/x/y more")
    a.ask(create(quota))
    a.ask(create(f"{quota}/zookeeper_limits", b"count=9,bytes=-1=;byteHardLimit=1000"))
    a.ask(create(f"{quota}/zookeeper_stats", b"count=0,bytes=0"))
    stage.play(f"""
        a: get {quota}/zookeeper_stats; create ~/z text; get {quota}/zookeeper_stats
        a: set ~/z longer; set ~/x ''; get {quota}/zookeeper_stats
        a: delete ~/x/y; get {quota}/zookeeper_stats; multi delete ~/x | delete ~/z
        a: get {quota}/zookeeper_stats; delete {quota}/zookeeper_limits
        a: delete {quota}/zookeeper_stats; delete {quota}; create ~/x; exists {quota}
    """)


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
        stage.play(f"a: create '{path}' op=CREATE; set '{path}' '' 99")
        a.ask_raw(OpCode.GET_ALL_CHILDREN_NUMBER, body(path and "none"))
    for path in ("none", "none/none"):
        stage.play(f"a: exists {path}; get {path}; children {path}; acl {path}")


# --- permissions -------------------------------------------------------------------------------


def permissions(stage: Stage) -> None:
    a, b = stage.enter("a"), stage.enter("b")
    stage.play("""
        a: create ~/auth acl=auth; auth; auth; create ~/auth text acl=auth; create ~/auth/child
        a: acl ~/auth
        b: get ~/auth; set ~/auth; children ~/auth; acl ~/auth; exists ~/auth; create ~/auth/more
        b: delete ~/auth/child; delete ~/auth/none; setacl ~/auth all; check ~/auth 0
    """)
    b.ask_raw(OpCode.GET_ALL_CHILDREN_NUMBER, body(f"{stage.root}/auth"))
    for permission in Permission:
        path = f"~/{permission.name}"
        acl = (ACL(permission, "world", "anyone"), ANN.acl())
        a.ask(create(f"{stage.root}/{permission.name}", acl=acl))
        stage.play(f"""
            a: create {path}/child
            b: get {path}; set {path}; create {path}/more; delete {path}/child; acl {path}
            b: setacl {path} all 5; setacl {path} all 0
        """)
    stage.play("""
        a: setacl ~ readable 0
        b: create ~/denied
        a: create ~/allowed
    """)
    a.ask_raw(OpCode.WHO_AM_I)


def reading_what_is_private(stage: Stage) -> None:
    """Whether `exists` needs READ depends on the version. A missing znode is reported to all."""
    a, b = stage.enter("a"), stage.enter("b")
    stage.play("a: auth; create ~/x text acl=ann")
    for name, actor in (("a", a), ("b", b)):
        for path in ("x", "x/none", "none"):
            stage.play(f"{name}: exists ~/{path} watch")
            actor.ask_raw(OpCode.CHECK_WATCHES, body(f"{stage.root}/{path}", WatcherType.DATA))
    stage.play("""
        a: setacl ~/x readable
        b: exists ~/x; auth
        a: setacl ~/x ann
        b: exists ~/x
    """)


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


def refused_credentials(stage: Stage) -> None:
    for scheme in ("world", "none", "auth"):
        actor = stage.enter(f"with {scheme}")
        actor.ask(AuthPacket(scheme, b"x:y"), xid=-4)
        actor.listen_until_closed()
    a = stage.enter("a")
    a.ask(AuthPacket("ip", b""), xid=-4)
    a.ask(AuthPacket("digest", b"no colon"), xid=-4)
    stage.play("a: create ~/x acl=auth; acl ~/x")


# --- transactions ------------------------------------------------------------------------------


def transactions(stage: Stage) -> None:
    steps = (
        "create ~/x 1 op=CREATE",
        "create ~/x/n- flags=2",
        "create ~/x/n- flags=3 op=CREATE",
        "set ~/x 2 0",
        "check ~/x 1",
        "delete ~/x/n-0000000000",
        "create ~/c flags=4 op=CREATE_CONTAINER",
        "create ~/t flags=5 op=CREATE_TTL ttl=10000000",
        "create ~/c2 flags=4 op=CREATE",
        "create ~/p2 flags=0 op=CREATE_CONTAINER",
    )
    stage.play(f"""
        a, watcher: enters
        watcher: children ~ watch; exists ~/x watch
        a: multi {" | ".join(steps)}
        watcher: listens
        a: children ~/x; children ~; exists ~/c2; multi; check ~/x 1; check ~/none
    """)


def creates_in_transactions(stage: Stage) -> None:
    """All combinations of the operation, the flags and the time to live."""
    stage.play("a: enters")
    for op in ("CREATE", "CREATE2", "CREATE_CONTAINER", "CREATE_TTL"):
        for flags in range(-1, 8):
            for ttl in (3_600_000, 0, -1) if op == "CREATE_TTL" else (-1,):
                path = f"~/{op}{flags}-{ttl}-"
                stage.play(f"a: multi check ~ 0 | create {path} x flags={flags} op={op} ttl={ttl}")
    stage.play("a: ephemerals ~; children ~")


def failed_transactions(stage: Stage) -> None:
    stage.play("""
        a, watcher: enters
        a: create ~/x old; create ~/x/y
        watcher: get ~/x watch; children ~/x watch
    """)
    culprits = (
        "check ~/x 42",
        "delete ~/x",
        "delete ~/none",
        "create ~/x/y",
        "create ~/none/y",
        "create ~/bad flags=99",
        "create ~/bad/",
        "create ~/bad acl=none",
        "set ~/x '' 42",
        "set bad '' 42",
    )
    for culprit in culprits:
        # A culprit that creates ~/x/y finds it there again.
        other = "~/x/y" if culprit == "create ~/x/y" else "~/x/z"
        steps = (
            "set ~/x new",
            "create ~/x/n- flags=3",
            "delete ~/x/y",
            f"create {other} another",
            culprit,
            "create ~/after",
            "check ~/none 1",
        )
        stage.play(f"""
            a: multi {" | ".join(steps)}
            a: get ~/x; children ~/x; ephemerals ~; exists ~/x/y
        """)
    stage.play("""
        watcher: listens
        a: create ~/x/n- flags=2
    """)


def many_reads_at_once(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    stage.play("a: create ~/x data")
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
    for asked in (reads + end, end, reads):
        a.ask_raw(OpCode.MULTI_READ, asked)

"""Stories of watches, sessions and nonsense, to be told to two servers."""

from __future__ import annotations

from collections.abc import Sequence

from assurance.conformance.differential import Actor, Stage, Story, body, create

from aiolead._wire.codes import OpCode, WatcherType
from aiolead._wire.requests import (
    AuthPacket,
    CloseSession,
    Delete,
    Exists,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    RemoveWatches,
    SetACL,
    SetData,
    SetWatches,
)
from aiolead.model import ACL, OPEN_ACL_UNSAFE, Auth, Permission

EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL, CONTAINER, TTL, SEQUENTIAL_TTL = range(1, 7)

STORIES: list[Story] = []


def story(function: Story) -> Story:
    STORIES.append(function)
    return function


# --- watches -----------------------------------------------------------------------------------


@story
def watches(stage: Stage) -> None:
    a, b, root = stage.enter("a"), stage.enter("b"), stage.root
    x = f"{root}/x"
    for actor in (a, b):
        actor.ask(Exists(x, True))
        actor.ask(GetData(x, True))
        actor.ask(GetChildren(x, True))
        actor.ask(GetChildren(root, True))
    a.ask(create(x))
    b.listen()
    a.ask(GetData(x, True))
    a.ask(Exists(x, True))
    b.ask(GetChildren(x, True))
    b.ask(SetData(x, b"", -1))
    b.ask(SetData(x, b"", -1))
    a.listen()
    a.ask(create(f"{x}/y"))
    b.listen()
    a.ask(Delete(f"{x}/y", -1))
    # A watch of each kind on the same znode: its deletion is told once.
    a.ask(GetData(x, True))
    a.ask(GetChildren(x, True))
    a.ask(GetChildren(root, True))
    b.ask(Delete(x, -1))
    a.listen()
    a.ask(SetACL(root, OPEN_ACL_UNSAFE, -1))
    a.listen()


@story
def watches_end_with_the_connection(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    a.ask(GetData(root, True))
    again = stage.enter("a again", session=a.session)
    a.listen_until_closed()
    again.ask(SetData(root, b"", -1))
    again.ask_raw(OpCode.CHECK_WATCHES, body(root, WatcherType.DATA))


@story
def arming_watches_again(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    paths = [f"{root}/{name}" for name in ("same", "changed", "gone", "made")]
    for path in paths[:3]:
        a.ask(create(path))
    before = a.raw(OpCode.SYNC, body(root))
    a.ask(SetData(paths[1], b"new", -1))
    a.ask(create(f"{paths[1]}/child"))
    a.ask(Delete(paths[2], -1))
    a.ask(create(paths[3]))
    for op in (OpCode.SET_WATCHES, OpCode.SET_WATCHES2):
        b = stage.enter(f"with {op.name}")
        everything = tuple(paths)
        b.ask(SetWatches(before, everything, everything, everything, op=op), xid=-8)
        b.listen()
        a.ask(SetData(paths[0], b"", -1))
        a.ask(create(f"{paths[0]}/{op.name}"))
        a.ask(create(paths[2]))
        a.ask(Delete(paths[2], -1))
        b.listen()
        before = a.raw(OpCode.SYNC, body(root))
        a.ask(SetData(paths[1], b"new", -1))
        a.ask(create(f"{paths[1]}/{op.name}"))


@story
def removing_watches(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    for type_ in (WatcherType.CHILDREN, WatcherType.DATA, WatcherType.ANY):
        a.ask(RemoveWatches(root, type_))
        a.ask_raw(OpCode.CHECK_WATCHES, body(root, type_))
        a.ask(GetData(root, True))
        a.ask(GetChildren(root, True))
        a.ask_raw(OpCode.CHECK_WATCHES, body(root, type_))
        a.ask(RemoveWatches(root, type_))
        a.ask(RemoveWatches(root, type_))
        a.ask(create(f"{root}/{type_.name}"))
        a.ask(SetData(root, b"", -1))
    a.ask(RemoveWatches(root, 99))  # type: ignore[arg-type]
    a.ask_raw(OpCode.CHECK_WATCHES, body(root, 99))


@story
def lasting_watches(stage: Stage) -> None:
    a, b, root = stage.enter("a"), stage.enter("b"), stage.root
    a.ask(create(f"{root}/one"))
    a.ask(create(f"{root}/all"))
    b.ask_raw(OpCode.ADD_WATCH, body(f"{root}/one", 0))
    b.ask_raw(OpCode.ADD_WATCH, body(f"{root}/all", 1))
    b.ask_raw(OpCode.ADD_WATCH, body(f"{root}/all", 7))
    for top in ("one", "all"):
        for _ in range(2):
            a.ask(SetData(f"{root}/{top}", b"", -1))
            a.ask(create(f"{root}/{top}/child"))
            a.ask(create(f"{root}/{top}/child/grandchild"))
            a.ask(SetData(f"{root}/{top}/child", b"", -1))
            a.ask(Delete(f"{root}/{top}/child/grandchild", -1))
            a.ask(Delete(f"{root}/{top}/child", -1))
            b.listen()
    a.ask(Delete(f"{root}/one", -1))
    a.ask(create(f"{root}/one"))
    b.listen()
    b.ask(RemoveWatches(f"{root}/one", WatcherType.ANY))
    b.ask(RemoveWatches(f"{root}/all", WatcherType.ANY))
    a.ask(SetData(f"{root}/one", b"", -1))
    a.ask(SetData(f"{root}/all", b"", -1))
    b.listen()
    b.ask(
        SetWatches(
            0, persistent=(f"{root}/one",), recursive=(f"{root}/all",), op=OpCode.SET_WATCHES2
        ),
        xid=-8,
    )
    a.ask(create(f"{root}/one/more"))
    a.ask(create(f"{root}/all/more"))
    b.listen()


@story
def events_of_what_is_private(stage: Stage) -> None:
    """Who hears of a znode that not everybody may read depends on the version."""
    a, b, root = stage.enter("a"), stage.enter("b"), stage.root
    ann = Auth.digest("ann", "secret")
    private, public = (ann.acl(),), OPEN_ACL_UNSAFE
    open_parent = (ACL(Permission.ALL & ~Permission.READ, "world", "anyone"), ann.acl())
    a.ask(AuthPacket(ann.scheme, ann.credential), xid=-4)
    for top in ("all", "one", "once", "dark"):
        a.ask(create(f"{root}/{top}"))
    b.ask_raw(OpCode.ADD_WATCH, body(f"{root}/one", 0))
    b.ask_raw(OpCode.ADD_WATCH, body(f"{root}/all", 1))
    b.ask_raw(OpCode.ADD_WATCH, body(f"{root}/one/x", 0))
    for parent in ("all", "one", "once"):
        x = f"{root}/{parent}/x"
        for acl in (private, public):
            # Heard of or not, a watch that lasts once is gone after the event.
            for listing in (False, True):
                b.ask(Exists(x, True))
                b.ask(GetChildren(f"{root}/{parent}", True))
                a.ask(create(x, acl=acl))
                b.listen()
                b.ask(GetData(x, True))
                a.ask(SetData(x, b"new", -1))
                a.ask(create(f"{x}/y", acl=acl))
                b.listen()
                b.ask(GetData(x, True))
                if listing:
                    b.ask(GetChildren(x, True))
                a.ask(Delete(f"{x}/y", -1))
                a.ask(Delete(x, -1))
                b.listen()
    # Read while it was public, changed when it was not, and the other way around.
    x = f"{root}/once/x"
    a.ask(create(x))
    for acl in (private, public):
        a.ask(SetACL(x, public, -1))
        b.ask(GetData(x, True))
        b.ask(GetChildren(x, True))
        a.ask(SetACL(x, acl, -1))
        a.ask(Multi((SetData(x, b"", -1), create(f"{x}/y"), Delete(f"{x}/y", -1))))
        b.listen()
    # The list of children belongs to the parent.
    dark = f"{root}/dark"
    b.ask(GetChildren(dark, True))
    a.ask(SetACL(dark, open_parent, -1))
    b.ask(Exists(f"{dark}/x", True))
    a.ask(create(f"{dark}/x"))
    b.listen()
    a.ask(Delete(f"{dark}/x", -1))
    b.listen()
    # Armed again, all is told; with the right credentials, too.
    a.ask(SetACL(x, private, -1))
    again = stage.enter("again")
    for paths in ((x, f"{root}/none"), (dark,)):
        request = SetWatches(0, data=paths, exist=paths, child=paths, op=OpCode.SET_WATCHES)
        again.ask(request, xid=-8)
        for path in paths:
            for type_ in (WatcherType.DATA, WatcherType.CHILDREN):
                again.ask_raw(OpCode.CHECK_WATCHES, body(path, type_))
    again.ask_raw(OpCode.ADD_WATCH, body(root, 1))
    a.ask(SetData(x, b"", -1))
    again.listen()
    again.ask(AuthPacket(ann.scheme, ann.credential), xid=-4)
    a.ask(SetData(x, b"", -1))
    again.listen()
    # What a session leaves behind is told to those who may read it.
    for acl in (private, public):
        c = stage.enter("c")
        c.ask(create(f"{root}/all/theirs", flags=EPHEMERAL, acl=acl))
        b.listen()
        c.ask(CloseSession())
        b.listen()
        again.listen()


# --- sessions ----------------------------------------------------------------------------------


@story
def handshakes(stage: Stage) -> None:
    old = stage.enter("old", old=True)
    a = stage.enter("a")
    a.ask(create(f"{stage.root}/eph", flags=EPHEMERAL))
    # Without its connection, which ZooKeeper closes for anybody who names the session, and the
    # embedded server only for who has its password.
    a.leave()
    stage.enter("wrong password", session=(a.session_id, bytes(16))).listen_until_closed()
    stage.enter("wrong id", session=(0x1234, a.password)).listen_until_closed()
    stage.enter("no password", session=(a.session_id, b"")).listen_until_closed()
    stage.enter("ahead", seen=1 << 60)
    again = stage.enter("a again", session=a.session, timeout=2)
    again.ask(Exists(f"{stage.root}/eph"))
    third = stage.enter("a once more", session=a.session, old=True)
    again.listen_until_closed()
    third.ask(GetEphemerals(""))
    third.leave()
    old.ask(GetEphemerals(""))
    # At the end: the shortest last for half a second, and the end of one counts as a transaction.
    for timeout in (0, 0.001, 0.999, 1, 5.5, 10, 11, 1000):
        stage.enter(f"for {timeout}", timeout=timeout)
    stage.enter("negative", timeout=-1)


@story
def closing_sessions(stage: Stage) -> None:
    a, b, root = stage.enter("a"), stage.enter("b"), stage.root
    for name in ("one", "two"):
        a.ask(create(f"{root}/{name}", flags=EPHEMERAL))
        b.ask(GetData(f"{root}/{name}", True))
    b.ask(CloseSession())
    b.listen_until_closed()
    a.ask(CloseSession())
    a.listen_until_closed()
    c = stage.enter("c")
    c.ask(Exists(root))
    c.ask(GetChildren(root))
    stage.enter("a again", session=a.session).listen_until_closed()


@story
def an_ephemerals_end_is_told(stage: Stage) -> None:
    a, b, root = stage.enter("a"), stage.enter("b"), stage.root
    a.ask(create(f"{root}/one", flags=EPHEMERAL))
    b.ask(GetData(f"{root}/one", True))
    b.ask(GetChildren(root, True))
    a.ask(CloseSession())
    b.listen()
    b.ask(Exists(root))


@story
def silence_ends_a_session(stage: Stage) -> None:
    a, b, root = stage.enter("a", timeout=1), stage.enter("b", timeout=10), stage.root
    a.ask(create(f"{root}/one", flags=EPHEMERAL))
    b.ask(GetData(f"{root}/one", True))
    b.ask(GetChildren(root, True))
    # A follower also closes a silent connection by itself, maybe before it hears of the end.
    a.listen_until_closed()
    for _ in ("deleted", "children changed"):
        b.wait_event(5)
    b.listen()
    b.ask(Exists(root))
    stage.enter("a again", session=a.session).listen_until_closed()


# --- what no client sends ----------------------------------------------------------------------


@story
def unknown_operations(stage: Stage) -> None:
    for op in (0, -1, 10, 23, 108, 1000, -12, 1 << 30):
        actor = stage.enter(f"with {op}")
        actor.ask_raw(op, b"")
        actor.listen_until_closed()
    a = stage.enter("a")
    a.ask_raw(OpCode.SASL, body(b"token"))
    a.ask(Exists(stage.root))


WRITES = (
    OpCode.CREATE,
    OpCode.DELETE,
    OpCode.SET_DATA,
    OpCode.SET_ACL,
    OpCode.CHECK,
    OpCode.MULTI,
    OpCode.CREATE2,
    OpCode.CREATE_CONTAINER,
    OpCode.CREATE_TTL,
)


@story
def broken_reads(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    operations = [op for op in OpCode if op not in (
        OpCode.NOTIFICATION, OpCode.ERROR, OpCode.PING, OpCode.CLOSE_SESSION,
        OpCode.CREATE_SESSION, OpCode.DELETE_CONTAINER, OpCode.AUTH, OpCode.SASL,
        OpCode.RECONFIG, OpCode.WHO_AM_I, *WRITES,
    )]  # fmt: skip
    for op in operations:
        # SYNC with a broken body takes the real server's request queue with it now and then.
        if op is not OpCode.SYNC:
            _break_bodies(a, op)
    a.ask_raw(OpCode.GET_DATA, body(root, False) + b"and more")
    a.ask(Exists(root))


@story
def broken_writes(stage: Stage) -> None:
    """A server that decodes early answers all of them without a zxid.

    In an ensemble, such a server proposes the last zxid a second time, and the ensemble is stuck.
    """
    a, root = stage.enter("a"), stage.root
    for op in WRITES:
        if op is OpCode.CHECK:
            # Unknown to some, which close the connection over it.
            _break_bodies(stage.enter("checking"), op, bodies=BROKEN[:1])
        else:
            _break_bodies(a, op)
    a.ask_raw(OpCode.MULTI, body(OpCode.CREATE, False, -1))
    a.ask_raw(OpCode.MULTI, body(77, False, -1))
    a.ask(Exists(root))


BROKEN = (b"", b"\0\0\0\x7f/a", b"\xff\xff\xff\x00")


def _break_bodies(actor: Actor, op: OpCode, *, bodies: Sequence[bytes] = BROKEN) -> None:
    for broken in bodies:
        actor.ask_raw(op, broken)


@story
def broken_frames(stage: Stage) -> None:
    for bad in (
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\0\x10\0\0",
        b"\0\0\0\0",
        b"\0\0\0\x04abcd",
    ):
        actor = stage.enter(f"with {bad!r}")
        actor.say(bad)
        actor.listen_until_closed()
        stranger = stage.knock(f"stranger with {bad!r}")
        stranger.say(bad)
        stranger.listen_until_closed()
    stage.enter("a").ask(Exists(stage.root))

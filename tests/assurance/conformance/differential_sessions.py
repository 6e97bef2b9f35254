"""Stories of watches, sessions and nonsense, for two servers: see `differential`."""

from __future__ import annotations

from collections.abc import Sequence

from assurance.conformance.differential import Actor, Stage, body, create

from aiolead._wire.codes import OpCode, WatcherType
from aiolead._wire.requests import Exists, RemoveWatches, SetWatches

EPHEMERAL = 1

# --- watches -----------------------------------------------------------------------------------


def watches(stage: Stage) -> None:
    stage.play("""
        a, b: enters
        a, b: exists ~/x watch; get ~/x watch; children ~/x watch; children ~ watch
        a: create ~/x
        b: listens
        a: get ~/x watch; exists ~/x watch
        b: children ~/x watch; set ~/x; set ~/x
        a: listens; create ~/x/y
        b: listens
        a: delete ~/x/y; get ~/x watch; children ~/x watch; children ~ watch
        b: delete ~/x
        a: listens; setacl ~ all; listens
    """)  # The deletion is reported once to a, which has a watch of each kind.


def watches_end_with_the_connection(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    stage.play("a: get ~ watch")
    again = stage.enter("a again", session=a.session)
    stage.play("""
        a: until closed
        a again: set ~
    """)
    again.ask_raw(OpCode.CHECK_WATCHES, body(root, WatcherType.DATA))


def arming_watches_again(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    paths = tuple(f"{root}/{name}" for name in ("same", "changed", "gone", "made"))
    stage.play("a: create ~/same; create ~/changed; create ~/gone")
    before = a.raw(OpCode.SYNC, body(root))
    stage.play("a: set ~/changed new; create ~/changed/child; delete ~/gone; create ~/made")
    for op in (OpCode.SET_WATCHES, OpCode.SET_WATCHES2):
        b = stage.enter(f"with {op.name}")
        b.ask(SetWatches(before, paths, paths, paths, op=op), xid=-8)
        stage.play(f"""
            {b.name}: listens
            a: set ~/same; create ~/same/{op.name}; create ~/gone; delete ~/gone
            {b.name}: listens
        """)
        before = a.raw(OpCode.SYNC, body(root))
        stage.play(f"a: set ~/changed new; create ~/changed/{op.name}")


def removing_watches(stage: Stage) -> None:
    a, root = stage.enter("a"), stage.root
    for type_ in (WatcherType.CHILDREN, WatcherType.DATA, WatcherType.ANY):
        a.ask(RemoveWatches(root, type_))
        a.ask_raw(OpCode.CHECK_WATCHES, body(root, type_))
        stage.play("a: get ~ watch; children ~ watch")
        a.ask_raw(OpCode.CHECK_WATCHES, body(root, type_))
        a.ask(RemoveWatches(root, type_))
        a.ask(RemoveWatches(root, type_))
        stage.play(f"a: create ~/{type_.name}; set ~")
    a.ask(RemoveWatches(root, 99))  # type: ignore[arg-type]
    a.ask_raw(OpCode.CHECK_WATCHES, body(root, 99))


def lasting_watches(stage: Stage) -> None:
    _, b, root = stage.enter("a"), stage.enter("b"), stage.root
    stage.play("a: create ~/one; create ~/all")
    for path, mode in ((f"{root}/one", 0), (f"{root}/all", 1), (f"{root}/all", 7)):
        b.ask_raw(OpCode.ADD_WATCH, body(path, mode))
    for top in ("~/one", "~/all"):
        for _ in range(2):
            stage.play(f"""
                a: set {top}; create {top}/child; create {top}/child/grandchild; set {top}/child
                a: delete {top}/child/grandchild; delete {top}/child
                b: listens
            """)
    stage.play("""
        a: delete ~/one; create ~/one
        b: listens
    """)
    b.ask(RemoveWatches(f"{root}/one", WatcherType.ANY))
    b.ask(RemoveWatches(f"{root}/all", WatcherType.ANY))
    stage.play("""
        a: set ~/one; set ~/all
        b: listens
    """)
    one, all_ = (f"{root}/one",), (f"{root}/all",)
    b.ask(SetWatches(0, persistent=one, recursive=all_, op=OpCode.SET_WATCHES2), xid=-8)
    stage.play("""
        a: create ~/one/more; create ~/all/more
        b: listens
    """)


def events_of_what_is_private(stage: Stage) -> None:
    """The version decides which watchers of a private znode are notified."""
    b, root = stage.enter("a") and stage.enter("b"), stage.root
    stage.play("a: auth; create ~/all; create ~/one; create ~/once; create ~/dark")
    for path, mode in (("one", 0), ("all", 1), ("one/x", 0)):
        b.ask_raw(OpCode.ADD_WATCH, body(f"{root}/{path}", mode))
    for parent in ("~/all", "~/one", "~/once"):
        x = f"{parent}/x"
        for acl in ("ann", "all"):
            # A one-shot watch is gone after the event, whether that was reported or not.
            for listing in ("", f"; children {x} watch"):
                stage.play(f"""
                    b: exists {x} watch; children {parent} watch
                    a: create {x} acl={acl}
                    b: listens; get {x} watch
                    a: set {x} new; create {x}/y acl={acl}
                    b: listens; get {x} watch{listing}
                    a: delete {x}/y; delete {x}
                    b: listens
                """)
    # Read while it was public, changed when it was not, and the other way around.
    x = "~/once/x"
    stage.play(f"a: create {x}")
    for acl in ("ann", "all"):
        stage.play(f"""
            a: setacl {x} all
            b: get {x} watch; children {x} watch
            a: setacl {x} {acl}; multi set {x} | create {x}/y | delete {x}/y
            b: listens
        """)
    # The list of children belongs to the parent.
    stage.play(f"""
        b: children ~/dark watch
        a: setacl ~/dark unreadable
        b: exists ~/dark/x watch
        a: create ~/dark/x
        b: listens
        a: delete ~/dark/x
        b: listens
        a: setacl {x} ann
    """)
    # Watches that are armed again report everything; with the right credentials, too.
    again = stage.enter("again")
    for paths in ((f"{root}/once/x", f"{root}/none"), (f"{root}/dark",)):
        request = SetWatches(0, data=paths, exist=paths, child=paths, op=OpCode.SET_WATCHES)
        again.ask(request, xid=-8)
        for path in paths:
            for type_ in (WatcherType.DATA, WatcherType.CHILDREN):
                again.ask_raw(OpCode.CHECK_WATCHES, body(path, type_))
    again.ask_raw(OpCode.ADD_WATCH, body(root, 1))
    stage.play(f"""
        a: set {x}
        again: listens; auth
        a: set {x}
        again: listens
    """)
    # The end of a session is reported to those who may read its znodes.
    for acl in ("ann", "all"):
        stage.play(f"""
            c: enters; create ~/all/theirs flags=1 acl={acl}
            b: listens
            c: close
            b, again: listens
        """)


# --- sessions ----------------------------------------------------------------------------------


def handshakes(stage: Stage) -> None:
    stage.enter("old", old=True)
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
    stage.enter("a once more", session=a.session, old=True)
    again.listen_until_closed()
    stage.play("""
        a once more: ephemerals; leaves
        old: ephemerals
    """)
    # At the end: the shortest last for half a second, and the end of one counts as a transaction.
    for timeout in (0, 0.001, 0.999, 1, 5.5, 10, 11, 1000):
        stage.enter(f"for {timeout}", timeout=timeout)
    stage.enter("negative", timeout=-1)


def closing_sessions(stage: Stage) -> None:
    a, _ = stage.enter("a"), stage.enter("b")
    for name in ("one", "two"):
        stage.play(f"""
            a: create ~/{name} flags=1
            b: get ~/{name} watch
        """)
    stage.play("""
        b: close; until closed
        a: close; until closed
        c: enters; exists ~; children ~
    """)
    stage.enter("a again", session=a.session).listen_until_closed()


def end_of_an_ephemeral_znode(stage: Stage) -> None:
    stage.play("""
        a, b: enters
        a: create ~/one flags=1
        b: get ~/one watch; children ~ watch
        a: close
        b: listens; exists ~
    """)


def silence_ends_a_session(stage: Stage) -> None:
    a, b = stage.enter("a", timeout=1), stage.enter("b", timeout=10)
    stage.play("""
        a: create ~/one flags=1
        b: get ~/one watch; children ~ watch
    """)
    # A follower also closes a silent connection by itself, maybe before it learns of the end.
    a.listen_until_closed()
    for _ in ("deleted", "children changed"):
        b.wait_event(5)
    stage.play("b: listens; exists ~")
    stage.enter("a again", session=a.session).listen_until_closed()


# --- requests that no client sends --------------------------------------------------------------


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

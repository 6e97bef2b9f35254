"""Records contenders and servers in a simulated schedule, in terms of `docs/spec/queue.tla`.

`queue_replay` checks what a `Recorder` has written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from aiolead._recipes.contender_queue import Ahead
from aiolead._recipes.contender_queue import Contender as RealContender
from aiolead._recipes.errors import may_be_applied
from aiolead._recipes.naming import Sequential
from aiolead._recipes.znode import NodeGone, Znode
from aiolead.paths import basename
from aiolead.testing.simulation.ensemble.facts import Truth
from aiolead.testing.simulation.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Fact:
    """A committed change: `created` or `deleted` znodes, or the end (`ended`) of a session.

    Attributes:
        session: that of the znode's owner, or the one that has ended.
        by: the session that has deleted it.
    """

    kind: str
    at: float
    path: str = ""
    token: int = 0
    session: int = 0
    by: int = 0
    zxid: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """A step of one contender.

    Attributes:
        action: of the specification; `Cut`, `Notice` and `Leave` are parts of such.
        contender: its number in this trace.
        client: the number of its client, and its current session.
        path: of its znode; empty if it has none.
        token: that znode's.
        places: how many may hold.
        names: the listed ones, those that it watches from now on, or that have gone.
        next: whether it is in front when its predecessor goes.
        claimed: those of `names` that its client's contenders have.
        zxid: the last one that its client has seen.
        create: the name of the create that it is about, below `parent`.
        about: the session that this create was sent in.
        watched: whether its own znode is watched, or is known to be gone.
    """

    action: str
    at: float
    contender: int
    client: int
    session: int
    path: str
    token: int
    places: int
    names: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()
    next: bool = False
    look_ahead: bool = False
    claimed: frozenset[str] = frozenset()
    zxid: int = 0
    create: str = ""
    parent: str = ""
    about: int = 0
    watched: bool = False


@dataclass(frozen=True, slots=True)
class Pending:
    """A delete of a znode is pending from now on."""

    path: str


class Recorder:
    """Records the contenders and servers of one schedule."""

    def __init__(self) -> None:
        self.trace: list[Fact | Step | Pending] = []
        self.timeline: Timeline | None = None
        self._numbers: dict[int, tuple[int, object]] = {}
        self._contenders: dict[int, tuple[object, Any]] = {}
        self._resolving: set[tuple[int, str]] = set()
        self._forgetting: object = None

    def _number(self, it: object) -> int:
        # The object is kept, so that no other one gets its identity.
        return self._numbers.setdefault(id(it), (len(self._numbers), it))[0]

    def _owner(self, znode: object) -> Any:
        """The contender that has a znode; None if another recipe has it."""
        return self._contenders.get(id(znode), (None, None))[1]

    def step(self, action: str, it: Any, **details: Any) -> None:
        if it is None or it._role.shares:
            return
        node, client = it.znode.current, it._client
        self.trace.append(
            Step(
                action,
                0.0 if self.timeline is None else self.timeline.now,
                self._number(it),
                self._number(client),
                client.session_id,
                "" if node is None else node.path,
                0 if node is None else node.token,
                it._places,
                zxid=client._core.machine.last_zxid,
                **details,
            )
        )

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Until the end of the block."""
        recorder, real, owner = self, RealContender, self._owner
        init, place_among, behind_ours = real.__init__, real._place_among, real._behind_ours
        read_ahead, get, hold = Ahead.read, real.get, Znode.hold
        restart, unwatch = real.restart, real.unwatch
        delete, delete_if_ours = Sequential.delete, Sequential.delete_if_ours
        create, created, resolve = Znode.create, Znode._created, Znode.resolve
        find, look_later, look = Znode._find, Znode._delete_lost_later, Znode._delete_lost
        settle, lose, seen, withdraw = Znode.hold_settled, Znode.lost, Znode._seen, Znode.withdraw
        tell = Truth.tell

        def made(it: Any, *args: Any, **options: Any) -> None:
            init(it, *args, **options)
            # The znode is kept, so that no other one gets its identity.
            recorder._contenders[id(it.znode)] = it.znode, it

        def is_watched(it: Any) -> bool:
            # With `is_stale` or `is_gone`, it is about to look again.
            is_stale = it._ahead is not None and it._ahead.is_stale
            return it.znode.is_watched or it.znode.is_gone or is_stale

        def gone_before(it: Any) -> tuple[str, ...]:
            return () if it._ahead is None else tuple(it._ahead.gone)

        def sent(znode: Any) -> Any:
            sending = create(znode)
            it = owner(znode)
            recorder.step("Join", it, **recorder.create(it, znode._create_path))
            return sending

        def answered(znode: Any, create: Any, path: str, session: int, *args: Any) -> None:
            it = owner(znode)
            is_wanted, error = znode._creating is create, create.error()
            is_lost = error is not None and may_be_applied(error)
            action = "CreateLost" if is_lost else "Created" if error is None else "Refused"
            if is_wanted or is_lost:
                about = recorder.create(it, path, session)
                recorder.step(action if is_wanted else "UnwantedLost", it, **about)
            created(znode, create, path, session, *args)

        async def resolved(znode: Any) -> bool:
            it, path, is_lost = owner(znode), znode._create_path, znode._creating is not None
            key = (id(it), basename(path)) if path else (0, "")
            recorder._resolving.add(key)
            try:
                has = await resolve(znode)
            finally:
                recorder._resolving.discard(key)
            if is_lost:
                recorder.step("Resolved", it, **recorder.create(it, path))
            return has

        async def looked(znode: Any, path: str, session: int, found: Any) -> None:
            it = owner(znode)
            about = recorder.create(it, path)
            is_found = False

            def decided(*names: str) -> None:
                is_resolving = (id(it), basename(path)) in recorder._resolving
                action = "Resolve" if is_resolving else "Look"
                claimed = frozenset() if it is None else frozenset(it._local.claimed)
                recorder.step(action, it, names=names, claimed=claimed, **about)

            def proven(created: Any) -> None:
                nonlocal is_found
                is_found = True
                decided(basename(created.path))
                found(created)

            recorder.step("Find", it, **about)
            await find(znode, path, session, proven)
            if not is_found:
                decided()

        def looked_for_later(znode: Any, path: str, session: int, **options: Any) -> None:
            about = recorder.create(owner(znode), path, session)
            is_second = options.get("already_looked", False)
            recorder.step("Job", owner(znode), next=is_second, **about)
            look_later(znode, path, session, **options)

        async def looked_for(znode: Any, path: str, session: int, **options: Any) -> None:
            about = recorder.create(owner(znode), path, session)
            recorder.step("LookBegins", owner(znode), **about)
            await look(znode, path, session, **options)
            # It may raise a refusal, and is cancelled with its client.
            recorder.step("LookOver", owner(znode), **about)

        def settled(znode: Any) -> None:
            it = owner(znode)
            settle(znode)
            if it is not None:
                recorder.step("Settled", it, watched=is_watched(it))

        def own_gone(znode: Any) -> None:
            recorder.step("Deliver", owner(znode))
            lose(znode)

        def own_seen(znode: Any, *args: Any) -> None:
            seen(znode, *args)
            if znode.is_watched and not znode.is_gone:
                recorder.step("Watched", owner(znode))

        async def listed(it: Any, names: Any) -> Any:
            details: dict[str, Any] = {"names": tuple(names)}
            details["claimed"] = frozenset(filter(it._local.is_claimed, names))
            details["look_ahead"] = it._on_rank is not None
            try:
                place = await place_among(it, names)
            except NodeGone:
                recorder.step("ListWithoutOwn", it, **details)
                raise
            recorder.step("List", it, watch=place.watch, next=place.is_next, **details)
            return place

        def was_behind_ours(it: Any) -> Any:
            place = behind_ours(it)
            if place is not None:
                recorder.step("BehindOurs", it, watch=place.watch, claimed=frozenset(place.watch))
            return place

        async def armed(ahead: Any, names: Any, own: Any) -> bool:
            is_complete = await read_ahead(ahead, names, own)
            it = owner(own)
            if is_complete:
                gone = tuple(ahead.gone)
                recorder.step("Arm", it, watch=tuple(names), names=gone, watched=is_watched(it))
            else:
                recorder.step("Cut", it)  # another look is due
            return is_complete

        async def got(it: Any, *, wait: bool) -> bool:
            is_in_front = await get(it, wait=wait)
            if is_in_front:
                recorder.step("Front", it, names=gone_before(it))
            return is_in_front

        def held(znode: Any, *args: Any, **options: Any) -> Any:
            recorder.step("Enter", owner(znode))
            return hold(znode, *args, **options)

        def restarted(it: Any) -> None:
            if it.znode.current is not None:
                unwatch(it)
                recorder.step("Notice", it)
            recorder._forgetting = it
            restart(it)
            recorder._forgetting = None

        def left(znode: Any) -> Any:
            recorder.step("Leave", owner(znode))
            return withdraw(znode)

        def unwatched(it: Any) -> None:
            if recorder._forgetting is not it:
                recorder.step("Cut", it)
            unwatch(it)

        def deleted(naming: Any, node: Any, *args: Any) -> Any:
            recorder.trace.append(Pending(node.path))
            return delete(naming, node, *args)

        async def deleted_later(naming: Any, node: Any) -> None:
            recorder.trace.append(Pending(node.path))
            await delete_if_ours(naming, node)

        def told(it: Truth, kind: str, **details: Any) -> None:
            tell(it, kind, **details)
            recorder._told(it._timeline.now, kind, details)

        patches: list[tuple[type, str, Callable[..., Any]]] = [
            (real, "__init__", made),
            (real, "_place_among", listed),
            (real, "_behind_ours", was_behind_ours),
            (Ahead, "read", armed),
            (real, "get", got),
            (Znode, "hold", held),
            (real, "restart", restarted),
            (real, "unwatch", unwatched),
            (Sequential, "delete_if_ours", deleted_later),
            (Znode, "create", sent),
            (Znode, "_created", answered),
            (Znode, "_find", looked),
            (Znode, "resolve", resolved),
            (Znode, "withdraw", left),
            (Sequential, "delete", deleted),
            (Znode, "_delete_lost_later", looked_for_later),
            (Znode, "_delete_lost", looked_for),
            (Znode, "hold_settled", settled),
            (Znode, "lost", own_gone),
            (Znode, "_seen", own_seen),
            (Truth, "tell", told),
        ]
        with ExitStack() as stack:
            for where, name, instead in patches:
                stack.enter_context(mock.patch.object(where, name, instead))
            yield

    def create(self, it: Any, path: str, session: int | None = None) -> dict[str, Any]:
        """About which create a step is: by default in the session of the last one."""
        if it is None:
            return {}
        about = it.znode._create_session if session is None else session
        return {"create": basename(path), "parent": it._path, "about": about}

    def _told(self, at: float, kind: str, details: dict[str, Any]) -> None:
        if kind == "session-ended":
            self.trace.append(Fact("ended", at, session=details["session"]))
        elif kind in ("znode-created", "znode-deleted"):
            by = details.get("by", 0)
            path, token, owner = details["path"], details["czxid"], details["owner"]
            fact = Fact(kind.removeprefix("znode-"), at, path, token, owner, by, details["zxid"])
            self.trace.append(fact)

"""Records contenders and servers in a simulated schedule, in terms of `docs/spec/queue.tla`.

`queue_replay` checks what a `Recorder` has written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from aiolead._recipes._core.ephemeral import EphemeralNode, NodeGone
from aiolead._recipes._core.error_policy import may_be_applied
from aiolead._recipes.contention.contender import Contender as RealContender
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
        self._resolving: set[tuple[int, str]] = set()
        self._forgetting: object = None

    def _number(self, it: object) -> int:
        # The object is kept, so that no other one gets its identity.
        return self._numbers.setdefault(id(it), (len(self._numbers), it))[0]

    def step(self, action: str, it: Any, **details: Any) -> None:
        if it._role.shares:
            return
        node, client = it._node, it._client
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
        recorder, real = self, RealContender
        place_among, behind_ours, arm = real._place_among, real._behind_ours, real._read_ahead
        note_front, hold, forget = real._note_front, real.hold, real.forget
        leave_watches, delete = real._leave_watches, EphemeralNode._delete
        delete_until_gone, withdraw = EphemeralNode._delete_until_gone.__func__, real.withdraw  # type: ignore[attr-defined]
        send_create, created, resolve = real._send_create, real._created, real.resolve
        find, look_later, look = real._find, real._delete_lost_later, real._delete_lost
        settle, lose, seen = real._hold_settled, real._lost, real._seen
        tell = Truth.tell

        def is_watched(it: Any) -> bool:
            # With `_stale` or `_gone`, it is about to look again.
            return it._watch is not None or it._gone or it._stale

        def sent(it: Any, path: str, mode: Any) -> Any:
            recorder.step("Join", it, **recorder.create(it, path))
            return send_create(it, path, mode)

        def answered(it: Any, create: Any, path: str, session: int, *args: Any) -> None:
            is_wanted, error = it._creating is create, create.error()
            is_lost = error is not None and may_be_applied(error)
            action = "CreateLost" if is_lost else "Created" if error is None else "Refused"
            if is_wanted or is_lost:
                about = recorder.create(it, path, session)
                recorder.step(action if is_wanted else "UnwantedLost", it, **about)
            created(it, create, path, session, *args)

        async def resolved(it: Any) -> bool:
            path, is_lost = it._create_path, it._creating is not None
            key = (id(it), basename(path))
            recorder._resolving.add(key)
            try:
                has = await resolve(it)
            finally:
                recorder._resolving.discard(key)
            if is_lost:
                recorder.step("Resolved", it, **recorder.create(it, path))
            return has

        async def looked(it: Any, path: str, session: int, found: Any) -> None:
            about = recorder.create(it, path)
            is_found = False

            def decided(*names: str) -> None:
                is_resolving = (id(it), about["create"]) in recorder._resolving
                action, claimed = (
                    "Resolve" if is_resolving else "Look",
                    frozenset(it._names._claimed),
                )
                recorder.step(action, it, names=names, claimed=claimed, **about)

            def proven(created: Any) -> None:
                nonlocal is_found
                is_found = True
                decided(basename(created.path))
                found(created)

            recorder.step("Find", it, **about)
            await find(it, path, session, proven)
            if not is_found:
                decided()

        def looked_for_later(it: Any, path: str, session: int, **options: Any) -> None:
            about = recorder.create(it, path, session)
            recorder.step("Job", it, next=options.get("already_looked", False), **about)
            look_later(it, path, session, **options)

        async def looked_for(it: Any, path: str, session: int, **options: Any) -> None:
            recorder.step("LookBegins", it, **recorder.create(it, path, session))
            await look(it, path, session, **options)
            # It may raise a refusal, and is cancelled with its client.
            recorder.step("LookOver", it, **recorder.create(it, path, session))

        def settled(it: Any) -> None:
            settle(it)
            recorder.step("Settled", it, watched=is_watched(it))

        def own_gone(it: Any) -> None:
            recorder.step("Deliver", it)
            lose(it)

        def own_seen(it: Any, *args: Any) -> None:
            seen(it, *args)
            if it._watch is not None and not it._gone:
                recorder.step("Watched", it)

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

        async def armed(it: Any, names: Any) -> bool:
            is_complete = await arm(it, names)
            if is_complete:
                gone = tuple(it._ahead_gone)
                recorder.step("Arm", it, watch=tuple(names), names=gone, watched=is_watched(it))
            else:
                recorder.step("Cut", it)  # another look is due
            return is_complete

        def in_front(it: Any) -> None:
            recorder.step("Front", it, names=tuple(it._ahead_gone))
            note_front(it)

        def held(it: Any, *args: Any, **options: Any) -> Any:
            recorder.step("Enter", it)
            return hold(it, *args, **options)

        def forgotten(it: Any) -> None:
            if it._node is not None:
                leave_watches(it)
                recorder.step("Notice", it)
            recorder._forgetting = it
            forget(it)
            recorder._forgetting = None

        def left(it: Any) -> Any:
            recorder.step("Leave", it)
            return withdraw(it)

        def unwatched(it: Any) -> None:
            if recorder._forgetting is not it:
                recorder.step("Cut", it)
            leave_watches(it)

        def deleted(it: Any, node: Any, watch: Any) -> Any:
            recorder.trace.append(Pending(node.path))
            return delete(it, node, watch)

        async def deleted_later(cls: Any, client: Any, node: Any) -> None:
            recorder.trace.append(Pending(node.path))
            await delete_until_gone(cls, client, node)

        def told(it: Truth, kind: str, **details: Any) -> None:
            tell(it, kind, **details)
            recorder._told(it._timeline.now, kind, details)

        patches: list[tuple[type, str, Callable[..., Any] | classmethod[Any, Any, Any]]] = [
            (real, "_place_among", listed),
            (real, "_behind_ours", was_behind_ours),
            (real, "_read_ahead", armed),
            (real, "_note_front", in_front),
            (real, "hold", held),
            (real, "forget", forgotten),
            (real, "withdraw", left),
            (real, "_leave_watches", unwatched),
            (real, "_send_create", sent),
            (real, "_created", answered),
            (real, "resolve", resolved),
            (real, "_find", looked),
            (real, "_delete_lost_later", looked_for_later),
            (real, "_delete_lost", looked_for),
            (real, "_hold_settled", settled),
            (real, "_lost", own_gone),
            (real, "_seen", own_seen),
            (EphemeralNode, "_delete", deleted),
            (EphemeralNode, "_delete_until_gone", classmethod(deleted_later)),
            (Truth, "tell", told),
        ]
        with ExitStack() as stack:
            for where, name, instead in patches:
                stack.enter_context(mock.patch.object(where, name, instead))
            yield

    def create(self, it: Any, path: str, session: int | None = None) -> dict[str, Any]:
        """About which create a step is: by default in the session of the last one."""
        about = it._create_session if session is None else session
        return {"create": basename(path), "parent": it._path, "about": about}

    def _told(self, at: float, kind: str, details: dict[str, Any]) -> None:
        if kind == "session-ended":
            self.trace.append(Fact("ended", at, session=details["session"]))
        elif kind in ("znode-created", "znode-deleted"):
            by = details.get("by", 0)
            path, token, owner = details["path"], details["czxid"], details["owner"]
            fact = Fact(kind.removeprefix("znode-"), at, path, token, owner, by, details["zxid"])
            self.trace.append(fact)

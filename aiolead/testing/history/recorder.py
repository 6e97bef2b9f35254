"""The recorder that programs, worlds and tests report to."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from . import events as e
from .events import Event, Value
from .kinds import KINDS, fields_of, names_of

if TYPE_CHECKING:
    from ..invariants import Bounds


class History:
    """The events so far, in the order in which they were reported.

    There is one method for each kind of event, with its fields as arguments; the time is that of
    the call. See `aiolead.testing.history.events` for what each means.

    Args:
        clock: seconds; the same clock for all that report.
        is_alive: whether a contender's process has not been killed. Reports of a dead process (its
            tasks may still be unwinding) are not recorded. By default everybody lives.
        sink: is given each event as a line of JSON, as it happens: the `write` of a file that is
            line-buffered keeps all that was reported even if the process is killed.

    Attributes:
        events: the recorded events.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_alive: Callable[[str], bool] | None = None,
        sink: Callable[[str], object] | None = None,
    ) -> None:
        self.clock = clock
        self.events: list[Event] = []
        self._is_alive = is_alive
        self._sink = sink

    def __len__(self) -> int:
        return len(self.events)

    def record(self, event: Event) -> None:
        """Records an event that was made elsewhere; whether its contender lives is not asked."""
        self.events.append(event)
        if self._sink is not None:
            self._sink(to_line(event))

    def _told(self, event: e.OfContender) -> None:
        if self._is_alive is None or self._is_alive(event.contender):
            self.record(event)

    # --- contenders ----------------------------------------------------------------------------

    def joined(self, line: str, contender: str, *, wait: float | None = None) -> None:
        self._told(e.Joined(at=self.clock(), line=line, contender=contender, wait=wait))

    def cancelled(self, line: str, contender: str) -> None:
        self._told(e.Cancelled(at=self.clock(), line=line, contender=contender))

    def withdrew(self, line: str, contender: str, why: str = "") -> None:
        self._told(e.Withdrew(at=self.clock(), line=line, contender=contender, why=why))

    def entered(
        self,
        line: str,
        contender: str,
        token: int,
        *,
        path: str = "",
        session_id: int = 0,
        mode: str = "",
        permits: int = 1,
        stubborn: bool = False,
    ) -> None:
        self._told(
            e.Entered(
                at=self.clock(),
                line=line,
                contender=contender,
                token=token,
                path=path,
                session_id=session_id,
                mode=mode,
                permits=permits,
                stubborn=stubborn,
            )
        )

    def stepped_down(self, line: str, contender: str, token: int, why: str = "") -> None:
        self._told(
            e.SteppedDown(at=self.clock(), line=line, contender=contender, token=token, why=why)
        )

    def left(self, line: str, contender: str, token: int, *, was_lost: bool = False) -> None:
        self._told(
            e.Left(at=self.clock(), line=line, contender=contender, token=token, was_lost=was_lost)
        )

    def looked(self, line: str, contender: str, token: int, *, held: bool) -> None:
        self._told(
            e.Looked(at=self.clock(), line=line, contender=contender, token=token, held=held)
        )

    def peeked(
        self,
        line: str,
        contender: str,
        token: int,
        where: str,
        *,
        call: str = "",
        held: bool = False,
        remaining: float = 0.0,
        error: str = "",
    ) -> None:
        event = e.Peeked(
            at=self.clock(),
            line=line,
            contender=contender,
            token=token,
            where=where,
            call=call,
            held=held,
            remaining=remaining,
            error=error,
        )
        if where == "child":
            self.record(event)  # it lives on when its parent has been killed
        else:
            self._told(event)

    def callback_added(self, line: str, contender: str, token: int) -> None:
        self._told(e.CallbackAdded(at=self.clock(), line=line, contender=contender, token=token))

    def callback_called(self, line: str, contender: str, token: int) -> None:
        self._told(e.CallbackCalled(at=self.clock(), line=line, contender=contender, token=token))

    def acted(
        self,
        line: str,
        contender: str,
        token: int,
        what: str = "",
        *,
        resource: str = "",
        accepted: bool = True,
    ) -> None:
        self._told(
            e.Acted(
                at=self.clock(),
                line=line,
                contender=contender,
                token=token,
                what=what,
                resource=resource,
                accepted=accepted,
            )
        )

    def read(
        self, contender: str, key: str, value: Value, *, token: int = 0, zxid: int = -1
    ) -> None:
        self._told(
            e.Read(
                at=self.clock(), contender=contender, key=key, value=value, token=token, zxid=zxid
            )
        )

    def wrote(
        self, contender: str, key: str, value: Value, *, token: int = 0, accepted: bool = True
    ) -> None:
        self._told(
            e.Wrote(
                at=self.clock(),
                contender=contender,
                key=key,
                value=value,
                token=token,
                accepted=accepted,
            )
        )

    # --- clients and processes -----------------------------------------------------------------

    def session(self, contender: str, state: str, session_id: int) -> None:
        self._told(
            e.Session(at=self.clock(), contender=contender, state=state, session_id=session_id)
        )

    def began(self, contender: str, call: str, within: float | None = None) -> None:
        self._told(e.Began(at=self.clock(), contender=contender, call=call, within=within))

    def ended(self, contender: str, call: str, error: str = "") -> None:
        self._told(e.Ended(at=self.clock(), contender=contender, call=call, error=error))

    # --- what is done to them ------------------------------------------------------------------

    def revoked(self, line: str, contender: str) -> None:
        self.record(e.Revoked(at=self.clock(), line=line, contender=contender))

    def killed(self, contender: str) -> None:
        self.record(e.Killed(at=self.clock(), contender=contender))

    def lived(self, contender: str) -> None:
        self.record(e.Lived(at=self.clock(), contender=contender))

    def closed_by_guardian(self, contender: str, session_id: int) -> None:
        self.record(e.ClosedByGuardian(at=self.clock(), contender=contender, session_id=session_id))

    def stopped(self, contender: str) -> None:
        self.record(e.Stopped(at=self.clock(), contender=contender))

    def continued(self, contender: str) -> None:
        self.record(e.Continued(at=self.clock(), contender=contender))

    def fault_began(self, kind: str, target: str = "", *, severe: bool = False) -> None:
        self.record(e.FaultBegan(at=self.clock(), kind=kind, target=target, severe=severe))

    def fault_ended(self, kind: str, target: str = "") -> None:
        self.record(e.FaultEnded(at=self.clock(), kind=kind, target=target))

    def healed(self) -> None:
        self.record(e.Healed(at=self.clock()))

    def hostile(self, session_id: int) -> None:
        self.record(e.Hostile(at=self.clock(), session_id=session_id))

    # --- what the servers know -----------------------------------------------------------------

    def node_created(self, path: str, czxid: int, owner: int = 0) -> None:
        self.record(e.NodeCreated(at=self.clock(), path=path, czxid=czxid, owner=owner))

    def node_deleted(
        self, path: str, zxid: int, owner: int = 0, by: int = 0, *, was_changed: bool = False
    ) -> None:
        self.record(
            e.NodeDeleted(
                at=self.clock(), path=path, zxid=zxid, owner=owner, by=by, was_changed=was_changed
            )
        )

    def session_opened(self, session_id: int, timeout: float) -> None:
        self.record(e.SessionOpened(at=self.clock(), session_id=session_id, timeout=timeout))

    def session_over(self, session_id: int, why: str = "") -> None:
        self.record(e.SessionOver(at=self.clock(), session_id=session_id, why=why))

    def leader_changed(self, leader: str = "", epoch: int = 0) -> None:
        self.record(e.LeaderChanged(at=self.clock(), leader=leader, epoch=epoch))

    def notified(self, path: str, session_id: int) -> None:
        self.record(e.Notified(at=self.clock(), path=path, session_id=session_id))

    def requested(
        self, session_id: int, count: int, changes: int, since: float, seconds: float
    ) -> None:
        at = self.clock()
        self.record(
            e.Requested(
                at=at,
                session_id=session_id,
                count=count,
                changes=changes,
                since=since,
                seconds=seconds,
            )
        )

    # --- the run itself ------------------------------------------------------------------------

    def leftover(self, kind: str, count: int, what: str = "") -> None:
        self.record(e.Leftover(at=self.clock(), kind=kind, count=count, what=what))

    def counted(self, kind: str, count: int) -> None:
        self.record(e.Counted(at=self.clock(), kind=kind, count=count))

    def logged(self, level: str, text: str) -> None:
        self.record(e.Logged(at=self.clock(), level=level, text=text))

    def reached(self, what: str) -> None:
        self.record(e.Reached(at=self.clock(), what=what))

    # --- reading it ----------------------------------------------------------------------------

    def tell(self) -> str:
        """All events in words, one per line, with the seconds since the first."""
        start = self.events[0].at if self.events else 0.0
        return "\n".join(f"{event.at - start:9.4f}  {describe(event)}" for event in self.events)

    def check(self, bounds: Bounds | None = None, *, skip: Collection[str] = ()) -> None:
        """Fails unless every invariant holds.

        Args:
            bounds: how long things may take, and how many may hold.
            skip: the names of invariants that are not asked for.

        Raises:
            AssertionError: something is wrong; with the history in it.
        """
        from ..invariants import violations  # They read histories, so they import this package.

        wrong = violations(self.events, bounds, skip=skip)
        if wrong:
            raise AssertionError("\n".join([*map(str, wrong), "The history:", self.tell()]))

    def lines(self) -> str:
        """All events as lines of JSON."""
        return "".join(map(to_line, self.events))

    def digest(self) -> str:
        """Names the trace: two runs with the same events at the same times have the same one."""
        trace = "\n".join(
            [repr((type(event).__name__, *fields_of(event))) for event in self.events]
        )
        return hashlib.sha256(trace.encode()).hexdigest()[:16]

    @classmethod
    def load(cls, paths: Iterable[str | Path]) -> Self:
        """Reads what several processes have written to files, merged by time.

        Events of the same time are in the order of the files. The last line of a file may be
        incomplete: its process was killed as it wrote.

        Raises:
            ValueError: another line is not an event.
        """
        history = cls()
        for path in paths:
            lines = Path(path).read_bytes().split(b"\n")
            cut = lines.pop()
            for number, line in enumerate(lines, 1):
                try:
                    history.events.append(from_line(line))
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from error
            with suppress(ValueError):
                history.events.append(from_line(cut))
        history.events.sort(key=lambda event: event.at)
        return history


def to_line(event: Event) -> str:
    """An event as a line of JSON, its end included."""
    kind = type(event)
    fields = dict(zip(names_of(kind), fields_of(event), strict=True))
    return json.dumps({"event": kind.__name__, **fields}, separators=(",", ":")) + "\n"


def from_line(line: str | bytes) -> Event:
    """The event that `to_line` wrote.

    Raises:
        ValueError: it is none: not JSON, of an unknown kind, or with other fields.
    """
    try:
        fields: dict[str, Any] = json.loads(line)
        return KINDS[fields.pop("event")](**fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not an event: {line!r}") from error


_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
_SAID = frozenset({"at", "line", "contender", "token", "was_lost"})


def describe(event: Event) -> str:
    """An event in words, without its time."""
    kind = type(event)
    who = getattr(event, "contender", "")
    line = getattr(event, "line", "")
    details = []
    if (token := getattr(event, "token", None)) is not None:
        details.append(f"token {token}")
    for name, value in zip(names_of(kind), fields_of(event), strict=True):
        default = kind.__dataclass_fields__[name].default
        if name not in _SAID and (default is MISSING or value != default):
            details.append(f"{name} {value}")
    text = _HUMP.sub(" ", kind.__name__).lower()
    if details:
        text += f" ({', '.join(details)})"
    if getattr(event, "was_lost", False):
        text += ", lost"
    return (f"{line}: " if line else "") + (f"{who} " if who else "") + text

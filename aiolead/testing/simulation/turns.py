"""Tenures that report to a history."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

import anyio

from ..._recipes.hold import Body, Tenure
from ..._recipes.holding import TenureContext
from ...errors import AcquireTimeout, LossReason
from ..history import History

T = TypeVar("T", bound=Tenure)


class Turn(Generic[T]):
    """An `async with` of a hold or a term that reports what happens.

        async with Turn(world.history, "/jobs", process.name, lock.acquire()) as held:
            ...

    That it wants to hold; that it holds, or does not want to any more, and why; that the loss was
    signalled; and that its body has ended. Everything else is as without it.

    Args:
        history: where to.
        line: the name of the contended resource in the invariants.
        contender: the contender: the process's name, or that and a slash with more.
        context: the context of `acquire`, `try_acquire` or `leadership`.
        timeout: the limit that it was given, in seconds.
        chroot: of the client.
        stubborn: whether the body goes on although it was cancelled; see `history.Entered`.
        permits: how many places it takes, where a line has several; see `history.Entered`.
        mode: `read` or `write` where readers share; see `history.Entered`.
    """

    def __init__(
        self,
        history: History,
        line: str,
        contender: str,
        context: TenureContext[T] | TenureContext[T | None],
        *,
        timeout: float | None = None,
        chroot: str = "",
        stubborn: bool = False,
        permits: int = 1,
        mode: str = "",
    ) -> None:
        self._history = history
        self._line = line
        self._contender = contender
        self._context = context
        self._timeout = timeout
        self._chroot = chroot
        self._stubborn = stubborn
        self._permits = permits
        self._mode = mode
        self._tenure: T | None = None

    async def __aenter__(self) -> T | None:
        history, line, contender = self._history, self._line, self._contender
        history.joined(line, contender, wait=self._timeout)
        try:
            tenure = await self._context.__aenter__()
        except BaseException as error:
            history.withdrew(line, contender, why_withdrawn(error))
            raise
        if tenure is None:
            history.withdrew(line, contender, "taken")
            return None
        self._tenure = tenure
        told(
            history,
            line,
            contender,
            tenure,
            chroot=self._chroot,
            stubborn=self._stubborn,
            permits=self._permits,
            mode=self._mode,
        )
        return tenure

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tenure = self._tenure
        if tenure is not None:
            self._history.left(self._line, self._contender, tenure.token, was_lost=is_lost(tenure))
        await self._context.__aexit__(exc_type, exc, traceback)


def why_withdrawn(error: BaseException) -> str:
    """The reason for `History.withdrew` when an acquisition ends with an error."""
    if isinstance(error, AcquireTimeout):
        return "timeout"
    return "cancelled" if isinstance(error, anyio.get_cancelled_exc_class()) else "error"


def is_lost(tenure: Tenure) -> bool:
    """Whether it is lost. A revoked one is held until its body has ended."""
    return tenure.loss not in (None, LossReason.REVOKED)


class Observed:
    """A body under a hold that reports what ends the hold, before it is notified itself."""

    def __init__(
        self,
        body: Body,
        on_lost: Callable[[], object] | None = None,
        on_released: Callable[[], object] | None = None,
    ) -> None:
        self._body = body
        self._lost = on_lost
        self._released = on_released

    def _on_lost(self) -> None:
        if self._lost is not None:
            self._lost()
        self._body._on_lost()

    def _on_released(self) -> None:
        if self._released is not None:
            self._released()
        self._body._on_released()


def told(
    history: History,
    line: str,
    contender: str,
    tenure: Tenure,
    *,
    chroot: str = "",
    stubborn: bool = False,
    permits: int = 1,
    mode: str = "",
) -> None:
    """Reports that a tenure has begun and, when it comes to that, that its loss was signalled."""
    history.entered(
        line,
        contender,
        tenure.token,
        path=chroot + tenure.path,
        session_id=tenure.session_id,
        permits=permits,
        mode=mode,
        stubborn=stubborn,
    )

    def on_lost() -> None:
        reason = tenure.loss
        if reason is not LossReason.REVOKED:
            why = "" if reason is None else reason.value
            history.stepped_down(line, contender, tenure.token, why)

    tenure._body = Observed(tenure._body, on_lost)

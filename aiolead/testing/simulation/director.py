"""Does a schedule's faults when they are due, and undoes them."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from ..history import Event
from .faults import KINDS, Fault, Undo
from .levers import Levers
from .schedule import Schedule

if TYPE_CHECKING:
    from .world import World


class Director:
    """One for each run.

    Args:
        world: the fault's target.
        levers: how.

    Attributes:
        done: how often each kind of fault was done.
    """

    def __init__(self, world: World, levers: Levers) -> None:
        self.done: Counter[str] = Counter()
        self._world = world
        self._levers = levers
        self._schedule: Schedule = world.schedule
        self._timeline = world.timeline
        self._waiting: dict[str, dict[int, Fault]] = {}
        self._undos: dict[int, Undo] = {}
        self._is_over = False
        self._more = 0

    def plan(self) -> None:
        """Puts every fault, and the healing, on the timeline."""
        for fault in self._schedule.faults:
            self._timeline.at(fault.start, partial(self._due, fault))
        self._timeline.at(self._schedule.healing, self._heal)

    def harm(self, kind: str, target: str, duration: float, amount: float) -> None:
        """Does a fault that is not of the schedule."""
        self._more += 1
        self._begin(
            Fault(
                number=-self._more,
                kind=kind,
                start=self._timeline.now,
                duration=duration,
                target=target,
                amount=amount,
            )
        )

    def noted(self, event: Event) -> None:
        """An event of the history: some faults wait for one."""
        waiting = self._waiting.get(_MOMENTS.get(type(event).__name__, ""))
        if waiting:
            for fault in list(waiting.values()):
                # Not within the step of the program that reports it.
                self._timeline.after(0.0, partial(self._wait_is_over, fault))

    def _due(self, fault: Fault) -> None:
        if fault.on:
            self._waiting.setdefault(fault.on, {})[fault.number] = fault
            patience = min(fault.start + fault.duration, self._schedule.healing)
            self._timeline.at(patience, partial(self._wait_is_over, fault))
        else:
            self._begin(fault)

    def _wait_is_over(self, fault: Fault) -> None:
        if self._waiting[fault.on].pop(fault.number, None) is not None:
            self._begin(fault)

    def _begin(self, fault: Fault) -> None:
        if self._is_over:
            return
        kind, history = KINDS[fault.kind], self._world.history
        self.done[fault.kind] += 1
        # Each is reported by itself, though two of a kind may have the same target.
        target = f"{fault.target or 'all'} #{fault.number}"
        history.fault_began(fault.kind, target, severe=kind.severe)
        if kind.closes:
            self._world.closes_connections()
        undo = kind.act(self._levers, fault)
        if undo is None:
            history.fault_ended(fault.kind, target)
            return

        def end() -> None:
            if self._undos.pop(fault.number, None) is not None:
                undo()
                history.fault_ended(fault.kind, target)

        self._undos[fault.number] = end
        self._timeline.after(fault.duration, end)

    def _heal(self) -> None:
        self._is_over = True
        for undo in list(self._undos.values()):
            undo()
        self._heal_when_packets_have_arrived()

    def _heal_when_packets_have_arrived(self) -> None:
        # A path that was slow is as broken as it was for all that is behind a slow packet.
        late = self._world.network.late()
        if late is None:
            self._world.heal()
        else:
            self._timeline.at(late, self._heal_when_packets_have_arrived)


_MOMENTS = {"Joined": "joined", "Entered": "entered", "Left": "left"}
"""The events that faults wait for, as `Fault.on` has them."""

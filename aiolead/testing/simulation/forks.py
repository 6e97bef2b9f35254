"""Forked children of simulated processes: they ask whether the hold that they inherited is theirs.

A child is a real one, by `os.fork`: a copy of the whole run, so that nothing that a read changes
there comes back. It lives on while virtual time goes on here, also when its parent has been killed:
each question that it gets over a pipe has the time.

    children = Children(world)
    world.start("children", children.run)   # shrinking can leave it out
    ...
    async with Turn(...) as held:
        children.look_at(process, line, contender, held, client)
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import warnings
from collections.abc import Callable
from functools import partial
from typing import IO, TYPE_CHECKING, NoReturn

from ..._client.api.client import Client
from ..._recipes.hold import Tenure
from .process import Process
from .threads import CLIENT_READS, READS, Answer, Hold, answer
from .timeline import Timeline

if TYPE_CHECKING:
    from .world import World

MOST = 4
"""How many children a run has at most."""


class Child:
    """A forked copy of this run; made where it is forked.

    Attributes:
        pid: of its process.

    Args:
        timeline: its time.
        read: called in the child for each question.
    """

    def __init__(self, timeline: Timeline, read: Callable[[], list[Answer]]) -> None:
        question, self._questions = os.pipe()
        self._answers, answers = os.pipe()
        with warnings.catch_warnings():
            # Of threads at the time of a fork, such as those of a test runner: they hold no lock
            # that the child needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid: int = os.fork()
        if self.pid == 0:
            _live(timeline, read, os.fdopen(question), os.fdopen(answers, "w"))
        os.close(question)
        os.close(answers)
        self._said: IO[str] = os.fdopen(self._answers)

    def ask(self, now: float) -> list[Answer]:
        """Its answers at an instant of virtual time, in seconds."""
        os.write(self._questions, f"{now!r}\n".encode())
        return [Answer(*fields) for fields in json.loads(self._said.readline())]

    def end(self) -> None:
        """Ends the child, and waits for that."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._questions, b"\n")
        os.close(self._questions)
        self._said.close()
        os.waitpid(self.pid, 0)


def _live(
    timeline: Timeline, read: Callable[[], list[Answer]], questions: IO[str], answers: IO[str]
) -> NoReturn:
    """The life of the child: it never returns to the event loop that it was forked in."""
    try:
        for line in questions:
            if not line.strip():
                break
            timeline.now = float(line)
            said = [(each.call, each.held, each.remaining, each.error) for each in read()]
            answers.write(json.dumps(said) + "\n")
            answers.flush()
    finally:
        os._exit(0)


class Children:
    """The forked children of all processes of a world.

    Args:
        world: which.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng: random.Random = world.rng("children")
        self._is_open = False
        self._forked = 0

    def look_at(
        self, process: Process, line: str, contender: str, held: Tenure, client: Client
    ) -> None:
        """Now and then the process forks while it holds this, and its children ask about it."""
        if self._is_open and self._forked < MOST and self._rng.random() < 0.4:
            self._forked += 1
            hold = Hold(process, line, contender, held, client)
            delay = self._rng.choice((0.0, self._rng.uniform(0.0, 0.3) * self._tau))
            self._world.timeline.after(delay, partial(self._fork, hold))

    async def run(self, process: Process) -> None:
        """The program that has processes fork: until the world has healed."""
        del process
        self._is_open = True
        try:
            await self._world.healed()
        finally:
            self._is_open = False

    @property
    def _tau(self) -> float:
        return self._world.schedule.session_timeout

    def _fork(self, hold: Hold) -> None:
        if not self._is_open or not self._world.runs_threads(hold.process):
            return
        child = Child(self._world.timeline, partial(_all_answers, hold))
        self._world.at_end.callback(child.end)
        when = 0.0
        for _ in range(self._rng.randint(1, 5)):
            self._world.timeline.after(when, partial(self._ask, child, hold))
            when += self._rng.uniform(0.0, 0.5) * self._tau

    def _ask(self, child: Child, hold: Hold) -> None:
        world = self._world
        for said in child.ask(world.now):
            if said.held is not None or said.error:
                world.history.peeked(
                    hold.line,
                    hold.contender,
                    hold.held.token,
                    "child",
                    call=said.call,
                    held=bool(said.held),
                    remaining=said.remaining,
                    error=said.error,
                )


def _all_answers(hold: Hold) -> list[Answer]:
    # The reads that may change something come last.
    names = [*CLIENT_READS, *(name for name in READS if name != "check"), "check"]
    return [answer(name, hold.held, hold.client) for name in names]

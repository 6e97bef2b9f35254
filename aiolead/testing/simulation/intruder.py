"""A hostile writer: it may create and read, and, if it is let, delete what is not its own.

It forges the names that it sees, and those that it expects: of contenders with other numbers, and
with the prefixes that their next creates will have; the fixed names of a recipe; in any mode, with
any data. It can keep honest clients waiting. So it clears away its znodes now and then, and when
the world has healed.

    intruder = Intruder(world, ["/lines/lock"])
    world.start("intruder", intruder.run)   # shrinking can leave it out
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio

from ..._client.api.client import Client
from ...abc import Reply
from ...errors import AioleadError, ConnectFailed, NoNodeError
from ...model import CreateMode
from .process import Process

if TYPE_CHECKING:
    from .world import World

T = TypeVar("T")

CONTENDER = re.compile(r"(?P<prefix>.*?)(?P<number>-?[0-9]{9,10})")
"""A name that ZooKeeper has given a number."""

OF_CLIENT = re.compile(r"(?P<before>[0-9a-f]{16}-?)(?P<serial>[0-9a-f]+)(?P<after>[-_].*)")
"""A prefix that has the session and a serial."""

MODES = (
    CreateMode.PERSISTENT,
    CreateMode.PERSISTENT,
    CreateMode.EPHEMERAL,
    CreateMode.EPHEMERAL_SEQUENTIAL,
    CreateMode.PERSISTENT_SEQUENTIAL,
)

MOST = 12
"""It clears away what it has made when that is more than so much."""

DATA = (b"", b"x", b"the same", b"1000", (2**31 - 1).to_bytes(4, "big"), (1).to_bytes(4, "big"))
"""Its data: nothing, an identity, and limits of a semaphore in both formats."""


class Intruder:
    """The hostile writer of a world.

    Args:
        world: which.
        parents: the paths below which it forges; they exist before it does.
        fixed: names that it forges there, besides those that it sees.
        modes: the modes of its znodes.
        deletes: whether it also deletes what others have made, as an operator would.
    """

    def __init__(
        self,
        world: World,
        parents: Sequence[str],
        *,
        fixed: Sequence[str] = (),
        modes: Sequence[CreateMode] = MODES,
        deletes: bool = False,
    ) -> None:
        self._world = world
        self._parents = parents
        self._fixed = tuple(fixed)
        self._modes = modes
        self._deletes = deletes
        self._rng: random.Random = world.rng("intruder")
        self._seen: dict[str, None] = {}
        """Names of contenders, the latest ones last."""
        self._forged: dict[str, None] = {}
        """Paths, or their beginnings, that it has tried to create since it last cleared."""
        self._ever_forged: dict[str, None] = {}
        """All of them: a create whose answer was lost may be seen after the clearing."""

    async def run(self, process: Process) -> None:
        """The program of the writer: until the world has healed, and all that it made is gone."""
        while True:
            with suppress(ConnectFailed, AioleadError):
                async with self._world.client(process) as client:
                    while not self._world.is_healed:
                        # Another session of this client is as hostile.
                        self._world.history.hostile(client.session_id)
                        await self._once(client)
                    self._forged = self._ever_forged
                    await self._clear(client)
                    return
            await anyio.sleep(0.01)

    async def _once(self, client: Client) -> None:
        """Waits for a change, or for a while, and forges something."""
        rng = self._rng
        parent = rng.choice(self._parents)
        with client.backend.make_watch() as watch:
            try:
                names = await client.get_children(parent, watch=watch)
            except NoNodeError:
                names = []
            for name in names:
                if CONTENDER.fullmatch(name) and not self._is_forged(f"{parent}/{name}"):
                    self._seen.pop(name, None)
                    self._seen[name] = None
            for _ in range(rng.choice((0, 1, 1, 2, 3))):
                await self._forge(client, parent)
            if self._deletes and names and rng.random() < 0.1:
                await self._delete(client, f"{parent}/{rng.choice(sorted(names))}")
            if rng.random() < 0.3 or len(self._forged) > MOST:
                # Or else all would wait for what it has forged, for the rest of the run.
                await self._clear(client)
            with anyio.move_on_after(rng.choice((0.001, 0.05, 0.3)) * client.session_timeout):
                await (watch.wait() if names else anyio.sleep_forever())

    async def _forge(self, client: Client, parent: str) -> None:
        path = f"{parent}/{self._name()}"
        mode = self._rng.choice(self._modes)
        if mode.is_sequential and (parts := CONTENDER.fullmatch(path)):
            path = parts["prefix"]
        self._forged[path] = self._ever_forged[path] = None
        with suppress(AioleadError):
            await client.create(path, self._rng.choice(DATA), mode=mode)

    def _name(self) -> str:
        rng = self._rng
        recent = list(self._seen)[-6:]
        if not recent or (self._fixed and rng.random() < 0.3):
            return rng.choice(self._fixed or ("x-lock-0000000001",))
        parts = CONTENDER.fullmatch(rng.choice(recent))
        assert parts is not None
        prefix, number = parts["prefix"], int(parts["number"])
        of_client = OF_CLIENT.fullmatch(prefix)
        if of_client is not None and rng.random() < 0.7:
            # The name that its client's next contender will have, or one of those after it.
            serial = int(of_client["serial"], 16) + rng.randint(0, 3)
            digits = f"{serial:0{len(of_client['serial'])}x}"
            prefix = f"{of_client['before']}{digits}{of_client['after']}"
        chosen = rng.choice((number, number - 1, number + 1, 0, 1, -1, -1, 2**31 - 1))
        return f"{prefix}{chosen:010d}"

    def _is_forged(self, path: str) -> bool:
        parts = CONTENDER.fullmatch(path)
        return path in self._forged or (parts is not None and parts["prefix"] in self._forged)

    async def _delete(self, client: Client, path: str) -> None:
        world = self._world
        for process in world.alive():
            world.revoke(process, path.rpartition("/")[0])
            world.revoke(process, path)
        with suppress(AioleadError):
            await client.delete(path)

    async def _clear(self, client: Client) -> None:
        """Deletes what it has made, and nothing else, as an operator would."""
        found: list[str] = []
        for parent in self._parents:
            # A leader may answer a sync before it has applied what was committed; a write, not.
            with suppress(NoNodeError):
                await client.delete(f"{parent}/nothing-of-this-name")
            with suppress(NoNodeError):
                names = await client.get_children(parent)
                found += [path for name in names if self._is_forged(path := f"{parent}/{name}")]
        stats = await _answers([client.exists(path) for path in found])
        # One of that name may be a contender's own.
        mine = (0, client.session_id)
        deletes = [
            client.delete(path)
            for path, stat in zip(found, stats, strict=True)
            if stat is not None and stat.ephemeral_owner in mine
        ]
        await _answers(deletes)
        self._forged = {}


async def _answers(replies: Sequence[Reply[T]]) -> list[T | None]:
    """The answers to requests that were sent together; None where there is no such znode."""
    for reply in replies:
        # A cancelled wait leaves failures unread: without this they would be logged.
        reply.add_done_callback(reply.error)
    answers: list[T | None] = []
    failed: AioleadError | None = None
    for reply in replies:
        try:
            answers.append(await reply)
        except NoNodeError:
            answers.append(None)
        except AioleadError as error:
            failed = error
    if failed is not None:
        raise failed
    return answers

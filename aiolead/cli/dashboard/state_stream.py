"""The stream of states for browsers: everything once, then changes. Made once for all of them.

| event | data |
|---|---|
| `snapshot` | `now`, `session`, `overview`, `queues`, `events`, `servers`, `unreadable` |
| `change` | `now`; of these, those that have changed: queues and events one by one; keys `gone` |
| `beat` | `now`, if nothing has changed for `BEAT` seconds |

A slow browser misses changes in between, but never the last one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, final

import anyio

from ...errors import AioleadError
from ...types import ConfigVersion, DeadLetter
from ..recipe_layouts import OtherRecipe, letter_in
from ..scene import Scene
from ..scene_values import ContenderQueue
from . import state

BEAT = 5.0
"""Time after which browsers get a sign of life if nothing is new, in seconds."""
PAUSE = 0.2
"""Least time between two changes for one browser, in seconds."""
HISTORY_WITHIN = 5.0
"""Most time for the history of a configuration, in seconds."""
MOST_LETTERS, LARGEST_LETTER = 100, 1 << 14
"""How many items of a queue are read, if they have no more bytes than that."""
MOST_HISTORIES = 32
"""How many histories are kept."""
MOST_GONE = 10_000
"""How many queues that are gone are remembered."""


@final
class StateStream:
    """The state of a scene, as JSON; `clock` is the scene's.

    `read_history` reads the versions of the configuration at a path, `read_data` the data of some
    znodes.
    """

    def __init__(
        self,
        scene: Scene,
        clock: Callable[[], float],
        read_history: Callable[[str], Awaitable[Sequence[ConfigVersion]]] | None = None,
        read_data: Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]] | None = None,
    ) -> None:
        self._scene = scene
        self._clock = clock
        self._read_history = read_history
        self._read_data = read_data
        self._letters: dict[tuple[str, int], DeadLetter | None] = {}
        self._histories: dict[str, tuple[OtherRecipe, Sequence[ConfigVersion]]] = {}
        self._version, self._made = 1, 0
        self._sections: dict[str, tuple[str, int]] = {}
        self._queues: dict[str, tuple[ContenderQueue | OtherRecipe, str, int]] = {}
        self._gone: dict[str, int] = {}
        self._oldest = 0
        self._news = anyio.Event()
        self._has_ended = False

    def changed(self) -> None:
        """The scene has changed; the JSON is made when somebody wants it."""
        self._version += 1
        self._news.set()
        self._news = anyio.Event()

    def end(self) -> None:
        self._has_ended = True
        self.changed()

    def snapshot(self) -> bytes:
        self._make()
        return self._since(-1, 0)[0]

    async def queue(self, key: str) -> bytes | None:
        """The details of a queue or another recipe; None if there is none with that key."""
        self._make()
        found, *_ = self._queues.get(key, (None,))
        if found is None:
            return None
        if isinstance(found, OtherRecipe):
            history = await self._history_of(found)
            letters = await self._letters_of(found)
            known = state.members(self._scene, found, self._clock(), history, letters)
            return _encode(known).encode()
        return _encode(state.detail(self._scene, found, self._clock())).encode()

    async def _history_of(self, recipe: OtherRecipe) -> Sequence[ConfigVersion]:
        """The versions of a configuration, read once for each; none if they cannot be read."""
        if recipe.kind != "configuration" or self._read_history is None:
            return ()
        known = self._histories.get(recipe.path)
        if known is None or known[0] != recipe:
            history: Sequence[ConfigVersion] = ()
            with anyio.move_on_after(HISTORY_WITHIN), suppress(AioleadError):
                history = await self._read_history(recipe.path)
            if len(self._histories) >= MOST_HISTORIES:
                self._histories.clear()
            self._histories[recipe.path] = known = recipe, history
        return known[1]

    async def _letters_of(self, recipe: OtherRecipe) -> dict[str, DeadLetter]:
        """The dead letters among the first items of a queue, by their paths; each is read once."""
        if not recipe.kind.endswith("queue") or self._read_data is None:
            return {}
        items = {
            (item.path, item.stat.czxid): item
            for item in self._scene.items_of(recipe)[:MOST_LETTERS]
            if item.stat.data_length <= LARGEST_LETTER
        }
        if new := [each for each in items if each not in self._letters]:
            if len(self._letters) > 100 * MOST_LETTERS:
                self._letters.clear()
            with anyio.move_on_after(HISTORY_WITHIN), suppress(AioleadError):
                data = await self._read_data([path for path, _ in new])
                self._letters |= {each: letter_in(data.get(each[0], b"")) for each in new}
        return {each[0]: letter for each in items if (letter := self._letters.get(each))}

    async def events(self, *, retry: float = 1.0) -> AsyncIterator[bytes]:
        """A snapshot, then changes and beats, as server-sent events.

        A browser that loses the connection connects again after `retry` seconds.
        """
        yield b"retry: %d\n\n" % (retry * 1000)
        seen, number = -1, 0
        while not self._has_ended:
            news = self._news
            if seen != self._version:
                self._make()
                # One that has missed queues that are gone gets everything again.
                name, seen = (b"change", seen) if seen >= self._oldest else (b"snapshot", -1)
                data, number = self._since(seen, number if seen >= 0 else 0)
                seen = self._version
                yield b"event: %s\ndata: %s\n\n" % (name, data)
                await anyio.sleep(PAUSE)
                continue
            with anyio.move_on_after(BEAT) as waiting:
                await news.wait()
            if waiting.cancelled_caught:
                yield b'event: beat\ndata: {"now":%.3f}\n\n' % self._clock()

    def _make(self) -> None:
        if self._made == self._version:
            return
        version = self._made = self._version
        scene = self._scene
        queues = scene.queues
        sections = {
            "session": state.session(scene),
            "overview": state.overview(scene, queues),
            "servers": None if scene.health is None else state.servers(scene.health),
            "unreadable": state.unreadable(scene),
        }
        for name, value in sections.items():
            text = _encode(value)
            if self._sections.get(name, ("",))[0] != text:
                self._sections[name] = text, version
        before, self._queues = self._queues, {}
        shown: list[ContenderQueue | OtherRecipe] = [*queues[: state.MOST_QUEUES]]
        for one in (*shown, *scene.others[: state.MOST_OTHERS]):
            if isinstance(one, ContenderQueue):
                key, make = state.key_of(one.path), partial(state.queue, scene, one)
            else:
                key, make = state.key_of(one.path, one.kind), partial(state.other, one)
            known = before.pop(key, None)
            if known is None or (known[0] is not one and known[0] != one):
                known = one, _encode(make()), version
            self._queues[key] = known
            self._gone.pop(key, None)
        self._gone |= dict.fromkeys(before, version)
        if len(self._gone) > MOST_GONE:
            self._gone.clear()
            self._oldest = version

    def _since(self, version: int, number: int) -> tuple[bytes, int]:
        """Everything newer than a version and than the event of a number; the newest number."""
        is_whole = version < 0
        events = self._scene.since(number)
        parts = [f'"now":{self._clock():.3f}']
        parts += [f'"{name}":{text}' for name, (text, at) in self._sections.items() if at > version]
        lists = {
            "queues": [text for _, text, at in self._queues.values() if at > version],
            "events": [_encode(state.event(self._scene, e)) for e in events[-state.MOST_EVENTS :]],
            "gone": [_encode(key) for key, at in self._gone.items() if at > version >= 0],
        }
        parts += [
            f'"{name}":[{",".join(all_)}]' for name, all_ in lists.items() if all_ or is_whole
        ]
        return f"{{{','.join(parts)}}}".encode("ascii"), events[-1].number if events else number


def _encode(value: Any) -> str:
    # ASCII: a path may be no valid Unicode.
    return json.dumps(value, separators=(",", ":"))

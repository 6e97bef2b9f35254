"""What a row of the table is made of: who asks what, and what that must give."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiolead import Client
from aiolead.errors import AioleadError, TransactionError
from aiolead.model import WatchEvent
from aiolead.types import Feature


class Placeholder:
    """Something that is known only once the step was done."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


SESSION = Placeholder("SESSION")
"""The id of the session that asked."""

ANY = Placeholder("ANY")


@dataclass(frozen=True)
class Having:
    """A value with these attributes, whatever else it has."""

    attributes: dict[str, Any]

    def __repr__(self) -> str:
        return f"having({', '.join(f'{k}={v!r}' for k, v in self.attributes.items())})"


def having(**attributes: Any) -> Having:
    return Having(attributes)


@dataclass(frozen=True)
class Unordered:
    """A list whose order is nobody's promise."""

    items: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"in any order {list(self.items)}"


def unordered(*items: Any) -> Unordered:
    return Unordered(items)


@dataclass(frozen=True)
class Differing:
    """What servers of different kinds give, for a reason: see docs/how-to/testing-your-code.md."""

    by_kind: dict[str, Any]


def differing(*, embedded: Any, standalone: Any, ensemble: Any) -> Differing:
    return Differing({"embedded": embedded, "standalone": standalone, "ensemble": ensemble})


@dataclass(frozen=True)
class ByVersion:
    """What servers give that have a feature, and the others."""

    feature: Feature
    before: Any
    after: Any


def by_version(feature: Feature, *, before: Any, after: Any) -> ByVersion:
    return ByVersion(feature, before, after)


@dataclass(frozen=True)
class Raises:
    """An error, with these attributes."""

    error: type[AioleadError]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.error.__name__}{self.attributes or ''}"


def error(kind: type[AioleadError], **attributes: Any) -> Raises:
    return Raises(kind, attributes)


def fails(index: int, cause: type[AioleadError]) -> Raises:
    """A transaction whose operation `index` was the one that failed."""
    return Raises(TransactionError, {"index": index, "cause": Raises(cause)})


@dataclass(frozen=True)
class Step:
    """One operation.

    Attributes:
        what: for messages.
        ask: does it, as the client given.
        gives: what must come of it.
        who: which client asks.
    """

    what: str
    ask: Callable[[Client], Awaitable[Any]]
    gives: Any
    who: str = "one"

    def on(self, kind: str, features: Collection[Feature]) -> Step:
        """What it must give on this kind of server, which has these features."""
        match self.gives:
            case Differing(by_kind):
                gives = by_kind[kind]
            case ByVersion(feature, before, after):
                gives = after if feature in features else before
            case gives:
                pass
        return Step(self.what, self.ask, gives, self.who)

    def by(self, who: str) -> Step:
        return Step(f"{who}: {self.what}", self.ask, self.gives, who)


def do(name: str, *args: Any, gives: Any = None, **options: Any) -> Step:
    """A method of the client."""

    def ask(client: Client) -> Awaitable[Any]:
        reply: Awaitable[Any] = getattr(client, name)(*args, **options)
        return reply

    return Step(_called(name, args, options), ask, gives)


Op = tuple[Any, ...]
"""The name of an operation, and its arguments; at the end those that are named."""


def _added(builder: Any, ops: Sequence[Op]) -> Any:
    for name, *args in ops:
        named = args.pop() if args and isinstance(args[-1], dict) else {}
        getattr(builder, name)(*args, **named)
    return builder


def transaction(*ops: Op, gives: Any) -> Step:
    return Step(f"transaction {ops}", lambda c: _added(c.transaction(), ops), gives)


def reads(*ops: Op, gives: Any) -> Step:
    return Step(f"reads {ops}", lambda c: _added(c.reads(), ops), gives)


def fenced(guard: str, *op: Any, gives: Any) -> Step:
    name, *args = op
    return Step(f"fenced {op}", lambda c: getattr(c.fenced(guard), name)(*args), gives)


def hears(read: str, path: str, change: Step, *, gives: Any, answer: Any = ANY) -> Step:
    """A watch that is set by a read, and what it says of the change, by whoever that is made."""

    async def ask(client: Client) -> Any:
        with client.backend.make_watch() as watch:
            found = await getattr(client, read)(path, watch=watch)
            check(found, answer, client)
            await change.ask(client)
            event = await watch.wait()
            return event.type.name, event.path

    return Step(f"{read}({path!r}, watch) hears {change.what}", ask, gives)


def streams(path: str, *changes: Step, recursive: bool = False, gives: Any) -> Step:
    """A persistent watch, and the events of some changes."""

    async def ask(client: Client) -> Any:
        async with client.watch(path, recursive=recursive) as events:
            for change in changes:
                await change.ask(client)
            found = [await anext(events) for _ in gives]
        return [(event.type.name, event.path) for event in found if isinstance(event, WatchEvent)]

    made = ", ".join(change.what for change in changes)
    return Step(f"watch({path!r}, recursive={recursive}) of {made}", ask, gives)


def views(name: str, path: str, *changes: Step, gives: Any) -> Step:
    """A view, its value at first, and what it becomes with each change."""

    async def ask(client: Client) -> Any:
        async with getattr(client, name)(path) as view:
            values = aiter(view)
            found = [await anext(values)]
            for change in changes:
                await change.ask(client)
                found.append(await anext(values))
        return found

    return Step(f"{name}({path!r})", ask, gives)


def _called(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> str:
    return f"{name}({', '.join([*map(repr, args), *(f'{k}={v!r}' for k, v in options.items())])})"


# --- looking at answers ------------------------------------------------------------------------


def check(found: Any, expected: Any, client: Client) -> None:
    """Fails unless what was found is what was expected, in so far as that says something."""
    assert fits(found, expected, client), f"\n  found:    {found!r}\n  expected: {expected!r}"


def fits(found: Any, expected: Any, client: Client) -> bool:
    match expected:
        case Placeholder():
            return expected is ANY or found == client.session_id
        case Having(attributes):
            return all(fits(getattr(found, k), v, client) for k, v in attributes.items())
        case Raises(kind, attributes):
            return type(found) is kind and fits(found, Having(attributes), client)
        case Unordered(items):
            rest = list(found)
            for item in items:
                match_ = next((each for each in rest if fits(each, item, client)), None)
                if match_ is None:
                    return False
                rest.remove(match_)
            return not rest
        case tuple() | list():
            return (
                isinstance(found, Sequence)
                and len(found) == len(expected)
                and all(fits(f, e, client) for f, e in zip(found, expected, strict=True))
            )
        case _:
            return type(found) is type(expected) and bool(found == expected)


async def run(step: Step, client: Client) -> None:
    """Does a step, and looks at what comes of it."""
    try:
        found = await step.ask(client)
    except AioleadError as caught:
        found = caught
    check(found, step.gives, client)

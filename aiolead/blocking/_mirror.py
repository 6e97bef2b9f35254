"""Classes for threads, made from the async ones: one rule for each type of attribute.

| in aiolead | here |
|---|---|
| `async def`, or a method that returns a `PendingReply` | a call that waits |
| a method that returns the context of a hold | the same, with `on_lost=`; entered with `with` |
| a method that returns `Self` | the same |
| other methods and properties | asked of the event loop; `DIRECT` ones read at once |
| `async with`, `async for` | `with`, `for` |

Objects of `aiolead.blocking` in arguments are passed as what they stand for; returned values that
have a class here become objects of it. A class is made at its first use.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import aiolead

from ._proxy import (
    ClientBase,
    Context,
    ElectionBase,
    HoldBase,
    HoldContext,
    OnLost,
    Proxy,
    ReadsBase,
    new,
    wrap,
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MADE = _names("""
    Barrier Condition Config Counter DelayQueue DoubleBarrier Election ExclusiveLock Group Lock
    MultiLock PersistentNode Picker PriorityQueue Queue ReadWriteLock ReentrantLock Semaphore
    SequenceAllocator ServiceRegistry SharedValue TaskBoard TreeCache UniqueNames
""")
"""The classes that users construct."""

GIVEN = _names("""
    BarrierMember BoardView Campaign CampaignState ChildrenView Claimed Client ConditionHeld
    ConfigView Consumption DataView ElectionObserver Fence FencedTransaction Held HeldName
    MembersView Membership MultiHeld QueueItem ReadLock Reads Registration ServiceView SessionStates
    SharedValueView Task Tenure TenureContext Term Transaction TreeEvents View
    WatchStream WriteHeld WriteLock
""")
"""The classes whose objects users receive."""

NAMES = MADE | GIVEN

DIRECT = _names("""
    acquire chroot fenced healthy leadership transaction try_acquire children get try_get data
    identity is_downgraded is_released is_revocation_requested loss name number parts path read
    round session_id session_timeout state token write
""")
"""Members that any thread may read or call: constants, single-step reads, constructing methods."""

OF_TASK = _names("hold_count")
"""Members that depend on the calling task: here, on the thread."""

NOT_HERE = {
    # Closed by leaving `blocking.connect`; for recipes and adapters; of one event loop.
    "Client": _names("aclose backend pipelined"),
    "Election": _names("running"),  # a thread that calls `run` is that
    "Tenure": _names("add_lost_callback"),  # `lost` and `on_lost` are for threads
}
"""Attributes that classes here, and their subclasses, do not have."""

BY_HAND: dict[str, type[Proxy]] = {
    "Client": ClientBase,
    "Consumption": Context,
    "Election": ElectionBase,
    "MultiHeld": HoldBase,
    "Reads": ReadsBase,
    "Tenure": HoldBase,
    "TenureContext": HoldContext,
}

WORDS = {"AsyncIterator": "Iterator", "CoordinationClient": "Client", "FencedClient": "Fence"}
"""Names in annotations, and what they are here."""

ON_LOST = inspect.Parameter(
    "on_lost",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation="Callable[[TenureLost], object] | None",
)


def _itself(self: Proxy) -> Proxy:
    return self


ITERATOR = {"__iter__": _itself, "__next__": Proxy._next}

_classes: dict[str, type[Proxy]] = {"Iterator": type("Iterator", (Proxy,), {**ITERATOR})}


def class_for(kind: type) -> type[Proxy] | None:
    """The class here for values of a type; None if they are passed as they are."""
    name = name_for(kind)
    return None if name is None else mirrored(name)


def name_for(kind: type) -> str | None:
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "aiolead"]
    for base in ours:
        if base.__name__ in NAMES:
            return base.__name__
    if ours and hasattr(kind, "__aenter__"):
        return "TenureContext"
    return "Iterator" if ours and hasattr(kind, "__anext__") else None


def mirrored(name: str) -> type[Proxy]:
    """The class of a name, made at the first call."""
    if name in _classes:
        return _classes[name]
    source: type = getattr(aiolead if hasattr(aiolead, name) else aiolead.types, name)
    above = [base.__name__ for base in source.__mro__[1:] if base.__name__ in NAMES]
    base = BY_HAND.get(name) or (mirrored(above[0]) if above else Proxy)
    cls: Any = type(name, (base,), {"__module__": "aiolead.blocking", "_source": source})
    cls.__doc__ = (name in BY_HAND and vars(base).get("__doc__")) or doc_of(source)
    if hasattr(source, "__dataclass_fields__"):  # these are properties here
        cls.__doc__ = cls.__doc__.partition("\n\nAttributes:")[0]
    hidden = _names("").union(*(NOT_HERE.get(each.__name__, ()) for each in source.__mro__))
    for attribute, member in _members(source).items():
        if attribute not in hidden and not hasattr(cls, attribute):
            setattr(cls, attribute, member)
    if name in MADE:
        cls._is_made, cls.__signature__ = True, _signature(source, client="aiolead.blocking.Client")
    # Another thread may have made it meanwhile: both use the first one.
    made: type[Proxy] = _classes.setdefault(name, cls)
    return made


def _members(source: type) -> dict[str, Any]:
    """The members of a class here, in the order of the async class and its bases."""
    found: dict[str, Any] = {}
    for base in reversed(source.__mro__[:-1]):
        for name, member in vars(base).items():
            if name == "__aenter__":
                if member.__annotations__.get("return") != "NoReturn":  # else it says how to hold
                    found |= {"__enter__": Proxy._enter, "__exit__": Proxy._leave}
            elif name == "__aiter__":
                iterates = hasattr(source, "__anext__")
                found |= ITERATOR if iterates else {"__iter__": Proxy._iterator}
            elif name in ("__contains__", "__iter__", "__len__") or (
                isinstance(member, types.FunctionType) and not name.startswith("_")
            ):
                found[name] = _method(name, member)
            elif name.startswith("_"):
                continue
            elif isinstance(member, (property, types.MemberDescriptorType)):
                annotations = getattr(member, "fget", base).__annotations__
                returns = annotations.get("return", annotations.get(name, "Any"))
                found[name] = _property(name, returns, doc_of(member) or f"See `{base.__name__}`.")
    return found


def _method(name: str, function: types.FunctionType) -> Any:
    returns = str(function.__annotations__.get("return", ""))
    kind = function.__globals__.get(returns.partition("[")[0])
    result = BY_HAND.get(name_for(kind) or "") if isinstance(kind, type) else None

    def call(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        return self._loop.call(partial(getattr(self._target, name), *args, **kwargs))

    def request(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        return self._loop.request(partial(getattr(self._target, name), *args, **kwargs))

    def build(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        getattr(self._target, name)(*args, **kwargs)
        return self

    def hold(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        on_lost: OnLost | None = kwargs.pop("on_lost", None)
        act = partial(getattr(self._target, name), *args, **kwargs)
        proxy = new(self._loop, act() if name in DIRECT else self._loop.ask(act))
        assert isinstance(proxy, Context)
        proxy._adopt(on_lost)
        return proxy

    def read(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        return wrap(self._loop, getattr(self._target, name)(*args, **kwargs))

    def ask(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        return self._loop.ask(partial(read, self, *args, **kwargs))

    extra: list[inspect.Parameter] = []
    method: Any = read if name in DIRECT or name.startswith("__") else ask
    if returns.startswith("PendingReply["):
        method = request
    elif inspect.iscoroutinefunction(function):
        method = call
    elif returns == "Self":
        method = build
    elif result is not None and issubclass(result, Context):
        method, extra = hold, [ON_LOST]
    method.__signature__ = _signature(function, *extra)
    method.__name__, method.__doc__ = name, doc_of(function)
    return method


def _property(name: str, returns: str, doc: str) -> property:
    def read(self: Proxy) -> Any:
        return wrap(self._loop, getattr(self._target, name))

    def ask(self: Proxy) -> Any:
        return self._loop.ask(partial(read, self))

    def call(self: Proxy) -> Any:
        async def act() -> Any:
            return read(self)

        return self._loop.call(act)

    get = read if name in DIRECT else call if name in OF_TASK else ask
    get.__annotations__ = {"return": threaded(returns)}
    return property(get, doc=doc)


# --- signatures and docstrings -----------------------------------------------------------------


def _signature(
    thing: Callable[..., Any], *extra: inspect.Parameter, client: str = "Client"
) -> inspect.Signature:
    signature = inspect.signature(thing)
    # The annotation of `self` is for functions that several async classes share.
    given = {"client": client, "self": inspect.Parameter.empty}
    parameters = [
        each.replace(annotation=given.get(each.name, threaded(each.annotation)))
        for each in signature.parameters.values()
        if each.name != "watch"  # one-shot watches are for recipes
    ]
    returns = threaded(signature.return_annotation)
    return signature.replace(parameters=[*parameters, *extra], return_annotation=returns)


def threaded(annotation: object) -> Any:
    """An annotation of the async class, as it is here."""
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = re.sub(r"^PendingReply\[(.*)\]$", r"\1", text)
    return re.sub(r"\w+", lambda word: WORDS.get(word[0], word[0]), text)


def doc_of(thing: object) -> str:
    """A docstring of the async class, with the code for threads, and without who may call that."""

    def here(found: re.Match[str]) -> str:
        if found[1] is None:
            return "a " if found[0] == "an " else ""
        return f"blocking.{found[1]}" if found[1] in NAMES else found[0]

    return re.sub(
        r"\ban (?=`async )|\b(?:async|await) (?=\w)|\baiolead\.(?:types\.)?(\w+)",
        here,
        re.sub(
            r"\n\nThreads and forks:.*?(?=\n\n|\Z)",
            "",
            inspect.getdoc(thing) or "",
            flags=re.DOTALL,
        ),
    )

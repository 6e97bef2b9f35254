"""Classes for threads, made from the async ones: one rule for each kind of attribute.

| in aiolead | here |
|---|---|
| `async def`, or a method that returns a `PendingReply` | a call that waits |
| a method that returns the context of a hold | the same, with `on_lost=`; entered with `with` |
| a method that returns `Self` | the same |
| other methods and properties | asked of the event loop; `DIRECT` ones read at once |
| `async with`, `async for` | `with`, `for` |

Arguments that are objects of `aiolead.blocking` are passed as what they stand for; values that have
a class here are returned as objects of that. A class is made at its first use.
"""

from __future__ import annotations

import inspect
import re
import threading
import types
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import aiolead

from .._logging import get_logger
from ..errors import ConfigurationError, TenureLost, UsageError
from ._loop import LoopThread
from ._thread_task import BlockJob

OnLost = Callable[[TenureLost], object]

MADE = frozenset(
    [
        "Barrier",
        "Condition",
        "Config",
        "Counter",
        "DelayQueue",
        "DoubleBarrier",
        "Election",
        "ExclusiveLock",
        "Group",
        "Lock",
        "MultiLock",
        "PersistentNode",
        "Picker",
        "PriorityQueue",
        "Queue",
        "ReadWriteLock",
        "ReentrantLock",
        "Semaphore",
        "SequenceAllocator",
        "ServiceRegistry",
        "SharedValue",
        "TaskBoard",
        "TreeCache",
        "UniqueNames",
    ]
)
"""The classes that users make objects of."""

GIVEN = frozenset(
    [
        "BarrierMember",
        "BoardView",
        "Campaign",
        "CampaignState",
        "ChildrenView",
        "Claimed",
        "Client",
        "ConditionHeld",
        "ConfigView",
        "Consumption",
        "DataView",
        "ElectionObserver",
        "Fence",
        "FencedTransaction",
        "Held",
        "HeldName",
        "MembersView",
        "Membership",
        "MultiHeld",
        "QueueItem",
        "ReadLock",
        "Reads",
        "Registration",
        "ServiceView",
        "SessionStates",
        "SharedValueView",
        "Task",
        "Tenure",
        "TenureContext",
        "Term",
        "Transaction",
        "TreeEvents",
        "View",
        "WatchStream",
        "WriteHeld",
        "WriteLock",
    ]
)
"""The classes whose objects users are given."""

NAMES = MADE | GIVEN

DIRECT = frozenset(
    [
        "chroot",
        "fenced",
        "healthy",
        "transaction",
        "children",
        "get",
        "data",
        "identity",
        "is_downgraded",
        "is_released",
        "is_revocation_requested",
        "loss",
        "name",
        "number",
        "parts",
        "path",
        "read",
        "round",
        "session_id",
        "session_timeout",
        "state",
        "token",
        "write",
    ]
)
"""What may be read in any thread: constants, and what is read in one step."""

OF_TASK = frozenset({"hold_count"})
"""What depends on the task that asks: here, on the thread."""

NOT_HERE = {
    "Client": "backend pipelined",  # for recipes and adapters; of one event loop
    "Tenure": "add_lost_callback",  # `lost` and `on_lost` are for threads
    "Election": "running",  # a thread that calls `run` is that
}
"""What classes here do not have."""

ATTRIBUTES = {
    "ReadWriteLock": {
        "read": ("ReadLock", "The lock for reading."),
        "write": ("WriteLock", "The lock for writing."),
    },
    "MultiLock": {"recipes": ("tuple[Holdable, ...]", "What it is made of.")},
    "MultiHeld": {"holds": ("tuple[Tenure, ...]", "The hold of each.")},
}
"""Attributes that the async classes assign in their constructors, with their types."""

WORDS = {"AsyncIterator": "Iterator", "CoordinationClient": "Client", "FencedClient": "Fence"}
"""What annotations name, and what that is here."""

EXTRAS: dict[str, type[Proxy]] = {}
"""What is written by hand: the bases of the classes of these names."""

_classes: dict[str, type[Proxy]] = {}
_by_type: dict[type, type[Proxy] | None] = {}

logger = get_logger("aiolead.blocking")


class Proxy:
    """An object for threads, which stands for one in the event loop."""

    _source: ClassVar[type]
    _loop: LoopThread
    _target: Any
    _on_lost: OnLost | None = None
    _current: object = None
    """What an iteration gave last: of a consumption, the item that is held."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        if name not in MADE:
            raise UsageError(f"{name}: is given by methods of other objects, and not made")
        loops = {each._loop for each in (*args, *kwargs.values()) if isinstance(each, Proxy)}
        if len(loops) != 1:
            raise ConfigurationError(
                f"{name}: is made with a client of aiolead.blocking, or with objects of one"
            )
        (self._loop,) = loops

        async def make() -> object:
            return self._source(
                *map(_unwrapped, args), **{key: _unwrapped(each) for key, each in kwargs.items()}
            )

        self._target = self._loop.call(make)
        self._loop.proxies[id(self._target)] = self

    if TYPE_CHECKING:  # what `mirrored` adds

        def __getattr__(self, name: str) -> Any: ...

    __class_getitem__: ClassVar[Any] = classmethod(types.GenericAlias)

    def __repr__(self) -> str:
        return f"<blocking {self._target!r}>"

    def _begin(self) -> None:
        """Called in the event loop when it was made for a value."""

    def _tenures(self) -> Iterable[aiolead.types.Tenure]:
        """What is held by a block that gave this."""
        return self._current._tenures() if isinstance(self._current, Proxy) else ()

    def _notify(self, on_lost: OnLost | None) -> None:
        """Register a callback for the loss of what is held. In the event loop."""
        if on_lost is not None:
            for tenure in self._tenures():
                tenure.add_lost_callback(partial(_call_on_lost, on_lost, tenure))

    def _entered(self, value: object) -> object:
        if value is self._target:
            return self
        proxy = wrap(self._loop, value)
        if isinstance(proxy, Proxy):
            proxy._notify(self._on_lost)
        return proxy


class Context(Proxy):
    """What has to be entered: a hold, or a consumption."""

    _is_entered = False

    def __enter__(self) -> object:
        self._is_entered = True
        return _enter(self)

    def __del__(self) -> None:
        if not self._is_entered:
            warnings.warn(
                f"{self!r} was never entered, so nothing was acquired: write "
                "`with lock.acquire() as held:`",
                RuntimeWarning,
                stacklevel=2,
            )


def wrap(loop: LoopThread, value: Any) -> Any:
    """What a thread gets for a value of the event loop: the same object each time."""
    kind = type(value)
    if (_by_type[kind] if kind in _by_type else class_for(kind)) is None:
        return tuple(wrap(loop, each) for each in value) if kind is tuple else value
    proxy = loop.proxies.get(id(value))
    if proxy is None:
        proxy = loop.proxies[id(value)] = new(loop, value)
        proxy._begin()
    return proxy


def new(loop: LoopThread, target: object) -> Proxy:
    """An object for a thread that stands for one of the event loop."""
    cls = _by_type.get(type(target)) or class_for(type(target)) or Proxy
    proxy = cls.__new__(cls)
    proxy._loop, proxy._target = loop, target
    return proxy


def _unwrapped(value: object) -> object:
    return value._target if isinstance(value, Proxy) else value


def _call_on_lost(on_lost: OnLost, tenure: aiolead.types.Tenure) -> None:
    """Call it in a thread of its own, where it may wait for whatever it likes."""
    try:
        tenure.check()
    except TenureLost as lost:
        thread = threading.Thread(target=on_lost, args=(lost,), name="aiolead-on-lost", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            logger.exception("on_lost could not be called: there is no thread for it")


# --- classes -----------------------------------------------------------------------------------


def class_for(kind: type) -> type[Proxy] | None:
    """The class here for values of a type; None if they are passed as they are."""
    name = name_for(kind)
    _by_type[kind] = cls = None if name is None else mirrored(name)
    return cls


def name_for(kind: type) -> str | None:
    """The name of that class."""
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "aiolead"]
    for base in ours:
        if base.__name__ in NAMES:
            return base.__name__
    if ours and hasattr(kind, "__aenter__"):
        return "TenureContext"
    return "Iterator" if ours and hasattr(kind, "__anext__") else None


def mirrored(name: str) -> type[Proxy]:
    """The class of a name, which is made at the first call."""
    if name in _classes:
        return _classes[name]
    source: type = getattr(aiolead if hasattr(aiolead, name) else aiolead.types, name)
    above = next((base.__name__ for base in source.__mro__[1:] if base.__name__ in NAMES), None)
    base = EXTRAS.get(name) or (mirrored(above) if above else Proxy)
    doc = base.__dict__.get("__doc__") if name in EXTRAS else None
    namespace = {"__doc__": doc or doc_of(source), "__module__": "aiolead.blocking"}
    cls: Any = type(name, (base,), {**namespace, "_source": source})
    hidden = {each for above in source.__mro__ for each in NOT_HERE.get(above.__name__, "").split()}
    for attribute, member in _members(source).items():
        if attribute not in hidden and not hasattr(cls, attribute):
            setattr(cls, attribute, member)
    if name in MADE:
        cls.__signature__ = _signature(source)
    # Two threads may have come so far: both use the first one.
    made: type[Proxy] = _classes.setdefault(name, cls)
    return made


def _members(source: type) -> dict[str, Any]:
    """What a class has here, in the order in which the async class and its bases define it."""
    found: dict[str, Any] = {}
    if name := next((each for each in ATTRIBUTES if each == source.__name__), None):
        for attribute, (returns, doc) in ATTRIBUTES[name].items():
            found[attribute] = _property(attribute, returns, doc)
    for base in reversed(source.__mro__[:-1]):
        for name, member in vars(base).items():
            if name in _SPECIAL:
                found.update(_SPECIAL[name](member, source))
            elif name.startswith("_"):
                continue
            elif isinstance(member, types.FunctionType):
                found[name] = _method(name, member)
            elif isinstance(member, (property, types.MemberDescriptorType)):
                annotations = getattr(member, "fget", base).__annotations__
                returns = annotations.get("return", annotations.get(name, "Any"))
                found[name] = _property(name, returns, doc_of(member) or _doc_in(base, name))
    return found


def _method(name: str, function: types.FunctionType) -> Any:
    returns = str(function.__annotations__.get("return", ""))
    kind = function.__globals__.get(returns.partition("[")[0])
    result = EXTRAS.get(name_for(kind) or "") if isinstance(kind, type) else None

    def call(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        return self._loop.call(partial(getattr(self._target, name), *args, **kwargs))

    def build(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        getattr(self._target, name)(*args, **kwargs)
        return self

    def hold(self: Proxy, *args: Any, on_lost: OnLost | None = None, **kwargs: Any) -> Any:
        act = partial(getattr(self._target, name), *args, **kwargs)
        proxy = new(self._loop, act() if name in DIRECT else self._loop.ask(act))
        proxy._on_lost = on_lost
        return proxy

    def read(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        return wrap(self._loop, getattr(self._target, name)(*args, **kwargs))

    def ask(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        return self._loop.ask(partial(read, self, *args, **kwargs))

    extra: list[inspect.Parameter] = []
    method: Any = read if name in DIRECT else ask
    if inspect.iscoroutinefunction(function) or returns.startswith("PendingReply["):
        method = call
    elif returns == "Self":
        method = build
    elif result is not None and issubclass(result, Context):
        method, extra = hold, [ON_LOST]
    method.__signature__ = _signature(function, *extra)
    method.__name__, method.__doc__ = name, doc_of(function)
    return method


def _signature(thing: Callable[..., Any], *extra: inspect.Parameter) -> inspect.Signature:
    signature = inspect.signature(thing)
    parameters = [
        each.replace(annotation=threaded(each.annotation))
        for each in signature.parameters.values()
        if each.name != "watch"  # one-shot watches are for recipes
    ]
    returns = signature.return_annotation
    return signature.replace(parameters=[*parameters, *extra], return_annotation=threaded(returns))


def _property(name: str, returns: str, doc: str | None) -> property:
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


ON_LOST = inspect.Parameter(
    "on_lost",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation="Callable[[TenureLost], object] | None",
)


def threaded(annotation: object) -> Any:
    """An annotation of the async class, as it is here."""
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = re.sub(r"^PendingReply\[(.*)\]$", r"\1", text)
    return re.sub(r"\w+", lambda word: WORDS.get(word[0], word[0]), text)


def doc_of(thing: object) -> str | None:
    """A docstring of the async class, with the code for threads."""
    doc = inspect.getdoc(thing)
    doc = doc and re.sub(r"\ban (?=`async )|\b(?:async|await) (?=\w)", _without_await, doc)
    return doc and re.sub(
        r"\baiolead\.(\w+)",
        lambda name: f"blocking.{name[1]}" if name[1] in NAMES else name[0],
        doc,
    )


def _without_await(word: re.Match[str]) -> str:
    return "a " if word[0] == "an " else ""


def _doc_in(cls: type, attribute: str) -> str:
    """What a class says of one of its attributes."""
    lines = (doc_of(cls) or "").splitlines()
    start = f"    {attribute}: "
    return next((line.removeprefix(start) for line in lines if line.startswith(start)), "")


# --- what is entered, and what is iterated over -------------------------------------------------


def _enter(self: Proxy) -> object:
    return self._loop.enter(self, BlockJob(self._target, self._entered))


def _exit(
    self: Proxy,
    exc_type: type[BaseException] | None,
    exc: BaseException | None,
    traceback: types.TracebackType | None,
) -> None:
    self._loop.leave(self, exc)


def _iterator(self: Proxy) -> Any:
    return self._loop.ask(lambda: wrap(self._loop, aiter(self._target)))


def _next(self: Proxy) -> Any:
    async def step() -> object:
        value = self._current = wrap(self._loop, await anext(self._target))
        if isinstance(value, Proxy):
            value._notify(self._on_lost)
        return value

    try:
        return self._loop.call(step)
    except StopAsyncIteration:
        raise StopIteration from None


def _itself(self: Proxy) -> Proxy:
    return self


def _is_entered(function: Any, _source: type) -> dict[str, Any]:
    if function.__annotations__.get("return") == "NoReturn":
        return {}  # it says how it is held
    return {"__enter__": _enter, "__exit__": _exit}


def _is_iterated(_function: Any, source: type) -> dict[str, Any]:
    if hasattr(source, "__anext__"):
        return {"__iter__": _itself, "__next__": _next}
    return {"__iter__": _iterator}


def _is_awaited(_function: Any, source: type) -> dict[str, Any]:
    if hasattr(source, "__aenter__") or hasattr(source, "commit"):
        return {}

    def result(self: Proxy) -> Any:
        """Send it, and wait for the answer."""

        async def answer() -> Any:
            return await self._target

        return self._loop.call(answer)

    result.__annotations__ = {"return": "list[ReadResult]"}
    return {"result": result}


def _passed_on(function: Any, _source: type) -> dict[str, Any]:
    name = function.__name__

    def method(self: Proxy, *args: Any) -> Any:
        return getattr(self._target, name)(*args)

    method.__name__, method.__doc__ = name, doc_of(function)
    return {name: method}


_SPECIAL: dict[str, Callable[[Any, type], dict[str, Any]]] = {
    "__aenter__": _is_entered,
    "__aiter__": _is_iterated,
    "__await__": _is_awaited,
    "__contains__": _passed_on,
    "__iter__": _passed_on,
    "__len__": _passed_on,
}


class _Iterator(Proxy):
    """What iterates over a view."""

    __iter__ = _itself
    __next__ = _next


_classes["Iterator"] = _Iterator

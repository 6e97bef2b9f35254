"""Errors for what is easily mistaken, whose messages show what to write instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any
from weakref import WeakSet

from ..errors import ConfigurationError, UsageError


class MissingAttribute(UsageError, AttributeError):
    """An `AttributeError`, as `hasattr` expects, whose message shows what to write instead."""


class HeldForABlock:
    """A method that other libraries' locks have; its error shows what to write instead.

    `line_of` gives the statement that holds an object. Without `__getattr__`: beside one, Python
    looks up every attribute of the object the slow way.
    """

    def __init__(self, line_of: Callable[[Any], str]) -> None:
        self._line_of = line_of

    def __set_name__(self, _owner: object, name: str) -> None:
        self._name = name

    def __get__(self, held: object, owner: type[Any]) -> Any:
        what = f"{owner.__name__!r} object has no attribute {self._name!r}"
        if held is None:
            raise AttributeError(what, name=self._name, obj=owner)
        raise MissingAttribute(f"{what}: it is held for a block, write `{self._line_of(held)}`")


def left_by_another(subject: object) -> UsageError:
    """The error for a task that leaves what another one entered."""
    return UsageError(
        f"{subject!r} was not entered by this task but by another task, so it was released without "
        "leaving its block: enter and leave in one task; close async generators where they are "
        "iterated, with `async with contextlib.aclosing(...)`"
    )


def not_copied(subject: object) -> UsageError:
    """The error for an object that was to be pickled, as for another process, or copied."""
    return UsageError(
        f"{subject!r} can be neither pickled nor copied, since its session belongs to this "
        "process: pass the connect string and the paths, and connect there, too"
    )


def check_worker(worker: object, *takes: str, is_async: bool = True) -> None:
    """Refuse a worker that could not be called with these arguments, or run.

    A coroutine is closed, so that Python does not warn. `is_async`: what it returns is awaited;
    otherwise it runs in the calling thread.
    """
    if inspect.iscoroutine(worker):
        name = worker.__name__
        worker.close()
        raise UsageError(
            f"worker: is called once per {takes[0]}, so it must be the function, not a coroutine: "
            f"write `run({name})` instead of `run({name}())`"
        )
    line = f"`{'async ' if is_async else ''}def work({', '.join(takes)}):`"
    if not callable(worker):
        raise ConfigurationError(f"worker: must be a function, as {line}, not {worker!r}")
    try:
        inspect.signature(worker).bind(*takes)
    except TypeError as error:
        raise ConfigurationError(
            f"worker: must be a function that takes {' and '.join(takes)}, as {line}, not "
            f"{worker!r}: {error}"
        ) from None
    except ValueError:
        pass  # it has none that Python knows of
    function = _function_of(worker)
    if is_async and _is_surely_sync(function):
        raise ConfigurationError(f"worker: must be async, as {line}, not {worker!r}")
    if not is_async and inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"worker: runs in the calling thread, so it must not be async: {line}, not {worker!r}"
        )


_FITTING: WeakSet[Any] = WeakSet()
"""The functions of methods that can be called without arguments. `inspect` takes 40 µs to tell, and
the blocking face registers a method for each hold."""


def check_callback(name: str, callback: object, *takes: str) -> None:
    """Refuse a callback that could not be called with these arguments, or is async.

    Nobody would await its coroutine. A wrong callback would be noticed only when it is needed.
    """
    function = getattr(callback, "__func__", None)
    is_kept = not takes and isinstance(function, FunctionType)
    if is_kept and function in _FITTING:
        return
    line = f"`def {name}({', '.join(takes)}):`"
    if inspect.iscoroutine(callback):
        callback.close()  # so that Python does not warn
    is_async = inspect.iscoroutinefunction(_function_of(callback)) or inspect.iscoroutinefunction(
        getattr(callback, "__call__", None)  # noqa: B004 - an object with an async method
    )
    if not callable(callback) or is_async:
        raise ConfigurationError(f"{name}: must be a plain function, as {line}, not {callback!r}")
    try:
        inspect.signature(callback).bind(*takes)
    except TypeError as error:
        raise ConfigurationError(
            f"{name}: is called as {line}, which {callback!r} cannot be: {error}"
        ) from None
    except ValueError:
        pass  # it has none that Python knows of
    else:
        if is_kept:
            _FITTING.add(function)


def _function_of(worker: object) -> object:
    """The function under what wraps it."""
    while isinstance(worker, functools.partial):
        worker = worker.func
    return inspect.unwrap(worker) if callable(worker) else worker


def _is_surely_sync(function: object) -> bool:
    """Whether it gives nothing to await: a `def` that does not say that it returns an awaitable."""
    if inspect.iscoroutinefunction(function) or not inspect.isroutine(function):
        return False  # such as a class, or an object that is callable
    if inspect.isbuiltin(function) or getattr(function, "__name__", "") == "<lambda>":
        return False
    returns = getattr(function, "__annotations__", {}).get("return")
    return returns in (None, "None") or inspect.isasyncgenfunction(function)

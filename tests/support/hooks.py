"""The hooks of `connect`, as options of the tests' own ways to connect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from aiolead.testing import Hooks

NAMES = ("clock", "rng", "dial")


_defaults: ContextVar[Callable[[], dict[str, Any]]] = ContextVar("defaults", default=dict)


@contextmanager
def hooks_by_default(make: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """In the block, each client has hooks of its own that are made so, where none are given."""
    token = _defaults.set(make)
    try:
        yield
    finally:
        _defaults.reset(token)


def hooked(**options: Any) -> dict[str, Any]:
    """The options for `connect`: `clock`, `rng` and `dial` go into its `hooks`."""
    options = {**_defaults.get()(), **options}
    hooks = {name: options.pop(name) for name in NAMES if name in options}
    return {**options, "hooks": Hooks(**hooks)} if hooks else options

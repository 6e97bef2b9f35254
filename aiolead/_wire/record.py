"""Frozen, slotted, comparable records, as `dataclass` makes them, at a tenth of its price.

`dataclass` writes and compiles six functions for each class when that is defined. There are some
forty classes for what goes over the wire, and a program makes objects of a few: so here all classes
share what they can, and have their own `__init__` compiled for the first object of theirs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError, dataclass, field
from typing import Any, TypeVar, dataclass_transform

_T = TypeVar("_T", bound="Record")


class Record:
    """The base of them all; `record` makes a class of this kind complete."""

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        own = _written_init(type(self))
        type(self).__init__ = own  # type: ignore[method-assign]
        own(self, *args, **kwargs)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        shown = (f for f in dataclasses.fields(self) if f.repr)  # type: ignore[arg-type]
        inside = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in shown)
        return f"{type(self).__qualname__}({inside})"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    """Does what `dataclass(frozen=True, slots=True)` does, for a class that is a `Record`."""
    # Without a docstring, `dataclass` would inspect the signature for one.
    doc, cls.__doc__ = cls.__doc__, cls.__doc__ or "-"
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__doc__ = doc
    return made


def _values(of: object) -> tuple[Any, ...]:
    return tuple([getattr(of, name) for name in of.__match_args__])  # type: ignore[attr-defined]


def _written_init(cls: type[Record]) -> Any:
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    scope: dict[str, Any] = {"put": object.__setattr__}
    arguments, body = ["self"], ["    pass"]
    for each in fields:
        optional = each.default is not MISSING
        if optional:
            scope[f"_{each.name}"] = each.default
        arguments.append(f"{each.name}=_{each.name}" if optional else each.name)
        body.append(f"    put(self, {each.name!r}, {each.name})")
    source = "\n".join([f"def __init__({', '.join(arguments)}):", *body])
    exec(compile(source, f"<{cls.__qualname__}.__init__>", "exec"), scope)  # noqa: S102
    return scope["__init__"]

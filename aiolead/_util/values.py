"""Immutable values: data classes that are made in a fifth of the time.

`dataclass` writes and compiles six methods for each frozen class. For the classes that every
program imports, that took longer than anything else in importing the library. Here the classes
share all methods except `__init__`, which makes an instance, a comparison and a hash slower: use
`dataclass(frozen=True)` for what is made often.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform

V = TypeVar("V", bound="Value")


class Comparable:
    """The comparison and the representation of a data class."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _compared(self))

    __hash__: ClassVar[None]  # type: ignore[assignment]  # as of any data class that can change

    def __repr__(self) -> str:
        names = [each.name for each in fields(self) if each.repr]  # type: ignore[arg-type]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"


class Value(Comparable):
    """The base of immutable values: each field is set once."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(getattr(self, name) for name in _compared(self)))

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


def _compared(value: Any) -> list[str]:
    return [each.name for each in fields(value) if each.compare]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[V]) -> type[V]:
    """Make a subclass of `Value` a data class with slots."""
    return dataclass(slots=True, eq=False, repr=False)(cls)

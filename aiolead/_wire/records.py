"""The base of records on the wire: fields that follow each other, each with a type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

from .jute import Reader, Writer


class WireType(NamedTuple):
    """How a field is written and read."""

    write: Callable[[Writer, Any], None]
    read: Callable[[Reader], Any]


I32 = WireType(Writer.i32, Reader.i32)
I64 = WireType(Writer.i64, Reader.i64)
FLAG = WireType(Writer.flag, Reader.flag)
BLOB = WireType(Writer.blob, Reader.blob)
NULLABLE_BLOB = WireType(Writer.blob, Reader.nullable_blob)
TEXT = WireType(Writer.text, Reader.text)
TEXTS = WireType(Writer.texts, Reader.texts)
ACLS = WireType(Writer.acls, Reader.acls)
STAT = WireType(Writer.stat, Reader.stat)

RecordLayout: TypeAlias = tuple[WireType, ...]
"""The types of the first fields of a record."""


class Record:
    """The base of the dataclasses on the wire.

    `layout` has the types of the first fields, in order. Classes write and read the rest.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()  # the names of the fields, set by `dataclass`
    layout: ClassVar[RecordLayout] = ()

    def write(self, w: Writer) -> None:
        for (write, _), name in zip(self.layout, self.__match_args__, strict=False):
            write(w, getattr(self, name))

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(*[read(r) for _, read in cls.layout])

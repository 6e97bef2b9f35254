"""Strategies for the values of records, and records as bytes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from aiolead._wire.jute import Reader, Writer
from aiolead.model import ACL, Permission, Stat

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
BOOL = st.booleans()
TEXT = st.text(max_size=12)
DATA = st.binary(max_size=30)
STATS = st.tuples(*map({"q": I64, "i": I32}.__getitem__, "qqqqiiiqiiq")).map(lambda t: Stat(*t))


def acls_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[ACL, ...]]:
    acl = st.builds(ACL, st.integers(0, 31).map(Permission), text, text)
    return st.lists(acl, max_size=4).map(tuple)


ACLS = acls_of(TEXT)


def encode(record: Any) -> bytes:
    w = Writer()
    record.write(w)
    return bytes(w.buffer)


def reader_of(record: Any) -> Callable[[Reader], Any]:
    """The `read` of the record's type. Some need the operation."""
    cls = type(record)
    if "op" in inspect.signature(cls.read).parameters:
        return lambda r: cls.read(r, record.op)
    return cls.read


def decode(record: Any, data: bytes) -> Any:
    """Reads a record of the same type, to the last byte."""
    r = Reader(data)
    found = reader_of(record)(r)
    assert r.remaining == 0
    return found

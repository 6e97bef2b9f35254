"""Records are what `dataclass(frozen=True, slots=True)` would make of them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, ClassVar

import pytest

from aiolead._wire.record import Record, record


def _define(decorator: Any, base: type) -> type[Any]:
    class Sample(base):  # type: ignore[misc, valid-type]
        """RecordedEvents."""

        op: ClassVar[int] = 7
        path: str
        data: bytes = field(repr=False)
        version: int = -1

    return decorator(Sample)  # type: ignore[no-any-return]


OURS = _define(record, Record)
THEIRS = _define(dataclass(frozen=True, slots=True), object)


@pytest.mark.parametrize("sample", [OURS, THEIRS], ids=["record", "dataclass"])
def test_what_a_record_does(sample: type[Any]) -> None:
    one = sample("/a", b"secret")
    assert (one.path, one.data, one.version, one.op) == ("/a", b"secret", -1, 7)
    assert one == sample(path="/a", data=b"secret", version=-1)
    assert hash(one) == hash(sample("/a", b"secret"))
    assert one != sample("/a", b"secret", 0)
    assert one != ("/a", b"secret", -1)
    assert one != OTHER(one.path, one.data)
    assert repr(one) == "_define.<locals>.Sample(path='/a', version=-1)"
    assert replace(one, version=3) == sample("/a", b"secret", 3)
    assert [each.name for each in fields(one)] == ["path", "data", "version"]
    assert sample.__doc__ == "RecordedEvents."
    match one:
        case sample(path, data, version):
            assert (path, data, version) == ("/a", b"secret", -1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'version'"):
        one.version = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'version'"):
        del one.version
    # Slots: whatever is not a field has no place.
    assert not hasattr(one, "__dict__")


OTHER = _define(record, Record)
"""Of the same fields, and yet another class."""


@pytest.mark.parametrize("sample", [_define(record, Record), THEIRS], ids=["record", "dataclass"])
def test_what_a_record_refuses(sample: type[Any]) -> None:
    # Of the first object of its class, and of later ones.
    for _ in range(2):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'data'"):
            sample("/a")
        with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
            sample("/a", b"", nonsense=1)


def test_a_record_without_a_docstring_has_none() -> None:
    @record
    class Bare(Record):
        xid: int

    assert Bare.__doc__ is None
    assert Bare(3) == Bare(xid=3)

"""`aiolead.blocking` has all of aiolead, and its stub says what it has."""

from __future__ import annotations

import inspect

from blocking.stub import STUB, stub
from kit.checks import check_each

import aiolead
import aiolead.types
from aiolead.blocking._mirror import DIRECT, GIVEN, MADE, NAMES, NOT_HERE, OF_TASK, name_for

ELSEWHERE = {
    "ClientLease": "for recipes and adapters",
    "ClientWatch": "for recipes and adapters",
    "Connection": "written by hand: the thread begins and ends with it",
    "Hosts": "an argument of `connect`",
    "Partitioner": "its workers are cancelled when an item moves, which no thread can be",
    "PendingReply": "a call waits",
}
"""Async classes that are not in `aiolead.blocking`, and why."""

PUBLIC = {
    name: thing
    for module in (aiolead, aiolead.types)
    for name in module.__all__
    if inspect.isclass(thing := getattr(module, name))
}


def _is_async(cls: type) -> bool:
    return any(
        inspect.iscoroutinefunction(member) or name in ("__aiter__", "__await__")
        for base in cls.__mro__
        for name, member in vars(base).items()
    )


def _without_docstrings(text: str) -> str:
    """The part of a stub that type checkers read."""
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith('"""'))


def test_stub_is_up_to_date() -> None:
    is_, should_be = _without_docstrings(STUB.read_text()), _without_docstrings(stub())
    assert is_ == should_be, "run `python -m tests.blocking.stub`"


def test_calls_of_operators_have_the_same_arguments() -> None:
    """The functions of `aiolead.admin`, without one-shot watches, which are for recipes."""
    assert aiolead.blocking.admin.__all__ == aiolead.admin.__all__
    for name in aiolead.admin.__all__:
        signature = inspect.signature(getattr(aiolead.admin, name))
        parameters = [each for each in signature.parameters.values() if each.name != "watch"]
        there = inspect.signature(getattr(aiolead.blocking.admin, name))
        assert signature.replace(parameters=parameters) == there, name


@check_each("name", sorted(name for name in PUBLIC if _is_async(PUBLIC[name])))
def test_every_async_class_has_a_blocking_one(name: str) -> None:
    if name in ELSEWHERE:
        assert name not in NAMES
    else:
        assert name_for(PUBLIC[name]) is not None


def test_tables_name_existing_attributes() -> None:
    assert not MADE & GIVEN
    assert PUBLIC.keys() >= NAMES
    assert PUBLIC.keys() >= ELSEWHERE.keys()
    for name, attributes in NOT_HERE.items():
        assert attributes <= set(dir(PUBLIC[name]))
        for each in NAMES:
            if issubclass(PUBLIC[each], PUBLIC[name]):
                assert attributes.isdisjoint(dir(getattr(aiolead.blocking, each))), each
    assert {attribute for name in NAMES for attribute in dir(PUBLIC[name])} >= DIRECT | OF_TASK

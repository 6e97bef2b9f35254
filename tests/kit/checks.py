"""One check on many things, as one test; waits that end; processes that end with the test."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any, Protocol, TypeVar

import pytest

WITHIN = 600
"""How many seconds such a test has: it stands for many, each of which would have a minute."""


def check_each(
    names: str,
    values: Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    ids: Callable[[Any], str] = str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a test apply its check to every value, and report every value that fails.

    It takes the place of `pytest.mark.parametrize` where the values are no behaviours of their
    own: files, public names, errors, planted bugs. These are one test, which costs nothing to
    collect.

    Args:
        names: the arguments of the test that a value is for, separated by commas.
        values: the values, as many at a time as there are names; or a function that lists them,
            which is called as the test runs.
        ids: the name of a value in the report, from the first of its parts.
    """
    arguments = [name.strip() for name in names.split(",")]

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        def test(**fixtures: Any) -> None:
            failed: dict[str, BaseException] = {}
            count = 0
            for count, value in enumerate(values if isinstance(values, Iterable) else values(), 1):
                parts = (value,) if len(arguments) == 1 else tuple(value)
                try:
                    check(**fixtures, **dict(zip(arguments, parts, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failed[f"{ids(parts[0])} (number {count})"] = error
            assert count, "there is nothing to check"
            if failed:
                told = [
                    f"{name}: {type(error).__name__}: {error}" for name, error in failed.items()
                ]
                text = "\n\n".join([f"{len(failed)} of {count} fail:", *told])
                raise AssertionError(text) from next(iter(failed.values()))

        # Not what else the check has: hypothesis, for one, marks the tests that are its own.
        update_wrapper(test, check, updated=())
        marks = [pytest.mark.timeout(WITHIN).mark, *getattr(check, "pytestmark", ())]
        setattr(test, "pytestmark", marks)  # noqa: B010
        parameters = inspect.signature(check).parameters.values()
        others = [each for each in parameters if each.name not in arguments]
        setattr(test, "__signature__", inspect.Signature(others))  # noqa: B010
        return test

    return decorate


# --- waiting --------------------------------------------------------------------------------------

PATIENCE = 30.0
"""How long anything is waited for that must happen, in seconds; it mostly takes milliseconds.

It only ends a test that hangs, before pytest's own limit does, and says what was missing. A real
server has taken more than five seconds to answer on a busy machine.
"""


def until(check: Callable[[], bool], what: str) -> None:
    """Waits until something is so.

    Raises:
        AssertionError: it is not, after `PATIENCE` seconds.
    """
    deadline = time.monotonic() + PATIENCE
    while not check():
        if time.monotonic() > deadline:
            raise AssertionError(f"still not, after {PATIENCE} seconds: {what}")
        time.sleep(0.005)


# --- processes ------------------------------------------------------------------------------------


class Running(Protocol):
    """A process, such as a `subprocess.Popen`."""

    def kill(self) -> None: ...

    def wait(self, timeout: float) -> int: ...


P = TypeVar("P", bound=Running)


@contextmanager
def no_threads() -> Iterator[None]:
    """In the block, this process can start no thread: no stack fits into memory."""
    before = threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(before)


@contextmanager
def killed_at_the_end(process: P) -> Iterator[P]:
    """A process for a block, which ends it, whether it fails or not.

    A process that a failed test leaves behind is a ResourceWarning, which fails a later test.
    """
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)

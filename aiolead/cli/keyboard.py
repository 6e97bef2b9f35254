"""The keyboard of `aiolead top`: `q` ends it, as it ends a pager."""

from __future__ import annotations

import os
import re
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import anyio

from .output import undone_at_once
from .signals import without_sigttou

_INPUT = 0
_SEQUENCE = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)
"""What other keys send: any of its bytes may be a letter."""


@contextmanager
def single_keys() -> Iterator[bool]:
    """Pass on keys as they are typed, without echo; yield whether a foreground terminal has any."""
    try:
        is_ours = os.isatty(_INPUT) and os.tcgetpgrp(_INPUT) == os.getpgrp()
        before = termios.tcgetattr(_INPUT) if is_ours else None
    except (OSError, termios.error):
        before = None
    if before is None:
        yield False
        return
    mode = list(before)
    mode[3] &= ~(termios.ICANON | termios.ECHO)
    _set(mode)
    try:
        with undone_at_once(partial(_set, before)):
            yield True
    finally:
        _set(before)


async def until_q() -> None:
    """Wait until `q` is typed; forever if the terminal is closed, which others notice."""
    while True:
        await anyio.wait_readable(_INPUT)
        try:
            typed = os.read(_INPUT, 1024)
        except OSError:
            typed = b""
        if not typed:
            await anyio.sleep_forever()
        if b"q" in _SEQUENCE.sub(b"", typed).lower():
            return


def _set(mode: list[object]) -> None:
    with without_sigttou(), suppress(termios.error):  # the terminal may be closed
        termios.tcsetattr(_INPUT, termios.TCSANOW, mode)  # type: ignore[arg-type]

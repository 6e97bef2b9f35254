"""The keyboard of `aiolead top`: single keys, by their names."""

from __future__ import annotations

import os
import re
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import anyio

from .. import _parsing
from .output import undone_at_once
from .signals import without_sigttou

_INPUT = 0
_TYPED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\x1b])?|[\x00-\x7f]|[\x80-\xff]+", re.DOTALL)
"""The bytes that one key sends; of several characters beyond ASCII, all."""
_NAMES = {
    b"\r": "enter",
    b"\n": "enter",
    b"\x1b": "esc",
    b"\x7f": "backspace",
    b"\b": "backspace",
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1bOH": "home",
    b"\x1b[1~": "home",
    b"\x1b[F": "end",
    b"\x1bOF": "end",
    b"\x1b[4~": "end",
}


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


def keys_in(typed: bytes) -> list[str]:
    """The keys that sent some bytes: names, or characters; unknown keys are left out."""
    keys: list[str] = []
    for sent in _TYPED.findall(typed):
        if sent in _NAMES:
            keys.append(_NAMES[sent])
        elif not sent.startswith(b"\x1b"):
            keys += _parsing.lossy_text(sent)
    return keys


async def read_keys(press: Callable[[str], bool]) -> None:
    """Pass on keys until `press` returns False; forever if the terminal is closed."""
    while True:
        await anyio.wait_readable(_INPUT)
        try:
            typed = os.read(_INPUT, 1024)
        except OSError:
            typed = b""
        if not typed:
            await anyio.sleep_forever()
        if not all(press(key) for key in keys_in(typed)):
            return


def _set(mode: list[object]) -> None:
    with without_sigttou(), suppress(termios.error):  # the terminal may be closed
        termios.tcsetattr(_INPUT, termios.TCSANOW, mode)  # type: ignore[arg-type]

"""The lines of the log in a situation, each with a letter for its level."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

_LETTERS = {logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E"}

_NORMAL = (
    (re.compile(r"\b0x[0-9a-f]+"), "0xN"),
    (re.compile(r"\b\d+\.\d+ s(econds)?\b"), "N s"),
    (re.compile(r"(127\.0\.0\.1|10\.0\.0\.1):\d+"), "zk:N"),
    (re.compile(r"\(token \d+\)"), "(token N)"),
    (re.compile(r"\b[0-9a-f]{12,16}-[0-9a-f]+-"), "0N-1-"),
    (re.compile(r"there for [^,)]+"), "there for T"),
)


def normal(text: str) -> str:
    """A line with what varies made equal."""
    for pattern, word in _NORMAL:
        text = pattern.sub(word, text)
    return text


class Lines:
    """The lines of the logger `aiolead` at INFO and above, with what varies made equal."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self._read = 0

    def records(self) -> list[logging.LogRecord]:
        return [
            record
            for record in self._caplog.records
            if record.name.startswith("aiolead") and record.levelno >= logging.INFO
        ]

    @property
    def all(self) -> list[str]:
        """Each line behind the letter of its level: `I` is not shown by default, `W` is."""
        said = []
        for record in self.records():
            text = normal(record.getMessage())
            said.append(f"{_LETTERS[record.levelno]} {text}")
        return said

    def new(self) -> list[str]:
        """The lines since the last call."""
        said = self.all[self._read :]
        self._read += len(said)
        return said


def rows(page: Path, heading: str) -> list[str]:
    """The lines in the table below a heading of the page."""
    section = page.read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| [\w ,]+ \| `(.+?)` \| ", section, re.MULTILINE)

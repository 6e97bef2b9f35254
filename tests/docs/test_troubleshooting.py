"""Each message that the page on troubleshooting quotes is one that aiolead can give."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from kit.pages import ROOT

import aiolead

PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"
ANYTHING = "\0"
"""Stands for what a message puts in."""


def _cells() -> list[str]:
    """The first cell of each row."""
    rows = re.findall(r"^\| (.*?) \| .* \| .* \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return [row for row in rows if not row.startswith(("message", "---"))]


QUOTES = [quote for cell in _cells() for quote in re.findall(r"`([^`]+)`", cell)]
MESSAGES = [quote for quote in QUOTES if " " in quote]


def _text_of(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text_of(part) or ANYTHING for part in parts)
    return None


@cache
def _texts() -> tuple[str, ...]:
    """All strings of the package, with `ANYTHING` for inserted values."""
    found: set[str] = set()
    for file in (ROOT / "aiolead").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if text := _text_of(node):
                found.add(re.sub(r"0x%x|%[sdxrg]", ANYTHING, text))
    return tuple(found)


def _is_given(message: str) -> bool:
    """Whether the fixed parts of a message are, in order, parts of strings of the package.

    A message may be put together: "this is not ZooKeeper's protocol: " and "it is TLS".
    """
    parts = [part.strip() for part in re.split(r"\.\.\.|(?<=protocol: )", message)]
    wanted = [part for part in parts if len(part) > 4]
    return bool(wanted) and all(any(_holds(text, part) for text in _texts()) for part in wanted)


def _holds(text: str, part: str) -> bool:
    # The reason at the end of a loss is a value: "lost (token ANYTHING): expired".
    return part in text or part.removeprefix("): ") == text


def test_number_of_messages() -> None:
    assert len(MESSAGES) > 20


@pytest.mark.parametrize("message", MESSAGES)
def test_message_exists(message: str) -> None:
    assert _is_given(message)


@pytest.mark.parametrize("name", sorted({q for q in QUOTES if re.fullmatch(r"[A-Z]\w+", q)}))
def test_error_exists(name: str) -> None:
    assert hasattr(aiolead.errors, name)


def test_missing_messages_are_found() -> None:
    assert not _is_given("no session with ... within ... fortnights")
    assert not _is_given("...: must begin with a slash")
    assert not _is_given("...")

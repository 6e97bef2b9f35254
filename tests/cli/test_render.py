"""How values are shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aiolead.cli import render


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("näme 名", "näme 名"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("a\x9b2Jb", r"a\x9b2Jb"),  # a C1 control: ESC [ in one character
        ("gnp.\u202eexe", r"gnp.\u202eexe"),  # reads backwards
        ("a\u200bb\u2028c", r"a\u200bb\u2028c"),
        ("\udc80", r"\udc80"),
        ("a\nb", r"a\nb"),
    ],
)
def test_nothing_that_is_shown_moves_the_cursor(text: str, seen: str) -> None:
    assert render.escaped(text) == seen


def test_what_is_kept() -> None:
    assert render.escaped("a\n\tb\r", keep="\n\t") == "a\n\tb" + r"\r"


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", ""), ("ä\n".encode(), "ä\n"), (b"\xff", None), (b"a\0b", None), (b"\x1b[2J", None)],
)
def test_what_is_text(data: bytes, text: str | None) -> None:
    assert render.text_of(data) == text


def test_previews_are_of_one_line_and_bounded() -> None:
    assert render.preview(b"one\ntwo") == r"one\ntwo"
    assert render.preview(b"x" * 100, 10) == "x" * 10 + "…"
    assert render.preview(b"\x00\xff") == "0x00ff (2 bytes)"
    assert render.preview(bytes(1000), 10) == "0x0000000000… (1,000 bytes)"


def test_hexadecimal_has_sixteen_bytes_on_a_line() -> None:
    lines = list(render.hex_dump(bytes(range(65, 83))))
    assert lines[0].startswith("00000000  41 42 43 44 45 46 47 48  49 4a 4b")
    assert lines[0].endswith("  |ABCDEFGHIJKLMNOP|")
    assert lines[1].startswith("00000010  51 52 ")
    assert lines[1].index("|") == lines[0].index("|")


def test_session_ids_are_unsigned() -> None:
    assert render.hexadecimal(-1) == "0xffffffffffffffff"


@pytest.mark.parametrize("milliseconds", [1 << 62, -(1 << 62)])
def test_a_clock_that_makes_no_sense(milliseconds: int) -> None:
    assert render.moment(milliseconds) == str(milliseconds)
    assert render.age(milliseconds)


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(hours=-1), "0 s"),  # the server's clock is ahead
        (timedelta(seconds=59, milliseconds=500), "59 s"),
        (timedelta(minutes=3, seconds=4.5), "3 min 4 s"),
        (timedelta(hours=5, minutes=12.5), "5 h 12 min"),
        (timedelta(days=2, hours=3.5), "2 d 3 h"),
    ],
)
def test_ages(ago: timedelta, words: str) -> None:
    assert render.age(round((datetime.now(UTC) - ago).timestamp() * 1000)) == words


def test_data_in_json() -> None:
    assert render.data_as_json("ä".encode()) == {"encoding": "utf-8", "data": "ä"}
    assert render.data_as_json(b"\xff") == {"encoding": "base64", "data": "/w=="}
    assert render.as_json({"a": "ä\x9b"}) == r'{"a": "\u00e4\u009b"}'

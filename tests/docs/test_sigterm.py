"""SIGTERM ends the programs of the pages with their sessions closed, on every event loop."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.pages import ROOT, TUTORIAL, Program, blocks

from aiolead.testing import EmbeddedServer, ThreadedServer

README = ROOT / "README.md"
THREADS = ROOT / "docs" / "how-to" / "blocking.md"

PAGES = {
    README: "leading, with token",
    ROOT / "docs" / "index.md": "leading, with token",
    ROOT / "docs" / "tutorial" / "getting-started.md": "leading, with token",
    TUTORIAL: "sends bill",
    THREADS: "holds the lock",
}
"""The pages with a program that leads or holds a lock, and what it prints meanwhile."""

IN_THE_BACKGROUND = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
"""A shell script starts a program so with `&`."""

WITH_UVLOOP = "import asyncio, uvloop; asyncio.new_event_loop = uvloop.new_event_loop\n"
"""Replaces the function with which `asyncio.run` makes an event loop."""


@pytest.fixture
def patient() -> Iterator[ThreadedServer]:
    """A server whose sessions outlive the test if nobody closes them."""
    with EmbeddedServer.in_thread(min_session_timeout=120, max_session_timeout=120) as server:
        yield server


def program_of(page: Path, server: ThreadedServer, directory: Path, before: str = "") -> Path:
    """The first program of a page as a file. Its work takes until it is stopped."""
    block = next(each for each in blocks(page) if each.kind == "program")
    source = block.at(server.connect_string).source
    path = directory / "program.py"
    path.write_text(before + re.sub(r"\b(sleep|wait)\(1\)", r"\1(600)", source))
    return path


@pytest.mark.parametrize(
    ("page", "before"),
    [
        *[pytest.param(page, "", id=page.name) for page in PAGES],
        pytest.param(README, IN_THE_BACKGROUND, id="README.md&"),
        pytest.param(README, WITH_UVLOOP, id="README.md on uvloop"),
        pytest.param(THREADS, IN_THE_BACKGROUND, id="blocking.md&"),
    ],
)
def test_sigterm_ends_the_program_of_a_page_with_its_session_closed(
    patient: ThreadedServer, tmp_path: Path, page: Path, before: str
) -> None:
    script = program_of(page, patient, tmp_path, before)
    command = (sys.executable, script.name)
    with Program(*command, hosts=patient.connect_string, cwd=tmp_path) as program:
        program.wait_for(PAGES[page])
        assert len(patient.sessions()) == 1
        assert program.finish(signal.SIGTERM) == 130
    assert patient.sessions() == {}
    assert patient.requests["CLOSE_SESSION"] == 1
    assert not [line for line in program.lines if "Traceback" in line or "Warning" in line]

"""The servers that the command is tried on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from kit.cli import Outcome, Run, without_notice

from aiolead.cli import main
from aiolead.testing import EmbeddedServer, ThreadedServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext


@pytest.fixture(params=["embedded", "standalone"])
def hosts(request: pytest.FixtureRequest, chroot: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A connect string, which is also in `AIOLEAD_HOSTS`. Its chroot does not exist yet."""
    if request.param == "embedded":
        hosts = request.getfixturevalue("embedded") + chroot
    else:
        hosts = request.getfixturevalue("zookeeper").connect_string + chroot
    monkeypatch.setenv("AIOLEAD_HOSTS", hosts)
    return hosts


@pytest.fixture(params=["embedded", "embedded 3.9.3", "standalone"])
def old_and_new_hosts(
    request: pytest.FixtureRequest, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """As `hosts`, and the embedded server of a version in which `exists` needs READ."""
    with ExitStack() as servers:
        match request.param:
            case "embedded":
                server = request.getfixturevalue("embedded")
            case "standalone":
                server = request.getfixturevalue("zookeeper").connect_string
            case _:
                old = servers.enter_context(EmbeddedServer.in_thread(version="3.9.3"))
                server = old.connect_string
        monkeypatch.setenv("AIOLEAD_HOSTS", server + chroot)
        yield server + chroot


@pytest.fixture
def somewhere(embedded: str, chroot: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """As `hosts`, but always the embedded server, for tests that do not depend on it."""
    monkeypatch.setenv("AIOLEAD_HOSTS", embedded + chroot)
    return embedded + chroot


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    """An embedded server of the test's own, in a thread."""
    with EmbeddedServer.in_thread() as server:
        yield server


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in this process; more arguments are not split into words."""
    # The user who runs the tests may have a configuration file.
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")

    def run(line: str, *more: str, hosts: str = "") -> Outcome:
        arguments = [*shlex.split(line), *more]
        code = main([*arguments, *(["--hosts", hosts] if hosts else [])])
        out, err = capfd.readouterr()
        return code, out.splitlines(), without_notice(err.splitlines())

    return run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from cli.browsing import chromium  # only tests of the page need a browser

    with chromium() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(color_scheme="light", reduced_motion="reduce")
    context.set_default_timeout(120_000)
    yield context
    context.close()

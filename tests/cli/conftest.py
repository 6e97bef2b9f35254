"""The servers that the command is tried on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kit.cli import Run, without_notice

from aiolead.cli import main
from aiolead.testing import EmbeddedServer


@pytest.fixture(params=["embedded", "standalone"])
def hosts(request: pytest.FixtureRequest, chroot: str) -> str:
    """A connect string; its chroot does not exist, as in a ZooKeeper that is new."""
    if request.param == "embedded":
        return request.getfixturevalue("embedded") + chroot
    return request.getfixturevalue("zookeeper").connect_string + chroot


@pytest.fixture(params=["embedded", "embedded 3.9.3", "standalone"])
def old_and_new_hosts(request: pytest.FixtureRequest, chroot: str) -> Iterator[str]:
    """As `hosts`, and the embedded server of a version in which `exists` needs READ."""
    match request.param:
        case "embedded":
            yield request.getfixturevalue("embedded") + chroot
        case "standalone":
            yield request.getfixturevalue("zookeeper").connect_string + chroot
        case _:
            with EmbeddedServer.in_thread(version="3.9.3") as server:
                yield server.connect_string + chroot


@pytest.fixture
def somewhere(embedded: str, chroot: str) -> str:
    """As `hosts`, but always the embedded server: for what does not depend on it."""
    return embedded + chroot


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this process."""
    # Whoever runs the tests may have a configuration file.
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")

    def run(*arguments: str, hosts: str = "") -> tuple[int, list[str], list[str]]:
        code = main([*arguments, *(["--hosts", hosts] if hosts else [])])
        out, err = capfd.readouterr()
        return code, out.splitlines(), without_notice(err.splitlines())

    return run

"""How many of its modules the library imports for the first use: what starting takes.

The numbers are exact. If a module is added to what every program needs, change them; if one comes
in by an import that could wait for its first use, move the import.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from aiolead.cli import main
from aiolead.cli.app import app
from aiolead.testing import EmbeddedServer, ThreadedServer

LOCK = """
import asyncio, sys
from aiolead import Lock, connect
async def main():
    async with connect(sys.argv[1]) as client, Lock(client, "/lock"):
        pass
asyncio.run(main())
"""

THREADS = """
import sys
from aiolead import blocking
with blocking.connect(sys.argv[1]) as client:
    client.exists("/")
"""

COMMAND = """
import sys
from aiolead.cli import main
assert main([word.replace("HOSTS", sys.argv[1]) for word in {words}]) == 0
"""

SAY = """
print(sum(name.partition(".")[0] == "aiolead" for name in sys.modules))
print(*sorted({"rich.markdown", "ssl", "trio", "subprocess"} & set(sys.modules)))
"""

COLLECTIONS = """
import gc
from aiolead.cli import main
found = []
gc.callbacks.append(lambda phase, _: found.append(phase))
assert main() == 0
print(bool(found), gc.isenabled())
"""


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread() as server:
        yield server


def command(*words: str) -> str:
    return COMMAND.format(words=list(words))


@pytest.mark.parametrize(
    ("script", "modules"),
    [
        pytest.param("import aiolead, sys", 2, id="import"),
        pytest.param(LOCK, 115, id="first-lock"),
        pytest.param(THREADS, 98, id="first-request-of-a-thread"),
        pytest.param(command("--help"), 12, id="help"),
        pytest.param(command("ls", "--hosts", "HOSTS", "/"), 103, id="ls"),
    ],
)
def test_what_is_imported(server: ThreadedServer, script: str, modules: int) -> None:
    said = subprocess.run(
        [sys.executable, "-c", script + SAY, server.connect_string],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert int(said[-2]) == modules
    # No event loop that is not used; and no TLS, but for what asyncio imports itself.
    assert "trio" not in said[-1]
    assert "rich.markdown" not in said[-1]
    if "--help" in script:
        assert said[-1] == ""


UNUSED = {
    "import aiolead, sys": {"anyio", "asyncio", "dataclasses", "logging", "ssl"},
    command("--help"): {
        "aiolead.cli.config_file",
        "aiolead.cli.options",
        "aiolead.events",
        "aiolead.model",
        "anyio",
        "asyncio",
        "base64",
        "json",
        "logging",
        "ssl",
        "tomllib",
        "traceback",
    },
    command("ls", "--hosts", "HOSTS", "/"): {
        "aiolead.cli.demo",
        "cyclopts.config",
        "json",
        "tomllib",
    },
    LOCK: {
        "aiolead._client.guardian_process",
        "aiolead._wire.digest_md5",
        "aiolead.testing",
        "cyclopts",
        "importlib.metadata",
        "multiprocessing",
        "tempfile",
        "uuid",
    },
}
"""What each of them starts without."""


@pytest.mark.parametrize("script", UNUSED, ids=["import", "help", "ls", "first-lock"])
def test_what_is_not_imported(server: ThreadedServer, script: str) -> None:
    said = subprocess.run(
        [sys.executable, "-c", f"{script}\nprint(*sys.modules)", server.connect_string],
        env={name: value for name, value in os.environ.items() if "COVERAGE" not in name},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    imported = set(said[-1].split())
    assert {"aiolead", "sys"} <= imported
    assert not imported & UNUSED[script]


@pytest.mark.parametrize(
    ("words", "collects"),
    [(["--help"], False), (["ls"], True)],
    ids=["help", "ls"],
)
def test_starting_does_not_look_for_garbage(
    server: ThreadedServer, words: list[str], collects: bool
) -> None:
    """The garbage collector is enabled for event loops alone."""
    said = subprocess.run(
        [sys.executable, "-c", COLLECTIONS, *words],
        env=os.environ | {"AIOLEAD_HOSTS": server.connect_string},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert said[-1] == f"{collects} {collects}"


def test_the_overview_is_that_of_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """`aiolead --help` is made of a table, without importing the commands."""
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    for name in app:
        app[name]  # imports it
    app(["--help"])
    assert capsys.readouterr().out == overview

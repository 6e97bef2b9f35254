"""The modules that the library imports for its first use.

The numbers are exact. Change them if every program needs a new module. Move the import if it can
wait for its first use.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from kit.cli import environment

from aiolead._client.guardian import process
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


def run(script: str, *arguments: str, env: dict[str, str] | None = None) -> list[str]:
    """The lines that a script prints in a new process."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1]


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread() as server:
        yield server


def command(*words: str) -> str:
    return COMMAND.format(words=list(words))


@pytest.mark.parametrize(
    ("script", "modules"),
    [
        pytest.param("import aiolead, sys", 3, id="import"),
        pytest.param(LOCK, 81, id="first-lock"),
        pytest.param(THREADS, 71, id="first-request-of-a-thread"),
        pytest.param(command("--help"), 12, id="help"),
        pytest.param(command("ls", "--hosts", "HOSTS", "/"), 76, id="ls"),
    ],
)
def test_number_of_imported_modules(server: ThreadedServer, script: str, modules: int) -> None:
    *_, count, unwanted = run(script + SAY, server.connect_string)
    assert int(count) == modules
    # asyncio itself imports ssl and subprocess.
    assert not {"trio", "rich.markdown"} & {*unwanted.split()}
    if "--help" in script:
        assert unwanted == ""


NAMES = "import aiolead; aiolead.connect; aiolead.Lock"
OTHERS = (
    *("barriers", "claims", "condition", "config", "election", "group", "multi"),
    *("persistent_node", "queues", "read_write", "semaphore", "service_registry"),
    *("task_board", "tree_cache", "values", "view"),
)
"""Recipes that a lock does not need."""

UNUSED = {
    "import aiolead, sys": "anyio asyncio dataclasses logging ssl",
    NAMES: " ".join(
        ["asyncio hashlib hmac json pathlib secrets uuid"]
        + [f"aiolead._recipes.{each}" for each in OTHERS]
    ),
    "from aiolead import *": "aiolead.adapters aiolead.blocking aiolead.cli aiolead.testing aiozk"
    " attrs cyclopts gssapi kazoo opentelemetry prometheus_client pytest rich structlog trio"
    " uvloop",
    command("--help"): "aiolead.cli.config_file aiolead.cli.options aiolead.events aiolead.model"
    " anyio asyncio base64 json logging ssl tomllib traceback",
    command(
        "ls", "--hosts", "HOSTS", "/"
    ): "aiolead.cli.demo aiolead.cli.trees cyclopts.config difflib json tomllib",
    LOCK: "aiolead._client.guardian.control aiolead._client.net.host_sources"
    " aiolead._client.net.tls aiolead._client.sasl aiolead._client.watchdog"
    " aiolead._recipes.unrecognized aiolead._util.statistics"
    " aiolead._wire.digest_md5 aiolead.testing cyclopts importlib.metadata multiprocessing"
    " tempfile uuid",
}
"""Modules that are not imported by a script."""


@pytest.mark.parametrize(
    "script", UNUSED, ids=["import", "lock", "all-names", "help", "ls", "first-lock"]
)
def test_modules_that_are_not_imported(server: ThreadedServer, script: str) -> None:
    env = {name: value for name, value in environment().items() if "COVERAGE" not in name}
    (*_, last) = run(f"{script}\nimport sys\nprint(*sys.modules)", server.connect_string, env=env)
    imported = set(last.split())
    assert {"aiolead", "sys"} <= imported
    assert not imported & {*UNUSED[script].split()}


@pytest.mark.parametrize(("word", "collects"), [("--help", False), ("ls", True)])
def test_garbage_is_collected_only_by_commands_with_an_event_loop(
    server: ThreadedServer, word: str, collects: bool
) -> None:
    env = os.environ | {"AIOLEAD_HOSTS": server.connect_string}
    assert run(COLLECTIONS, word, env=env)[-1] == f"{collects} {collects}"


def test_overview_is_that_of_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """`aiolead --help` is made of a table, behind examples, without importing the commands."""
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    for name in app:
        app[name]  # imports it
    app(["--help"])
    assert overview.endswith(capsys.readouterr().out)


GUARDIAN = """
import sys
with open(sys.argv[1]) as file:
    exec(compile(file.read(), sys.argv[1], "exec"), {"__name__": "guardian"})
print(*sorted({"ctypes", "re", "ssl", "subprocess", "typing"} & set(sys.modules)))
"""


def test_guardian_imports_nothing_that_takes_much_memory() -> None:
    """There is one for each client with `close_on_crash`. `json` needs `re`."""
    command = [sys.executable, "-I", "-S", "-c", GUARDIAN, process.__file__]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "re\n"

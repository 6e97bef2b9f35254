"""Run with nothing but the built wheel installed: what everybody gets works by itself.

Takes the version that the wheel must have.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import aiolead

VERSION = sys.argv[1]
ROOT = Path(aiolead.__file__).parent

# Modules that only an extra, or only tests, may import.
STRANGERS = {
    "aiolead.adapters",
    "aiolead.cli",
    "aiolead.testing",
    "aiozk",
    "cyclopts",
    "kazoo",
    "opentelemetry",
    "prometheus_client",
    "pytest",
    "rich",
    "trio",
    "uvloop",
}


def check_imports() -> None:
    loaded = STRANGERS & sys.modules.keys()
    assert not loaded, f"`import aiolead` imports {sorted(loaded)}"
    assert "site-packages" in ROOT.parts, f"not the installed package: {ROOT}"


def check_metadata() -> None:
    requirements = importlib.metadata.requires("aiolead") or []
    needed = [line for line in requirements if "extra ==" not in line]
    assert [line.split(">")[0] for line in needed] == ["anyio"], needed
    assert importlib.metadata.version("aiolead") == VERSION
    assert (ROOT / "py.typed").is_file()
    assert not list(ROOT.rglob("test_*.py"))
    (plugin,) = importlib.metadata.entry_points(group="pytest11", name="aiolead")
    assert importlib.util.find_spec(plugin.module) is not None


def check_election() -> None:
    import anyio

    from aiolead.testing import EmbeddedServer

    async def elect() -> None:
        async with (
            EmbeddedServer() as server,
            aiolead.connect(server.connect_string) as client,
            aiolead.Election(client, "/smoke", identity="one").leadership(timeout=5) as term,
        ):
            assert term.is_held
            assert term.token > 0

    async def in_time() -> None:
        with anyio.fail_after(30):
            await elect()

    anyio.run(in_time)


check_imports()
check_metadata()
check_election()
sys.stdout.write(f"The wheel of aiolead {VERSION} works by itself.\n")

"""aiolead in subinterpreters, as in mod_wsgi and `InterpreterPoolExecutor`."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest
from kit.pages import ROOT

from aiolead.testing import EmbeddedServer

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 13),
    reason="in 3.12, an isolated one that has imported asyncio aborts the process as it ends",
)

ASYNC = """
    import asyncio, aiolead

    async def main():
        async with aiolead.connect("{hosts}"{options}) as client:
            async with aiolead.Lock(client, "/lock") as held:
                held.check()

    asyncio.run(main())
"""
BLOCKING = """
    from aiolead import blocking

    with blocking.connect("{hosts}") as client:
        with blocking.Lock(client, "/lock").acquire() as held:
            held.check()
"""
CODE = {
    "asyncio": ASYNC,
    "guardian": ASYNC.replace("{options}", ", close_on_crash=True"),
    "watchdog": ASYNC.replace("{options}", ", watchdog=True"),
    "blocking": BLOCKING,
}
DAEMONS = {"watchdog", "blocking"}
"""They have a daemon thread, which Python refuses in isolated interpreters."""

PROGRAM = """
    import sys

    import _interpreters as interpreters

    kind, code = sys.argv[1:]
    interpreter = interpreters.create(kind)
    problem = interpreters.exec(interpreter, code)
    interpreters.destroy(interpreter)
    print("ok" if problem is None else problem.formatted)
"""


@pytest.mark.parametrize("use", CODE)
@pytest.mark.parametrize("kind", ["legacy", "isolated"])
def test_lock_is_held_in_a_subinterpreter(kind: str, use: str) -> None:
    with EmbeddedServer.in_thread() as server:
        code = dedent(CODE[use]).replace("{hosts}", server.connect_string).replace("{options}", "")
        done = subprocess.run(
            [sys.executable, "-c", dedent(PROGRAM), kind, code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    if kind == "isolated" and use in DAEMONS:
        assert "daemon threads are disabled" in done.stdout
    else:
        assert done.stdout == "ok\n"

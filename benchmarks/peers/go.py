"""The command line of the Go process: `gozk.go`, compiled when needed with Debian's packages."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).with_name("gozk.go")
_PACKAGES = Path("/usr/share/gocode")
_CLIENT = _PACKAGES / "src/github.com/samuel/go-zookeeper/zk"

HOW_TO_INSTALL = (
    "On Debian: apt-get install --no-install-recommends golang-go "
    "golang-github-samuel-go-zookeeper-dev."
)


class GoNotFoundError(Exception):
    """The Go client, or a compiler for Go, is not on this machine. Says what to install."""


@functools.cache
def command() -> list[str]:
    """The command that starts the process.

    Raises:
        GoNotFoundError: there is no client, or no compiler, or it does not compile.
    """
    compiler = shutil.which("go")
    if compiler is None or not _CLIENT.is_dir():
        raise GoNotFoundError(f"There is no `go` on PATH, or no {_CLIENT}. {HOW_TO_INSTALL}")
    target = Path(tempfile.mkdtemp(prefix="gozk-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    program = str(target / "gozk")
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": str(_PACKAGES),
        "GOCACHE": str(target / "cache"),
    }
    built = subprocess.run(
        [compiler, "build", "-o", program, str(_SOURCE)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        raise GoNotFoundError(f"{_SOURCE.name} does not compile: {built.stderr.strip()[-300:]}")
    return [program]

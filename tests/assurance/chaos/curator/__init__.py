"""Curator's recipes as contenders: a small Java program, compiled when it is first needed."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from aiolead.testing.installation import find_installation

RECIPES = ("curator", "curator-lock")
"""`LeaderLatch`, and `InterProcessMutex`."""

OPTIONS = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Of a Java that starts quickly and stays small."""

_JARS = Path("/usr/share/java")
_SOURCE = Path(__file__).with_name("Contender.java")

HOW_TO_INSTALL = (
    "On Debian or Ubuntu: apt-get install --no-install-recommends libcurator-recipes-java "
    "default-jdk-headless (and libcurator-discovery-java for the tests of interoperation)."
)


class CuratorNotFoundError(Exception):
    """Curator, or a compiler for Java, is not on this machine. Says what to install."""

    def __init__(self, missing: str) -> None:
        super().__init__(f"{missing}. {HOW_TO_INSTALL}")


@functools.cache
def command() -> tuple[str, ...]:
    """The beginning of the command line of a contender.

    Raises:
        CuratorNotFoundError: there is no Curator, or no compiler.
        ZooKeeperNotFoundError: there is no Java.
    """
    java = find_installation().java
    return (str(java), *OPTIONS, "-cp", compiled(), "Contender")


def version() -> str:
    """Curator's version, as Debian's package names its files.

    Raises:
        CuratorNotFoundError: there is none.
    """
    for jar in sorted(_JARS.glob("curator-recipes-[0-9]*.jar")):
        return jar.stem.removeprefix("curator-recipes-")
    raise CuratorNotFoundError(f"There is no {_JARS}/curator-recipes.jar")


def compiled(source: Path = _SOURCE, *more: str) -> str:
    """A class path with a program, compiled into a folder of this process, and all that it needs.

    Args:
        source: the program, of one file.
        more: Debian's names of jars that it needs besides Curator's recipes.

    Raises:
        CuratorNotFoundError: there is no Curator, or no compiler.
    """
    parts = ["curator-recipes", "curator-framework", "curator-client", *more]
    jars = [_JARS / f"{part}.jar" for part in parts]
    for jar in jars:
        if not jar.exists():
            raise CuratorNotFoundError(f"There is no {jar}")
    compiler = shutil.which("javac")
    if compiler is None:
        raise CuratorNotFoundError("There is no `javac` on PATH")
    # Their manifests name all else but a logger.
    libraries = os.pathsep.join(map(str, [*jars, _JARS / "slf4j-simple.jar"]))
    target = tempfile.mkdtemp(prefix="curator-")
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    subprocess.run([compiler, "-cp", libraries, "-d", target, str(source)], check=True)
    return os.pathsep.join([target, libraries])

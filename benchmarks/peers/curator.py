"""The command line of the Java process that is Curator: `Curator.java`, compiled when needed.

`CURATOR_HOME` names a folder with the jars of Curator and all that it needs, so that the newest
version can be measured; without it, Debian's packages are used.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from aiolead.testing.installation import find_installation

_SOURCE = Path(__file__).with_name("Curator.java")
_DEBIAN = Path("/usr/share/java")
_PARTS = ("curator-recipes", "curator-framework", "curator-client", "slf4j-simple")
_OPTIONS = ("-Xmx2g", "-Xss512k", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")

HOW_TO_INSTALL = (
    "On Debian or Ubuntu: apt-get install --no-install-recommends libcurator-recipes-java "
    "default-jdk-headless. Elsewhere, or for the newest version: install a JDK, and set "
    "CURATOR_HOME to a folder with the jars of curator-recipes and what they need: peers/pom.xml."
)


class CuratorNotFoundError(Exception):
    """Curator, or a compiler for Java, is not on this machine. Says what to install."""


@functools.cache
def command() -> list[str]:
    """The command that starts the process.

    Raises:
        CuratorNotFoundError: there is no Curator, or no compiler.
        ZooKeeperNotFoundError: there is no Java.
    """
    libraries = _libraries()
    compiler = shutil.which("javac")
    if compiler is None:
        raise CuratorNotFoundError(f"There is no `javac` on PATH. {HOW_TO_INSTALL}")
    target = tempfile.mkdtemp(prefix="curator-")
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    subprocess.run([compiler, "-cp", libraries, "-d", target, str(_SOURCE)], check=True)
    java = str(find_installation().java)
    return [java, *_OPTIONS, "-cp", os.pathsep.join([target, libraries]), "Curator"]


def _libraries() -> str:
    if home := os.environ.get("CURATOR_HOME"):
        if not any(Path(home).glob("curator-recipes*.jar")):
            raise CuratorNotFoundError(
                f"CURATOR_HOME is {home}, where there is no curator-recipes jar. {HOW_TO_INSTALL}"
            )
        return str(Path(home) / "*")
    # Their manifests name all else but a logger.
    jars = [_DEBIAN / f"{part}.jar" for part in _PARTS]
    for jar in jars:
        if not jar.exists():
            raise CuratorNotFoundError(f"There is no {jar}. {HOW_TO_INSTALL}")
    return os.pathsep.join(map(str, jars))

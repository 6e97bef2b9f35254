"""Finds a ZooKeeper distribution and a Java runtime on this machine. Nothing is ever downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigurationError

__all__ = ["Installation", "ZooKeeperNotFoundError", "find_installation"]

_SYSTEM_JARS = Path("/usr/share/java")

HOW_TO_INSTALL = (
    "On Debian or Ubuntu: apt-get install --no-install-recommends libzookeeper-java "
    "default-jre-headless. Elsewhere: install a Java runtime (11 or newer), unpack a binary "
    "release of Apache ZooKeeper (3.5 or newer) and set ZOOKEEPER_HOME to its folder "
    "(and JAVA_HOME, if `java` is not on PATH)."
)


class ZooKeeperNotFoundError(ConfigurationError):
    """There is no ZooKeeper, or no Java to run it, on this machine. Says what to install."""

    def __init__(self, missing: str) -> None:
        super().__init__(f"{missing}. {HOW_TO_INSTALL}")


@dataclass(frozen=True, slots=True)
class Installation:
    """What it takes to run a ZooKeeper server.

    Attributes:
        java: the `java` executable.
        jars: the class path.
        home: where the jars were found.
    """

    java: Path
    jars: tuple[Path, ...]
    home: Path

    @property
    def class_path(self) -> str:
        return os.pathsep.join(map(str, self.jars))


def find_installation(environ: Mapping[str, str] | None = None) -> Installation:
    """Finds ZooKeeper and Java.

    `ZOOKEEPER_HOME` (kazoo's `ZOOKEEPER_PATH` does too) names an unpacked binary release of Apache
    ZooKeeper; without it, the jars of the Debian and Ubuntu packages are used. `JAVA_HOME` names
    the Java runtime; without it, `java` is looked for on `PATH`.

    Args:
        environ: where the variables are looked up; by default, in `os.environ`.

    Raises:
        ZooKeeperNotFoundError: something is missing; the message says what to install.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("ZOOKEEPER_HOME") or environ.get("ZOOKEEPER_PATH")
    if home:
        return Installation(_find_java(environ), _release_jars(Path(home)), Path(home))
    return Installation(_find_java(environ), _debian_jars(), _SYSTEM_JARS)


def _find_java(environ: Mapping[str, str]) -> Path:
    if home := environ.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise ZooKeeperNotFoundError(f"JAVA_HOME is {home}, but there is no bin/java in it")
        return java
    found = shutil.which("java", path=environ.get("PATH"))
    if found is None:
        raise ZooKeeperNotFoundError("There is no `java` on PATH")
    return Path(found)


def _release_jars(home: Path) -> tuple[Path, ...]:
    # Releases of Apache have everything in lib/; those before 3.5 had the server's jar beside it.
    jars = tuple(sorted([*home.glob("lib/*.jar"), *home.glob("zookeeper-*.jar")]))
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise ZooKeeperNotFoundError(f"ZOOKEEPER_HOME is {home}, but there is no zookeeper jar")
    return jars


def _debian_jars() -> tuple[Path, ...]:
    # The manifest of Debian's zookeeper.jar names all that it needs but a logger, and what Netty
    # needs besides, without which there is no TLS. They come with the same package.
    names = ("zookeeper.jar", "slf4j-simple.jar", "netty-codec.jar", "netty-resolver.jar")
    return _all_present([_SYSTEM_JARS / name for name in names])


def _all_present(jars: Sequence[Path]) -> tuple[Path, ...]:
    for jar in jars:
        if not jar.exists():
            raise ZooKeeperNotFoundError(f"There is no {jar}, and ZOOKEEPER_HOME is not set")
    return tuple(jars)

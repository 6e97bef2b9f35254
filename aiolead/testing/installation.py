"""Finds ZooKeeper distributions and a Java runtime on this machine. Downloads nothing."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .._wire.versions import parse_version
from ..errors import ConfigurationError

__all__ = ["Installation", "ZooKeeperNotFoundError", "find_installation", "find_installations"]

_SYSTEM_JARS = Path("/usr/share/java")

# The manifest of Debian's zookeeper.jar names all that it needs but a logger, and what Netty needs
# besides, without which there is no TLS. They come with the same package.
_PACKAGED = ("slf4j-simple.jar", "netty-codec.jar", "netty-resolver.jar", "zookeeper.jar")

_SERVER_JAR = re.compile(r"zookeeper-([0-9]{1,5}\.[0-9]{1,5}\.[0-9]{1,5})(-[a-z0-9]+)?\.jar")

HOW_TO_INSTALL = (
    "On Debian or Ubuntu: apt-get install --no-install-recommends libzookeeper-java "
    "default-jre-headless. Elsewhere: install a Java runtime (11 or newer), unpack a binary "
    "release of Apache ZooKeeper (3.5 or newer) and set ZOOKEEPER_HOME to its folder "
    "(and JAVA_HOME, if `java` is not on PATH). For several versions, set ZOOKEEPER_HOMES to the "
    "folder that has the folder of each."
)


class ZooKeeperNotFoundError(ConfigurationError):
    """This machine has no ZooKeeper, not the version asked for, or no Java to run it.

    The message says which versions were found, where they were looked for, and what to install.
    """

    def __init__(self, missing: str) -> None:
        super().__init__(f"{missing}. {HOW_TO_INSTALL}")


@dataclass(frozen=True, slots=True)
class Installation:
    """A ZooKeeper distribution, and the Java runtime that runs it.

    Attributes:
        java: the `java` executable.
        jars: the class path.
        home: where the jars were found.
        version: such as "3.9.3", by the name of the server's jar.
    """

    java: Path
    jars: tuple[Path, ...]
    home: Path
    version: str

    @property
    def class_path(self) -> str:
        return os.pathsep.join(map(str, self.jars))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version, to compare it."""
        return parse_version(self.version, name="version")


def find_installation(
    environ: Mapping[str, str] | None = None, *, version: str | None = None
) -> Installation:
    """Find a ZooKeeper distribution and Java.

    `ZOOKEEPER_HOME` (or kazoo's `ZOOKEEPER_PATH`) names an unpacked binary release of Apache
    ZooKeeper; without it, the jars of the Debian and Ubuntu packages are used. `ZOOKEEPER_HOMES`
    names more distributions, separated as in `PATH`: each entry is an unpacked release, or a folder
    of several. `JAVA_HOME` names the Java runtime; without it, `java` is looked up in `PATH`.

    Args:
        environ: where the variables are looked up; defaults to `os.environ`.
        version: "3.9.3" for this release, "3.9" for the newest of this line; defaults to that of
            `ZOOKEEPER_HOME`, else that of the packages, else the newest one found.

    Raises:
        ConfigurationError: `version` is not a version.
        ZooKeeperNotFoundError: something is missing; the message says what to install.
    """
    environ = os.environ if environ is None else environ
    if version is None:
        if chosen := next(_distributions(environ), None):
            return chosen
        raise ZooKeeperNotFoundError(f"There is no ZooKeeper: looked in {_places(environ)}")
    wanted = parse_version(version, name="version")[: version.count(".") + 1]
    found = find_installations(environ)
    matching = [one for one in found if one.numbers[: len(wanted)] == wanted]
    if matching:
        return matching[-1]
    others = ", ".join(f"{one.version} in {one.home}" for one in found) or "none"
    raise ZooKeeperNotFoundError(
        f"There is no ZooKeeper {version}: found {others}; looked in {_places(environ)}"
    )


def find_installations(environ: Mapping[str, str] | None = None) -> tuple[Installation, ...]:
    """Find every version of ZooKeeper on this machine, oldest first: see `find_installation`.

    If several distributions have the same version, the one that `find_installation` prefers counts.

    Raises:
        ZooKeeperNotFoundError: there is no Java, or a variable names a folder without a ZooKeeper.
    """
    found: dict[str, Installation] = {}
    for one in _distributions(os.environ if environ is None else environ):
        found.setdefault(one.version, one)
    return tuple(sorted(found.values(), key=lambda one: one.numbers))


def _distributions(environ: Mapping[str, str]) -> Iterator[Installation]:
    """Preferred ones first."""
    java = _find_java(environ)
    if home := _home(environ):
        release = _release(java, Path(home))
        if release is None:
            raise ZooKeeperNotFoundError(f"ZOOKEEPER_HOME is {home}, but there is no zookeeper jar")
        yield release
    version = _version(_SYSTEM_JARS)
    if version and not _missing_jars():
        yield Installation(java, tuple(_SYSTEM_JARS / n for n in _PACKAGED), _SYSTEM_JARS, version)
    releases: list[Installation] = []
    for entry in _homes(environ):
        homes = [entry, *sorted(entry.glob("*/"))]
        below = [release for home in homes if (release := _release(java, home))]
        if not below:
            raise ZooKeeperNotFoundError(
                f"ZOOKEEPER_HOMES names {entry}, but there is no zookeeper jar in or below it"
            )
        releases += below
    yield from sorted(releases, key=lambda one: one.numbers, reverse=True)


def _home(environ: Mapping[str, str]) -> str | None:
    return environ.get("ZOOKEEPER_HOME") or environ.get("ZOOKEEPER_PATH")


def _homes(environ: Mapping[str, str]) -> list[Path]:
    return [Path(entry) for entry in environ.get("ZOOKEEPER_HOMES", "").split(os.pathsep) if entry]


def _places(environ: Mapping[str, str]) -> str:
    homes = os.pathsep.join(map(str, _homes(environ)))
    missing = _missing_jars()
    return (
        f"ZOOKEEPER_HOME ({_home(environ) or 'not set'}), ZOOKEEPER_HOMES ({homes or 'not set'}), "
        f"{_SYSTEM_JARS} ({'no ' + ', '.join(missing) if missing else 'complete'})"
    )


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


def _release(java: Path, home: Path) -> Installation | None:
    # Releases of Apache have everything in lib/; those before 3.5 had the server's jar beside it.
    for folder in (home / "lib", home):
        if version := _version(folder):
            # The server's own jar comes last: those of distributors name others in their manifests,
            # by absolute paths, where another version of ZooKeeper may be installed.
            jars = {*home.glob("lib/*.jar"), *home.glob("zookeeper-*.jar")}
            order = sorted(jars, key=lambda jar: (bool(_SERVER_JAR.fullmatch(jar.name)), jar.name))
            return Installation(java, tuple(order), home, version)
    return None


def _version(folder: Path) -> str | None:
    """By the name of the server's jar. Debian has one without the version, and a link with it."""
    found = [_SERVER_JAR.fullmatch(jar.name) for jar in folder.glob("zookeeper-*.jar")]
    return next((match[1] for match in found if match), None)


def _missing_jars() -> list[str]:
    return [name for name in _PACKAGED if not (_SYSTEM_JARS / name).exists()]

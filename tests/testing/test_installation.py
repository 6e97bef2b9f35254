"""Where ZooKeeper and Java are looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import aiolead.testing.installation
from aiolead.errors import ConfigurationError
from aiolead.testing import BlockingEnsemble, BlockingServer, Ensemble, ZooKeeperServer
from aiolead.testing.installation import (
    ZooKeeperNotFoundError,
    find_installation,
    find_installations,
)


@pytest.fixture(autouse=True)
def no_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the packages of this machine would be: an empty folder."""
    system = tmp_path / "system"
    system.mkdir()
    monkeypatch.setattr(aiolead.testing.installation, "_SYSTEM_JARS", system)
    return system


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    return tmp_path / "java"


def unpack(folder: Path, version: str) -> Path:
    home = folder / f"apache-zookeeper-{version}-bin"
    (home / "lib").mkdir(parents=True)
    jars = (f"zookeeper-{version}.jar", f"zookeeper-jute-{version}.jar", "netty-4.jar")
    for name in (*jars, "LICENSE.txt"):
        (home / "lib" / name).touch()
    return home


def install_packages(folder: Path, version: str) -> None:
    for name in ("slf4j-simple.jar", "netty-codec.jar", "netty-resolver.jar", "zookeeper.jar"):
        (folder / name).touch()
    (folder / f"zookeeper-{version}.jar").symlink_to("zookeeper.jar")
    (folder / f"zookeeper-jute-{version}.jar").touch()


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return unpack(tmp_path, "3.9.4")


@pytest.fixture
def several(tmp_path: Path, java_home: Path) -> dict[str, str]:
    """Two folders of distributions, and one distribution beside them."""
    for folder, version in (("a", "3.8.4"), ("a", "3.9.10"), ("b", "3.9.4"), ("b", "3.8.0")):
        unpack(tmp_path / folder, version)
    alone = unpack(tmp_path, "3.10.1")
    homes = os.pathsep.join([f"{tmp_path}/a", "", f"{tmp_path}/b", str(alone)])
    return {"ZOOKEEPER_HOMES": homes, "JAVA_HOME": str(java_home)}


@pytest.mark.parametrize("variable", ["ZOOKEEPER_HOME", "ZOOKEEPER_PATH"])
def test_unpacked_release_is_found(release: Path, java_home: Path, variable: str) -> None:
    found = find_installation({variable: str(release), "JAVA_HOME": str(java_home)})
    assert found.home == release
    assert found.java == java_home / "bin" / "java"
    assert [jar.name for jar in found.jars] == [
        "netty-4.jar",
        "zookeeper-jute-3.9.4.jar",
        "zookeeper-3.9.4.jar",
    ]
    assert found.version == "3.9.4"


def test_java_is_found_on_the_path(release: Path, java_home: Path) -> None:
    environ = {"ZOOKEEPER_HOME": str(release), "PATH": str(java_home / "bin")}
    assert find_installation(environ).java == java_home / "bin" / "java"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ZOOKEEPER_HOME": "release", "PATH": "."}, r"no `java` on PATH.*apt-get install"),
        ({"ZOOKEEPER_HOME": "release", "JAVA_HOME": "."}, "JAVA_HOME is"),
        ({"ZOOKEEPER_HOME": ".", "JAVA_HOME": "java"}, "no zookeeper jar"),
    ],
)
def test_wrong_variable_is_reported(
    release: Path, java_home: Path, tmp_path: Path, variables: dict[str, str], message: str
) -> None:
    places = {"release": release, "java": java_home, ".": tmp_path}
    environ = {name: str(places[place]) for name, place in variables.items()}
    with pytest.raises(ZooKeeperNotFoundError, match=message):
        find_installation(environ)


def test_wrong_entry_of_zookeeper_homes_is_reported(
    several: dict[str, str], tmp_path: Path
) -> None:
    several["ZOOKEEPER_HOMES"] += os.pathsep + str(tmp_path / "nothing")
    with pytest.raises(ZooKeeperNotFoundError, match=r"ZOOKEEPER_HOMES names \S+/nothing, but"):
        find_installations(several)


def test_packages_are_found_with_their_version(no_packages: Path, java_home: Path) -> None:
    install_packages(no_packages, "3.8.0")
    found = find_installation({"JAVA_HOME": str(java_home)})
    assert (found.home, found.version) == (no_packages, "3.8.0")
    assert found.jars[-1] == no_packages / "zookeeper.jar"


def test_missing_zookeeper_is_reported_with_the_places(no_packages: Path, java_home: Path) -> None:
    (no_packages / "zookeeper.jar").touch()
    with pytest.raises(ZooKeeperNotFoundError) as caught:
        find_installation({"JAVA_HOME": str(java_home)})
    said = str(caught.value)
    assert "ZOOKEEPER_HOME (not set)" in said
    assert f"{no_packages} (no slf4j-simple.jar, netty-codec.jar, netty-resolver.jar)" in said
    assert "apt-get install" in said


def test_all_versions_are_listed_oldest_first(several: dict[str, str], no_packages: Path) -> None:
    install_packages(no_packages, "3.8.0")
    found = find_installations(several)
    assert [one.version for one in found] == ["3.8.0", "3.8.4", "3.9.4", "3.9.10", "3.10.1"]
    assert found[0].home == no_packages  # preferred to the unpacked 3.8.0


@pytest.mark.parametrize(
    ("version", "chosen"),
    [("3.8.4", "3.8.4"), ("3.9.4", "3.9.4"), ("3.9", "3.9.10"), ("3.8", "3.8.4")],
)
def test_version_selects_a_distribution(several: dict[str, str], version: str, chosen: str) -> None:
    assert find_installation(several, version=version).version == chosen


def test_default_distribution(several: dict[str, str], no_packages: Path, release: Path) -> None:
    assert find_installation(several).version == "3.10.1"  # the newest
    install_packages(no_packages, "3.8.0")
    assert find_installation(several).version == "3.8.0"
    assert find_installation(several | {"ZOOKEEPER_HOME": str(release)}).home == release


def test_missing_version_is_reported_with_the_found_ones(
    several: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ZooKeeperNotFoundError) as caught:
        find_installation(several, version="3.9.3")
    said = str(caught.value)
    assert said.startswith("There is no ZooKeeper 3.9.3: found 3.8.0 in ")
    assert f"3.9.4 in {tmp_path}/b/apache-zookeeper-3.9.4-bin" in said
    assert f"ZOOKEEPER_HOMES ({tmp_path}/a{os.pathsep}{tmp_path}/b" in said
    for name in ("ZOOKEEPER_HOME", "ZOOKEEPER_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in several.items():
        monkeypatch.setenv(name, value)
    for make in (BlockingServer, ZooKeeperServer, BlockingEnsemble, Ensemble):
        with pytest.raises(ZooKeeperNotFoundError, match=r"no ZooKeeper 3\.9\.3: found"):
            make(version="3.9.3")
    assert BlockingServer(version="3.9").installation.version == "3.9.10"


def test_invalid_version_is_refused(several: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="version: must be a version"):
        find_installation(several, version="latest")

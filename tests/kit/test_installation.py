"""Where ZooKeeper and Java are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiolead.testing.installation import ZooKeeperNotFoundError, find_installation


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    return tmp_path / "java"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    lib = tmp_path / "apache-zookeeper-3.9.4-bin" / "lib"
    lib.mkdir(parents=True)
    for name in ("zookeeper-3.9.4.jar", "zookeeper-jute-3.9.4.jar", "netty-4.jar", "LICENSE.txt"):
        (lib / name).touch()
    return lib.parent


@pytest.mark.parametrize("variable", ["ZOOKEEPER_HOME", "ZOOKEEPER_PATH"])
def test_an_unpacked_release_is_found(release: Path, java_home: Path, variable: str) -> None:
    found = find_installation({variable: str(release), "JAVA_HOME": str(java_home)})
    assert found.home == release
    assert found.java == java_home / "bin" / "java"
    assert [jar.name for jar in found.jars] == [
        "netty-4.jar",
        "zookeeper-3.9.4.jar",
        "zookeeper-jute-3.9.4.jar",
    ]


def test_java_is_found_on_the_path(release: Path, java_home: Path) -> None:
    environ = {"ZOOKEEPER_HOME": str(release), "PATH": str(java_home / "bin")}
    assert find_installation(environ).java == java_home / "bin" / "java"


def test_without_java_it_says_what_to_install(release: Path, tmp_path: Path) -> None:
    environ = {"ZOOKEEPER_HOME": str(release), "PATH": str(tmp_path)}
    with pytest.raises(ZooKeeperNotFoundError, match=r"no `java` on PATH.*apt-get install"):
        find_installation(environ)


def test_a_wrong_java_home_is_not_passed_over(release: Path, tmp_path: Path) -> None:
    environ = {"ZOOKEEPER_HOME": str(release), "JAVA_HOME": str(tmp_path)}
    with pytest.raises(ZooKeeperNotFoundError, match="JAVA_HOME is"):
        find_installation(environ)


def test_a_wrong_zookeeper_home_is_not_passed_over(java_home: Path, tmp_path: Path) -> None:
    environ = {"ZOOKEEPER_HOME": str(tmp_path), "JAVA_HOME": str(java_home)}
    with pytest.raises(ZooKeeperNotFoundError, match="no zookeeper jar"):
        find_installation(environ)

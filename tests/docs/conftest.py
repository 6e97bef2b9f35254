"""Where the examples and the pages find a server."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType

import pytest
from kit.pages import EXAMPLES, Load, Said


@pytest.fixture(params=["embedded", "standalone"])
def hosts(request: pytest.FixtureRequest, chroot: str) -> str:
    """A connect string; its chroot does not exist, as in a ZooKeeper that is new."""
    if request.param == "embedded":
        return request.getfixturevalue("embedded") + chroot
    return request.getfixturevalue("zookeeper").connect_string + chroot


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports an example, under a name that nothing else has."""

    def load(path: str) -> ModuleType:
        name = "example_" + re.sub(r"\W", "_", path)
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(capsys)

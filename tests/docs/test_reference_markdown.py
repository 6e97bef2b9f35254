"""The reference for readers on a code host is what the docstrings say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.docs import ROOT

TOOL = ROOT / "docs" / "_site" / "markdown.py"
NAMES = ROOT / "docs" / "reference" / "names"


def _written() -> dict[str, str]:
    return {file.name: file.read_text("utf-8") for file in NAMES.glob("*.md")}


@pytest.mark.exhaustive("needs Sphinx")
def test_the_pages_are_current() -> None:
    """If not: python docs/_site/markdown.py"""
    # In a process of its own: the tool changes which module classes say that they are of.
    code = (
        f"import sys, json; sys.path.insert(0, {str(TOOL.parent)!r}); import markdown; "
        "print(json.dumps({file.name: text for file, text in markdown.pages().items()}))"
    )
    command = (sys.executable, "-c", code)
    made = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    wanted: dict[str, str] = json.loads(made)
    written = _written()
    assert written.keys() == wanted.keys()
    stale = [name for name, text in wanted.items() if written[name] != text]
    assert stale == [], "run: python docs/_site/markdown.py"


def test_a_name_has_its_signature_arguments_and_errors() -> None:
    text = _written()["elections.md"]
    found = re.search(r"^## `Election`\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    assert "leaders: int = 1" in found[1]
    assert "on_disconnect: OnDisconnect = 'keep'" in found[1]
    assert "**Args:**" in found[1]
    assert "* `path`: " in found[1]
    assert "### `Election.leadership`" in found[1]
    assert " at 0x" not in "".join(_written().values())
    assert str(Path.home()) not in "".join(_written().values())

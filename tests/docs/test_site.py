"""The site: it builds without a warning, its links resolve, and every public name is in it."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from support.docs import ROOT

import aiolead

pytestmark = pytest.mark.exhaustive("needs Sphinx")

DOCS = ROOT / "docs"
MODULES = (
    "aiolead",
    "aiolead.abc",
    "aiolead.adapters.aiozk",
    "aiolead.blocking",
    "aiolead.errors",
    "aiolead.events",
    "aiolead.instrumentation.otel",
    "aiolead.instrumentation.prometheus",
    "aiolead.instrumentation.structlog",
    "aiolead.model",
    "aiolead.paths",
    "aiolead.testing",
    "aiolead.testing.simulation",
    "aiolead.types",
)
"""Those whose names are public. Some errors and values are in `aiolead`, too: they stand there."""


def test_every_public_name_is_in_the_reference() -> None:
    """A new one: put it on its page in docs/reference/api, below a `<!-- reference: MODULE -->`."""
    folder = DOCS / "reference" / "api"
    pages = "\n".join(page.read_text() for page in sorted(folder.glob("*.md")))
    parts = re.findall(r"^<!-- reference: ([\w.]+) -->\n((?:.+\n)+)", pages, re.MULTILINE)
    documented = Counter(
        f"{module}.{name}" for module, names in parts for name in re.findall(r"`(\w+)`", names)
    )
    public = {
        f"{module}.{name}"
        for module in MODULES
        for name in importlib.import_module(module).__all__
        if module not in ("aiolead.errors", "aiolead.model") or name not in aiolead.__all__
    }
    assert sorted(public - documented.keys()) == []
    assert sorted(documented.keys() - public) == []
    assert [name for name, times in documented.items() if times > 1] == []


def _build(docs: Path, to: Path) -> subprocess.CompletedProcess[str]:
    """Reads everything, resolves all references, and writes the pages, without what costs most of
    the time of HTML: a theme and colours."""
    # It keeps all that it makes until its end: looking for garbage is a fifth of its time.
    main = "import gc; gc.disable(); from sphinx.cmd.build import main; raise SystemExit(main())"
    command = (sys.executable, "-c", main, "-b", "text", "-q", "-W", "--keep-going")
    return subprocess.run(
        [*command, str(docs), str(to)], capture_output=True, text=True, cwd=ROOT, check=False
    )


@pytest.mark.timeout(240)
def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    # Half of it is the reference: a thousand docstrings, parsed. Some twenty seconds.
    built = _build(DOCS, tmp_path)
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""


@pytest.mark.parametrize(
    ("page", "local"),
    [
        ("# A\n\n[x](file:///home/somebody/x.py)\n", True),
        (f"# A\n\nIn `{ROOT}/x.py`.\n", True),
        ("# A\n\n[x](https://example.org/x.py)\n", False),
    ],
    ids=["link", "text", "address"],
)
def test_the_build_fails_for_a_path_of_the_building_machine(
    page: str, local: bool, tmp_path: Path
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(page)
    conf = f"import sys\nsys.path.insert(0, {str(DOCS / '_site')!r})\n"
    (docs / "conf.py").write_text(conf + 'extensions = ["myst_parser", "outside"]\n')
    built = _build(docs, tmp_path / "site")
    assert ("a path of this machine" in built.stderr) == local
    assert (built.returncode != 0) == local, built.stderr


def test_links_out_of_the_site_lead_to_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOLEAD_SOURCE_URL", raising=False)
    conf = runpy.run_path(str(DOCS / "_site" / "outside.py"))
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    assert conf["source_url"]() == f"{urls['Source']}/blob/main"

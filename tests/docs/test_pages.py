"""The code on the pages runs, and what they link to is there."""

from __future__ import annotations

import html
import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from kit.checks import check_each
from kit.pages import (
    MIGRATING,
    PATIENCE,
    ROOT,
    TUTORIAL,
    Block,
    Program,
    blocks,
    languages,
    links,
    pages,
)

import aiolead
from aiolead import blocking
from aiolead.instrumentation.measures import MEASURES

PAGES = pages()
OUR_STRINGS = {"acquire", "client", "identity", "outcome", "path", "recipe", "recipes"}
OUR_STRINGS |= {measure.name.split(".")[1] for measure in MEASURES}
OTHERS = [
    ROOT / name for name in ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
]
BLOCKS = [block for page in PAGES if page != TUTORIAL for block in blocks(page)]


def _of_kind(kind: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind == kind]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", sorted({b.page for b in _of_kind("fragment")}), ids=_name)
async def test_fragments_run_in_the_order_of_their_page(
    page: Path, embedded: str, chroot: str
) -> None:
    address = embedded + chroot
    names: dict[str, Any] = {"aiolead": aiolead, "anyio": anyio}
    with anyio.fail_after(PATIENCE):
        async with aiolead.connect(address) as client:
            await client.ensure_path("/")
            for block in blocks(page):
                if block.kind == "fragment":
                    # A fragment that shows how to connect leaves a closed one behind.
                    names["client"] = client
                    await block.at(address).run_fragment(names)


@pytest.mark.parametrize("page", sorted({b.page for b in _of_kind("script")}), ids=_name)
def test_scripts_run_in_the_order_of_their_page(page: Path, embedded: str, chroot: str) -> None:
    address = embedded + chroot
    names: dict[str, Any] = {"aiolead": aiolead, "blocking": blocking}
    with blocking.connect(address) as client:
        client.ensure_path("/")
        for block in blocks(page):
            if block.kind == "script":
                names["client"] = client
                block.at(address).run_script(names)


def _starts_a_real_server(block: Block) -> bool:
    names = ("ZooKeeperServer", "BlockingEnsemble", "zookeeper_ensemble")
    return any(name in block.source for name in names)


def _marked(blocks: list[Block]) -> list[Any]:
    """Those that start a real server are skipped, or fail, where there is none."""
    return [
        pytest.param(b, id=str(b), marks=[pytest.mark.real] if _starts_a_real_server(b) else [])
        for b in blocks
    ]


@pytest.mark.exhaustive("runs each example of the pages as a program")
@pytest.mark.parametrize(
    "block", _marked([b for b in _of_kind("program") if MIGRATING not in b.page.parents])
)
def test_programs_run(
    block: Block, request: pytest.FixtureRequest, embedded: str, chroot: str, tmp_path: Path
) -> None:
    if _starts_a_real_server(block):
        request.getfixturevalue("zookeeper_installed")
    script = tmp_path / "program.py"
    script.write_text(block.at(embedded + chroot).source)
    Program(str(script), hosts=embedded + chroot).run()


@pytest.mark.exhaustive("runs each example of the pages as a program")
@pytest.mark.parametrize("block", _marked(_of_kind("tests")))
def test_tests_pass(block: Block, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if _starts_a_real_server(block):
        request.getfixturevalue("zookeeper_installed")
    (tmp_path / "test_page.py").write_text(block.source)
    # pytest-asyncio warns without this option.
    ours = "mark.asyncio" in block.source
    plugin = ["-o", "asyncio_default_fixture_loop_scope=function"] if ours else ["-p", "no:asyncio"]
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *plugin)
    said = Program(*command, cwd=tmp_path).run()
    assert " passed in " in said[-1], said
    assert "skipped" not in said[-1], said


def _without_particulars(line: str) -> str:
    """A line of the demo without what is different each time: times, names, what a time is in."""
    line = re.sub(r"\b(anna|ben|cleo|dan)\b", "NAME", line)
    return re.sub(r"[\d.]*\d (m?s)\b", "TIME", line).strip()


def _lines_of_a_picture(file: Path) -> list[str]:
    """The lines of its last scene."""
    *_, scene = re.findall(r'<g class="scene".*?</g>', file.read_text(), re.DOTALL)
    found: dict[float, str] = {}
    for y, text in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>(.*?)</text>', scene):
        found[float(y)] = f"{found.get(float(y), '')} {html.unescape(text)}"
    return [" ".join(line.split()) for _, line in sorted(found.items())]


@pytest.mark.exhaustive("runs each example of the pages as a program")
def test_demo_prints_what_the_readme_shows() -> None:
    assert "](docs/pictures/demo.svg)" in (ROOT / "README.md").read_text()
    lines = _lines_of_a_picture(ROOT / "docs" / "pictures" / "demo.svg")
    head = lines.index("process pid state fencing token led for")
    processes, told = lines[head + 1 : head + 5], lines[head + 5 :]
    assert {line.split()[0] for line in processes} == {"anna", "ben", "cleo", "dan"}
    script = "from aiolead.cli import main; raise SystemExit(main(['demo']))"
    said = [" ".join(line.split()) for line in Program(sys.executable, "-c", script).run()]
    assert _without_particulars(said[0]).startswith(_without_particulars(lines[0])[:40])
    # The rest is the summary.
    shown = [_without_particulars(line) for line in told]
    assert [_without_particulars(line) for line in said[1 : len(told) + 1]] == shown
    assert len(told) > 8


def test_readme_of_the_package_has_no_relative_links() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    assert hook["fragments"] == [{"path": "README.md"}]
    text = (ROOT / "README.md").read_text("utf-8")
    for each in hook["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(targets) > 20
    assert [target for target in targets if not target.startswith("https://")] == []
    source = project["project"]["urls"]["Source"]
    assert f"]({source}/blob/main/docs/explanation/safety.md)" in text
    assert (
        "](https://raw.githubusercontent.com/aiolead/aiolead/main/docs/pictures/demo.svg)" in text
    )


@check_each("page", PAGES, ids=_name)
def test_fences_name_their_language(page: Path) -> None:
    # Python in another spelling would not be run.
    assert languages(page) & {"", "py", "py3", "python3", "pycon"} == set()
    # An indented fence would not be run, either.
    assert re.findall(r"^ +```python", page.read_text("utf-8"), re.MULTILINE) == []


@check_each("page", [*PAGES, *sorted((ROOT / "examples").rglob("*.md")), *OTHERS], ids=_name)
def test_links_exist(page: Path) -> None:
    assert [link for link in links(page) if not link.exists()] == []


@check_each("page", PAGES, ids=_name)
def test_names_are_public(page: Path) -> None:
    text = re.sub(r"https?://\S+", "", page.read_text("utf-8"))
    named = set(re.findall(r"\baiolead\.([A-Za-z]\w+(?:\.[A-Za-z]\w+)?)", text))
    # Beside names of Python there are those of loggers and metrics, in code and with dots.
    strings = set(re.findall(r"`aiolead\.(\w+)(?:\.\w+)*`", text)) & OUR_STRINGS
    for name in named:
        first, _, second = name.partition(".")
        if first in strings:
            continue
        assert first in dir(aiolead), name
        found = getattr(aiolead, first)
        if second and isinstance(found, ModuleType) and not hasattr(found, second):
            assert importlib.util.find_spec(f"aiolead.{name}") is not None, name


def test_code_of_each_kind_is_found() -> None:
    assert {block.kind for block in BLOCKS} == {"fragment", "program", "script", "tests"}
    assert {b.page.name for b in BLOCKS} >= {"README.md", "getting-started.md"}

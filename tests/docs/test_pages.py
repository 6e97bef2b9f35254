"""The code on the pages runs, and what they link to is there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.docs import PATIENCE, ROOT, Block, Program, blocks, languages, links, pages

import aiolead

PAGES = pages()
BLOCKS = [block for page in PAGES for block in blocks(page)]


def _of_kind(kind: str) -> list[Block]:
    return [block for block in BLOCKS if block.kind == kind]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", sorted({b.page for b in _of_kind("fragment")}), ids=_name)
async def test_fragments_run_in_the_order_of_their_page(
    page: Path, embedded: str, chroot: str
) -> None:
    names: dict[str, Any] = {"aiolead": aiolead, "anyio": anyio}
    with anyio.fail_after(PATIENCE):
        async with aiolead.connect(embedded + chroot) as names["client"]:
            await names["client"].ensure_path("/")
            for block in blocks(page):
                if block.kind == "fragment":
                    await block.run_fragment(names)


@pytest.mark.parametrize("block", _of_kind("program"), ids=str)
def test_programs_run(block: Block, embedded: str, chroot: str, tmp_path: Path) -> None:
    script = block.write_to(tmp_path, embedded + chroot)
    Program(str(script), hosts=embedded + chroot).run()


@pytest.mark.parametrize("block", _of_kind("tests"), ids=str)
def test_tests_pass(block: Block, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if "ZooKeeperServer" in block.source or "Ensemble" in block.source:
        request.getfixturevalue("zookeeper")  # skips, or fails, where there is none
    module = block.write_to(tmp_path, "127.0.0.1:1")
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", module.name)
    said = Program(*command, hosts="", cwd=tmp_path).run()
    assert " passed in " in said[-1], said
    assert "skipped" not in said[-1], said


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_fence_says_what_it_is(page: Path) -> None:
    # A fence in another spelling ("py", none) would not be run.
    assert languages(page) <= {"python", "sh", "text", "toml", "ini", "mermaid"}


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / "examples").rglob("*.md")), ROOT / "CHANGELOG.md"], ids=_name
)
def test_links_lead_somewhere(page: Path) -> None:
    assert [link for link in links(page) if not link.exists()] == []


def test_there_is_code_of_each_kind() -> None:
    assert {block.kind for block in BLOCKS} == {"fragment", "program", "tests"}
    assert {b.page.name for b in BLOCKS} >= {"README.md", "getting-started.md"}

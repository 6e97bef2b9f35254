"""The names on the pages exist: files, classes, packages, targets of make, tests, recipes.

The tables of operations and of supported versions have exactly what the code has.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from costs import _tables as cost_tables
from kit.checks import check_each
from kit.every_recipe import DONE, FOLLOWED, HELD, KEPT, RECIPES
from kit.pages import ROOT
from tools.fetch_zookeeper import SUITES
from tools.write_exports import exported

import aiolead
from aiolead._wire.versions import ANY, OLDEST, TESTED, Engine, Feature, Version
from aiolead.cli.doctor import server_checks

READMES = ("benchmarks", "examples", "tests")
PAGES = [
    *(page for folder in ("docs", *READMES) for page in sorted((ROOT / folder).rglob("*.md"))),
    *(ROOT / name for name in ("CONTRIBUTING.md", "README.md", "SECURITY.md")),
]
FOR_CONTRIBUTORS = [
    ROOT / "docs" / f"{name}.md"
    for name in (
        *("contributing/adding-a-recipe", "contributing/architecture", "explanation/contention"),
        *("explanation/ephemeral-znodes", "reference/error-policy"),
    )
]
FOLDERS = ("aiolead", "tests", "examples", "benchmarks", "docs")

WRITTEN_BY_READERS = {"first.py", "test_first.py", "worker.py", "test_worker.py"}
"""Files of the tutorials."""

FILE = re.compile(r"`([\w./-]*\w\.py)(?:: (\w+)[\w.()]*)?(?:::[\w\[\]-]+)?`")
"""`_recipes/hold.py`, `_recipes/hold.py: Tenure`, `unit/test_paths.py::test_join`."""

PACKAGE = re.compile(r"`((?:aiolead|_wire|_session|_client|_recipes|tests)/[\w/]*)`")
"""`_client/api/`, `aiolead/testing`."""

DOTTED = re.compile(r"`(?:aiolead\.)?(_(?:wire|session|client|recipes)(?:\.(?!py\b)\w+)+)`")
"""`_session.states`, `_session.machine.SessionMachine`."""

TEST = re.compile(r"`[\w/.:]*?\b(test_\w+(?:\.py)?)`")
TEST_OF_A_READER = re.compile(r"\b[Ss]ave this as\s+`(test_\w+\.py)`")
COMMAND = re.compile(
    r"(?<![\w./-])((?:tests|benchmarks|examples|docs)/[\w./*-]*\w)|"
    r"python -m ((?:tests|benchmarks)[\w.]*)"
)
"""`pytest tests/wire`, `python -m tests.costs`, also in a listing."""
MAKE = re.compile(r"(?:`|^ {0,4})make ([a-z][a-z -]*?)(?= [A-Z]|  |`|$)", re.MULTILINE)
"""`make lint types`, or a line of a listing."""


@cache
def modules() -> dict[str, set[str]]:
    """The words in each module of the repository, by its path."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return {
        path.relative_to(ROOT).as_posix(): set(re.findall(r"\w+", path.read_text("utf-8")))
        for path in [*files, *ROOT.glob("*.py")]
    }


@cache
def known_tests() -> dict[str, set[str]]:
    """The files with a test of each name, and the files by their own names; below `tests`."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        names = re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
        for name in (path.name, *names):
            found.setdefault(name, set()).add(path.relative_to(ROOT / "tests").as_posix())
    return found


def prose(page: Path) -> str:
    """A page without its fenced examples."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def file_exists(path: str, name: str = "") -> bool:
    """Whether a module has a path, or one that ends so, and contains a name."""
    return any(
        not name or name in words
        for file, words in modules().items()
        if f"/{file}".endswith(f"/{path}")
    )


def dotted_exists(dotted: str) -> bool:
    path = "aiolead/" + dotted.replace(".", "/")
    module, _, name = path.rpartition("/")
    return (ROOT / path).is_dir() or file_exists(f"{path}.py") or file_exists(f"{module}.py", name)


def below_root(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@check_each("page", PAGES, ids=below_root)
def test_names_on_a_page_exist(page: Path) -> None:
    text = prose(page)
    files = [each for each in FILE.findall(text) if each[0] not in WRITTEN_BY_READERS]
    assert [each for each in files if not file_exists(*each)] == []
    tops = [ROOT / top for top in ("", "aiolead", "aiolead/_recipes")]
    assert [p for p in PACKAGE.findall(text) if not any((t / p).exists() for t in tops)] == []
    assert [each for each in DOTTED.findall(text) if not dotted_exists(each)] == []
    whole = page.read_text("utf-8")
    assert set(TEST.findall(whole)) - set(TEST_OF_A_READER.findall(whole)) <= known_tests().keys()


@check_each("page", PAGES, ids=below_root)
def test_targets_of_make_on_a_page_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    text = re.sub(r"<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)
    assert {name for names in MAKE.findall(text) for name in names.split()} <= targets


@check_each("page", PAGES, ids=below_root)
def test_files_in_commands_on_a_page_exist(page: Path) -> None:
    found = COMMAND.findall(page.read_text("utf-8"))
    paths = [path or module.replace(".", "/") for path, module in found]
    assert [
        each for each in paths if not any(ROOT.glob(each)) and not any(ROOT.glob(f"{each}.py"))
    ] == []


@check_each("page", FOR_CONTRIBUTORS, ids=lambda page: page.name)
def test_identifiers_on_a_page_for_contributors_exist(page: Path) -> None:
    """Names in code with an underscore or with capitals inside."""
    spans = re.findall(r"`([^`]+)`", FILE.sub("", prose(page)))
    named = {name for span in spans for name in re.findall(r"\w*(?:[a-z][A-Z]|_)\w*", span)}
    known = set().union(*modules().values())
    assert {name for name in named - known if not name.startswith("test_")} == set()


def test_tree_in_the_architecture_has_all_packages() -> None:
    text = (ROOT / "docs" / "contributing" / "architecture.md").read_text("utf-8")
    block = text.split("    aiolead/\n", 1)[1].split("\n\n", 1)[0]
    parents, seen = [ROOT / "aiolead"], set[Path]()
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip()) - 6) // 2
        # One name or several; the text begins after at least two spaces.
        match = re.match(r" {4,}(\w+(?:\.py|/)(?: \w+(?:\.py|/))*)", line)
        if match is None or depth < 0:
            continue
        del parents[depth + 1 :]
        paths = [parents[-1] / name for name in match[1].split()]
        assert all(path.exists() for path in paths), line
        seen.update(paths)
        parents.append(paths[-1])
    families = (ROOT / "aiolead" / family for family in ("", "_session", "_client", "_recipes"))
    real = {path for family in families for path in family.iterdir() if path.is_dir()}
    assert {path.name for path in real - seen} <= {"__pycache__"}


# --- tables --------------------------------------------------------------------------------------


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading, without their heads."""
    text = (ROOT / page).read_text("utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] if heading else text
    cells = [[cell.strip() for cell in row[1:-1].split("|")] for row in lines_of(section)]
    rulers = [n for n, row in enumerate(cells) if set(row[0]) <= set("-: ")]
    heads = {n for ruler in rulers for n in (ruler - 1, ruler)}
    return [row for n, row in enumerate(cells) if n not in heads]


def lines_of(section: str) -> list[str]:
    return re.findall(r"^\|.*\|$", section, re.MULTILINE)


def recipes_in(cell: str) -> set[str]:
    return set(re.findall(r"`([A-Z]\w+)`", cell))


def test_every_recipe_is_tested_and_on_the_page() -> None:
    recipes = {name for _, name in exported("__all__")}
    recipes -= {"Held", "Phase", "ServiceInstance", "Term"}  # values of recipes
    assert recipes == RECIPES.keys(), "a recipe has a row in tests/kit/every_recipe.py"
    rows = table("docs/reference/recipes.md", "List of recipes")
    assert recipes == set().union(*(recipes_in(row[0]) for row in rows))
    under_faults = {name.partition(".")[0] for name in (*HELD, *KEPT, *FOLLOWED, *DONE)}
    assert recipes == under_faults | {"Barrier"}
    simulation = ROOT / "tests" / "assurance" / "simulation"
    simulated = "".join(file.read_text("utf-8") for file in simulation.rglob("*.py"))
    assert {name for name in recipes if not re.search(rf"\b{name}\b", simulated)} == set()
    assert recipes - {row.recipe for rows in cost_tables.groups().values() for row in rows} == set()


INTEROP = "tests/assurance/interop/README.md"


def test_claims_about_curator_are_tested_with_the_real_one() -> None:
    shown = [row for row in table(INTEROP, "Curator") if row[0].startswith(("`", "[`"))]
    claims = table("docs/reference/interop.md", "Curator")
    claims = [row for row in claims if row[0].startswith(("`", "[`")) and len(row) == 3]
    assert len(claims) > 20
    # The first name in a cell is the recipe. A layout may follow.
    pairs = {(ours.split("`")[1], theirs) for ours, theirs, _ in shown}
    assert {(ours.split("`")[1], theirs) for ours, theirs, _ in claims} <= pairs
    with_curator = ("assurance/interop/test_curator", "assurance/interop/test_matrix")
    for ours, theirs, names in shown:
        named = TEST.findall(names)
        assert named, f"{ours} and {theirs}"
        for name in named:
            assert any(where.startswith(with_curator) for where in known_tests()[name]), name


def test_each_interop_test_is_on_a_page() -> None:
    there = {
        name
        for name, places in known_tests().items()
        if not name.endswith(".py")
        and any(place.startswith("assurance/interop/") for place in places)
    }
    pages = ("docs/reference/interop.md", INTEROP)
    text = "".join((ROOT / page).read_text("utf-8") for page in pages)
    assert len(there) > 40
    assert set(re.findall(r"`(test_\w+)`", text)) == there
    # The first name in a row is that of a recipe, except in the table of Curator's own recipes.
    only_curator = r"^### Curator recipes without.*?(?=^#)"
    text = re.sub(only_curator, "", text, flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"^\| `(\w+)", text, re.MULTILINE)) - {"lock", "held"}
    assert named <= {*aiolead.__all__, *aiolead.types.__all__}


def test_table_of_operations_has_every_operation() -> None:
    rows = table("docs/reference/operations.md", "")
    methods = [
        f"`{name}`"
        for name, _ in inspect.getmembers(aiolead.Client, inspect.isfunction)
        if not name.startswith("_")
    ]
    methods += [f"`admin.{name}`" for name in aiolead.admin.__all__]
    assert len(methods) > 20
    assert sorted(row[0] for row in rows) == sorted(methods)
    for name, needs, _, _, raises in rows:
        assert re.fullmatch(r"(3\.[5-9])?", needs), name
        errors = re.findall(r"`(\w+)`", raises)
        for error in errors:
            assert error.endswith("Error") or error == "Fenced", (name, error)
            assert hasattr(aiolead.errors, error), (name, error)
        # An operation that older servers lack can be refused.
        assert "UnsupportedError" in errors or needs in ("", "3.5"), name


# --- supported versions --------------------------------------------------------------------------

SUPPORT = "docs/reference/support.md"


def matrix(workflow: str, job: str) -> Any:
    """The matrix of a job of a workflow."""
    text = (ROOT / ".github" / "workflows" / f"{workflow}.yml").read_text("utf-8")
    return yaml.safe_load(text)["jobs"][job]["strategy"]["matrix"]


def text_of(version: Version) -> str:
    return ".".join(map(str, version))


def since_of(feature: Feature, engine: Engine) -> str:
    """The first version of another engine that has a feature; "-" if none has."""
    version = feature.others.get(engine)
    return "-" if version is None else "all" if version == ANY else text_of(version)


def called_tested(heading: str) -> list[str]:
    """The first cell of the rows that say "tested" in the second."""
    return [first for first, state, *_ in table(SUPPORT, heading) if state == "tested"]


def test_differences_between_zookeeper_versions_are_on_the_page() -> None:
    assert table(SUPPORT, "Differences between ZooKeeper versions") == [
        [
            f"`{feature.name}`: {feature.label}",
            ", ".join(map(text_of, feature.releases)),
            *(since_of(feature, engine) for engine in Engine if engine is not Engine.ZOOKEEPER),
            feature.before,
        ]
        for feature in Feature
    ]


def test_tested_zookeeper_versions_are_on_the_page() -> None:
    page = (ROOT / SUPPORT).read_text("utf-8")
    versions = [text_of(version) for version in TESTED]
    assert called_tested("ZooKeeper") == versions[::-1]
    assert list(SUITES) == versions
    assert f"| other releases from {text_of(OLDEST)} on | expected |" in page
    assert f"| before {text_of(OLDEST)} | not supported |" in page
    assert OLDEST[:2] == server_checks.OLDEST
    since = Feature.JOINING_KEEPS_COMMITS.releases
    assert f"use {', '.join(map(text_of, since))} or newer" in page
    # The other jobs run with the oldest one, which Debian 12 has.
    assert matrix("ci", "zookeeper")["zookeeper"] == list(SUITES)[1:]


@pytest.fixture
def metadata() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_tested_python_versions_are_those_of_the_package(metadata: dict[str, Any]) -> None:
    project = metadata["project"]
    classifiers = [re.fullmatch(r".*Python :: (3\.\d+)", each) for each in project["classifiers"]]
    pythons = [match[1] for match in classifiers if match]
    assert called_tested("Python") == pythons
    assert matrix("ci", "test")["python"] == pythons
    assert matrix("release", "try")["python"] == pythons
    assert f"PYTHONS = {pythons}".replace("'", '"') in (ROOT / "noxfile.py").read_text("utf-8")
    assert project["requires-python"] == f">={pythons[0]}"


def test_tested_event_loops_are_those_of_the_package(metadata: dict[str, Any]) -> None:
    groups = metadata["dependency-groups"].values()
    lines = [line for group in groups for line in group if isinstance(line, str)]
    (uvloop,) = [line for line in lines if line.startswith("uvloop")]
    (trio,) = metadata["project"]["optional-dependencies"]["trio"]
    for needed in (trio, uvloop):
        name, _, least = needed.partition(">=")
        assert f"{name}, from {least} on" in called_tested("Event loops")

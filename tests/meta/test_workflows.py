"""What CI, pre-commit and the pages for contributors name exists; else only a run would show it."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.checks import check_each
from tools.fetch_zookeeper import SUITES

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = [
    classifier.rpartition(" ")[2]
    for classifier in PROJECT["project"]["classifiers"]
    if re.fullmatch(r".*Python :: 3\.\d+", classifier)
]


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


def commands(workflow: Path) -> Iterator[str]:
    """Those of the shell steps, one by one."""
    for job in jobs(workflow).values():
        for step in job["steps"]:
            for line in step.get("run", "").replace("\\\n", " ").splitlines():
                yield from line.split(" && ")


def targets() -> set[str]:
    """What the Makefile makes for people."""
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_there_is_something_to_look_at() -> None:
    assert {path.stem for path in WORKFLOWS} == {"ci", "docs", "release"}
    assert PYTHONS == ["3.11", "3.12", "3.13", "3.14"]
    assert {"demo", "test", "docs"} <= targets()


@check_each("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_there_is(workflow: Path) -> None:
    for command in commands(workflow):
        first, *words = shlex.split(command)
        if first == "make":
            assert set(words) <= targets(), command
        elif first.startswith((".", "tests/")):
            assert os.access(ROOT / first, os.X_OK), command
        elif first == "python" and words[0].endswith(".py"):
            assert (ROOT / words[0]).is_file(), command


@check_each("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_is_bounded_and_may_not_do_more_than_it_must(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    for name, job in jobs(workflow).items():
        assert job["timeout-minutes"] <= 90, name
        assert set(job.get("needs", "").split()) <= jobs(workflow).keys(), name
        for step in job["steps"]:
            action = step.get("uses", "")
            if action.startswith("actions/checkout@"):
                # Else what runs afterwards finds the token in the checkout.
                assert step["with"]["persist-credentials"] is False, name


PINNED = re.compile(r"[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


@check_each("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_pinned_by_its_commit(workflow: Path) -> None:
    # Whoever owns an action can move its tags and branches to any code.
    text = workflow.read_text()
    used = re.findall(r"^\s*(?:- )?uses:\s*(.*)$", text, re.MULTILINE)
    steps = [step for job in jobs(workflow).values() for step in job["steps"]]
    assert len(used) == sum("uses" in step for step in steps) > 0
    for action in used:
        assert PINNED.fullmatch(action), action


def test_an_action_is_the_same_everywhere() -> None:
    used = {
        action
        for workflow in WORKFLOWS
        for action in re.findall(r"uses:\s*(.*)$", workflow.read_text(), re.MULTILINE)
    }
    names = [action.partition("@")[0] for action in used]
    assert sorted(names) == sorted(set(names))


@check_each("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_nothing_runs_that_others_can_write(workflow: Path) -> None:
    text = workflow.read_text()
    assert "secrets." not in text
    # Of pull requests only those whose code has no token: not pull_request_target.
    assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(triggers(workflow))
    for job in jobs(workflow).values():
        for step in job["steps"]:
            # What an expression says would become code of the shell.
            assert "${{" not in step.get("run", ""), step


def triggers(workflow: Path) -> list[str]:
    # To YAML 1.1, `on` is a word for true.
    return list(yaml.safe_load(workflow.read_text())[True])


def test_who_may_write_is_a_job_that_runs_no_code_of_ours() -> None:
    found = {
        (workflow.stem, name): job
        for workflow in WORKFLOWS
        for name, job in jobs(workflow).items()
        if any(right != "read" for right in job.get("permissions", {}).values())
    }
    assert set(found) == {("docs", "publish"), ("release", "publish")}
    for job in found.values():
        assert job["environment"]["name"] in ("github-pages", "pypi")
        assert all("uses" in step and "run" not in step for step in job["steps"])
        assert not any("checkout" in step["uses"] for step in job["steps"])
    release = found["release", "publish"]
    assert release["permissions"] == {"id-token": "write"}
    assert release["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")
    # A trusted publisher, with attestations: neither a password nor a token.
    assert release["steps"][-1]["with"] == {"attestations": True}


def test_what_builds_a_release_is_pinned() -> None:
    (build,) = (
        step["run"]
        for step in jobs(ROOT / ".github" / "workflows" / "release.yml")["build"]["steps"]
        if "-m build" in step.get("run", "")
    )
    install, make = build.splitlines()
    assert "--require-hashes --only-binary :all:" in install
    assert make == "python -m build --no-isolation"
    file = ROOT / install.split()[-1]
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", "")
    pins = dict(
        re.fullmatch(r"([\w-]+)==(\S+)\s+--hash=sha256:[0-9a-f]{64}", line).groups()  # type: ignore[union-attr]
        for line in text.splitlines()
    )
    assert {"build", "hatchling"} <= pins.keys()
    # Builds elsewhere use at least the same major version.
    needs = [
        re.fullmatch(r"([\w-]+)>=([\d.]+),<(\d+)", needed).groups()  # type: ignore[union-attr]
        for needed in PROJECT["build-system"]["requires"]
    ]
    assert {name for name, _, _ in needs} <= pins.keys()
    for name, least, most in needs:
        assert int(least.split(".")[0]) <= int(pins[name].split(".")[0]) < int(most)


def test_pins_are_renewed() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    found = {(each["package-ecosystem"], each["directory"]) for each in updates}
    assert found == {("github-actions", "/"), ("pip", "/.github")}


def test_the_project_says_where_it_is_and_how_to_report() -> None:
    urls = PROJECT["project"]["urls"]
    assert set(urls) == {
        "Homepage",
        "Documentation",
        "Source",
        "Issues",
        "Changelog",
        "Security",
    }
    source = urls["Source"]
    for name in ("Homepage", "Issues", "Changelog", "Security"):
        assert urls[name].startswith(source), name
    assert (ROOT / urls["Changelog"].rpartition("/")[2]).is_file()
    policy = (ROOT / "SECURITY.md").read_text()
    assert f"{source}/security/advisories/new" in policy
    assert f"--repository {source}" in policy


def test_every_python_that_is_supported_is_tried() -> None:
    for workflow, job in (("ci", "test"), ("release", "try")):
        found = jobs(ROOT / ".github" / "workflows" / f"{workflow}.yml")[job]
        assert found["strategy"]["matrix"]["python"] == PYTHONS, job
    assert f"PYTHONS = {PYTHONS}".replace("'", '"') in (ROOT / "noxfile.py").read_text()
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"


def test_every_zookeeper_that_is_supported_is_tried() -> None:
    """The oldest one is what the other jobs have from Debian 12."""
    ci = jobs(ROOT / ".github" / "workflows" / "ci.yml")
    _, *others = SUITES
    assert ci["zookeeper"]["strategy"]["matrix"]["zookeeper"] == others
    fetched = re.search(r"^ZOOKEEPERS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert fetched is not None
    assert fetched[1].split() == list(SUITES)


def test_types_are_checked_for_the_oldest_and_the_newest_python() -> None:
    # The standard library is annotated differently for each.
    types = (ROOT / "Makefile").read_text().partition("\ntypes:")[2].partition("\n\n")[0]
    for option in ("mypy --python-version", "pyright --pythonversion"):
        assert re.findall(rf"{option} (\S+)", types) == [PYTHONS[0], PYTHONS[-1]], option


def test_what_a_job_leaves_is_what_the_next_one_takes() -> None:
    release = jobs(ROOT / ".github" / "workflows" / "release.yml")
    (kept,) = [step["with"] for step in release["build"]["steps"] if "upload" in str(step)]
    for job in ("try", "publish"):
        (taken,) = [step["with"] for step in release[job]["steps"] if "download" in str(step)]
        assert taken == {key: kept[key] for key in ("name", "path")}
    docs = jobs(ROOT / ".github" / "workflows" / "docs.yml")["build"]["steps"]
    (site,) = [step["with"]["path"] for step in docs if "pages" in step.get("uses", "")]
    assert f" {site}\n" in (ROOT / "Makefile").read_text()
    pictures = [str(step) for step in jobs(ROOT / ".github/workflows/ci.yml")["test"]["steps"]]
    assert any("screenshots/" in step for step in pictures)


def test_pre_commit_checks_what_make_lint_does() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    wanted = set(re.findall(r"\$\(BIN\)/([\w -]*?\w)(?: \$|\n|$)", lint))
    assert {"ruff check", "lint-imports"} <= wanted
    entries = [hook["entry"] for hook in local["hooks"]]
    for tool in wanted:
        assert any(entry.startswith(f".venv/bin/{tool}") for entry in entries), tool
    assert all(hook["language"] == "system" for hook in local["hooks"])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_names_targets_that_there_are(page: Path) -> None:
    named = re.findall(r"(?:`|^    )make ([a-z -]+?)(?:`|  |\.|$)", page.read_text(), re.MULTILINE)
    assert named
    assert {target for names in named for target in names.split()} <= targets() | {"help"}

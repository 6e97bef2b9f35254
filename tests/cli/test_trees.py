"""`aiolead find`, `grep`, `cp`, `export`, `import`, and `ls -R`."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.checks import until
from kit.cli import NOBODY, Command, OnTerminal, Run, fails, kazoo_client, prints, report, shown

from aiolead.cli import batches
from aiolead.testing import ThreadedServer

TREE = {"/app/a": b"one\ntwo", "/app/a/deep": b"\xff\x00", "/app/b": b"Two"}
PATHS = ["/app", "/app/a", "/app/b", "/app/x-0000000002"]


@pytest.fixture
def tree(run: Run, hosts: str) -> Iterator[None]:
    with kazoo_client(hosts, {**TREE, "/app/x-": b""}):
        assert run("create", "/app/c", "--container")[0] == 0
        assert run("acl /app/b", f"{NOBODY}:r", "world:anyone:cdrwa")[0] == 0
        yield


@pytest.mark.usefixtures("tree")
def test_find_and_ls_list_a_tree(run: Run) -> None:
    everything = sorted([*PATHS, "/app/a/deep", "/app/c"])
    assert sorted(shown(run, "find /app")) == everything
    assert shown(run, "ls -R /app") == shown(run, "find /app")
    assert shown(run, "find /app --name", "[ab]") == ["/app/a", "/app/b"]
    assert shown(run, "find --ephemeral") == ["/app/x-0000000002"]
    assert run("find /app --limit 3")[::2] == fails("more than 3 znodes (--limit)")[::2]
    assert {found["path"] for found in report(run, "find /app")} == {*everything}


@pytest.mark.usefixtures("tree")
def test_grep_prints_matching_lines(run: Run) -> None:
    assert shown(run, "grep", "^t.o$", "/app") == ["/app/a: two"]
    assert shown(run, "grep -il", "two") == ["/app/a", "/app/b"]
    assert run("grep nothing /app") == (1, [], [])
    assert run("grep [ /app")[0] == 2


@pytest.mark.usefixtures("tree")
def test_copies_keep_data_and_acls(run: Run) -> None:
    assert run("cp /app/b /else/b") == prints(err="created 1 znode")
    assert run("cp -r /app /copy") == prints(err="created 5 znodes")
    for copy in ("/else/b", "/copy/b"):
        assert shown(run, "get", copy) == ["Two"]
        assert shown(run, "acl --hashes", copy) == shown(run, "acl --hashes /app/b")
    assert run("cp -r /app /copy")[2] == [
        "aiolead: created 0 znodes; 5 existed, and stay as they are"
    ]
    assert run("cp -r /app /app/below") == fails("/app/below: must not be below /app", code=2)


@pytest.mark.usefixtures("tree")
def test_export_is_imported_elsewhere(run: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "export")
    assert run("export /app --file", file) == prints(err="exported 5 znodes")
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    assert lines == [json.loads(line) for line in run("export /app -q")[1]]
    assert run("import /new/place --file", file) == prints(err="created 5 znodes")
    assert sorted(shown(run, "find /new/place")) == [
        "/new/place" + path for path in ("", "/a", "/a/deep", "/b", "/c")
    ]
    assert run("export /new/place -q")[1] == run("export /app -q")[1]


@pytest.mark.usefixtures("tree")
def test_interrupted_export_and_import_are_continued(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "export"
    assert run("export /app --file", str(file))[0] == 0
    whole = file.read_bytes()
    file.write_bytes(whole[: whole.index(b"\n") + 20])
    assert run("export /app --resume --file", str(file)) == prints(
        err="exported 4 znodes, after 1 in the file"
    )
    assert sorted(file.read_bytes().splitlines()) == sorted(whole.splitlines())
    run("create /again -p")
    run("create /again/a mine")
    code, _, err = run("import /again --file", str(file))
    assert (code, err) == (0, ["aiolead: created 3 znodes; 2 existed, and stay as they are"])
    assert shown(run, "get /again/a") == ["mine"]


def _export_of(paths: list[str]) -> str:
    line = {"encoding": "utf-8", "data": "x" * 200, "acl": [[31, "world", "anyone"]]}
    return "".join(json.dumps({"path": path, **line}) + "\n" for path in paths)


LARGE = ["/", *(f"/{number:03}" for number in range(600))]


def test_killed_export_is_continued(run: Run, server: ThreadedServer, tmp_path: Path) -> None:
    """Only the znodes that the file does not have are read again."""
    hosts, file = server.connect_string, tmp_path / "export"
    (tmp_path / "tree").write_text(_export_of(LARGE))
    run("import /app --file", str(tmp_path / "tree"), hosts=hosts)
    server.slow_down(0.02)
    with Command("export", "/app", "--file", str(file), hosts=hosts) as command:
        until(lambda: file.exists() and file.stat().st_size > 0, "the export has begun")
        command.signal(signal.SIGKILL)
        assert command.finish() == 137
    server.slow_down(0)
    until(lambda: not server.connections, "the server has answered what the killed one had asked")
    known, before = file.read_bytes().count(b"\n"), server.requests["GET_DATA"]
    assert known < len(LARGE)
    assert run("export /app --resume --file", str(file), hosts=hosts) == prints(
        err=f"exported {len(LARGE) - known} znodes, after {known} in the file"
    )
    assert server.requests["GET_DATA"] - before == len(LARGE) - known
    assert sorted(file.read_text().splitlines()) == _export_of(LARGE).splitlines()


def test_export_lists_only_znodes_with_children(
    run: Run, server: ThreadedServer, tmp_path: Path
) -> None:
    """Most znodes of a tree have none: that is a third of the requests."""
    hosts, file = server.connect_string, tmp_path / "export"
    file.write_text(_export_of(LARGE))
    run("import /app --file", str(file), hosts=hosts)
    before = dict(server.requests)
    assert run("export /app --file", str(file), hosts=hosts)[0] == 0
    asked = {name: count - before.get(name, 0) for name, count in server.requests.items()}
    assert asked["GET_DATA"] == asked["GET_ACL"] == len(LARGE)
    assert asked.get("GET_CHILDREN", 0) + asked.get("GET_CHILDREN2", 0) == 1


def test_resumed_export_is_the_same_file(
    run: Run, server: ThreadedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it was cut, in a tree with more znodes than are under way at once."""
    monkeypatch.setattr(batches, "AT_ONCE", 8)
    hosts, file = server.connect_string, tmp_path / "export"
    paths = [f"/{a:02}{b}" for a in range(20) for b in ("", "/x", "/y", "/y/z", "/y/z/1", "/y/z/2")]
    file.write_text(_export_of(["/", *paths]))
    run("import /app --file", str(file), hosts=hosts)
    assert run("export /app --file", str(file), hosts=hosts)[0] == 0
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in (1, 2, 4, 6, 10, 13, 30, 60, 100, len(paths)):
        file.write_bytes(b"".join(lines[:kept]) + b"{")
        assert run("export /app --resume --file", str(file), hosts=hosts)[0] == 0
        assert file.read_bytes() == whole, kept


def test_import_of_an_interrupted_export_says_so(run: Run, somewhere: str, tmp_path: Path) -> None:
    run("create / -p")
    (tmp_path / "file").write_text(_export_of(["/", "/a"])[:-20])
    code, _, (error,) = run("import / --file", str(tmp_path / "file"))
    assert (code, error.partition(": the export was ")[2]) == (
        1,
        "interrupted there: aiolead export --resume completes it",
    )


@pytest.mark.parametrize("exists", [False, True])
def test_export_continues_an_empty_file(
    run: Run, somewhere: str, tmp_path: Path, exists: bool
) -> None:
    if exists:
        (tmp_path / "export").touch()
    run("create / -p")
    assert run("export --resume --file", str(tmp_path / "export")) == prints(err="exported 1 znode")


def test_repeated_import_writes_only_what_is_missing(
    run: Run, server: ThreadedServer, tmp_path: Path
) -> None:
    """Reads find what exists: a refused create would be a transaction of the ensemble."""
    hosts, file = server.connect_string, tmp_path / "export"
    file.write_text(_export_of(LARGE[:300]))
    assert run("import /app --file", str(file), hosts=hosts) == prints(err="created 300 znodes")
    created = server.requests["CREATE"] + server.requests["CREATE2"]
    file.write_text(_export_of(LARGE))
    assert run("import /app --file", str(file), hosts=hosts) == prints(
        err="created 301 znodes; 300 existed, and stay as they are"
    )
    assert server.requests["CREATE"] + server.requests["CREATE2"] - created == 301


def test_refused_import_reports_one_error(run: Run, somewhere: str, tmp_path: Path) -> None:
    run("create /app -p --acl world:anyone:r")
    (tmp_path / "export").write_text(_export_of(LARGE[:20]))
    code, out, err = run("import /app --file", str(tmp_path / "export"))
    assert (code, out, len(err)) == (77, [], 1)


@pytest.mark.parametrize("verb", ["export", "import"])
def test_progress_is_shown_on_a_terminal_only(
    run: Run, server: ThreadedServer, tmp_path: Path, verb: str
) -> None:
    hosts, file = server.connect_string, tmp_path / "export"
    file.write_text(_export_of(LARGE))
    arguments = ("/app", "--file", str(file))
    run("import", *arguments, hosts=hosts)
    for options, is_shown in ((), True), (("--quiet",), False), (("--json",), False):
        with OnTerminal(verb, *arguments, *options, hosts=hosts) as terminal:
            assert terminal.finish() == 0
        assert ("━" in terminal.shown) == is_shown, terminal.shown
    assert len(run(verb, *arguments, hosts=hosts)[2]) == 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "no JSON"),
        ("{}", "must have path, encoding, data and acl"),
        ('{"path": "a", "encoding": "utf-8", "data": "", "acl": []}', "must start with '/'"),
        ('{"path": "/a", "encoding": "utf-8", "data": "", "acl": [[99, "a", "b"]]}', "entry"),
        ('{"path": "/a", "encoding": "base64", "data": "!", "acl": []}', "is no base64"),
    ],
)
def test_malformed_import_is_refused(
    run: Run, somewhere: str, tmp_path: Path, line: str, why: str
) -> None:
    (tmp_path / "file").write_text(line + "\n")
    run("create / -p")
    code, out, (error,) = run("import / --file", str(tmp_path / "file"))
    assert (code, out) == (1, [])
    assert error.startswith("aiolead: line 1 is not of an export: ")
    assert why in error

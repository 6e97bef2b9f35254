"""`aiolead find`, `grep`, `cp`, `export`, `import`, and `ls -R`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.cli import Run, fails, kazoo_client, prints, report, shown

TREE = {"/app/a": b"one\ntwo", "/app/a/deep": b"\xff\x00", "/app/b": b"Two"}
PATHS = ["/app", "/app/a", "/app/b", "/app/x-0000000002"]


@pytest.fixture
def tree(run: Run, hosts: str) -> Iterator[None]:
    with kazoo_client(hosts, {**TREE, "/app/x-": b""}):
        assert run("create", "/app/c", "--container")[0] == 0
        assert run("acl /app/b digest:me:hash=:r world:anyone:cdrwa")[0] == 0
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

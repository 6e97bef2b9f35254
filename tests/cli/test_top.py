"""`aiolead top`."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from unittest.mock import ANY

import pytest
from cli.preforked import ReadyProcess
from cli.scenes import NOTHING, StagedScene
from cli.terminal import Terminal
from kazoo.security import make_acl
from kit.checks import killed_at_the_end
from kit.cli import WITHIN, Command, Run, environment, kazoo_client, report, shown
from rich.cells import cell_len

from aiolead._util.token_bucket import Numbers, Write
from aiolead.cli.scene import Scene
from aiolead.cli.scene_values import EnsembleHealth
from aiolead.cli.server_inquiry import ClientConnection, ServerAddress
from aiolead.cli.server_survey import Quorum, ServerAnswers, ServerState
from aiolead.cli.top_keys import LEGEND, TopControls, keys_in
from aiolead.cli.top_picture import Picture
from aiolead.model import SessionState

CLOSED = [make_acl("world", "anyone", delete=True)]


@pytest.fixture
def scene() -> StagedScene:
    """Three elections, of which one is vacant and one has a silent leader; it is 1100."""
    scene = StagedScene("/")
    scene.set_session(SessionState.CONNECTED, 1, 1000.0)
    scene.enter("/jobs/scheduler", 1, data=b"host-1:4711")
    scene.enter("/jobs/scheduler", 2, data=b"host-2:815")
    scene.enter("/jobs/mailer", 3, data=b"host-1:4711")
    scene.enter("/jobs/名前", 4, data=b"\x1b[2Jevil")
    scene.settle(1010.0)
    scene.leave("/jobs/mailer", 3)
    scene.settle(1040.0)
    scene.leave("/jobs/scheduler", 1)
    scene.settle(1098.0)
    for at in (1090.0, 1099.0):
        scene.set_connected({2: ClientConnection("192.0.2.7:50123")}, at)
    return scene


def drawn(scene: StagedScene, width: int = 100, height: int = 24) -> list[str]:
    picture = Picture(scene=scene, title="zk1/app")
    return [line.plain.rstrip() for line in picture.draw(1100.0, width, height)]


def test_paths_and_events_are_drawn(scene: StagedScene) -> None:
    assert drawn(scene) == [
        "aiolead top  00:18:20 UTC  zk1/app  2 problems, 3 paths, 2 contenders",
        "",
        "path             type      held by      for           token  session",
        "/jobs/mailer     election  nobody       1 min 0 s",
        r"/jobs/名前       election  \x1b[2Jevil  < 1 min 40 s  4      silent 10 s",
        "/jobs/scheduler  election  host-2:815   2 s           2      connected",
        "",
        "00:17:20  /jobs/mailer  host-1:4711 is gone: nobody leads",
        "00:18:18  /jobs/scheduler  host-2:815 leads (token 2), after host-1:4711",
        r"00:18:19  /jobs/名前  \x1b[2Jevil has no connection, and still holds",
    ]


def test_problems_come_first_on_a_small_terminal(scene: StagedScene) -> None:
    for n in range(20):
        scene.enter(f"/other/{n:02}", 100 + n, data=b"well")
    scene.enter("/jobs/scheduler", 200, data=b"host-3")
    scene.settle(1099.5)
    lines = drawn(scene, 60, 12)
    assert len(lines) == 12
    first = ["/jobs/mailer", "/jobs/名前", "/jobs/scheduler", "/other/00"]
    assert [line.split()[0] for line in lines[3:7]] == first
    assert lines[7] == "(19 more)"
    # The last event is always shown.
    assert lines[-1].startswith("00:18:19  ")


def test_order_does_not_change_with_every_hand_over(scene: StagedScene) -> None:
    """With 300 paths, elections are on the first page, and only a problem moves a row."""
    for n in range(290):
        scene.enter(f"/aaa/{n:03}", 1000 + n, mark="lock-")
        scene.enter(f"/aaa/{n:03}", 2000 + n, mark="lock-")
    for n in range(10):
        scene.enter(f"/zzz/{n}", 3000 + n)
        scene.enter(f"/zzz/{n}", 4000 + n)
    scene.settle(1099.0)

    def paths() -> list[str]:
        return [line.split()[0] for line in drawn(scene, 80, 24)[3:16] if line.startswith("/")]

    first = paths()
    assert first[:2] == ["/jobs/mailer", "/jobs/名前"]
    assert first[2:] == ["/jobs/scheduler", *(f"/zzz/{n}" for n in range(10))][: len(first) - 2]
    assert len(first) > 8
    for n in range(10):
        scene.leave(f"/zzz/{n}", 3000 + n)
        scene.leave("/aaa/007", 1007, mark="lock-")
        scene.settle(1099.1 + n / 100)
        assert paths() == first
    scene.leave("/zzz/3", 4003)
    scene.settle(1099.5)
    assert paths()[:3] == ["/jobs/mailer", "/jobs/名前", "/zzz/3"]


def test_long_paths_differ_on_80_columns() -> None:
    scene = StagedScene("/")
    long = "/jobs/billing/billing-reconciliation-worker-of-the-department"
    for n in range(12):
        scene.enter(f"{long}-{n:02}", 100 + n, data=b"host-1.prod.example:4711")
        scene.enter(f"{long}-{n:02}", 200 + n, data=b"host-2.prod.example:4711")
    scene.settle(1050.0)
    lines = drawn(scene, 80, 30)
    shown = [line.split()[0] for line in lines if line.startswith("/jobs")]
    assert len({*shown}) == 12
    assert all(line.startswith("/jobs/billing") and ".." in line for line in shown)
    assert shown[7].endswith("of-the-department-07")
    # A path is shown in full where there is room.
    assert f"{long}-07" in "".join(drawn(scene, 200, 30))


@pytest.mark.parametrize("width", [60, 80])
def test_paths_that_differ_in_the_middle_are_told_apart(width: int) -> None:
    scene = StagedScene("/")
    for n in range(12):
        path = f"/jobs/billing/service-{n:02}-with-a-name-that-is-rather-long-and-the-same-for-all"
        scene.enter(path, 100 + n, data=b"host-1.prod.example:4711")
    scene.settle(1050.0)
    shown = [line.split()[0] for line in drawn(scene, width, 30) if line.startswith("/jobs")]
    assert len({*shown}) == 12
    assert "service-07-with" in shown[7]


def test_filter_leaves_out_events_and_says_why_nothing_is_left(scene: StagedScene) -> None:
    picture = Picture(scene, "zk", controls=TopControls())
    lines = press(picture, "/", *"mailer", "enter")
    assert [line[10:] for line in lines if line.startswith("00:1")] == [
        "/jobs/mailer  host-1:4711 is gone: nobody leads"
    ]
    lines = press(picture, "/", *"none", "enter")
    assert "no path or holder matches the filter (Esc clears it)" in lines
    assert not any(line.startswith("00:1") for line in lines)
    empty = StagedScene("/")
    empty.settle(1099.0)
    text = "nobody contends for anything here: elections and locks appear as somebody does"
    assert text in drawn(empty)


def test_picture_fits_any_size(scene: StagedScene) -> None:
    scene.enter("/jobs/scheduler", 5, data=b"x" * 200)
    scene.put("/jobs/scheduler/y-lock-0000000007", NOTHING._replace(czxid=7), None)
    scene.settle(1099.0)
    for width in range(101):
        for height in (0, 1, 2, 3, 5, 8, 13, 40):
            lines = drawn(scene, width, height)
            assert len(lines) <= height
            assert all(cell_len(line) <= width for line in lines), (width, lines)
    # Only paths and names are cut; other columns are shown in full or left out.
    assert drawn(scene, 30)[2].split() == ["path", "held", "by"]
    assert any("not all of these exclude each other" in line for line in drawn(scene, 200))
    assert any("waits" in line for line in drawn(scene, 100))


def test_characters_outside_the_encoding_are_escaped(scene: StagedScene) -> None:
    picture = Picture(scene=scene, title="zk", can_show=str.isascii)
    text = "\n".join(line.plain for line in picture.draw(1100.0, 200, 24))
    assert text.isascii()
    assert r"/jobs/\u540d\u524d" in text


def press(picture: Picture, *keys: str) -> list[str]:
    """The lines on a terminal of 80 by 24 after some keys."""
    assert picture.controls is not None
    for key in keys:
        picture.draw(1100.0, 80, 24)
        assert picture.controls.press(key)
    return [line.plain.rstrip() for line in picture.draw(1100.0, 80, 24)]


def table_of(lines: list[str]) -> list[str]:
    """The paths in the table, from above."""
    start = next(n for n, line in enumerate(lines) if line.startswith("path "))
    table = lines[start + 1 : lines.index("", start)]
    return [line.split()[0] for line in table if line.startswith("/")]


def test_keys_sort_hide_and_filter(scene: StagedScene) -> None:
    picture = Picture(scene, "zk1,zk2/app", controls=(controls := TopControls()))
    lines = press(picture)
    # The names of the servers are cut first.
    title = "aiolead top  00:18:20 UTC  zk1,zk2..  2 problems, 3 paths, 2 contenders  ?: keys"
    assert lines[0] == title
    legend = press(picture, "?")
    assert len(legend) == len(LEGEND)
    assert not any(line.endswith("..") for line in legend)
    assert press(picture, "x") == lines
    # Problems come first; then the key sorts.
    assert table_of(lines) == ["/jobs/mailer", "/jobs/名前", "/jobs/scheduler"]
    assert table_of(press(picture, "s")) == ["/jobs/mailer", "/jobs/scheduler", "/jobs/名前"]
    assert controls.order == "path"
    assert table_of(press(picture, "s", "s")) == ["/jobs/scheduler", "/jobs/名前", "/jobs/mailer"]
    assert controls.order == "newest"
    assert table_of(press(picture, "v")) == ["/jobs/scheduler", "/jobs/名前"]
    assert press(picture)[1] == "sorted: newest  vacated paths hidden"
    assert table_of(press(picture, "v", "/", *"HOST-2", "enter")) == ["/jobs/scheduler"]
    assert press(picture)[1] == "filter: HOST-2  sorted: newest"
    # q is a character of a filter. Elsewhere it ends the command.
    assert controls.press("/")
    assert controls.press("q")
    assert controls.text == "HOST-2q"
    assert controls.press("esc")
    assert controls.text == ""
    assert not controls.press("q")


def test_selected_path_has_a_page(scene: StagedScene) -> None:
    for n in range(20):
        scene.enter("/jobs/scheduler", 100 + n, data=f"waiting-{n}".encode())
    scene.settle(1099.5)
    picture = Picture(scene, "zk", controls=(controls := TopControls()))
    lines = press(picture, "j", "j", "j", "enter")
    assert controls.selected == "/jobs/scheduler"
    assert lines[0] == "/jobs/scheduler  election  held"
    assert lines[1] == "  host-2:815  2 s  2  connected"
    assert lines[2].split()[:2] == ["1.", "waiting-0"]
    assert len(lines) == 24
    text = "\n".join(line.plain for line in picture.draw(1100.0, 80, 60))
    assert "0x2  192.0.2.7:50123  /jobs/scheduler/_c_x-latch-0000000002" in text
    lines = press(picture, "end")
    assert lines[-1].endswith("host-1:4711 waits") or "leads" in lines[-1]
    assert any(line.startswith("events") for line in press(picture, "page up"))
    assert press(picture, "home")[0] == "/jobs/scheduler  election  held"
    assert press(picture, "esc")[0].startswith("aiolead top")


def test_other_recipes_have_a_page() -> None:
    scene = StagedScene()
    done = NOTHING._replace(czxid=1, ctime=1_090_000)
    scene.put("/nightly/2026-11-20", done, b"__DONE__host-1:3")
    scene.put("/nightly/2026-11-21", done._replace(czxid=2, ephemeral_owner=7), b"\x1bhost-2:4")
    scene.put("/limit", NOTHING._replace(mtime=1_099_000), Write(Numbers(6, 60, 20)).encode())
    scene.put("/q/queue-0000000000", done._replace(cversion=4), b"")
    scene.put("/workers/web-1", done._replace(ephemeral_owner=7), b"")
    scene.settle(1099.5)
    scene.set_connected({7: ClientConnection("192.0.2.7")}, 1099.5)
    picture = Picture(scene, "zk", controls=TopControls())
    found = {}
    for _ in scene.others:
        first, *lines = press(picture, "j", "enter")
        found[first] = [" ".join(line.split()) for line in lines]
        press(picture, "esc")
    assert found == {
        "/nightly  once: 1 running, 1 done: \\x1bhost-2:4": [
            "",
            "1 running, 1 done, the newest first",
            "Key Began or done (UTC) State By Age Session Address",
            "2026-11-21 00:18:10 running \\x1bhost-2:4 10 s 0x7 192.0.2.7",
            "2026-11-20 00:18:10 done host-1:3 10 s",
        ],
        "/limit  rate limit: 6 in 60 s, at most 20 at once": [
            "",
            "Calls that all processes may make together",
            "Calls At most at once Free now, about Last share Taken (UTC)",
            "6 in 60 s 20 20 of 20 0 00:18:19",
        ],
        "/q  queue: 1 item, 0 claimed": [
            "",
            "1 item",
            "Item Age Bytes Attempts",
            "queue-0000000000 10 s 0 2",
        ],
        "/workers  group: 1 member: web-1": ["", ANY],
    }


def test_headings_of_a_page_are_cut_on_a_narrow_terminal() -> None:
    scene = StagedScene()
    claim = NOTHING._replace(czxid=2, ctime=1_090_000, ephemeral_owner=7)
    scene.put("/q/queue-0000000000", NOTHING._replace(czxid=1), b"")
    scene.put("/q-claims/queue-0000000000", claim, b"host-1.prod.example:4711")
    scene.settle(1099.5)
    picture = Picture(scene, "zk", controls=TopControls())
    press(picture, "j", "enter")
    lines = [line.plain for line in picture.draw(1100.0, 60, 24)]
    assert [line.split()[0] for line in lines[3:]] == ["Item", "queue-0000000000"]


def test_dead_servers_are_problems(scene: StagedScene) -> None:
    dead = {"problem": "Connection\x1b refused", "failed": ServerState.UNREACHABLE}
    answers = [
        ServerAnswers(ServerAddress("zk1", 2181), **dead),  # type: ignore[arg-type]
        ServerAnswers(ServerAddress("zk2", 2181), mode="leader"),
    ]
    quorum = Quorum(3, 2, 1, is_met=False, source="config")
    scene.set_health(EnsembleHealth(1099.0, answers, quorum))
    lines = drawn(scene)
    assert "4 problems" in lines[0]
    assert lines[1] == "zk1:2181: Connection\\x1b refused, no quorum"


def test_the_selection_is_always_visible(scene: StagedScene) -> None:
    for n in range(100):
        scene.enter(f"/other/{n:03}", 100 + n, data=b"well")
    scene.settle(1099.5)
    picture = Picture(scene, "zk", controls=(controls := TopControls()))
    press(picture, "s", "j")
    for _ in range(102):
        press(picture, "j")
        (row,) = [each for each in picture.draw(1100.0, 80, 24) if each.style == "reverse"]
        assert controls.selected is not None
        assert row.plain.startswith(controls.selected)
    assert controls.selected == "/other/099"
    assert press(picture, "page up")
    assert controls.selected < "/other/099"
    press(picture, "home")
    assert controls.selected == "/jobs/mailer"


def test_long_events_wrap_on_80_columns(scene: StagedScene) -> None:
    scene.enter("/jobs/scheduler", 9, data=b"another-host.example:4711")
    scene.leave("/jobs/scheduler", 2)
    scene.settle(1099.5)
    for path in ("/secret", "/not-for-everybody", "/not-for-this-one-either"):
        scene.may_read(path, is_allowed=False)
    lines = drawn(scene, 80)
    assert all(cell_len(line) <= 80 for line in lines)
    assert not any(".." in line for line in lines)
    assert lines[2].startswith("    ")  # the rest of what may not be read
    text = " ".join(" ".join(lines).split())
    assert "another-host.example:4711 leads (token 9), after host-2:815" in text


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b", ["esc"]),
        (b"\x1b[A\x1b[B\x1bOA", ["up", "down", "up"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F", ["page up", "page down", "home", "end"]),
        (b"\x1b[1;5q", []),  # an unknown sequence
        (b"\x1bq", []),  # q with Alt
        (b"/a\x7f\r", ["/", "a", "backspace", "enter"]),
        ("hö".encode(), ["h", "ö"]),
    ],
)
def test_keys_are_decoded(typed: bytes, keys: list[str]) -> None:
    assert keys_in(typed) == keys


def test_lost_connection_is_shown(scene: StagedScene) -> None:
    scene.set_session(SessionState.SUSPENDED, 1, 1056.0)
    text = "no connection to the servers (suspended): this is the last known state, 44 s old"
    assert drawn(scene)[1] == text
    scene.set_session(SessionState.CONNECTED, 1, 1100.0)
    assert drawn(scene)[1] == "reads ..."
    assert not any(drawn(Scene())[2:])


def test_unreadable_paths_are_shown(scene: StagedScene) -> None:
    for path in ("/secret", "/e", "/\x1b[2J", "/d", "/e"):
        scene.may_read(path, is_allowed=False)
    text = r"may not read /\x1b[2J, /d, /e and 1 more: what is below is not known"
    assert drawn(scene)[1:3] == [text, ""]
    scene.set_session(SessionState.SUSPENDED, 1, 1100.0)
    assert drawn(scene)[2] == text
    revision = scene.revision
    for path in scene.unreadable:
        scene.may_read(path, is_allowed=True)
    assert (scene.unreadable, scene.revision) == ([], revision + 4)
    assert "may not read" not in "".join(drawn(scene))


def test_once_prints_the_state_and_ends(run: Run, hosts: str) -> None:
    with kazoo_client(hosts, {"/a/_c_x-latch-": b"one", "/a/_c_y-latch-": b"t\x1bwo"}) as client:
        out = shown(run, "top --once")
        assert len(out) == 1
        assert "Z  /a  one leads (token " in out[0]
        assert out[0].endswith(r"; behind: t\x1bwo")
        (everything,) = report(run, "top", "/a", "/nobody", "--once")
        assert everything["unreadable"] == []
        first, nobody = everything["lines"]
        assert [one["identity"] for one in first["contenders"]] == ["one", "t\x1bwo"]
        assert (nobody["path"], nobody["kind"], nobody["terms"]) == ("/nobody", None, [])
        client.create("/closed", acl=CLOSED)
        out = shown(run, "top --once")
        assert len(out) == 2
        assert out[1].endswith("Z  may not read /closed: what is below is not known")
        out = shown(run, "top --once --max-znodes 2")
        assert out[-1].endswith("Z  not all znodes under / are shown: see --max-znodes")


@pytest.mark.parametrize("form", ["text", "json"])
def test_events_are_printed_into_a_pipe(somewhere: str, form: str) -> None:
    options = ["--json"] if form == "json" else []
    with kazoo_client(somewhere) as client, Command("top", *options, hosts=somewhere) as command:
        client.create("/a")
        command.out.expect("/  nobody contends|lines")
        one = client.create("/a/_c_x-latch-", b"one", ephemeral=True, sequence=True)
        command.out.expect("/a  one leads" if not options else '"began", "path": "/a"')
        client.delete(one)
        command.out.expect("/a  one is gone: nobody leads" if not options else '"vacant"')
        client.create("/b", acl=CLOSED)
        command.out.expect("may not read /b:" if not options else '"unreadable", "path": "/b"')
        client.delete("/b")
        command.out.expect("/b  is gone, or may" if not options else '"readable", "path": "/b"')
        command.signal(signal.SIGTERM)
        assert command.finish() == 0
        assert command.err.rest() == []


# --- on a terminal -------------------------------------------------------------------------------


@pytest.fixture
def terminal(somewhere: str) -> Iterator[Terminal]:
    with Terminal(somewhere) as terminal:
        yield terminal


@pytest.mark.exhaustive("needs tmux")
def test_terminal_is_drawn_resized_and_restored(terminal: Terminal, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        client.create("/a")
        first = client.create("/a/_c_x-latch-", "höst-1".encode(), ephemeral=True, sequence=True)
        client.create("/a/_c_y-latch-", b"host-2", ephemeral=True, sequence=True)
        terminal.type("echo before", "Enter")
        terminal.wait_for("before")
        terminal.type(f"{sys.executable} -m aiolead top", "Enter")
        screen = terminal.wait_for("connected")
        head = ["path", "type", "held", "by", "for", "token", "session"]
        assert screen[2].split() == head
        assert screen[3].split()[:3] == ["/a", "election", "höst-1"]
        assert screen[4].split()[:2] == ["1.", "host-2"]
        client.delete(first)
        terminal.wait_for("host-2 leads")
        assert any("\x1b[32m/a" in line for line in terminal.screen(colours=True))
        terminal.resize(30, 8)
        terminal.wait_for("UTC  ")
        terminal.resize(3, 2)
        terminal.wait_for("ai", line=0)
        terminal.resize(90, 20)
        terminal.wait_for("host-2 leads")
        terminal.type("C-c")
        # The screen from before the command is restored.
        terminal.wait_for("before")
        terminal.type("echo ended with $?", "Enter")
        terminal.wait_for("ended with 0")
        terminal.type(f"clear; {sys.executable} -m aiolead top", "Enter")
        terminal.wait_for("connected")
        # The legend, a filter with a q in it, a path's page, and the key that ends the command.
        terminal.type("?")
        terminal.wait_for("hide or show vacated paths")
        terminal.type("x", "/", "q")
        terminal.wait_for("filter: q_", line=1)
        terminal.wait_for("no path or holder matches the filter")
        terminal.type("BSpace", "Enter", "Down", "Enter")
        terminal.wait_for("/a  election  held", line=0)
        terminal.wait_for("events, newest first")
        terminal.type("Escape")
        terminal.wait_for("connected")
        terminal.type("x", "Up", "q")
        terminal.wait_for("$", line=0)
        terminal.type("stty -a | grep -o -w -e -icanon -e -echo; echo then $?", "Enter")
        # The terminal echoes and buffers lines again.
        screen = terminal.wait_for("then 1")
        assert screen[0].startswith("$ stty")


@pytest.mark.exhaustive("needs tmux")
def test_stopped_table_gives_the_terminal_back(terminal: Terminal, somewhere: str) -> None:
    with kazoo_client(somewhere, {"/a/_c_x-latch-": b"host-1"}):
        terminal.type("echo before", "Enter")
        terminal.wait_for("before")
        terminal.type(f"{sys.executable} -m aiolead top", "Enter")
        terminal.wait_for("connected")
        for _ in range(2):
            terminal.type("C-z")
            # The shell's screen, on which lines are typed and echoed.
            terminal.wait_stopped()
            terminal.type("stty -a | grep -o -w -e -icanon -e -echo; echo then $?", "Enter")
            screen = terminal.wait_for("then 1")
            assert not any("held by" in line for line in screen)
            terminal.type("clear; fg", "Enter")
            terminal.wait_for("connected")
            terminal.type("?")
            terminal.wait_for("hide or show vacated paths")
            terminal.type("x")
            terminal.wait_for("connected")
        terminal.type("C-z")
        terminal.wait_stopped()
        terminal.type("clear; bg", "Enter")
        # In the background, it leaves the terminal to the shell.
        terminal.type("echo is it $((20 + 1))", "Enter")
        screen = terminal.wait_for("is it 21")
        assert not any("held by" in line for line in screen)
        terminal.type("fg", "Enter")
        terminal.wait_for("connected")
        terminal.type("q")
        terminal.wait_for("is it 21")
        terminal.type("echo ended with $?", "Enter")
        terminal.wait_for("ended with 0")


@pytest.mark.parametrize("hangup", ["heeded", "ignored"])
def test_closed_terminal_ends_the_command(somewhere: str, hangup: str) -> None:
    master, slave = pty.openpty()
    env = environment(TERM="xterm", AIOLEAD_HOSTS=somewhere)
    process: ReadyProcess | subprocess.Popen[bytes]
    if hangup == "heeded":
        process = ReadyProcess(["top", "/nobody"], env, slave)
    else:
        # As under `nohup`: the first write to the terminal fails.
        script = f"trap '' HUP; exec {sys.executable} -m aiolead top /nobody"
        command = ["setsid", "--ctty", "sh", "-c", script]
        process = subprocess.Popen(command, env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    with killed_at_the_end(process):
        seen = b""
        while b"/nobody" not in seen:
            seen += os.read(master, 4096)
        os.close(master)
        code = process.wait(WITHIN)
    assert code in ((0, -signal.SIGHUP) if hangup == "heeded" else (-signal.SIGHUP,))

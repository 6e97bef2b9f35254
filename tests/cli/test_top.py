"""`aiolead top`."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import pytest
from cli.preforked import ReadyProcess
from kazoo.security import make_acl
from kit.cli import WITHIN, Command, Run, environment, kazoo_client
from rich.cells import cell_len

from aiolead.cli.scene import Scene
from aiolead.cli.server_inquiry import ClientConnection
from aiolead.cli.top_keys import LEGEND, TopControls, keys_in
from aiolead.cli.top_picture import Picture
from aiolead.model import SessionState, Stat

CLOSED = [make_acl("world", "anyone", delete=True)]
NOTHING = Stat(**dict.fromkeys(Stat._fields, 0))


def enter(scene: Scene, path: str, zxid: int, name: str) -> None:
    stat = NOTHING._replace(czxid=zxid, ephemeral_owner=zxid, ctime=1_000_000)
    scene.put(f"{path}/_c_x-latch-{zxid:010d}", stat, name.encode())


def leave(scene: Scene, path: str, zxid: int) -> None:
    scene.remove(f"{path}/_c_x-latch-{zxid:010d}")


@pytest.fixture
def scene() -> Scene:
    """Three elections, of which one is vacant and one has a silent leader; it is 1100."""
    scene = Scene(["/"])
    scene.set_session(SessionState.CONNECTED, 1, 1000.0)
    enter(scene, "/jobs/scheduler", 1, "host-1:4711")
    enter(scene, "/jobs/scheduler", 2, "host-2:815")
    enter(scene, "/jobs/mailer", 3, "host-1:4711")
    enter(scene, "/jobs/名前", 4, "\x1b[2Jevil")
    scene.settle(1010.0)
    leave(scene, "/jobs/mailer", 3)
    scene.settle(1040.0)
    leave(scene, "/jobs/scheduler", 1)
    scene.settle(1098.0)
    for at in (1090.0, 1099.0):
        scene.set_connected({2: ClientConnection()}, at)
    return scene


def drawn(scene: Scene, width: int = 100, height: int = 24) -> list[str]:
    picture = Picture(scene=scene, title="zk1/app")
    return [line.plain.rstrip() for line in picture.draw(1100.0, width, height)]


def test_all_of_it(scene: Scene) -> None:
    assert drawn(scene) == [
        "aiolead top  00:18:20Z  zk1/app  3 queues, 2 contenders",
        "",
        "path             held by      for           token  session",
        "/jobs/mailer     nobody       1 min 0 s",
        "/jobs/scheduler  host-2:815   2 s           2      connected",
        r"/jobs/名前       \x1b[2Jevil  < 1 min 40 s  4      silent 10 s",
        "",
        "00:17:20  /jobs/mailer  host-1:4711 is gone: nobody leads",
        "00:18:18  /jobs/scheduler  host-2:815 leads (token 2), after host-1:4711",
        r"00:18:19  /jobs/名前  \x1b[2Jevil has no connection, and still holds",
    ]


def test_what_is_the_matter_comes_first_where_there_is_little_room(scene: Scene) -> None:
    for n in range(20):
        enter(scene, f"/other/{n:02}", 100 + n, "well")
    enter(scene, "/jobs/scheduler", 200, "host-3")
    scene.settle(1099.5)
    lines = drawn(scene, 60, 12)
    assert len(lines) == 12
    first = ["/jobs/mailer", "/jobs/名前", "/other/00", "/other/01"]
    assert [line.split()[0] for line in lines[3:7]] == first
    assert lines[7] == "(19 more)"
    # What has changed last is always there.
    assert lines[-1].startswith("00:18:19  ")


def test_any_size(scene: Scene) -> None:
    """Nothing is wider or higher than the terminal, which may be too narrow for anything."""
    enter(scene, "/jobs/scheduler", 5, "x" * 200)
    scene.put("/jobs/scheduler/y-lock-0000000007", NOTHING._replace(czxid=7), None)
    scene.settle(1099.0)
    for width in range(101):
        for height in (0, 1, 2, 3, 5, 8, 13, 40):
            lines = drawn(scene, width, height)
            assert len(lines) <= height
            assert all(cell_len(line) <= width for line in lines), (width, lines)
    # Columns are there in full, or not at all; paths and names may be cut.
    assert drawn(scene, 30)[2].split() == ["path", "held", "by"]
    assert any("not all of these exclude each other" in line for line in drawn(scene, 200))
    assert any("waits" in line for line in drawn(scene, 100))


def test_characters_that_a_terminal_has_not(scene: Scene) -> None:
    picture = Picture(scene=scene, title="zk", can_show=str.isascii)
    text = "\n".join(line.plain for line in picture.draw(1100.0, 200, 24))
    assert text.isascii()
    assert r"/jobs/\u540d\u524d" in text


def press(picture: Picture, *keys: str) -> list[str]:
    """The lines on a terminal of 80 by 24, after some keys; each acts on what is shown."""
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


def test_keys_on_a_terminal_of_80_columns(scene: Scene) -> None:
    picture = Picture(scene, "zk1,zk2/app", controls=(controls := TopControls()))
    lines = press(picture)
    assert lines[0] == "aiolead top  00:18:20Z  zk1,zk2/app  3 queues, 2 contenders  ?: keys"
    legend = press(picture, "?")
    assert len(legend) == len(LEGEND)
    assert not any(line.endswith("..") for line in legend)
    assert press(picture, "x") == lines
    # By path at first, since there is room for all; then as it is asked for.
    assert table_of(lines) == ["/jobs/mailer", "/jobs/scheduler", "/jobs/名前"]
    assert table_of(press(picture, "s")) == ["/jobs/mailer", "/jobs/scheduler", "/jobs/名前"]
    assert controls.order == "path"
    assert table_of(press(picture, "s", "s")) == ["/jobs/scheduler", "/jobs/名前", "/jobs/mailer"]
    assert controls.order == "newest"
    assert table_of(press(picture, "v")) == ["/jobs/scheduler", "/jobs/名前"]
    assert press(picture)[1] == "sorted: newest  vacated paths hidden"
    assert table_of(press(picture, "v", "/", *"HOST-2", "enter")) == ["/jobs/scheduler"]
    assert press(picture)[1] == "filter: HOST-2  sorted: newest"
    # q is a character of a filter, and else the end.
    assert controls.press("/")
    assert controls.press("q")
    assert controls.text == "HOST-2q"
    assert controls.press("esc")
    assert controls.text == ""
    assert not controls.press("q")


def test_a_path_has_a_page(scene: Scene) -> None:
    for n in range(20):
        enter(scene, "/jobs/scheduler", 100 + n, f"waiting-{n}")
    scene.settle(1099.5)
    picture = Picture(scene, "zk", controls=(controls := TopControls()))
    lines = press(picture, "j", "j", "j", "enter")
    assert controls.selected == "/jobs/scheduler"
    assert lines[0] == "/jobs/scheduler  election  held"
    assert lines[1] == "  host-2:815  2 s  2  connected"
    assert lines[2].split()[:2] == ["1.", "waiting-0"]
    assert len(lines) == 24
    # It is scrolled as far as its end, and no further.
    lines = press(picture, "end")
    assert lines[-1].endswith("host-1:4711 waits") or "leads" in lines[-1]
    assert any(line.startswith("events") for line in press(picture, "page up"))
    assert press(picture, "home")[0] == "/jobs/scheduler  election  held"
    assert press(picture, "esc")[0].startswith("aiolead top")


def test_the_selection_is_always_visible(scene: Scene) -> None:
    for n in range(100):
        enter(scene, f"/other/{n:03}", 100 + n, "well")
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


def test_no_word_is_cut_on_80_columns(scene: Scene) -> None:
    """Names of a usual length; what happens is told on several lines where it is long."""
    enter(scene, "/jobs/scheduler", 9, "another-host.example:4711")
    leave(scene, "/jobs/scheduler", 2)
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
        (b"\x1b[1;5q", []),  # an unknown one, whose bytes are no keys
        (b"\x1bq", []),  # q with Alt
        (b"/a\x7f\r", ["/", "a", "backspace", "enter"]),
        ("hö".encode(), ["h", "ö"]),
    ],
)
def test_what_keys_send(typed: bytes, keys: list[str]) -> None:
    assert keys_in(typed) == keys


def test_while_the_link_is_lost(scene: Scene) -> None:
    scene.set_session(SessionState.SUSPENDED, 1, 1100.0)
    assert (
        drawn(scene)[1] == "no connection to the servers (suspended): this is the last known state"
    )
    scene.set_session(SessionState.CONNECTED, 1, 1100.0)
    assert drawn(scene)[1] == "reads ..."
    assert not any(drawn(Scene())[2:])


def test_what_may_not_be_read_is_told(scene: Scene) -> None:
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


def test_once(run: Run, hosts: str) -> None:
    with kazoo_client(hosts) as client:
        client.create("/a")
        client.create("/a/_c_x-latch-", b"one", ephemeral=True, sequence=True)
        client.create("/a/_c_y-latch-", b"t\x1bwo", ephemeral=True, sequence=True)
        code, out, err = run("top", "--once", hosts=hosts)
        assert (code, len(out), err) == (0, 1, [])
        assert "Z  /a  one leads (token " in out[0]
        assert out[0].endswith(r"; behind: t\x1bwo")
        code, out, err = run("top", "/a", "/nobody", "--once", "--json", hosts=hosts)
        assert (code, len(out), err) == (0, 1, [])
        everything = json.loads(out[0])
        assert everything["unreadable"] == []
        first, nobody = everything["lines"]
        assert [one["identity"] for one in first["contenders"]] == ["one", "t\x1bwo"]
        assert (nobody["path"], nobody["kind"], nobody["terms"]) == ("/nobody", None, [])
        client.create("/closed", acl=CLOSED)
        code, out, err = run("top", "--once", hosts=hosts)
        assert (code, len(out), err) == (0, 2, [])
        assert out[1].endswith("Z  may not read /closed: what is below is not known")
        code, out, err = run("top", "--once", "--max-znodes", "2", hosts=hosts)
        assert (code, err) == (0, [])
        assert out[-1].endswith("Z  not all znodes under / are shown: see --max-znodes")


@pytest.mark.parametrize("form", ["text", "json"])
def test_in_a_pipe(somewhere: str, form: str) -> None:
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


class Terminal:
    """A terminal that can be looked at: tmux, with a server of its own, and a shell in it."""

    def __init__(self, hosts: str) -> None:
        self._tmux = ["tmux", "-u", "-L", f"aiolead-{uuid.uuid4().hex}"]
        env = environment(
            AIOLEAD_HOSTS=hosts,
            LC_ALL="C.UTF-8",
            NO_COLOR="",
            PS1="$ ",
            HOME="/",
            # As some shells export them: they are not the size of the window.
            COLUMNS="80",
            LINES="24",
        )
        self._do(
            *("-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "20"),
            *("bash", "--norc", "--noprofile"),
            env=env,
        )

    def _do(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        return subprocess.run(
            [*self._tmux, *arguments],
            env=env,
            capture_output=True,
            check=True,
            timeout=WITHIN,
        ).stdout.decode()

    def type(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._do("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, *, colours: bool = False) -> list[str]:
        shown = self._do("capture-pane", "-p", *(["-e"] if colours else []))
        return [line.rstrip() for line in shown.splitlines()]

    def wait_for(self, text: str, line: int | None = None) -> list[str]:
        """Waits until the screen shows a text, or has it as one line; gives the screen."""
        deadline = time.monotonic() + WITHIN
        while True:
            screen = self.screen()
            if any(text in each for each in screen) if line is None else screen[line] == text:
                return screen
            assert time.monotonic() < deadline, "\n".join(self.screen(colours=True))
            time.sleep(0.05)

    def close(self) -> None:
        self._do("kill-server")


@pytest.fixture
def terminal(somewhere: str) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        if os.environ.get("AIOLEAD_REQUIRE_TMUX") == "1":
            pytest.fail("AIOLEAD_REQUIRE_TMUX=1, but there is no tmux", pytrace=False)
        pytest.skip("needs tmux")
    terminal = Terminal(somewhere)
    yield terminal
    terminal.close()


@pytest.mark.exhaustive("needs tmux")
def test_on_a_terminal(terminal: Terminal, somewhere: str) -> None:
    with kazoo_client(somewhere) as client:
        client.create("/a")
        first = client.create("/a/_c_x-latch-", "höst-1".encode(), ephemeral=True, sequence=True)
        client.create("/a/_c_y-latch-", b"host-2", ephemeral=True, sequence=True)
        terminal.type("echo before", "Enter")
        terminal.wait_for("before")
        terminal.type(f"{sys.executable} -m aiolead top", "Enter")
        screen = terminal.wait_for("connected")
        assert screen[2].split() == ["path", "held", "by", "for", "token", "session"]
        assert screen[3].split()[:2] == ["/a", "höst-1"]
        assert screen[4].split()[:2] == ["1.", "host-2"]
        client.delete(first)
        terminal.wait_for("host-2 leads")
        assert any("\x1b[32m/a" in line for line in terminal.screen(colours=True))
        terminal.resize(30, 8)
        terminal.wait_for("Z  127..")
        terminal.resize(3, 2)
        terminal.wait_for("ai", line=0)
        terminal.resize(90, 20)
        terminal.wait_for("host-2 leads")
        terminal.type("C-c")
        # It has not ended in disorder, and what was there before is there again.
        terminal.wait_for("before")
        terminal.type("echo ended with $?", "Enter")
        terminal.wait_for("ended with 0")
        terminal.type(f"clear; {sys.executable} -m aiolead top", "Enter")
        terminal.wait_for("connected")
        # The legend, a filter with a q in it, a path's page, and only then the key that ends it.
        terminal.type("?")
        terminal.wait_for("hide or show vacated paths")
        terminal.type("x", "/", "q")
        terminal.wait_for("filter: q_", line=1)
        terminal.wait_for("nobody contends for anything here")
        terminal.type("BSpace", "Enter", "Down", "Enter")
        terminal.wait_for("/a  election  held", line=0)
        terminal.wait_for("events, newest first")
        terminal.type("Escape")
        terminal.wait_for("connected")
        terminal.type("x", "Up", "q")
        terminal.wait_for("$", line=0)
        terminal.type("stty -a | grep -o -w -e -icanon -e -echo; echo then $?", "Enter")
        # What is typed is shown again, and a line at a time.
        screen = terminal.wait_for("then 1")
        assert screen[0].startswith("$ stty")


@pytest.mark.parametrize("hangup", ["heeded", "ignored"])
def test_a_terminal_that_is_closed(somewhere: str, hangup: str) -> None:
    """It ends, as anything that nobody looks at; not in disorder."""
    master, slave = pty.openpty()
    env = environment(TERM="xterm", AIOLEAD_HOSTS=somewhere)
    process: ReadyProcess | subprocess.Popen[bytes]
    if hangup == "heeded":
        process = ReadyProcess(["top", "/nobody"], env, slave)
    else:
        # As `nohup` has it: it comes to know by what it cannot write any more.
        script = f"trap '' HUP; exec {sys.executable} -m aiolead top /nobody"
        process = subprocess.Popen(
            ["setsid", "--ctty", "sh", "-c", script],
            env=env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
    os.close(slave)
    seen = b""
    while b"/nobody" not in seen:
        seen += os.read(master, 4096)
    os.close(master)
    try:
        code = process.wait(WITHIN)
    finally:
        process.kill()
    assert code in ((0, 128 + signal.SIGHUP) if hangup == "heeded" else (129,))

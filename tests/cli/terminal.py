"""A shell in a real terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Self

import pytest
from kit.checks import until
from kit.cli import WITHIN, environment


class Terminal:
    """A shell in a terminal of tmux, whose screen can be read."""

    def __init__(self, hosts: str, where: Path | None = None) -> None:
        if shutil.which("tmux") is None:
            if os.environ.get("AIOLEAD_REQUIRE_TMUX") == "1":
                pytest.fail("AIOLEAD_REQUIRE_TMUX=1, but there is no tmux", pytrace=False)
            pytest.skip("needs tmux")
        self._tmux = ["tmux", "-u", "-L", f"aiolead-{uuid.uuid4().hex}"]
        env = environment(
            AIOLEAD_HOSTS=hosts,
            LC_ALL="C.UTF-8",
            NO_COLOR="",
            PS1="$ ",
            HOME="/",
            # Some shells export them. They are not the size of the window.
            COLUMNS="80",
            LINES="24",
        )
        self._do(
            *("-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "20"),
            *(["-c", str(where)] if where is not None else []),
            *("bash", "--norc", "--noprofile"),
            env=env,
        )

    def _do(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        command = [*self._tmux, *arguments]
        done = subprocess.run(command, env=env, capture_output=True, check=True, timeout=WITHIN)
        return done.stdout.decode()

    def type(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._do("resize-window", "-x", str(width), "-y", str(height))

    def screen(self, *, colours: bool = False) -> list[str]:
        shown = self._do("capture-pane", "-p", *(["-e"] if colours else []))
        return [line.rstrip() for line in shown.splitlines()]

    def wait_for(self, text: str, line: int | None = None) -> list[str]:
        """Waits until the screen shows a text, or has it as one line; returns the screen."""
        shown: list[str] = []

        def is_shown() -> bool:
            shown[:] = self.screen()
            if line is not None:
                return shown[line] == text
            return any(text in each for each in shown)

        until(is_shown, f"{text} is shown")
        return shown

    def wait_stopped(self) -> None:
        """Waits as `OnTerminal.wait_stopped` does."""

        def is_ready() -> bool:
            screen = self.screen()
            stopped = [number for number, line in enumerate(screen) if "Stopped" in line]
            return bool(stopped) and "$" in screen[stopped[-1] + 1 :]

        until(is_ready, "the shell has its prompt behind the stopped job")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._do("kill-server")

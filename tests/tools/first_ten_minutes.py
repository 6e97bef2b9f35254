"""Follows the beginning of the tutorial, in an environment that has nothing but Python.

    first_ten_minutes.py WHEEL

The commands of the page are run as they are, and its files are saved as it says. Only the clone is
replaced by the wheel, and the server's port by a free one.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "getting-started.md"
CLONE = "git clone https://github.com/aiolead/aiolead\n"
FROM_THE_CLONE = '"./aiolead[cli]"'
SHOWN_PORT = "2181"
PATIENCE = 600
"""Ten minutes, in seconds."""

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def told() -> tuple[dict[str, str], str]:
    """The files that the page says to save, and its commands."""
    text = PAGE.read_text("utf-8")
    names = re.findall(r"ave this as `(\w+\.py)`", text)
    assert names == ["first.py", "test_first.py"], names
    # The other blocks are for an interactive session.
    codes = [code for kind, code in FENCE.findall(text) if kind == "python"][: len(names)]
    commands = "".join(code for kind, code in FENCE.findall(text) if kind == "sh")
    for name in names:
        assert name in commands, f"nothing is done with {name}"
    assert CLONE in commands
    assert FROM_THE_CLONE in commands
    commands = commands.replace(CLONE, "").replace(FROM_THE_CLONE, '"aiolead[cli]"')
    return dict(zip(names, codes, strict=True)), commands


def follow(wheel: Path, box: Path) -> None:
    """Does what the page says.

    Raises:
        subprocess.CalledProcessError: one of its commands failed.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    files, commands = told()
    for name, code in files.items():
        (box / name).write_text(code.replace(SHOWN_PORT, port))
    _, version, *_ = wheel.name.split("-")
    (box / "constraints.txt").write_text(f"aiolead == {version}\n")
    # `python3` is the Python that runs this, rather than that of its environment.
    (box / "bin").mkdir()
    (box / "bin" / "python3").symlink_to(getattr(sys, "_base_executable", sys.executable))
    kept = {name: os.environ[name] for name in os.environ if not name.startswith(("PYTHON", "AIO"))}
    environment = {
        **kept,
        "PATH": f"{box / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_FIND_LINKS": f"{wheel.resolve().parent} {os.environ.get('PIP_FIND_LINKS', '')}",
        "PIP_CONSTRAINT": str(box / "constraints.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_QUIET": "1",
    }
    script = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n" + commands.replace(
        SHOWN_PORT, port
    )
    subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=box,
        env=environment,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        check=True,
    )


def main() -> None:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as box:
        follow(Path(sys.argv[1]), Path(box))
    took = time.monotonic() - begin
    sys.stdout.write(f"The first ten minutes work, and took {took:.0f} seconds.\n")


if __name__ == "__main__":
    main()

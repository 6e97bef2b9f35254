"""The configuration file: options that nobody wants to type each time.

Flags override environment variables, which override the file. Options at its top are for all
commands that have them; a table is for the command of that name.

    hosts = "zk1,zk2,zk3/app"
    session-timeout = 15

    [run]
    grace = 2
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Any

from cyclopts import App
from cyclopts.argument import ArgumentCollection

from ..errors import ConfigurationError
from .environment import SECRET_OPTIONS
from .options import BASIC_OPTIONS, COMMON_OPTIONS, reading
from .output import Reporter


def default_files() -> tuple[Path, ...]:
    """The default places of the file: the user's, then the machine's."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    files = [Path("/etc/aiolead/config.toml")]
    with suppress(RuntimeError):  # neither HOME nor an entry for this user, as in many containers
        home = Path(base) if base.startswith("/") else Path("~/.config").expanduser()
        files.insert(0, home / "aiolead" / "config.toml")
    return tuple(files)


def fill_in_options(
    tables: AbstractSet[str], app: App, commands: tuple[str, ...], arguments: ArgumentCollection
) -> None:
    """Fill in options given nowhere else; raises `ConfigurationError` for an invalid file.

    cyclopts calls it after it has read the command line and the environment. `tables` are the names
    of all commands. A command without a connection takes only the basic options from the top
    of the file, even if it has another option of the same name.
    """
    options = {name.removeprefix("--") for argument in arguments for name in argument.names}
    if not commands or "config" not in options:
        return
    path = _chosen(arguments)
    if path is None:
        return
    content = _read(path)
    common = {
        name: value
        for name, value in content.items()
        if name not in tables or not isinstance(value, dict)
    }
    own = content.get(commands[0], {})
    if not isinstance(own, dict):
        raise ConfigurationError(f"--config: {path}: {commands[0]}: must be a table")
    _check(path, common, COMMON_OPTIONS, "")
    _check(path, own, options, f"[{commands[0]}] ")
    from cyclopts.config import Dict  # few have such a file

    meant = options if "hosts" in options else options & BASIC_OPTIONS
    if commands[0] == "demo":
        meant = meant & BASIC_OPTIONS  # it has a server of its own
    merged = {name: value for name, value in common.items() if name in meant} | own
    if not SECRET_OPTIONS.isdisjoint(merged) and (readers := _other_readers(path)):
        as_json, _, _ = arguments.match("--json")
        Reporter(as_json=as_json.has_tokens).error(f"{path} has credentials in it, and {readers}")
    Dict(data=merged, source=str(path), use_commands_as_keys=False)(app, commands, arguments)


def _chosen(arguments: ArgumentCollection) -> Path | None:
    """The file to read; None if there is none, and none was requested."""
    argument, _, _ = arguments.match("--config")
    if argument.tokens:
        return Path(argument.tokens[-1].value)
    return next((path for path in default_files() if path.is_file()), None)


def _other_readers(path: Path) -> str:
    """Say which other users may read a file and how to prevent it; empty if none may."""
    mode = path.stat().st_mode
    if mode & stat.S_IROTH:
        return "everybody can read it: chmod go-r"
    return "its group can read it: chmod g-r" if mode & stat.S_IRGRP else ""


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    with reading("--config", path):
        content = path.read_bytes()
    try:
        return _with_dashes(tomllib.loads(content.decode("utf-8-sig")))
    except RecursionError:
        raise ConfigurationError(f"--config: {path}: is nested too deeply") from None
    except ValueError as error:
        # Neither message shows any text of the file, which may be a password.
        why = "must be UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ConfigurationError(f"--config: {path}: {why}") from None


def _with_dashes(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name.replace("_", "-"): _with_dashes(value) if isinstance(value, dict) else value
        for name, value in content.items()
    }


def _check(path: Path, content: Mapping[str, Any], known: AbstractSet[str], where: str) -> None:
    for name, value in content.items():
        if name not in known:
            from difflib import get_close_matches

            close = "".join(f": {each}?" for each in get_close_matches(name, known, n=1))
            why = f"there is no such option{close}"
            raise ConfigurationError(f"--config: {path}: {where}{name}: {why}")
        if not isinstance(value, str | int | float):
            # Not shown: it may be, or contain, a password.
            raise ConfigurationError(f"--config: {path}: {where}{name}: must be text or a number")

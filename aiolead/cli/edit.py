"""`aiolead edit`: an editor on the data of a znode."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from .. import Client
from ..errors import BadVersionError
from ..model import Stat
from ..paths import basename
from . import exits, render
from .batches import sync_before
from .environment import without_credentials
from .exits import CommandError
from .options import COMMON, Common, ZnodePath


def edit(path: ZnodePath, /, *, common: Common = COMMON) -> int:
    """Open the data of a znode in an editor, and write them back.

    The editor is $VISUAL, else $EDITOR, else vi. The data are written only if the znode has not
    changed meanwhile. If they cannot be written, the edited text stays in a file that only you can
    read. A newline that the editor adds at the end is left out. Binary data are refused.

    With --json, what `stat` says afterwards.

    Args:
        path: The znode.
        common: Where to connect.
    """
    editor = _editor()
    found: list[tuple[bytes, Stat]] = []

    async def read(client: Client) -> None:
        sync_before(client, path)
        found.append(await client.get(path))

    # No session is open while the editor runs, which may take hours.
    if code := common.with_client(read):
        return code
    data, stat = found[0]
    if render.text_of(data) is None:
        size = render.plural(len(data), "byte")
        raise CommandError(f"{path}: its {size} are no text: use get and set --file", exits.FAILED)

    folder = Path(tempfile.mkdtemp(prefix="aiolead-"))  # for this user alone
    # Editors choose the syntax by the name.
    file = folder / (re.sub(r"[^\w.-]", "_", basename(path), flags=re.ASCII)[-80:] or "root")
    is_done = False
    try:
        file.write_bytes(data)
        _run(editor, file)
        edited = _edited(file, data)
        if edited == data:
            _report(common, path, stat, f"{path} was not changed")
            return exits.OK
        code = common.with_client(partial(_write, common, path, edited, stat))
        is_done = code == exits.OK
        return code
    finally:
        if is_done or _edited(file, data) == data:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            common.reporter.error(f"the edited text is in {file}", file=str(file))


def _editor() -> list[str]:
    """The command line of the editor, without the file."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        words = shlex.split(command)
    except ValueError:  # an open quotation mark
        words = []
    if not words or shutil.which(words[0]) is None:
        why = f"there is no editor {command!r}: set VISUAL or EDITOR"
        raise CommandError(why, exits.NOT_FOUND)
    return words


def _run(editor: Sequence[str], file: Path) -> None:
    """Run the editor in this process's group, so that Ctrl-Z and `fg` mean both."""
    # An editor takes keys such as Ctrl-C for itself. It would inherit signals that are ignored, but
    # not a handler.
    keys = (signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.signal(number, lambda *_: None) for number in keys}
    try:
        command = [*editor, str(file)]
        env = without_credentials(os.environ)
        code = subprocess.call(command, env=env)  # noqa: S603 - no shell
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise CommandError(f"the editor ended with {how}: nothing is written", exits.FAILED)


def _edited(file: Path, data: bytes) -> bytes:
    """The text that the editor has left; the `data` as they were if it has deleted the file."""
    try:
        edited = file.read_bytes()
    except FileNotFoundError:
        return data
    return edited if data.endswith(b"\n") else edited.removesuffix(b"\n")


async def _write(common: Common, path: str, edited: bytes, read: Stat, client: Client) -> None:
    changed = f"{path} has changed since it was read (version {read.version}): nothing is written"
    try:
        sync_before(client, path)
        _, now = await client.get(path)
        # The versions of a znode that was created again begin again.
        if now.czxid != read.czxid:
            raise CommandError(changed, exits.FAILED)
        now = await client.set(path, edited, version=read.version)
    except BadVersionError:
        raise CommandError(changed, exits.FAILED) from None
    _report(common, path, now, f"{path} has version {now.version}")


def _report(common: Common, path: str, stat: Stat, state: str) -> None:
    common.show({"path": path, **render.stat_as_json(stat)})
    common.note(state)

"""`aiolead run`."""

from __future__ import annotations

from .. import Election
from .options import COMMON, Common, Flag
from .run_while_held import RUN_OPTIONS, HeldCommand, RunOptions


def run(
    path: str,
    /,
    *command: str,
    forever: Flag = False,
    shell: Flag = False,
    options: RunOptions = RUN_OPTIONS,
    common: Common = COMMON,
) -> int:
    """Run a command only while leader.

    Waits for leadership, runs the command, and resigns when it has ended. SIGTERM, SIGINT and
    SIGHUP are passed on to it. If leadership is lost, the command gets SIGTERM, and its process
    group SIGKILL before the servers can let anybody else lead.

    The command finds in its environment: AIOLEAD_PATH, AIOLEAD_NODE, AIOLEAD_ID, AIOLEAD_TOKEN (the
    fencing token), AIOLEAD_SESSION, AIOLEAD_CONNECT. It does not find the variables that hold
    credentials (AIOLEAD_AUTH, AIOLEAD_SASL, AIOLEAD_TLS_KEY_PASSWORD, AIOLEAD_DASHBOARD_TOKEN),
    but for --pass-credentials.

    Exits with the command's own code (128 + n for a signal); 2 usage, 69 no server, 74 leadership
    lost, 77 not allowed, 126 and 127 if there is no such command.

    Args:
        path: The path of the election, such as /jobs/scheduler.
        command: The command and its arguments, after "--". No shell is involved, but for --shell.
        forever: Contend again when leadership was lost, or the command has ended.
        shell: The command is one argument, for /bin/sh.
        options: How to run it.
        common: Where to connect.
    """
    return HeldCommand(
        path=path,
        verb="leads",
        noun="leadership of",
        acquire=lambda client: Election(client, path, identity=options.id).leadership(),
        command=command,
        shell=shell,
        options=options,
        forever=forever,
    ).run(common)

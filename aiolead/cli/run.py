"""`aiolead run`."""

from __future__ import annotations

from .. import Election
from . import exits
from .options import COMMON, Common, Flag, Seconds
from .run_while_held import Job, keep

__all__ = ["run"]


def run(
    path: str,
    /,
    *command: str,
    id: str | None = None,  # noqa: A002 - the name of the option
    forever: Flag = False,
    shell: Flag = False,
    pass_credentials: Flag = False,
    grace: Seconds | None = None,
    lost_exit_code: int = exits.LOST,
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
        path: What is contended for, such as /jobs/scheduler.
        command: The command and its arguments, after "--". No shell is involved, but for --shell.
        id: What others see as the leader. Default: host name and process id.
        forever: Contend again when leadership was lost, or the command has ended.
        shell: The command is one argument, for /bin/sh.
        pass_credentials: The command finds the credentials in its environment, as we have them.
        grace: How long the command has after SIGTERM when leadership is lost, in seconds: a quarter
            of the session timeout at most. Default: a tenth.
        lost_exit_code: What to exit with when leadership was lost while the command ran.
        common: Where to connect.
    """
    job = Job(
        path=path,
        verb="leads",
        noun="leadership of",
        hold=lambda client: Election(client, path, identity=id).leadership(),
        command=command,
        shell=shell,
        pass_credentials=pass_credentials,
        grace=grace,
        forever=forever,
        lost=lost_exit_code,
    )
    return keep(job, common)

"""Process 1 of a container: what an init process does, for a command that has none."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from . import exits

_FROM_KERNEL = 128
"""`si_code` of signals of the terminal, which the other processes get from it, too."""
_JOB_CONTROL = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}


def leave_process_1() -> None:
    """Return in a child if this is process 1, which then passes signals on, and reaps orphans.

    Process 1 exits with the child's code, or 128 + n if signal n ended the child.
    """
    if os.getpid() != 1:
        return
    handled = signal.valid_signals() - _FAULTS
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # The sockets that podman passes are for one process alone.
        if os.environ.get("LISTEN_PID") == "1":
            os.environ["LISTEN_PID"] = str(os.getpid())
        return
    while True:
        came = signal.sigwaitinfo(handled)
        if came.si_signo != signal.SIGCHLD:
            if came.si_code != _FROM_KERNEL and came.si_signo not in _JOB_CONTROL:
                with suppress(ProcessLookupError):
                    os.kill(child, came.si_signo)
            continue
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    os._exit(exits.of_process(os.waitstatus_to_exitcode(ended[1])))

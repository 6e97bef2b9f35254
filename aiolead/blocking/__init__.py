"""aiolead for programs without an event loop: the same names, called and entered from threads.

    from aiolead import blocking

    with blocking.connect("zk1,zk2,zk3/app") as client:
        lock = blocking.Lock(client, "/invoices")
        with lock as held:
            for invoice in invoices:
                held.check()
                send(invoice)

An event loop runs in a thread of its own, and in it the client and the recipes of `aiolead`; what
is here only has them do something, and waits. A thread cannot be cancelled: `held.check()`,
`held.lost` and `on_lost` tell it of a loss.
"""

from ._client import Client
from ._connect import Connection, ConnectOptions, connect
from ._context import HoldContext
from ._election import Election
from ._fence import Fence, Transaction
from ._locks import (
    ExclusiveLock,
    Lock,
    ReadLock,
    ReadWriteLock,
    ReentrantLock,
    Semaphore,
    WriteLock,
)
from ._tenure import Held, Tenure, Term, WriteHeld

__all__ = [
    "Client",
    "ConnectOptions",
    "Connection",
    "Election",
    "ExclusiveLock",
    "Fence",
    "Held",
    "HoldContext",
    "Lock",
    "ReadLock",
    "ReadWriteLock",
    "ReentrantLock",
    "Semaphore",
    "Tenure",
    "Term",
    "Transaction",
    "WriteHeld",
    "WriteLock",
    "connect",
]

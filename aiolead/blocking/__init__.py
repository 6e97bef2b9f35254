"""aiolead for programs without an event loop: the same names, called and entered from threads.

    from aiolead import blocking

    with blocking.connect("zk1,zk2,zk3/app") as client:
        lock = blocking.Lock(client, "/invoices")
        with lock as held:
            for invoice in invoices:
                held.check()
                send(invoice)

The client and the recipes of `aiolead` run in an event loop in a thread of its own. The classes
here are made from theirs (`_mirror.py`); `__init__.pyi` describes them to type checkers. Nothing
cancels a thread: `held.check()`, `held.lost` and `on_lost` report a loss.
"""

import importlib

from ._connect import Connection as Connection
from ._connect import connect as connect
from ._mirror import NAMES, mirrored

__all__ = sorted([*NAMES, "Connection", "connect"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name == "admin":
        return importlib.import_module(f"{__name__}.admin")
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    globals()[name] = mirrored(name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES, "admin"})

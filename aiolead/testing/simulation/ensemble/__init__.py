"""The model of a ZooKeeper ensemble, on callbacks alone: no tasks, no I/O.

A `Server` has a disk (`replica`, `log`) and, while it runs, a process (`life`), clients (`clients`,
`pipeline`), a part in elections (`looking`) and a role: `following` or `leading`, the latter with
its `learners` and its `broadcast`. What servers say to each other is in `messages`; what is true of
them all together is told through `facts`.
"""

from .facts import OnFact
from .model import Ensemble
from .omissions import Omission
from .pipeline import WRITES
from .server import Server
from .settings import EnsembleSettings

__all__ = ["WRITES", "Ensemble", "EnsembleSettings", "Omission", "OnFact", "Server"]

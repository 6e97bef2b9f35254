"""The model of a ZooKeeper ensemble, on callbacks alone: no tasks, no I/O.

A `Server` has a disk (`replica`, `log`) and, while it runs, a process (`life`), clients (`clients`,
`pipeline`), a part in elections (`looking`) and a role: `following` or `leading`, the latter with
its `learners` and its `broadcast`. The messages between servers are in `messages`; facts about the
ensemble as a whole are reported through `facts`.
"""

from .facts import OnFact
from .model import Ensemble
from .omissions import Omission
from .pipeline import WRITES
from .server import Server
from .settings import EnsembleSettings

__all__ = ["WRITES", "Ensemble", "EnsembleSettings", "Omission", "OnFact", "Server"]

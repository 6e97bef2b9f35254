"""Servers for tests, demos and development: real ones and an embedded one."""

from .._client.connect_options import Hooks as Hooks
from .._wire.codes import OpCode as OpCode
from .embedded import EmbeddedServer as EmbeddedServer
from .embedded import SessionInfo as SessionInfo
from .ensemble import BlockingEnsemble as BlockingEnsemble
from .ensemble import Ensemble as Ensemble
from .installation import Installation as Installation
from .installation import ZooKeeperNotFoundError as ZooKeeperNotFoundError
from .installation import find_installation as find_installation
from .installation import find_installations as find_installations
from .launch import LaunchError as LaunchError
from .memory_proxy import MemoryHeldReply as MemoryHeldReply
from .memory_proxy import MemoryProxy as MemoryProxy
from .proxy import FaultProxy as FaultProxy
from .proxy import HeldReply as HeldReply
from .sandbox import EnsembleSandbox as EnsembleSandbox
from .sandbox import GivenServer as GivenServer
from .sandbox import Sandbox as Sandbox
from .servers import BlockingServer as BlockingServer
from .servers import ZooKeeperServer as ZooKeeperServer
from .threaded import ThreadedServer as ThreadedServer

__all__ = [
    "BlockingEnsemble",
    "BlockingServer",
    "EmbeddedServer",
    "Ensemble",
    "EnsembleSandbox",
    "FaultProxy",
    "GivenServer",
    "HeldReply",
    "Hooks",
    "Installation",
    "LaunchError",
    "MemoryHeldReply",
    "MemoryProxy",
    "OpCode",
    "Sandbox",
    "SessionInfo",
    "ThreadedServer",
    "ZooKeeperNotFoundError",
    "ZooKeeperServer",
    "find_installation",
    "find_installations",
]

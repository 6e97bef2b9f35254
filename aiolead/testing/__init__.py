"""What tests, demos and development need: servers to talk to, real ones and an embedded one."""

from .._wire.codes import OpCode as OpCode
from .embedded import EmbeddedServer as EmbeddedServer
from .embedded import SessionInfo as SessionInfo
from .threaded import ThreadedServer as ThreadedServer

__all__ = ["EmbeddedServer", "OpCode", "SessionInfo", "ThreadedServer"]

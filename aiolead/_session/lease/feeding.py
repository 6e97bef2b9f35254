"""Whether the leader collects the touches of a connection from its server itself.

A server may be an observer that a follower feeds (`observerMasterPort`, ZooKeeper 3.6 and newer):
then the proof takes two rounds (see `proof`). No answer says so, but a server shows the ensemble's
configuration as `/zookeeper/config`, and an observer is listed there, at least by itself. So one
read on the session's own connection tells:

the answer                                           the proof takes
a configuration without observers                    one round
no such znode, or no content: a single server, the   one round
  embedded server, or one older than 3.5, where
  followers feed nobody
a configuration with observers: any of them might    two rounds
  be ours
none yet, a refusal, or something unreadable         two rounds
"""

from __future__ import annotations

from collections.abc import Callable

from ..._wire.codes import OpCode
from ..._wire.config_text import CONFIG_PATH, parse_config
from ..._wire.framing import encode_body
from ..._wire.jute import Reader
from ..._wire.replies import DataReply
from ..._wire.requests import GetData
from ...errors import NoAuthError, NoNodeError, RemoteWireError
from ..requests.call import QUESTION, Call
from ..requests.request_queue import RequestQueue


class Feeding:
    """The question to each connection's server, asked when a lease depends on the answer.

    `on_direct` is called when the answer says that one round is enough on this connection.
    """

    def __init__(self, requests: RequestQueue, on_direct: Callable[[], object]) -> None:
        self._requests = requests
        self._on_direct = on_direct
        self._is_asked = False

    def connection_lost(self) -> None:
        self._is_asked = False

    def ask(self, now: float) -> None:
        """Queue the question ahead of the users' requests, unless it was asked here already."""
        if self._is_asked:
            return
        self._is_asked = True
        body = encode_body(GetData(CONFIG_PATH))
        call = Call(OpCode.GET_DATA, body, _has_observers, kind=QUESTION, path=CONFIG_PATH)
        call.add_done_callback(lambda: self._answered(call))
        self._requests.enqueue_first(call, now)

    def _answered(self, call: Call[bool]) -> None:
        error = call.error()
        if isinstance(error, NoNodeError) or (error is None and not call.result()):
            self._on_direct()
        elif error is not None and not isinstance(error, NoAuthError):
            self._is_asked = False  # refused for a while, or lost with its connection


def _has_observers(r: Reader) -> bool:
    data = DataReply.read(r).data or b""
    try:
        return any(server.is_observer for server in parse_config(data).servers)
    except RemoteWireError:
        return True  # of a later version: nothing is known

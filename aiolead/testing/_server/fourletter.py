"""The four letter words: what an operator types into a fresh connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .connection import Connection

if TYPE_CHECKING:
    from .core import Core


def answer(word: str, core: Core) -> bytes:
    """The text for one of `WORDS`."""
    return WORDS[word](core).encode()


def _ruok(_: Core) -> str:
    return "imok"


def _isro(core: Core) -> str:
    return "ro" if core.is_read_only else "rw"


def _version(core: Core) -> str:
    return core.settings.full_version("embedded")


def _envi(core: Core) -> str:
    return f"Environment:\nzookeeper.version={_version(core)}\n"


def _conf(core: Core) -> str:
    settings = core.settings
    return _lines(
        {
            "tickTime": settings.tick_ms,
            "maxClientCnxns": settings.max_connections,
            "minSessionTimeout": settings.min_session_ms,
            "maxSessionTimeout": settings.max_session_ms,
            "serverId": 0,
        },
        "=",
    )


def _srvr(core: Core) -> str:
    return f"{core.settings.title} version: {_version(core)}\n{_state(core)}"


def _stat(core: Core) -> str:
    clients = "".join(f"{_describe(connection)})\n" for connection in core.connections)
    return f"{core.settings.title} version: {_version(core)}\nClients:\n{clients}\n{_state(core)}"


def _state(core: Core) -> str:
    traffic = core.traffic
    return _lines(
        {
            "Latency min/avg/max": "0/0.0/0",
            "Received": traffic.packets_in,
            "Sent": traffic.packets_out,
            "Connections": len(core.connections),
            "Outstanding": 0,
            "Zxid": f"{core.processor.zxid:#x}",
            "Mode": _mode(core),
            "Node count": len(core.processor.tree),
        },
        ": ",
    )


def _mode(core: Core) -> str:
    return "read-only" if core.is_read_only else "standalone"


def _cons(core: Core) -> str:
    lines = [
        f"{_describe(connection)},sid={connection.session_id:#x},lop={connection.last_op},"
        f"to={connection.timeout_ms})\n"
        if connection.is_established
        else f"{_describe(connection)})\n"
        for connection in core.connections
    ]
    return "".join(lines) + "\n"


def _mntr(core: Core) -> str:
    tree, traffic = core.processor.tree, core.traffic
    return _lines(
        {
            "zk_version": _version(core),
            "zk_server_state": _mode(core),
            "zk_avg_latency": 0.0,
            "zk_packets_received": traffic.packets_in,
            "zk_packets_sent": traffic.packets_out,
            "zk_num_alive_connections": len(core.connections),
            "zk_outstanding_requests": 0,
            "zk_znode_count": len(tree),
            "zk_watch_count": len(core.processor.watches),
            "zk_ephemerals_count": tree.ephemeral_count,
            "zk_approximate_data_size": tree.approximate_bytes,
            "zk_global_sessions": len(core.sessions),
        },
        "\t",
    )


def _wchs(core: Core) -> str:
    watchers, paths, total = core.processor.watches.summary()
    return f"{watchers} connections watching {paths} paths\nTotal watches:{total}\n"


def _describe(connection: Connection) -> str:
    return (
        f" /{connection.address}[1](queued=0,recved={connection.packets_in},"
        f"sent={connection.packets_out}"
    )


def _lines(values: dict[str, object], separator: str) -> str:
    return "".join(f"{name}{separator}{value}\n" for name, value in values.items())


WORDS: dict[str, Callable[[Core], str]] = {
    "conf": _conf,
    "cons": _cons,
    "envi": _envi,
    "isro": _isro,
    "mntr": _mntr,
    "ruok": _ruok,
    "srvr": _srvr,
    "stat": _stat,
    "wchs": _wchs,
}

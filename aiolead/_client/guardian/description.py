"""The description that a session guardian gets: the session, and how to reach its servers."""

from __future__ import annotations

import os
import ssl
from typing import Any

from ..core import Core
from ..net.opener import Opener
from ..net.supervisor import Supervisor
from ..net.tls import TLS


def describe(
    core: Core, supervisor: Supervisor, opener: Opener, tls: TLS | ssl.SSLContext | None
) -> dict[str, Any]:
    """The fields are those of `docs/explanation/guardian.md`; some are secret."""
    machine = core.machine
    credentials = machine.credentials
    if (
        credentials is None
        or machine.is_resuming  # it belongs to another process until a server has resumed it
        or credentials.session_id == core.detached
    ):
        return {"session": 0}
    return {
        "session": credentials.session_id,
        "password": credentials.password.hex(),
        "timeout": credentials.timeout,
        "servers": [
            [address, port, opener.certificate_name(host)]
            for address, (host, port) in supervisor.servers()
        ],
        "auth": [packet.hex() for packet in machine.login.packets],
        "tls": _describe_tls(tls) if isinstance(tls, TLS) else None,
    }


def _describe_tls(tls: TLS) -> dict[str, Any]:
    def absolute(name: str) -> str | None:
        path = getattr(tls, name)
        return None if path is None else os.path.abspath(os.fspath(path))  # noqa: PTH100 - no pathlib

    return {
        **{name: absolute(name) for name in ("ca", "cert", "key")},
        "password": tls.password,
        "check_hostname": tls.check_hostname,
    }

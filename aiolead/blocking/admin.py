"""The calls of operators for threads: the functions of `aiolead.admin`, on a blocking client.

    from aiolead.blocking import admin

    admin.delete_all(client, "/app")

Each waits for the answer, and raises what that of `aiolead.admin` raises.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import aiolead

from .. import admin
from .._util.escaping import described
from ..errors import ConfigurationError
from ..model import EnsembleConfig, Identity, Quota, QuotaUsage, ServerSpec
from ._proxy import ClientBase

if TYPE_CHECKING:
    from . import Client

T = TypeVar("T")

__all__ = [
    "delete_all",
    "delete_quota",
    "get_config",
    "get_ephemerals",
    "get_quota",
    "reconfig",
    "set_quota",
    "whoami",
]


def get_ephemerals(client: Client, prefix: str = "/") -> list[str]:
    """See `aiolead.admin.get_ephemerals`."""
    return _call(client, lambda c: admin.get_ephemerals(c, prefix))


def whoami(client: Client) -> list[Identity]:
    """See `aiolead.admin.whoami`."""
    return _call(client, admin.whoami)


def get_config(client: Client) -> EnsembleConfig:
    """See `aiolead.admin.get_config`."""
    return _call(client, admin.get_config)


def reconfig(
    client: Client,
    *,
    joining: Sequence[ServerSpec | str] = (),
    leaving: Sequence[int] = (),
    members: Sequence[ServerSpec | str] | None = None,
    version: int = -1,
) -> EnsembleConfig:
    """See `aiolead.admin.reconfig`."""
    return _call(
        client,
        lambda c: admin.reconfig(
            c, joining=joining, leaving=leaving, members=members, version=version
        ),
    )


def get_quota(client: Client, path: str) -> tuple[Quota, QuotaUsage] | None:
    """See `aiolead.admin.get_quota`."""
    return _call(client, lambda c: admin.get_quota(c, path))


def set_quota(client: Client, path: str, quota: Quota) -> None:
    """See `aiolead.admin.set_quota`."""
    _call(client, lambda c: admin.set_quota(c, path, quota))


def delete_quota(client: Client, path: str) -> None:
    """See `aiolead.admin.delete_quota`."""
    _call(client, lambda c: admin.delete_quota(c, path))


def delete_all(client: Client, path: str) -> int:
    """See `aiolead.admin.delete_all`."""
    return _call(client, lambda c: admin.delete_all(c, path))


def _call(client: Client, act: Callable[[aiolead.Client], Awaitable[T]]) -> T:
    if not isinstance(client, ClientBase):
        raise ConfigurationError(
            f"client: must be a client of aiolead.blocking, not {described(client)} (event loops "
            "call the functions of aiolead.admin)"
        )
    return client.call(act)

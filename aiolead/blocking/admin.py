"""The calls of operators for threads: the functions of `aiolead.admin`, on a blocking client.

    from aiolead.blocking import admin

    admin.delete_all(client, "/app")

Each waits for the answer, and raises what that of `aiolead.admin` raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import admin
from ..model import EnsembleConfig, Identity, Quota, QuotaUsage, ServerSpec

if TYPE_CHECKING:
    from . import Client

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
    return client.call(lambda c: admin.get_ephemerals(c, prefix))


def whoami(client: Client) -> list[Identity]:
    """See `aiolead.admin.whoami`."""
    return client.call(admin.whoami)


def get_config(client: Client) -> EnsembleConfig:
    """See `aiolead.admin.get_config`."""
    return client.call(admin.get_config)


def reconfig(
    client: Client,
    *,
    joining: Sequence[ServerSpec | str] = (),
    leaving: Sequence[int] = (),
    members: Sequence[ServerSpec | str] | None = None,
    version: int = -1,
) -> EnsembleConfig:
    """See `aiolead.admin.reconfig`."""
    return client.call(
        lambda c: admin.reconfig(
            c, joining=joining, leaving=leaving, members=members, version=version
        )
    )


def get_quota(client: Client, path: str) -> tuple[Quota, QuotaUsage] | None:
    """See `aiolead.admin.get_quota`."""
    return client.call(lambda c: admin.get_quota(c, path))


def set_quota(client: Client, path: str, quota: Quota) -> None:
    """See `aiolead.admin.set_quota`."""
    client.call(lambda c: admin.set_quota(c, path, quota))


def delete_quota(client: Client, path: str) -> None:
    """See `aiolead.admin.delete_quota`."""
    client.call(lambda c: admin.delete_quota(c, path))


def delete_all(client: Client, path: str) -> int:
    """See `aiolead.admin.delete_all`."""
    return client.call(lambda c: admin.delete_all(c, path))

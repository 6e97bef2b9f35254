"""The environment variables that the command reads, and which of them are secret. Pure.

This is the only list: `variable` refuses others, so that none is added without that decision.
Commands run by `run` or `lock` get no secret variables by default.
"""

from __future__ import annotations

from collections.abc import Mapping

SECRET: Mapping[str, str | None] = {
    "AIOLEAD_AUTH": "auth",
    "AIOLEAD_DASHBOARD_TOKEN": "token",
    "AIOLEAD_SASL": "sasl",
    "AIOLEAD_TLS_KEY_PASSWORD": None,
}
"""Variables whose value grants access, and the option of the same meaning, if any."""

PLAIN: frozenset[str] = frozenset(
    {
        "AIOLEAD_BACKEND",
        "AIOLEAD_CONFIG",
        "AIOLEAD_CONNECT_TIMEOUT",
        "AIOLEAD_DEBUG",
        "AIOLEAD_DEFAULT_ACL",
        "AIOLEAD_ENGINE",
        "AIOLEAD_HOSTS",
        "AIOLEAD_SERVER_VERSION",
        "AIOLEAD_SESSION_TIMEOUT",
        "AIOLEAD_TLS",
        "AIOLEAD_TLS_CA",
        "AIOLEAD_TLS_CERT",
        "AIOLEAD_TLS_HOSTNAME",
        "AIOLEAD_TLS_KEY",
    }
)
"""Variables that anybody may know. Those of files hold paths, not contents."""

GIVEN: frozenset[str] = frozenset(
    f"AIOLEAD_{what}" for what in ("PATH", "NODE", "ID", "TOKEN", "SESSION", "CONNECT")
)
"""Variables that `run`, `lock` and `once` give to their commands."""

_PREFIX = "AIOLEAD_"

SECRET_OPTIONS: frozenset[str] = frozenset(option for option in SECRET.values() if option)
"""Options with secret values, without their dashes."""


def variable(name: str) -> str:
    """The name of a listed variable; raises `KeyError` if it is not listed."""
    if name not in PLAIN and name not in SECRET:
        raise KeyError(f"{name}: say in {__name__} whether it is secret")
    return name


def misspelled(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that nothing reads, each with the one that was probably meant."""
    unread = [
        name
        for name in environ
        if name.startswith(_PREFIX) and not (name in PLAIN or name in SECRET or name in GIVEN)
    ]
    if not unread:
        return {}
    from difflib import get_close_matches  # seldom needed

    known = [name.removeprefix(_PREFIX) for name in sorted(PLAIN | SECRET.keys())]
    found = {
        name: get_close_matches(name.removeprefix(_PREFIX), known, n=1, cutoff=0.8)
        for name in unread
    }
    return {name: _PREFIX + meant[0] for name, meant in found.items() if meant}


def without_credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without the secret variables."""
    return {name: value for name, value in environ.items() if name not in SECRET}

"""The environment variables that the command reads, and which of them are secret. Pure.

The only list: a command run by `run` or `lock` gets none of the secret variables, and `variable`
refuses one that is not listed, so that no variable is added without this decision.
"""

from __future__ import annotations

from collections.abc import Mapping

SECRET: Mapping[str, str | None] = {
    "AIOLEAD_AUTH": "auth",
    "AIOLEAD_DASHBOARD_TOKEN": "token",
    "AIOLEAD_SASL": "sasl",
    "AIOLEAD_TLS_KEY_PASSWORD": None,
}
"""Variables whose value grants access, and the option of the same meaning, if there is one."""

PLAIN: frozenset[str] = frozenset(
    {
        "AIOLEAD_BACKEND",
        "AIOLEAD_CONFIG",
        "AIOLEAD_CONNECT_TIMEOUT",
        "AIOLEAD_DEBUG",
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

SECRET_OPTIONS: frozenset[str] = frozenset(option for option in SECRET.values() if option)
"""The options with secret values, without their dashes."""


def variable(name: str) -> str:
    """The name of a listed variable; raises `KeyError` if it is not listed."""
    if name not in PLAIN and name not in SECRET:
        raise KeyError(f"{name}: say in {__name__} whether it is secret")
    return name


def without_credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without the secret variables."""
    return {name: value for name, value in environ.items() if name not in SECRET}

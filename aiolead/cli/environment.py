"""The environment variables that the command reads, and which of them are secret. Pure.

The one list: the commands that `run` and `lock` start get none of the secret ones, and the
configuration file is checked for the options that go with them. A variable that is not listed
cannot be used: `variable` refuses it. So nobody adds one without saying whether it is secret.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["PLAIN", "SECRET", "SECRET_OPTIONS", "variable", "without_credentials"]

SECRET: Mapping[str, str | None] = {
    "AIOLEAD_AUTH": "auth",
    "AIOLEAD_DASHBOARD_TOKEN": "token",
    "AIOLEAD_SASL": "sasl",
    "AIOLEAD_TLS_KEY_PASSWORD": None,
}
"""Variables whose value lets in whoever knows it, with the option that is the same; None if there
is no such option."""

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
"""Variables that anybody may know. Those of files name the files: not what is in them."""

SECRET_OPTIONS: frozenset[str] = frozenset(option for option in SECRET.values() if option)
"""The options with secret values, without their dashes."""


def variable(name: str) -> str:
    """The name of a variable, if it is listed above.

    Raises:
        KeyError: it is not.
    """
    if name not in PLAIN and name not in SECRET:
        raise KeyError(f"{name}: say in {__name__} whether it is secret")
    return name


def without_credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment, less the secret variables."""
    return {name: value for name, value in environ.items() if name not in SECRET}

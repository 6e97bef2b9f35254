"""An instance of a service, and its JSON as in Curator's service discovery."""

from __future__ import annotations

import enum
import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ..._util.escaping import described
from ..._util.parsing import MalformedError, check_json, json_object, real, shown
from ...errors import ConfigurationError
from .._core.arguments import checked_name, checked_number

if TYPE_CHECKING:
    JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
else:
    JSON = object  # tools that evaluate types at run time would recurse
"""A value in JSON."""

_MOST = 1e100
"""Greatest weight and load: strategies add and divide them, and need finite results."""

_LAST_TIME = (1 << 53) / 1000
"""Latest registration, in seconds since 1970: `float` and Java's `long` have every ms up to it."""

_SHOWN = 200
"""Most characters shown of an error about what others have registered."""


class ServiceType(enum.Enum):
    """How long an instance stays registered."""

    DYNAMIC = "DYNAMIC"
    """As long as its process lives: all that aiolead registers."""
    STATIC = "STATIC"
    PERMANENT = "PERMANENT"
    DYNAMIC_SEQUENTIAL = "DYNAMIC_SEQUENTIAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInstance:
    """One process, or one of its ports, that offers a service.

    Attributes:
        name: of the service.
        id: of the instance, unique in the service; defaults to a random UUID.
        address: host name or address.
        port: without TLS.
        ssl_port: with TLS.
        payload: anything else for clients: any JSON value but a list, which Curator cannot read. An
            object that represents a Java class carries its name as `@class`.
        registered_at: when it was registered, by its wall clock, in seconds since 1970.
        service_type: how long it stays.
        uri_spec: how to reach it, such as `{scheme}://{address}:{port}/api`; see `uri`.
        enabled: whether it accepts requests.
        weight: its relative share of the requests, from 0 to 1e100. Curator ignores it.
        load: its published load, from 0 to 1e100, in a unit that all instances share; None if it
            publishes none. Curator ignores it.

    Raises:
        ConfigurationError: an attribute is malformed.
    """

    name: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    address: str | None = None
    port: int | None = None
    ssl_port: int | None = None
    payload: JSON = None
    registered_at: float = field(default_factory=time.time)
    service_type: ServiceType = ServiceType.DYNAMIC
    uri_spec: str | None = None
    enabled: bool = True
    weight: float = 1.0
    load: float | None = None

    def __post_init__(self) -> None:
        checked_name("name", self.name)
        checked_name("id", self.id)
        for name in ("address", "uri_spec"):
            text = getattr(self, name)
            if text is not None and not isinstance(text, str):
                raise ConfigurationError(f"{name}: must be a str or None, not {text!r}")
        for name in ("port", "ssl_port"):
            port = getattr(self, name)
            if port is not None and not (_is_int(port) and 0 <= port <= 0xFFFF):
                raise ConfigurationError(
                    f"{name}: must be from 0 to 65535, or None, not {described(port)}"
                )
        checked_number("weight", self.weight, most=_MOST)
        at = checked_number("registered_at", self.registered_at, most=_LAST_TIME)
        milliseconds = round(at * 1000)
        object.__setattr__(self, "registered_at", milliseconds / 1000)  # as it is written
        if self.load is not None:
            checked_number("load", self.load, most=_MOST)
        if not isinstance(self.enabled, bool):
            raise ConfigurationError(f"enabled: must be a bool, not {self.enabled!r}")
        if not isinstance(self.service_type, ServiceType):
            raise ConfigurationError(
                f"service_type: must be a ServiceType, not {self.service_type!r}"
            )
        if isinstance(self.payload, (list, tuple)) and not _is_wrapped(self.payload):
            raise ConfigurationError("payload: must not be a list: put it into a dict")

    def __hash__(self) -> int:
        return hash((self.name, self.id))

    # --- JSON ----------------------------------------------------------------------------------

    def to_json(self) -> bytes:
        """Encode the instance as Curator's `JsonInstanceSerializer` does.

        `enabled`, `weight` and `load` are omitted if they have their defaults; Curator reads only
        the first. Raises `ConfigurationError` if the payload cannot be written as JSON.
        """
        found: dict[str, object] = {
            "name": self.name,
            "id": self.id,
            "address": self.address,
            "port": self.port,
            "sslPort": self.ssl_port,
            "payload": self.payload,
            "registrationTimeUTC": round(self.registered_at * 1000),
            "serviceType": self.service_type.value,
            "uriSpec": None if self.uri_spec is None else {"parts": _parts(self.uri_spec)},
        }
        if not self.enabled:
            found["enabled"] = False
        if self.weight != 1.0:
            found["weight"] = self.weight
        if self.load is not None:
            found["load"] = self.load
        try:
            text = json.dumps(found, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            check_json(found)  # refuses what `from_json` would refuse
            return text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"payload: cannot be written as JSON: {error}") from None

    @classmethod
    def from_json(cls, data: bytes) -> ServiceInstance:
        """Read the JSON of Curator or `to_json`; raises ValueError if it is invalid."""
        found = json_object(data)
        if not {"name", "id"} <= found.keys():
            raise MalformedError("has no name, or no id")
        spec = found.get("uriSpec")
        try:
            return cls(
                name=found["name"],
                id=found["id"],
                address=found.get("address"),
                port=found.get("port"),
                ssl_port=found.get("sslPort"),
                payload=found.get("payload"),
                registered_at=real(found.get("registrationTimeUTC", 0)) / 1000,
                service_type=_service_type(found.get("serviceType", "DYNAMIC")),
                uri_spec=None if spec is None else _spec(spec),
                enabled=found.get("enabled", True),
                weight=found.get("weight", 1.0),
                load=found.get("load"),
            )
        except ConfigurationError as error:
            # It is about foreign data, of any length, not about an argument.
            raise MalformedError(str(error)[:_SHOWN]) from None

    def uri(self, variables: Mapping[str, object] | None = None) -> str:
        """Fill in the variables of `uri_spec`; empty without one.

        The variables are Curator's: `scheme` (https if there is an `ssl_port`), `name`, `id`,
        `address`, `port`, `ssl-port`, `registration-time-utc`, `service-type`. `variables` adds
        others, or replaces their values. One without a value raises `ConfigurationError`.
        """
        values: dict[str, object] = {
            "scheme": "http" if self.ssl_port is None else "https",
            "name": self.name,
            "id": self.id,
            "address": self.address,
            "port": self.port,
            "ssl-port": self.ssl_port,
            "registration-time-utc": round(self.registered_at * 1000),
            "service-type": self.service_type.value.lower(),
            **(variables or {}),
        }
        text = ""
        for part in _parts(self.uri_spec or ""):
            value = part["value"]
            if part["variable"]:
                if values.get(str(value)) is None:
                    raise ConfigurationError(f"uri_spec: has the variable {value}, but no value")
                value = values[str(value)]
            text += str(value)
        return text


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_wrapped(payload: Sequence[JSON]) -> bool:
    """Whether it is Java's form of a value that is no object: its class, and the value."""
    return len(payload) == 2 and isinstance(payload[0], str)


_VARIABLE = re.compile(r"\{([^{}]*)\}")


def _parts(spec: str) -> list[dict[str, object]]:
    """The parts of a URI, as in Curator's `UriSpec`."""
    texts = _VARIABLE.split(spec)
    return [
        {"value": text, "variable": bool(number % 2)}
        for number, text in enumerate(texts)
        if text or number % 2
    ]


def _service_type(found: object) -> ServiceType:
    if isinstance(found, str) and found in ServiceType.__members__:
        return ServiceType[found]
    raise MalformedError(f"serviceType: must be one of Curator's, not {shown(found)}")


def _spec(found: object) -> str:
    if not isinstance(found, dict) or not isinstance(found.get("parts"), list):
        raise MalformedError("uriSpec: has no parts")
    texts: list[str] = []
    for part in found["parts"]:
        if not isinstance(part, dict) or not isinstance(part.get("value"), str):
            raise MalformedError("uriSpec: has a part without a value")
        texts.append(f"{{{part['value']}}}" if part.get("variable") else part["value"])
    return "".join(texts)

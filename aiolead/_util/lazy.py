"""The public names of a module, each imported at its first use (PEP 562).

Importing all recipes takes longer than importing `anyio`, in every process of a fleet and at every
run of a short command.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import get_type_hints


class Exports:
    """The names that one public module exports.

    `names` has space-separated names by the module that defines them; `modules` are public modules
    that need no import of their own.
    """

    def __init__(self, module: str, names: Mapping[str, str], *, modules: str = "") -> None:
        self._module = module
        self._modules = modules.split()
        self.names_by_module = names
        self._where = {
            name: f"aiolead.{where}" for where, found in names.items() for name in found.split()
        }
        self.all = sorted(self._where)
        _all[module] = self

    def get(self, name: str) -> object:
        """The module's `__getattr__`: import a name, or raise `AttributeError`."""
        if name in self._modules:
            return importlib.import_module(f"{self._module}.{name}")
        if name not in self._where:
            raise AttributeError(f"module {self._module!r} has no attribute {name!r}", name=name)
        importlib.import_module(self._where[name])
        for exports in _all.values():
            exports._publish()
        return vars(sys.modules[self._module])[name]

    def names(self) -> list[str]:
        """The module's `__dir__`: what completion offers."""
        # Without the names that the module itself has imported.
        private = {name for name in vars(sys.modules[self._module]) if name.startswith("_")}
        return sorted({*private, *self.all, *self._modules})

    def _publish(self) -> None:
        """Give their public names to all things whose modules are imported by now."""
        public = vars(sys.modules[self._module])
        for name, where in self._where.items():
            if name not in public and where in sys.modules:
                thing = getattr(sys.modules[where], name, None)
                if thing is None:
                    continue  # the module is being imported
                if getattr(thing, "__module__", "").startswith("aiolead._"):
                    if hasattr(thing, "__dataclass_fields__"):
                        # Tools look for the types of fields in the module that a class names.
                        thing.__annotations__ = get_type_hints(thing)
                    thing.__module__ = self._module
                public[name] = thing


def installed_version() -> str:
    """The version of the package; `0+unknown` in a source tree that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("aiolead")
    except PackageNotFoundError:
        return "0+unknown"


_all: dict[str, Exports] = {}

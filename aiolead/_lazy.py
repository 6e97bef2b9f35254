"""The public names of a module, each imported when it is first used: see PEP 562.

Nobody uses all recipes. Importing them all takes longer than `anyio` itself does, in every process
of a fleet and at every run of a short command.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import get_type_hints


class Exports:
    """What one public module exports.

    Args:
        module: the public module.
        names: the names, by the module that defines them; names are separated by spaces.
        modules: public modules that need no import of their own, separated by spaces.
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
        """For `__getattr__` of the module.

        Raises:
            AttributeError: there is no public name of that kind.
        """
        if name in self._modules:
            return importlib.import_module(f"{self._module}.{name}")
        if name not in self._where:
            raise AttributeError(f"module {self._module!r} has no attribute {name!r}", name=name)
        importlib.import_module(self._where[name])
        for exports in _all.values():
            exports._publish()
        return vars(sys.modules[self._module])[name]

    def names(self) -> list[str]:
        """For `__dir__` of the module."""
        return sorted({*vars(sys.modules[self._module]), *self.all, *self._modules})

    def _publish(self) -> None:
        """Gives their public names to all things whose modules are imported by now."""
        public = vars(sys.modules[self._module])
        for name, where in self._where.items():
            if name not in public and where in sys.modules:
                thing = getattr(sys.modules[where], name, None)
                if thing is None:
                    continue  # the module is being imported
                if getattr(thing, "__module__", "").startswith("aiolead._"):
                    if hasattr(thing, "__dataclass_fields__"):
                        # For what looks for the types of fields where a class says it is defined.
                        thing.__annotations__ = get_type_hints(thing)
                    thing.__module__ = self._module
                public[name] = thing


_all: dict[str, Exports] = {}

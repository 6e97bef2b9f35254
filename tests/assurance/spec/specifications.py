"""The table of specifications: what TLC checks, and what it must find.

Each specification is a module in `docs/spec`; each check is a configuration file beside it, with
its constants. A planted error is one of these checks with other constants or with changed text, for
which TLC must find a counterexample. `tables` has one file in TOML for each module.

The numbers of states and the depths are exact, so that a change of a specification that makes its
checks weaker (or stronger) is seen.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .checks import Check, PlantedError, Specification

TABLES = Path(__file__).with_name("tables")


def _actions(names: Iterable[str], groups: Mapping[str, list[str]]) -> Iterator[str]:
    """The actions that are named, alone or by a group of them."""
    for name in names:
        yield from _actions(groups[name], groups) if name in groups else (name,)


def _check(table: dict[str, Any], groups: Mapping[str, list[str]]) -> Check:
    unreached = frozenset(_actions(table.pop("unreached", ()), groups))
    return Check(**table, unreached=unreached)


def _planted(table: dict[str, Any]) -> PlantedError:
    lists: dict[str, Any] = {
        name: tuple(table.pop(name, ())) for name in ("invariants", "properties")
    }
    changes = tuple((old, new) for old, new in table.pop("changes", ()))
    return PlantedError(**{"length": None, **table}, **lists, changes=changes)


def load(module: str) -> Specification:
    """The specification that a module in `docs/spec` has."""
    tables = tomllib.loads((TABLES / f"{module}.toml").read_text("utf-8"))
    checks = tuple(_check(each, tables["groups"]) for each in tables["checks"])
    return Specification(module, checks, tuple(map(_planted, tables["planted"])))


MODULES = ("lease", "queue", "barrier", "rwlock")
SPECIFICATIONS: tuple[Specification, ...] = tuple(map(load, MODULES))
"""All specifications."""

"""All planted bugs: the files in TOML of this folder.

Each file has the bugs that break one promise, and each table in it is one bug: the attributes of
`model.Mutant`. A bug of one change has it in its own table, otherwise in `changes`. `aims.toml` has
the groups of faults and the aims that several bugs share.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ..model import Aim, Change, Mutant

FILES = (
    *("lease", "losses", "queue", "ownership", "left_behind", "requests", "hangs", "rates"),
    "secrets",
)
FOLDER = Path(__file__).parent


def _loaded(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))


_AIMS = _loaded("aims")


def _aim(given: Any) -> Aim:
    values = dict(_AIMS["aims"][given] if isinstance(given, str) else given)
    groups = [
        tuple(kind for name in group for kind in _AIMS["groups"].get(name, [name]))
        for group in values.pop("faults", ())
    ]
    return Aim(tuple(groups), **values)


def _mutant(name: str, table: dict[str, Any]) -> Mutant:
    changes = table.pop("changes", None) or [
        {key: table.pop(key) for key in ("where", "old", "new")}
    ]
    for key in ("wrong", "seen_in", "note"):
        table[key] = " ".join(table.get(key, "").split())
    return Mutant(
        name=name,
        aim=_aim(table.pop("aim", {})),
        changes=tuple(Change(**change) for change in changes),
        tests=tuple(table.pop("tests")),
        **table,
    )


def _promises() -> dict[str, tuple[Mutant, ...]]:
    found = {}
    for file in FILES:
        tables = _loaded(file)
        promise = tables.pop("promise")
        found[promise] = tuple(_mutant(name, table) for name, table in tables.items())
    return found


PROMISES: dict[str, tuple[Mutant, ...]] = _promises()
"""The planted bugs by the promise that they break."""

MUTANTS: tuple[Mutant, ...] = tuple(each for found in PROMISES.values() for each in found)


def by_name(name: str) -> Mutant:
    """The mutant of a name.

    Raises:
        KeyError: there is none.
    """
    return {mutant.name: mutant for mutant in MUTANTS}[name]

"""The hooks of `connect`, as options of the tests' own ways to connect."""

from __future__ import annotations

from typing import Any

from aiolead.testing import Hooks

NAMES = ("clock", "rng", "dial")


def hooked(**options: Any) -> dict[str, Any]:
    """The options for `connect`: `clock`, `rng` and `dial` go into its `hooks`."""
    hooks = {name: options.pop(name) for name in NAMES if name in options}
    return {**options, "hooks": Hooks(**hooks)} if hooks else options

"""The task of a contender: the driver passes it on the command line."""

from __future__ import annotations

import os
import random
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from . import curator

ROOT = Path(__file__).resolve().parents[3]

PYTHON_RECIPES = ("aiolead", "aiolead-lock", "kazoo", "kazoo-lock", "aiozk", "aiozk-election")
RECIPES = (*PYTHON_RECIPES, *curator.RECIPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The task of a contender. All times are in seconds.

    Attributes:
        recipe: its recipe, one of `RECIPES`.
        line: the contended path.
        session_timeout: the session timeout that it asks for.
        hold_least: how long it holds, at least.
        hold_most: how long it holds, at most.
        seed: of its randomness.
        backend: the event loop, for aiolead.
        plain: the file of a `PlainSet` that it adds to while it holds; empty for none.
        tokens: the socket of a `TokenStore` that it adds to; empty for none.
        znode: the path of a znode that it adds to, fenced; empty for none.
        layout: for aiolead, the name of one of its `Layout`; empty for the default.
    """

    recipe: str
    line: str
    session_timeout: float
    hold_least: float
    hold_most: float
    seed: int = 0
    backend: str = "asyncio"
    plain: str = ""
    tokens: str = ""
    znode: str = ""
    layout: str = ""

    @property
    def library(self) -> str:
        return self.recipe.partition("-")[0]

    @property
    def is_ours(self) -> bool:
        """Whether it is a recipe of aiolead, which the invariants are asked about."""
        return self.library == "aiolead"

    @property
    def rng(self) -> random.Random:
        """A new generator, that always gives the same."""
        return random.Random(self.seed)

    def command(self, name: str, hosts: str, history: Path) -> list[str]:
        """The command line of its process."""
        values = {**asdict(self), "name": name, "hosts": hosts, "history": history}
        options: list[str] = []
        for option, value in values.items():
            if value != "":
                options += [f"--{option.replace('_', '-')}", str(value)]
        if self.library == "curator":
            return [*curator.command(), *options]
        # `env` turns into the interpreter, so that stops and kills reach it.
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        run = [sys.executable, "-m", "tests.assurance.chaos.contender"]
        return ["/usr/bin/env", f"PYTHONPATH={path}", *run, *options]

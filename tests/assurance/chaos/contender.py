"""One process, one contender: contends for a line until SIGTERM, and writes down what it lives
through.

    python -m tests.assurance.chaos.contender --name a --recipe aiolead --line /l ...

The history is a file of its own, one line for each event, with the times of CLOCK_MONOTONIC, which
all processes of a machine share. Each line is written with one system call at once, so that SIGKILL
loses nothing that has happened.
"""

from __future__ import annotations

import argparse
import importlib
import logging
from dataclasses import fields
from pathlib import Path

from .diary import Diary
from .role import Role


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for field in fields(Role):
        kind = {"float": float, "int": int}.get(str(field.type), str)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default="")
    for name in ("name", "hosts", "history"):
        parser.add_argument(f"--{name}", required=True)
    options = vars(parser.parse_args())
    name, hosts, history = (options.pop(key) for key in ("name", "hosts", "history"))
    role = Role(**options)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    library = role.recipe.partition("-")[0]
    with Diary(Path(history), role.line, name) as diary:
        importlib.import_module(f"{__package__}.rivals.with_{library}").contend(role, hosts, diary)


if __name__ == "__main__":
    main()

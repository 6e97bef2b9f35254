"""A service that follows its settings, and a command that changes them.

Several keys are published together, and seen together. They are validated first, by the function
that the service reads them with; if another program publishes invalid keys, the service keeps its
settings.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/configuration.py
AIOLEAD_HOSTS=127.0.0.1:2181 python examples/configuration.py workers=8 queue=jobs
AIOLEAD_HOSTS=127.0.0.1:2181 python examples/configuration.py rollback 1
"""

import asyncio
import sys
from dataclasses import dataclass

from _command import command

import aiolead


@dataclass(frozen=True)
class Settings:
    workers: int
    queue: str

    @classmethod
    def parse(cls, keys: dict[str, bytes]) -> "Settings":
        settings = cls(int(keys.get("workers", b"1")), keys.get("queue", b"default").decode())
        if not 1 <= settings.workers <= 64:
            raise ValueError(f"workers: must be from 1 to 64, not {settings.workers}")
        return settings


async def main(*arguments: str) -> None:
    async with aiolead.connect() as client:
        config = aiolead.Config(client, "/examples/configuration", parse=Settings.parse)
        match arguments:
            case []:
                async with config.observe() as view:
                    async for settings in view:
                        print(f"version {view.version}: {settings}", flush=True)
            case ["rollback", earlier]:
                print(f"published as version {await config.rollback(int(earlier))}")
            case _:
                changes = dict(argument.split("=", 1) for argument in arguments)
                try:
                    version = await config.publish({k: v.encode() for k, v in changes.items()})
                except aiolead.errors.ConfigurationError as error:
                    sys.exit(f"refused: {error}")
                print(f"published as version {version}")


with command(main) as arguments:
    asyncio.run(main(*arguments))

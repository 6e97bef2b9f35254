"""A service that follows its configuration, and everything that happens below /examples/jobs.

The view has the latest configuration at any time, also after lost connections and expired sessions.
The stream reports every event, in order; after a gap, which it reports, the program reads again.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/observe_config.py
"""

import asyncio

from _command import command

import aiolead

CONFIG, JOBS = "/examples/config", "/examples/jobs"


async def observe_config(client: aiolead.Client) -> None:
    async with client.observe_data(CONFIG) as view:
        async for value in view:
            if value is None:
                print("config: none yet", flush=True)
            else:
                data, stat = value
                print(f"config: {data.decode()} (version {stat.version})", flush=True)


async def follow_jobs(client: aiolead.Client) -> None:
    async with client.watch(JOBS, recursive=True) as events:
        # Only now, so that nothing can happen between the look and the first event.
        print(f"jobs: {sorted(await client.get_children(JOBS))}", flush=True)
        async for event in events:
            match event:
                case aiolead.model.Missed(reason):
                    names = sorted(await client.get_children(JOBS))
                    print(f"jobs: {names}, after a gap ({reason.value})", flush=True)
                case aiolead.model.WatchEvent(type, path):
                    print(f"jobs: {path} {type.name.lower()}", flush=True)


async def main() -> None:
    async with aiolead.connect() as client:
        await client.ensure_path(JOBS)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(observe_config(client))
            tasks.create_task(follow_jobs(client))


with command(main):
    asyncio.run(main())

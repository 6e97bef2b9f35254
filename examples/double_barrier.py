"""Three processes that do each step together: nobody begins the next one before all have done this.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/double_barrier.py worker-1   (and -2, and -3)
"""

import anyio
from _command import command

import aiolead


async def main(name: str) -> None:
    async with aiolead.connect() as client:
        barrier = aiolead.DoubleBarrier(client, "/examples/steps", 3, identity=name)
        for step in ("map", "shuffle", "reduce"):
            async with barrier:  # waits until three are there
                print(f"{step}: {name} begins", flush=True)
                await anyio.sleep(0.1)  # the work: it is cancelled if our place is lost
                print(f"{step}: {name} is done", flush=True)
            # Here all three are done. BarrierLost would say that the others went on without us.


with command(main) as arguments:
    anyio.run(main, *arguments, backend="trio")

"""Leads, and shows its metrics to Prometheus.

AIOLEAD_HOSTS=127.0.0.1:2181 python examples/observability/metrics.py 9100
"""

import argparse

import anyio
from prometheus_client import start_http_server

import aiolead
from aiolead.instrumentation.prometheus import PrometheusSink


async def work(term: aiolead.Term) -> None:
    print(f"leads, token {term.token}", flush=True)
    await anyio.sleep_forever()


async def main() -> None:
    async with aiolead.connect(on_event=PrometheusSink()) as client:
        await aiolead.Election(client, "/examples/observed").run(work)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("port", type=int, help="where Prometheus finds the metrics")
start_http_server(parser.parse_args().port)
try:
    anyio.run(main)
except KeyboardInterrupt:
    raise SystemExit(130) from None

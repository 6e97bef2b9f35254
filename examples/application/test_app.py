"""The application's own tests, with aiolead's pytest plugin: `pytest examples/application`.

`zookeeper` is a server in memory, of the plugin. No mock stands for anything.
"""

import contextlib
import sqlite3

import anyio
import httpx
import pytest
from app import create_app
from asgi_lifespan import LifespanManager
from ledger import Ledger, Outdated

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@contextlib.asynccontextmanager
async def worker(zookeeper, database, name):
    """A worker of the application, and a client that asks it."""
    app = create_app(zookeeper.connect_string, str(database), identity=name, every=0.01)
    async with LifespanManager(app) as manager:
        transport = httpx.ASGITransport(app=manager.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
            yield client


async def until(condition):
    with anyio.fail_after(30):
        while not await condition():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_one_worker_sends_invoices_and_another_goes_on_after_it(zookeeper, tmp_path):
    database = tmp_path / "invoices.db"
    async with contextlib.AsyncExitStack() as stack:
        anna = contextlib.AsyncExitStack()
        ask_anna = await anna.enter_async_context(worker(zookeeper, database, "anna"))

        async def leads(client, name):
            return (await client.get("/")).json()["leader"] == name

        await until(lambda: leads(ask_anna, "anna"))
        ask_ben = await stack.enter_async_context(worker(zookeeper, database, "ben"))
        assert (await ask_ben.get("/health")).status_code == 200
        assert await leads(ask_ben, "anna")
        # A rolling restart: the leader is asked to stop. It resigns; nobody waits for a timeout.
        with anyio.fail_after(3):
            await anna.aclose()
            await until(lambda: leads(ask_ben, "ben"))
        before = (await ask_ben.get("/")).json()["invoices"]

        async def more():
            return (await ask_ben.get("/")).json()["invoices"] > before

        await until(more)
        metrics = (await ask_ben.get("/metrics")).text
        assert "aiolead_session_connected 1.0" in metrics
        assert 'recipe="Election"' in metrics
    with contextlib.closing(Ledger(str(database))) as ledger:
        tokens = ledger.tokens()
    assert tokens == sorted(tokens), "no leader has written after its successor"
    assert len(set(tokens)) == 2


def test_a_deposed_leader_cannot_write(tmp_path):
    with contextlib.closing(Ledger(str(tmp_path / "invoices.db"))) as ledger:
        assert ledger.add("first", 7) == 1
        assert ledger.add("second", 9) == 2
        with pytest.raises(Outdated, match="token 7 is older than 9"):
            ledger.add("too late", 7)
        assert ledger.count() == 2


def test_the_check_and_the_write_are_one_transaction(tmp_path):
    path = str(tmp_path / "invoices.db")
    with (
        contextlib.closing(Ledger(path)) as ledger,
        contextlib.closing(sqlite3.connect(path, timeout=0.01)) as other,
    ):
        ledger.add("first", 1)
        ledger._db.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")

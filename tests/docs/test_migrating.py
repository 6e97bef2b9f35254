"""The worked examples of the migration guides: what comes after does what was before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.redis_server import redis_server
from kit.pages import MIGRATING, Block, blocks
from kit.raw_client import RawClient

pytestmark = pytest.mark.exhaustive("needs Redis and Curator")

PAGES = sorted(MIGRATING.glob("*.md"))
WITH_BEFORE = {"aiozk", "kazoo", "others"}
"""Those whose other side is in Python, too."""


@pytest.fixture(scope="module")
def redis_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_before_and_after_do_the_same(
    page: Path,
    embedded: str,
    chroot: str,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with RawClient(embedded) as client:
        client.create(chroot)
    programs = [block for block in blocks(page) if block.kind == "program"]
    assert len(programs) >= (2 if page.stem in WITH_BEFORE else 1)
    said = []
    for block in programs:
        _placed(block, embedded + chroot, request).run_script({"__name__": "__main__"})
        said.append(capsys.readouterr().out.splitlines())
    assert all(lines == said[0] for lines in said), said
    assert said[0][1:] == ["writes a", "writes b"]


def _placed(block: Block, address: str, request: pytest.FixtureRequest) -> Block:
    if "127.0.0.1:6379" in block.source:
        return block.at(request.getfixturevalue("redis_address"), shown="127.0.0.1:6379")
    return block.at(address)


def test_redis_lock_that_expired_raises_on_release(redis_address: str) -> None:
    """As the page says: somebody else has it, the body goes on, and leaving raises."""
    import redis

    url = f"redis://{redis_address}"
    with redis.Redis.from_url(url) as one, redis.Redis.from_url(url) as other:
        first, second = one.lock("pages", timeout=0.1), other.lock("pages", blocking_timeout=10)
        went_on = threading.Event()
        with pytest.raises(redis.exceptions.LockNotOwnedError), first, second:
            assert not first.owned()
            went_on.set()
        assert went_on.is_set()

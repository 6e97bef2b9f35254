"""Making the tokens of a login: what blocks does so in a thread, and keeps nobody waiting."""

from __future__ import annotations

import threading

import anyio
import pytest
from kit.checks import PATIENCE

from aiolead import SASL
from aiolead._client.sasl import Login, Logins


class Slow:
    """A mechanism that waits for somebody else, as for a KDC."""

    blocks = True
    is_complete = False

    def __init__(self) -> None:
        self.has_begun, self.may_go_on = threading.Event(), threading.Event()
        self.thread: int | None = None
        self.is_daemon = False

    def step(self, challenge: bytes) -> bytes:
        self.thread = threading.get_ident()
        self.is_daemon = threading.current_thread().daemon
        self.has_begun.set()
        self.may_go_on.wait(30)
        self.is_complete = True
        return challenge + b"!"


async def test_a_step_that_blocks_does_so_in_a_thread() -> None:
    mechanism, answers = Slow(), []
    login = Login(mechanism, anyio.CapacityLimiter(1))
    login.challenged(b"token")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(login.run, lambda *answer: answers.append(answer))
        await anyio.wait_all_tasks_blocked()
        assert answers == []
        mechanism.may_go_on.set()
    assert answers == [(b"token!", True)]
    assert mechanism.thread != threading.get_ident()


async def test_a_connection_that_is_given_up_does_not_wait_for_it() -> None:
    mechanism, answers = Slow(), []
    login = Login(mechanism, anyio.CapacityLimiter(1))
    login.challenged(b"")
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(login.run, lambda *answer: answers.append(answer))
            await anyio.wait_all_tasks_blocked()
            assert mechanism.has_begun.wait(PATIENCE)
            tasks.cancel_scope.cancel()
    assert not mechanism.may_go_on.is_set()
    assert mechanism.is_daemon  # the end of the process does not wait for it either
    mechanism.may_go_on.set()
    assert answers == []


async def test_abandoned_steps_count_until_they_end() -> None:
    threads = anyio.CapacityLimiter(1)
    hung, next_one = Slow(), Slow()
    next_one.may_go_on.set()
    login = Login(hung, threads)
    login.challenged(b"")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(login.run, pytest.fail)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    answers: list[tuple[bytes | None, bool]] = []
    login = Login(next_one, threads)
    login.challenged(b"")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(login.run, lambda *answer: answers.append(answer))
        await anyio.wait_all_tasks_blocked()
        assert not next_one.has_begun.is_set()
        hung.may_go_on.set()
    assert answers == [(b"!", True)]
    assert threads.borrowed_tokens == 0


async def test_a_challenge_goes_to_the_login_of_the_present_connection() -> None:
    logins = Logins(SASL.digest_md5("ann", "secret"))
    logins.challenged(b"before any connection")
    old, new = logins.begin("zk1"), logins.begin("zk2")
    logins.challenged(b"")
    answers: list[tuple[bytes | None, bool]] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(old.run, pytest.fail)
        tasks.start_soon(new.run, lambda *answer: answers.append(answer))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert answers == [(b"", False)]

"""Signal handlers that use the client while the thread that they interrupt is in a call to it.

The main thread alone runs them, anywhere. So each test is a program of its own: what hangs ends.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from blocking.threads import Backend
from kit.pages import Program

from aiolead.testing import ThreadedServer

COMMON = """
import _thread, faulthandler, itertools, signal, sys, threading, time
import aiolead
from aiolead import blocking

HOSTS, BACKEND = sys.argv[1:]

def deadline(seconds=20):
    '''Ends the program if it hangs.'''
    faulthandler.dump_traceback_later(seconds, exit=True)

class SoftLimit(Exception):
    '''What Celery and others raise out of a signal handler.'''

def connect():
    return blocking.connect(HOSTS, session_timeout=8, backend=BACKEND)

def on_signal(act):
    signal.signal(signal.SIGUSR1, lambda number, frame: act())

def use(client):
    '''A request, which takes no task, and a call, which does.'''
    client.exists("/")
    async def nothing(client):
        pass
    client.call(nothing)

def at_each(act, step=1, events=("call", "opcode"), prepare=lambda: None, expected=SoftLimit):
    '''Does it again and again, with a signal at its first instruction, then at a later one ...'''
    for which in itertools.count(1, step):
        left = which
        def trace(frame, event, arg):
            nonlocal left
            frame.f_trace_opcodes = True
            if event in events:
                left -= 1
                if left == 0:
                    signal.raise_signal(signal.SIGUSR1)
            return trace
        prepared = prepare()
        deadline()
        sys.settrace(trace)
        try:
            act(prepared)
        except expected:
            pass
        finally:
            sys.settrace(None)
        if left > 0:
            return which

def raise_signal(number):
    signal.pthread_kill(threading.main_thread().ident, number)

def raise_unnoticed(number):
    '''As a signal that has come just before the main thread slept: it does not wake it.'''
    while sys._current_frames()[threading.main_thread().ident].f_code.co_name != "wait":
        time.sleep(0.01)
    _thread.interrupt_main(number)

def interrupts(wait, act, send=raise_signal):
    '''Does something in a signal handler while the main thread is in a call that never ends, then
    has that end by an exception.'''
    asked = threading.Event()
    async def never(client):
        import anyio
        asked.set()
        await anyio.sleep_forever()
    def handler():
        act()
        raise SoftLimit
    on_signal(handler)
    def interrupt():
        assert asked.wait(20)
        send(signal.SIGUSR1)
    threading.Thread(target=interrupt).start()
    deadline()
    try:
        wait(never)
    except SoftLimit:
        return
    raise AssertionError("not interrupted")
"""

INSTRUCTIONS = """
with connect() as client:
    answers = []
    def ask():
        answers.append(client.get("/")[0])
    on_signal(ask)
    assert at_each(lambda _: use(client)) > 500
    lock = blocking.Lock(client, "/lock")
    def hold(_):
        with lock as held:
            held.statistics()
            held.check()
            held.verify()
            held.statistics()
            held.lost.wait(0.0001)
    assert at_each(hold, 7) > 1000
    assert len(answers) > 400 and set(answers) == {b""}
    assert client.call(lambda c: c.get_children("/lock")) == []
    print("answered")
"""

RAISES = """
with connect() as client:
    lock = blocking.Lock(client, "/lock")
    def stop():
        raise SoftLimit
    on_signal(stop)
    # Where Python looks for signals: neither between any two instructions, nor in C.
    assert at_each(lambda _: use(client), events=("call", "return")) > 60
    deadline()
    with lock as held:
        held.verify()
    print("usable")
"""

CLOSES = """
def ask():
    connection = connect()
    client = connection.__enter__()
    on_signal(lambda: connection.__exit__(None, None, None))
    try:
        while True:
            client.exists("/")
            signal.raise_signal(signal.SIGUSR1)
    except aiolead.errors.ClientClosedError:
        pass
ask()
connections = []
def prepare():
    connection = connect()
    connections.append(connection)
    on_signal(lambda: connection.__exit__(None, None, None))
    return connection.__enter__()
closed = aiolead.errors.ClientClosedError
assert at_each(use, 17, prepare=prepare, expected=closed) > 500
connections.pop().__exit__(None, None, None)
print("closed")
"""

IN_CALLS = """
with connect() as client, connect() as other:
    lock, second = blocking.Lock(client, "/lock"), blocking.Lock(client, "/second")
    answers = []
    interrupts(client.call, lambda: answers.append(client.get("/")[0]))
    interrupts(client.call, lambda: answers.append(client.get("/")[0]), raise_unnoticed)
    assert answers == [b""] * 2
    def refused(act):
        try:
            act()
        except aiolead.errors.UsageError as error:
            assert "in a signal handler that had interrupted a call" in str(error), error
            answers.append(str(error))
        else:
            raise AssertionError("allowed")
    context = lock.acquire()
    with context as held:
        # Not what its own thread holds, and cannot release meanwhile; nor anything else.
        interrupts(client.call, lambda: refused(lock.__enter__))
        interrupts(client.call, lambda: refused(second.__enter__))
        interrupts(client.call, lambda: refused(lambda: context.__exit__(None, None, None)))
        interrupts(client.call, lambda: (held.verify(), held.check(), held.release()))
    assert len(answers) == 5
    with lock as held:
        # While it waits for a lock; and in a body, where it is as any other code.
        with blocking.Lock(other, "/second"):
            seen = []
            def look():
                seen.extend(client.get_children("/second"))
                raise SoftLimit
            on_signal(look)
            def interrupt():
                while len(other.get_children("/second")) < 2:
                    time.sleep(0.01)
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            threading.Thread(target=interrupt).start()
            deadline()
            try:
                with second:
                    raise AssertionError("both have it")
            except SoftLimit:
                pass
            assert len(seen) == 2
        def enter():
            with second:
                seen.append("entered")
        on_signal(enter)
        deadline()
        signal.raise_signal(signal.SIGUSR1)
        assert seen.pop() == "entered"
        held.verify()
    with lock:
        pass
    print("none hangs")
"""


@pytest.mark.exhaustive("a handler at each of some thousand instructions", only="asks-at-each")
@pytest.mark.parametrize(
    ("script", "says"),
    [
        pytest.param(INSTRUCTIONS, "answered", id="asks-at-each-instruction"),
        pytest.param(RAISES, "usable", id="raises-at-each-instruction"),
        pytest.param(CLOSES, "closed", id="closes-at-any-instruction"),
        pytest.param(IN_CALLS, "none hangs", id="in-calls-that-wait"),
    ],
)
@pytest.mark.timeout(240)  # some thousand requests; the scripts say themselves when one hangs
def test_signal_handler_never_hangs(
    own: ThreadedServer, backend: Backend, tmp_path: Path, script: str, says: str
) -> None:
    (tmp_path / "script.py").write_text(COMMON + script)
    with Program(str(tmp_path / "script.py"), own.connect_string, backend) as program:
        assert program.finish() == 0, "\n".join(program.lines)
        assert says in program.lines

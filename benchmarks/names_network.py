"""A network of its own, with a small DNS server: for what a resolver and dead addresses cost.

It needs a network and a mount namespace, in which this process is root: see `in_namespaces`. The
system's own resolver is used, so that its timeouts count as they do in production.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import tempfile
import threading
from collections import defaultdict
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import dns.message
import dns.rdatatype
import dns.rrset

from aiolead.testing import EmbeddedServer

T = TypeVar("T")

PORT = 2181

DNS_SERVER = "127.0.0.53"
DEAD_DNS_SERVER = "10.8.99.53"

SETUP = """
ip link set lo up
ip link add hole type dummy 2>&- || ip link add hole type ifb
ip link set hole up
ip addr add 10.8.255.1/16 dev hole
ip -6 addr add fd00:8::1/64 dev hole nodad
"""
"""All addresses of the two networks lead to a device that drops every packet."""


def in_namespaces(*command: str) -> list[str]:
    """A command, to be run as root in namespaces for users, networks and mounts of its own."""
    return ["unshare", "--map-root-user", "--net", "--mount", "--", *command]


def has_namespaces() -> bool:
    """Whether this system lets us make the namespaces."""
    try:
        return (
            subprocess.run(in_namespaces("true"), capture_output=True, check=False).returncode == 0
        )
    except FileNotFoundError:
        return False


class DnsServer:
    """Answers for `A` and `AAAA`, each query after a delay.

    Attributes:
        names: the addresses of each name.
        delay: in seconds.
    """

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}
        self.delay = 0.0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((DNS_SERVER, 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):  # it has no peer; that wakes the thread all the same
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                data, client = self._socket.recvfrom(4096)
                if data:
                    timer = threading.Timer(self.delay, self._answer, (data, client))
                    timer.daemon = True
                    timer.start()

    def _answer(self, data: bytes, client: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        (question,) = query.question
        name = question.name.to_text(omit_final_dot=True)
        is_ipv6 = question.rdtype == dns.rdatatype.AAAA
        found = [each for each in self.names.get(name, ()) if (":" in each) == is_ipv6]
        if found:
            kind = dns.rdatatype.to_text(question.rdtype)
            answer.answer.append(dns.rrset.from_text(question.name, 60, "IN", kind, *found))
        with suppress(OSError):
            self._socket.sendto(answer.to_wire(), client)


class NamesNetwork:
    """One server at many addresses, and a DNS server. An address that is not up drops packets.

    Attributes:
        dns: the DNS server.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._listeners: dict[str, asyncio.Server] = {}
        self._serving: dict[str, dict[asyncio.Task[None], asyncio.WriteTransport]] = defaultdict(
            dict
        )
        """The connections at each address, with the tasks that serve them."""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="names-")))
            self._mount("hosts: files dns\n", "/etc/nsswitch.conf", stack)
            self._mount("", "/etc/resolv.conf", stack)
            server = stack.enter_context(EmbeddedServer.in_thread())
            self._target = ("127.0.0.1", server.port)
            self.dns = DnsServer()
            stack.callback(self.dns.close)
            thread = threading.Thread(target=self._loop.run_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(self._loop.call_soon_threadsafe, self._loop.stop)
            stack.callback(self._crash_all)
            self.ask(DNS_SERVER)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _mount(self, text: str, path: str, stack: ExitStack) -> None:
        """Puts a file in the place of another one."""
        file = self._folder / Path(path).name
        file.write_text(text)
        run("mount", "--bind", str(file), str(Path(path).resolve()))
        stack.callback(run, "umount", str(Path(path).resolve()))

    def ask(self, *dns_servers: str) -> None:
        """Sets the nameservers that the system asks, in order."""
        text = "".join(f"nameserver {each}\n" for each in dns_servers)
        (self._folder / "resolv.conf").write_text(text)

    def up(self, *addresses: str) -> None:
        """Lets servers be reached at addresses."""
        for address in addresses:
            run("ip", "addr", "add", f"{address}/32", "dev", "lo")
            self._listeners[address] = self._do(self._listen(address))

    def crash(self, *addresses: str) -> None:
        """Closes the connections of servers. Then their addresses drop packets."""
        for address in addresses:
            self._do(self._close(address))
        for address in addresses:
            run("ip", "addr", "del", f"{address}/32", "dev", "lo")

    def in_use(self) -> list[str]:
        """The addresses at which there are connections."""
        return [address for address, tasks in self._serving.items() if tasks]

    def _crash_all(self) -> None:
        self.crash(*self._listeners)

    def _do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    async def _listen(self, address: str) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._serving[address][task] = writer.transport
            server_reader, server_writer = await asyncio.open_connection(*self._target)
            pumps = (_pump(reader, server_writer), _pump(server_reader, writer))
            halves = [asyncio.create_task(each) for each in pumps]
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
            for each in (writer, server_writer):
                each.transport.abort()
            await asyncio.wait(halves)
            del self._serving[address][task]

        return await asyncio.start_server(serve, address, PORT)

    async def _close(self, address: str) -> None:
        self._listeners.pop(address).close()
        serving = dict(self._serving[address])
        for transport in serving.values():
            transport.abort()
        await asyncio.gather(*serving)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def set_up() -> None:
    """Makes the network, in a new namespace."""
    run("sh", "-ec", SETUP)

"""Records what clients and a real server say to each other, frame by frame, for the golden tests.

    python tests/assurance/golden/record.py

It needs ZooKeeper, a JDK and kazoo, starts servers of its own, and writes `java.txt`, `kazoo.txt`
and `sasl.txt` (Java's client, logging in by DIGEST-MD5) beside itself: one line for each frame,
with its direction (`>` to the server, `<` to the client), its xid, its operation, and its bytes,
the length before them included.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import make_acl, make_digest_acl

from aiolead._wire.codes import OpCode
from aiolead._wire.jute import FrameReader, Reader, frame
from aiolead.testing.installation import find_installation
from aiolead.testing.servers import BlockingServer

HERE = Path(__file__).parent
SPECIAL = {-1: "NOTIFICATION", -2: "PING", -4: "AUTH"}


class Recorder:
    """A relay to a server that writes down each frame. A thread for each direction."""

    def __init__(self, port: int) -> None:
        self.lines: list[str] = []
        self._server = ("127.0.0.1", port)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._links: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Ends every connection."""
        with self._lock:
            for link in self._links:
                with suppress(OSError):  # ended before
                    link.shutdown(socket.SHUT_RDWR)
            self._links.clear()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            ops: dict[int, str] = {}
            with self._lock:
                self._links += [client, server]
                self.lines.append("# a connection")
            for direction, source, target in ((">", client, server), ("<", server, client)):
                threading.Thread(
                    target=self._pump, args=(direction, source, target, ops), daemon=True
                ).start()

    def _pump(
        self, direction: str, source: socket.socket, target: socket.socket, ops: dict[int, str]
    ) -> None:
        frames, is_first = FrameReader(1 << 24), True
        try:
            while data := source.recv(65536):
                with self._lock:
                    for payload in frames.feed(data):
                        self._write(direction, payload, is_first, ops)
                        is_first = False
                target.sendall(data)
        except OSError:
            pass  # cut
        for end in (source, target):
            end.close()

    def _write(self, direction: str, payload: bytes, is_first: bool, ops: dict[int, str]) -> None:
        xid, op = "-", "CONNECT"
        if not is_first:
            r = Reader(payload)
            number = r.i32()
            xid = str(number)
            if direction == ">":
                op = ops[number] = OpCode(r.i32()).name
            else:
                op = SPECIAL.get(number) or ops[number]
        self.lines.append(f"{direction} {xid} {op} {frame(payload).hex()}")


def java(recorder: Recorder, *arguments: str, jaas: Path | None = None) -> None:
    installation = find_installation()
    with subprocess.Popen(
        [
            str(installation.java),
            *([] if jaas is None else [f"-Djava.security.auth.login.config={jaas}"]),
            "-cp",
            installation.class_path,
            str(HERE / "Conversation.java"),
            f"127.0.0.1:{recorder.port}",
            *arguments,
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as talk:
        assert talk.stdout is not None
        for line in talk.stdout:
            if line == "cut\n":
                recorder.cut()
        if talk.wait():
            raise SystemExit("the Java client has failed")


def kazoo(recorder: Recorder) -> None:
    client = KazooClient(f"127.0.0.1:{recorder.port}", timeout=20.0)
    client.start(timeout=20)
    try:
        _kazoo(client)
    finally:
        client.stop()
        client.close()


def _kazoo(client: KazooClient) -> None:
    def fails(call: Callable[[], object]) -> None:
        try:
            call()
        except KazooException:
            return
        raise AssertionError("that should have failed")

    def quiet(_: object) -> None:
        pass

    client.add_auth("digest", "ann:secret")
    client.create("/k", b"data")
    client.create("/k/eph", b"data", ephemeral=True)
    client.create("/k/seq-", b"data", ephemeral=True, sequence=True, include_data=True)
    acl = [make_digest_acl("ann", "secret", all=True), make_acl("world", "anyone", read=True)]
    client.create("/k/acl", b"data", acl=acl)
    fails(lambda: client.create("/k", b"data"))
    client.exists("/k")
    client.exists("/none")
    client.get("/k")
    fails(lambda: client.get("/none"))
    client.set("/k", b"more", version=0)
    fails(lambda: client.set("/k", b"more", version=7))
    client.get_acls("/k/acl")
    client.set_acls("/k/acl", acl[:1])
    client.get_children("/k")
    client.get_children("/k", include_data=True)
    client.sync("/k")
    works = client.transaction()
    works.check("/k", 1)
    works.create("/k/m", b"data")
    works.set_data("/k/m", b"more")
    works.delete("/k/m")
    works.commit()
    breaks = client.transaction()
    breaks.create("/k/m", b"data")
    breaks.check("/k", 7)
    breaks.delete("/k/m")
    breaks.commit()
    client.get("/k", watch=quiet)
    client.set("/k", b"data")
    client.get_children("/k", watch=quiet)
    client.create("/k/child", b"data")
    client.exists("/k/child", watch=quiet)
    client.delete("/k/child", version=0)
    fails(lambda: client.delete("/k"))
    client.delete("/k", recursive=True)


def sasl(folder: Path) -> None:
    """Java's client logs in to a server that knows its password."""
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    client, server = folder / "client.conf", folder / "server.conf"
    client.write_text(f'Client {{ {module} required username="ann" password="secret"; }};\n')
    server.write_text(f'Server {{ {module} required user_ann="secret"; }};\n')
    options = [f"-Djava.security.auth.login.config={server}"]
    with BlockingServer(java_options=options) as running:
        recorder = Recorder(running.port)
        java(recorder, "log in", jaas=client)
        write("sasl", running, recorder)


def write(name: str, server: BlockingServer, recorder: Recorder) -> None:
    recorder.close()
    version = server.four_letter("srvr").split("\n")[0]
    text = [f"# {version}", *recorder.lines]
    (HERE / f"{name}.txt").write_text("\n".join(text) + "\n")
    sys.stderr.write(f"{name}.txt: {len(recorder.lines)} lines\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        sasl(Path(folder))
    with BlockingServer() as server:
        for name, talk in (("java", java), ("kazoo", kazoo)):
            recorder = Recorder(server.port)
            talk(recorder)
            write(name, server, recorder)


if __name__ == "__main__":
    main()

"""A peer's process, from outside."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .peers.registry import PeerKind

ROOT = Path(__file__).parents[1]
PATIENCE = 120.0
"""How long a peer may take for a request, unless the workload says otherwise, in seconds."""

SESSION_TIMEOUT = 100.0
"""Of the sessions, in seconds: so long that no ping is due while something is counted."""


class PeerFailedError(Exception):
    """A peer has raised something, or has ended, or does not answer."""


class Driver:
    """One process. A context manager, which kills it; it has nothing to say to anybody after that.

    Args:
        kind: the kind of peer.
        *options: for its host.
    """

    def __init__(self, kind: PeerKind, *options: str) -> None:
        self.kind = kind
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [*kind.command(), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env=environment,
            cwd=ROOT,
        )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.warmed: set[object] = set()
        """The work that it has done often enough to be measured."""
        self.base = 0
        """The memory of the process before the library was imported, in bytes."""
        try:
            self.base = int(self.call("start")["base"])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        with suppress(OSError), self._process as process:  # which need not have read everything
            process.kill()
        self._reader.join()
        self._errors.close()

    def call(self, verb: str, patience: float = PATIENCE, **arguments: object) -> dict[str, Any]:
        """Has the peer do something; see `interface.Peer`.

        Raises:
            PeerFailedError: it did not, or not in time. It gets no further request.
        """
        words = [verb, *(f"{name}={value}" for name, value in arguments.items())]
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\t".join(words) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=patience)
        except OSError:
            line = ""
        except queue.Empty:
            raise PeerFailedError(f"{verb}: no answer within {patience:g} s") from None
        how, _, what = line.partition("\t")
        if how == "ok":
            answer: dict[str, Any] = json.loads(what)
            return answer
        raise PeerFailedError(f"{verb}: {what or 'the process has ended'}{self._last_words()}")

    @contextmanager
    def clients(
        self, hosts: str, sessions: int = 1, timeout: float = SESSION_TIMEOUT
    ) -> Iterator[None]:
        """Clients for the verbs that take some."""
        self.call("open", hosts=hosts, sessions=sessions, timeout=timeout)
        yield
        # Not after a failure: the process is not used any more then.
        self.call("close")

    @property
    def resident(self) -> int:
        """The memory of its process, in bytes; of Java, its heap after a collection."""
        answer = self.call("memory")
        return int(answer.get("heap", answer["resident"]))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("ok\t", "error\t")):
                self._answers.put(line.rstrip("\n"))
        self._answers.put("")

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().split("\n")
        said = " | ".join(line.strip() for line in lines[-4:] if line.strip())
        return f" ({said})" if said else ""

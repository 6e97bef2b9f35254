"""A server that only answers words, or only HTTP: to say what no server here can be made to say."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self


class WordsServer:
    """Answers whatever a connection begins with, and closes it. A context manager.

    Args:
        answers: by what the question begins with; without one the connection is closed.
    """

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = {word.encode(): answer.encode() for word, answer in answers.items()}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.asked: list[str] = []
        self._thread = threading.Thread(target=self._serve)

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Wakes up whoever accepts; closing the listener alone would not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link:
                link.settimeout(10)
                question = link.recv(4096)
                self.asked.append(question.split(b" HTTP")[0].decode("latin-1"))
                for word, answer in self._answers.items():
                    if question.startswith(word):
                        link.sendall(answer)
                        break

"""A server of the page in this process, and requests to it in plain HTTP."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

import shmtensor as T
from shmtensor.dashboard import Observer, Server


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    content: bytes


@dataclass
class Site:
    """A running server, and the session of this process."""

    server: Server
    session: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return self.server.server_port

    def ask(self, path: str, method: str = "GET", *, token: bool = True, **headers: str) -> Answer:
        """Send a request; with the token in a header, unless told otherwise."""
        sent = {"Authorization": f"Bearer {self.server.token}"} if token else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, headers=sent | headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()


@pytest.fixture
def site() -> Iterator[Site]:
    T.empty(1, shared=True)  # joins the session
    session = os.environ["SHMTENSOR_MANAGER"][-16:]
    with Server(Observer()) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Site(server, session)
        finally:
            server.shutdown()
            thread.join()


_LABEL = '<img src=x onerror=a()>\n\u202e"&'
_HOSTILE = f"""
import sys
import shmtensor as T
from shmtensor._boundary import sharing
kept = T.zeros(1234, shared=True)
sharing.set_label({_LABEL!r})
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hostile() -> Iterator[str]:
    """The label of a process in a session of its own, which is no plain text."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    with subprocess.Popen(
        [sys.executable, "-c", _HOSTILE],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield _LABEL
        finally:
            process.communicate(timeout=60)

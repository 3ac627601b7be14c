"""Programs that know nothing of each other, and the services between them."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import waiting

from shmtensor.service import Service

WAIT_S = 120  # against hangs


def environment() -> dict[str, str]:
    """An environment of a program that has nothing to do with this session."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    root = str(Path(sys.modules["shmtensor"].__file__ or "").parents[1])
    env["PYTHONPATH"] = waiting.python_path(root)
    return env


def unused_name() -> str:
    """A name that no other test process has."""
    return f"test-{os.getpid()}-{secrets.token_hex(8)}"


def command(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a ``shmtensor`` command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "shmtensor", *arguments],
        env=environment() if env is None else env,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def activated(listener: socket.socket, *arguments: str) -> int:
    """Run ``shmtensor serve`` with a socket that it gets as from systemd; return its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(listener.fileno(), 3)
            os.environ.update(environment(), LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
            os.execv(sys.executable, [sys.executable, "-m", "shmtensor", "serve", *arguments])
        finally:
            os._exit(1)
    return pid


def _kill(process: subprocess.Popen[str]) -> None:
    """Children of the process may have its pipes: they are closed, not read to their end."""
    process.kill()
    process.wait(WAIT_S)
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(BrokenPipeError):  # what was not written yet
            if pipe is not None:
                pipe.close()


class Process:
    """A program in any language whose input and output the test has."""

    def __init__(self, *command: str | Path, env: dict[str, str], **kwargs: Any) -> None:
        self.process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **kwargs,
        )

    def line(self) -> str:
        """Wait for a line of its output."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, self.process.communicate()[1]
        return text.rstrip("\n")

    def say(self, text: str = "") -> None:
        """Write it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def finish(self, text: str | None = None) -> str:
        """Write *text* and wait for its successful end; returns the rest of its output."""
        out, err = self.process.communicate(text, timeout=WAIT_S)
        assert self.process.returncode == 0, out + err
        return out

    def kill(self) -> None:
        """End it at once and wait for that."""
        _kill(self.process)


class Program(Process):
    """A Python program of its own; *prefix* is a command that runs it."""

    def __init__(
        self, text: str, *arguments: str, prefix: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        env = {**environment(), **kwargs.pop("env", {})}
        super().__init__(*prefix, sys.executable, "-c", text, *arguments, env=env, **kwargs)


class Server:
    """``shmtensor serve``, ready."""

    def __init__(self, *arguments: str, **kwargs: Any) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "notify")
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
                ready.bind(path)
                ready.settimeout(WAIT_S)
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "shmtensor", "serve", *arguments],
                    env={**environment(), "NOTIFY_SOCKET": path},
                    stderr=subprocess.PIPE,
                    text=True,
                    **kwargs,
                )
                try:
                    self.state = ready.recv(100)
                except BaseException:
                    self.kill()
                    raise

    @property
    def pid(self) -> int:
        """Of the manager: the program became it."""
        return self.process.pid

    def terminate(self) -> int:
        """Ask it to end; returns its exit status."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=WAIT_S)
        return self.process.returncode

    def kill(self) -> None:
        """End it at once and wait for that."""
        _kill(self.process)


@contextlib.contextmanager
def serving(*arguments: str, **kwargs: Any) -> Iterator[tuple[str, Server]]:
    """Run a service under a name of its own."""
    name = unused_name()
    server = Server("--name", name, *arguments, **kwargs)
    try:
        yield name, server
    finally:
        server.kill()


@contextlib.contextmanager
def reaped() -> Iterator[type[Program]]:
    """Make a `Program` that does not outlive the block."""
    made: list[Program] = []

    class Made(Program):
        def __init__(self, text: str, *arguments: str, **kwargs: Any) -> None:
            super().__init__(text, *arguments, **kwargs)
            made.append(self)

    try:
        yield Made
    finally:
        for program in made:
            program.kill()


@contextlib.contextmanager
def joined() -> Iterator[Service]:
    """Join a service of its own, with all descriptors and maps that this process will ever need."""
    with serving() as (name, _):
        service = Service(name)
        service.publish("start", service.empty(1))
        service.attach("start", "ro")
        service.unpublish("start")
        yield service


def forget_names(service: Service) -> None:
    """Leave a service without names."""
    for name in service.list():
        with contextlib.suppress(KeyError):  # its publisher has just ended
            service.unpublish(name)

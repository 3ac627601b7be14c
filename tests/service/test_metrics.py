"""``shmtensor serve --metrics``: figures of one service over HTTP, beside its manager."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import service_programs as programs

import shmtensor as T
from shmtensor.service import Service

_TOKEN = "0123456789abcdefghij"
_PUBLISHES = """
import sys; import shmtensor as T; from shmtensor.service import Service
Service(sys.argv[1]).publish("weights", T.ones(1000), persist=True)
"""
_LISTS = """
import sys; from shmtensor.service import Service
Service("any", socket=sys.argv[1]).list()
"""


@dataclass
class Metrics:
    """A service with a server of its metrics."""

    name: str
    server: programs.Server
    host: str
    port: int
    token: str | None

    def ask(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and content of an answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=programs.WAIT_S)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextmanager
def _measured(*options: str, name: str | None = None) -> Iterator[Metrics]:
    with programs.serving("--metrics", "0", *options, stdout=subprocess.PIPE) as (own, server):
        assert server.process.stdout is not None
        line = server.process.stdout.readline()
        pattern = r"shmtensor: metrics at http://([\d.]+):(\d+)/metrics(?:\?token=(\S+))?\n"
        found = re.fullmatch(pattern, line)
        assert found is not None, line
        yield Metrics(name or own, server, found[1], int(found[2]), found[3])


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(_TOKEN + "\n")
    path.chmod(0o600)
    return str(path)


def _links(pid: str) -> set[str]:
    return {os.readlink(file.path) for file in os.scandir(f"/proc/{pid}/fd")}


@pytest.mark.check
def test_metrics_are_those_of_this_service_alone(
    service: Service, run: type[programs.Program]
) -> None:
    service.publish("other", T.ones(2))
    with _measured() as metrics:
        run(_PUBLISHES, metrics.name).finish()
        status, text = metrics.ask(f"/metrics?token={metrics.token}")
        assert status == 200
        assert set(re.findall(r'service="([^"]*)"', text)) == {metrics.name}
        figures = {
            line.partition("{")[0]: float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if 'name="weights"' in line
        }
        assert figures["shmtensor_name_version"] == 1
        assert figures["shmtensor_name_bytes"] == 4000
        assert figures["shmtensor_name_age_seconds"] >= 0


def test_without_the_token_only_the_health_is_told(token_file: str) -> None:
    with _measured("--token-file", token_file) as metrics:
        assert metrics.token is None  # it came from a file, and stays out of logs
        assert metrics.ask("/healthz") == (200, "ok\n")
        assert metrics.ask("/metrics")[0] == 403
        assert metrics.ask("/metrics", Authorization=f"Bearer {_TOKEN}")[0] == 200


def test_it_ends_with_the_manager_and_leaves_the_port() -> None:
    with _measured() as metrics:
        os.kill(metrics.server.pid, signal.SIGKILL)
        assert metrics.server.process.stdout is not None
        metrics.server.process.stdout.read()  # until nobody can write there
        with pytest.raises(ConnectionRefusedError):
            metrics.ask("/healthz")
        with programs.serving("--metrics", str(metrics.port)):
            assert metrics.ask("/healthz") == (200, "ok\n")


def test_a_stopped_manager_is_not_well() -> None:
    with _measured() as metrics:
        os.kill(metrics.server.pid, signal.SIGSTOP)
        try:
            assert metrics.ask("/healthz") == (503, "The manager does not answer.\n")
        finally:
            os.kill(metrics.server.pid, signal.SIGCONT)


@pytest.mark.check
def test_service_at_a_path(tmp_path: Path) -> None:
    path = str(tmp_path / "own" / "socket")
    with _measured("--socket", path, name=path) as metrics:
        assert metrics.ask("/healthz") == (200, "ok\n")
        assert f'service="{path}"' in metrics.ask(f"/metrics?token={metrics.token}")[1]


def test_socket_of_a_supervisor_is_the_managers_alone(
    tmp_path: Path, run: type[programs.Program]
) -> None:
    """The other process would keep clients waiting there after the manager's end."""
    path = str(tmp_path / "activated")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        link = f"socket:[{os.fstat(listener.fileno()).st_ino}]"
        pid = programs.activated(listener, "--socket", path, "--metrics", "0")
    try:
        run(_LISTS, path).finish()  # when that works, the program has become the manager
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert link in _links(str(pid))
        assert link not in _links(child)
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


def test_other_names_in_the_host_header() -> None:
    with _measured("--host", "127.0.0.2", "--allow-host", "Metrics.example") as metrics:
        for own in ("127.0.0.2:1", "10.0.0.7", "[::1]:8080", "metrics.example.:80", "localhost"):
            assert metrics.ask("/healthz", Host=own)[0] == 200, own
        assert metrics.ask("/healthz", Host=socket.gethostname().upper())[0] == 200
        for foreign in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "a@127.0.0.2"):
            assert metrics.ask("/healthz", Host=foreign)[0] == 421, foreign


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--host", "127.0.0.1", "--allow-host", "x"], "need --metrics"),
        (["--metrics", "70000"], "expected a port from 0 to 65535, got '70000'"),
        (["--metrics", "0", "--host", "192.0.2.1"], "192.0.2.1 is not an IPv4 address"),
        (["--metrics", "0", "--token-file", "/no/file"], "/no/file"),
    ],
)
def test_wrong_use(options: list[str], text: str) -> None:
    done = programs.command("serve", "--name", programs.unused_name(), *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr


def test_port_in_use_starts_no_service() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, name = str(taken.getsockname()[1]), programs.unused_name()
        done = programs.command("serve", "--name", name, "--metrics", port)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"shmtensor serve: port {port} is in use\n"

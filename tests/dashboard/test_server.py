"""Who may ask the server, what it says of itself, and who cannot harm it."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shmtensor.dashboard import server as module

ROOT = Path(__file__).resolve().parents[2]


def _raw(port: int, text: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(text)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts)


@pytest.mark.check
@pytest.mark.parametrize("path", ["/", "/state.json", "/metrics"])
def test_token_in_header_or_query_opens(path: str, site: Any) -> None:
    assert site.ask(path).status == 200
    assert site.ask(f"{path}?token={site.server.token}", token=False).status == 200


@pytest.mark.parametrize("path", ["/", "/state.json", "/metrics", "/nothing"])
def test_without_the_token_nothing_is_told(path: str, site: Any) -> None:
    assert site.ask(path, token=False).status == 403
    assert site.ask(f"{path}?token=", token=False).status == 403
    assert site.ask(f"{path}?token=wrong%ff", token=False).status == 403
    assert site.ask(path, token=False, Authorization=f"Basic {site.server.token}").status == 403
    cookie = f"token={site.server.token}"
    answer = site.ask(path, token=False, Cookie=cookie)
    assert answer.status == 403
    assert site.session.encode() not in answer.content


def test_tokens_differ_and_are_long() -> None:
    observer = module.Observer()
    with module.Server(observer) as one, module.Server(observer) as other:
        assert one.token != other.token
        assert len(one.token) >= 32
        assert one.server_port != other.server_port
        assert one.socket.getsockname()[0] == "127.0.0.1"


def test_host_of_another_site_is_refused(site: Any) -> None:
    for host in ("evil.example", f"evil.example:{site.port}", "127.0.0.1:1", ""):
        assert site.ask("/", Host=host).status == 421
    for host in (f"127.0.0.1:{site.port}", f"LOCALHOST:{site.port}"):
        assert site.ask("/", Host=host).status == 200
    own = f"Host: 127.0.0.1:{site.port}\r\n"
    token = f"GET /?token={site.server.token} HTTP/1.1\r\n"
    for hosts in ("", own + "Host: evil.example\r\n"):
        assert _raw(site.port, (token + hosts + "\r\n").encode()).startswith(b"HTTP/1.0 421")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused(method: str, site: Any) -> None:
    answer = site.ask("/state.json", method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_head_has_no_content(site: Any) -> None:
    answer = site.ask("/", "HEAD")
    assert (answer.status, answer.content) == (200, b"")
    assert int(answer.headers["Content-Length"]) == len(site.ask("/").content)


@pytest.mark.parametrize(
    "path", ["/x", "/../pyproject.toml", "/page.html", "/state.json/", "/%2e%2e/", "/?a=b/.."]
)
def test_unknown_paths_are_not_found(path: str, site: Any) -> None:
    assert site.ask(path).status == (200 if path.startswith("/?") else 404)


@pytest.mark.parametrize("path", ["/", "/state.json", "/metrics", "/nothing"])
def test_headers_keep_the_page_to_itself(path: str, site: Any) -> None:
    headers = site.ask(path).headers
    policy = dict(
        part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"].startswith("'sha256-")
    assert policy["connect-src"] == "'self'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert not [
        name for name in headers if name.lower().startswith(("access-control", "set-cookie"))
    ]
    assert "Python" not in headers["Server"]


def test_page_has_no_outside_assets_and_sets_no_html(site: Any) -> None:
    page = site.ask("/").content.decode()
    assert page.count("<script>") == page.count("<style>") == 1
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "src=",
        "@import",
    ):
        assert forbidden not in page
    addresses = page.replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in addresses and "https://" not in addresses


@pytest.mark.check
def test_malformed_requests_end_with_an_error(site: Any) -> None:
    for text in (
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\0\xff\r\n\r\n",
        b"GET /\r\n",
    ):
        assert b"200 OK" not in _raw(site.port, text)
    assert site.ask("/").status == 200


def test_head_that_is_too_long_is_cut_off(site: Any) -> None:
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 50000 + b"\r\n")
            got = connection.recv(100)
        except ConnectionError:
            got = b""
    assert not got.startswith(b"HTTP/1.0 200")


def test_silent_and_trickling_connections_are_closed(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEAD_S", 0.2)
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as silent:
        assert silent.recv(10) == b""
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as slow:
        slow.settimeout(0.02)
        closed = False
        for _ in range(2000):
            try:
                slow.sendall(b"G")
                closed = slow.recv(10) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
            if closed:
                break
        assert closed


def test_many_silent_connections_do_not_shut_out_others(site: Any) -> None:
    silent = []
    try:
        for _ in range(2 * module.MAX_CONNECTIONS):
            silent.append(socket.create_connection(("127.0.0.1", site.port), timeout=60))
        assert site.ask("/state.json").status == 200
        assert len(site.server._connections) <= module.MAX_CONNECTIONS
    finally:
        for connection in silent:
            connection.close()


def _start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    environment.setdefault("PYTHONPATH", str(ROOT))
    return subprocess.Popen(
        [sys.executable, "-m", "shmtensor", "dashboard", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_command_prints_its_address_and_ends_with_ctrl_c(site: Any) -> None:
    with _start() as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("shmtensor dashboard: http://127.0.0.1:")
            port = int(line.split(":")[3].split("/")[0])
            assert b" 403 " in _raw(
                port, f"GET / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
            )
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert out == ""
    assert "Traceback" not in err


def test_port_in_use_is_one_line_and_status_2(site: Any) -> None:
    with _start("--port", str(site.port)) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert f"shmtensor dashboard: port {site.port} is in use" in err.splitlines()


def test_health_is_told_without_a_token_and_is_all_that_is_told(site: Any) -> None:
    answer = site.ask("/healthz", token=False)
    assert (answer.status, answer.content) == (200, b"ok\n")
    assert site.ask("/healthz", token=False, Host="evil.example").status == 421


def test_token_comes_from_a_file_and_host_is_asked_for(site: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdefghij\n")
    token.chmod(0o600)
    options = ("--token-file", str(token), "--host", "127.0.0.2", "--allow-host", "node.example")
    with _start(*options) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert "0123456789" not in line
            found = re.fullmatch(r"shmtensor dashboard: http://127\.0\.0\.2:(\d+)/\n", line)
            assert found is not None
            connection = http.client.HTTPConnection("127.0.0.2", int(found[1]), timeout=60)
            headers = {"Authorization": "Bearer 0123456789abcdefghij", "Host": "node.example"}
            connection.request("GET", "/metrics", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200
            assert site.session.encode() in answer.read()
        finally:
            process.kill()


def test_token_that_others_may_read_is_wrong_use(site: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdefghij\n")
    token.chmod(0o644)
    with _start("--token-file", str(token)) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "others may read it" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--port", "x"),
        ("--port", "70000"),
        ("--run", "/no/folder"),
        ("--token-file", "/no/file"),
        ("--host", "192.0.2.1"),
    ],
)
def test_wrong_use(arguments: tuple[str, str]) -> None:
    with _start(*arguments) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert arguments[1] in err

"""The HTTP server of the page: on 127.0.0.1 by default, for everyone who has the token.

Who may ask. The Host header must name this server. A page of another site does not, even if its
owner points its name at this machine (DNS rebinding): that name is none of ours. The token must be
in the query or in an Authorization header; only /healthz needs none, and says no more than ok or
not. There is no cookie, because browsers send cookies to every port of a host, so another user's
server on this machine could read it.

Who may stay. A connection carries one request. Its head must arrive within seconds and be small.
When there are too many connections, those that have shown no token yet are closed, oldest first.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import io
import ipaddress
import json
import re
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from importlib import resources
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from shmtensor import __version__
from shmtensor._core._fork_locks import free_in_child
from shmtensor.dashboard.state import Observer

__all__ = ["Server"]

#: Most connections at a time.
MAX_CONNECTIONS = 64
#: Most seconds until the head of a request is complete, and its most bytes.
HEAD_S = 5.0
MAX_HEAD_BYTES = 16 << 10
#: Most seconds until a client has taken its answer.
ANSWER_S = 20.0

_LOOPBACK = "127.0.0.1"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_HOST_HEADER = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?", re.ASCII)


def _page() -> bytes:
    return resources.files("shmtensor.dashboard").joinpath("page.html").read_bytes()


def _policy(page: bytes) -> str:
    """Return the Content-Security-Policy that lets the page's own style and script run, only."""

    def hashed(tag: bytes) -> str:
        digests = [
            base64.b64encode(hashlib.sha256(text).digest()).decode()
            for text in re.findall(rb"<%b>(.*?)</%b>" % (tag, tag), page, re.S)
        ]
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    return (
        f"default-src 'none'; script-src {hashed(b'script')}; style-src {hashed(b'style')}; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _plain(name: str) -> str:
    """Return a host's name or address as it is compared: lower case, no brackets, no last dot."""
    return name.lower().strip("[]").rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Server(http.server.ThreadingHTTPServer):
    """Serves the page. Use it in a ``with`` block, and call `serve_forever` in it.

    Args:
        observer: Looks at the sessions.
        port: The port; 0: one that is free.
        token: What a request must show; None: a random text.
        host: The address to listen at. Others than 127.0.0.1 are reached from other machines, and
            nothing is encrypted.
        names: Further names that a Host header may call this server.

    Raises:
        OSError: The port is taken, or may not be used.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        observer: Observer,
        port: int = 0,
        token: str | None = None,
        host: str = _LOOPBACK,
        names: Sequence[str] = (),
    ) -> None:
        self.observer = observer
        self._is_local = host == _LOOPBACK
        self._names = {_plain(name) for name in names}
        if not self._is_local:
            self._names |= {"localhost", _plain(host), _plain(socket.gethostname())}
        #: What a request must show.
        self.token = secrets.token_urlsafe(24) if token is None else token
        self.page = _page()
        self.policy = _policy(self.page)
        self._connections: dict[socket.socket, bool] = {}
        self._answering: set[threading.Thread] = set()
        self._connections_lock = free_in_child(threading.Lock())
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind the socket, without asking a name server for the host's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def url(self, path: str = "/", *, with_token: bool = True) -> str:
        """Return the address of the page, or of another *path*."""
        query = f"?token={self.token}" if with_token else ""
        return f"http://{self.server_name}:{self.server_port}{path}{query}"

    def is_own_host(self, host: str) -> bool:
        """Whether the text of a Host header means this server.

        Elsewhere than on the loopback address any IP address will do: a page whose owner points
        its name here sends that name. The port may be another one, that of a proxy.
        """
        match = _HOST_HEADER.fullmatch(host.lower())
        if match is None:
            return False
        name = _plain(match[1])
        if name in self._names:
            return True
        if not self._is_local:
            return _is_address(name)
        own = [f"{own}:{self.server_port}" for own in (_LOOPBACK, "localhost")]
        return host.lower() in own or (self.server_port == 80 and name in (_LOOPBACK, "localhost"))

    def is_token(self, text: str) -> bool:
        """Whether this is the token; takes as long for each wrong one."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.token.encode())

    # --- connections --------------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; make room first when there are too many connections."""
        with self._connections_lock:
            waiting = [s for s, is_trusted in self._connections.items() if not is_trusted]
            is_full = len(self._connections) >= MAX_CONNECTIONS
            if is_full and waiting:
                _shut(waiting[0])  # its thread ends it
                del self._connections[waiting[0]]
                is_full = False
            if not is_full:
                self._connections[request] = False
        if is_full:
            self.shutdown_request(request)
            return
        thread = threading.Thread(
            target=self._answer,
            args=(request, client_address),
            name="shmtensor-dashboard",
            daemon=True,
        )
        self._answering.add(thread)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            self._answering.discard(thread)
            self._forget(request)
            self.shutdown_request(request)

    def _answer(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            self._forget(request)
            self._answering.discard(threading.current_thread())

    def trust(self, request: socket.socket) -> None:
        """Note that a connection has shown the token: it is not closed for others."""
        with self._connections_lock:
            if request in self._connections:
                self._connections[request] = True

    def _forget(self, request: socket.socket) -> None:
        with self._connections_lock:
            self._connections.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Be silent about a connection that broke: it is the other side's business."""

    def server_close(self) -> None:
        """Close the socket and all connections."""
        super().server_close()
        with self._connections_lock:
            for request in self._connections:
                _shut(request)
        for thread in list(self._answering):
            thread.join(timeout=5)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.server_close()


def _shut(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return


class _Head(io.RawIOBase):
    """Reads a connection within a time and a number of bytes, however slowly they trickle."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline_s = time.monotonic() + HEAD_S
        self._n_left = MAX_HEAD_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0 or self._n_left <= 0:
            raise TimeoutError("the head of the request is too slow or too long")
        self._connection.settimeout(left_s)
        view = memoryview(buffer)[: self._n_left]
        n = self._connection.recv_into(view)
        self._n_left -= n
        return n


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    server_version = f"shmtensor/{__version__}"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Head(self.connection))

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the request line has the token."""

    def do_GET(self) -> None:
        """Answer GET."""
        self._respond()

    def do_HEAD(self) -> None:
        """Answer HEAD: as GET, without the content."""
        self._respond()

    def __getattr__(self, name: str) -> Any:
        # The base class looks for a method do_X for the HTTP method X.
        if name.startswith("do_"):
            return self._refuse_method
        raise AttributeError(name)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send a line of text; what the base class cannot parse ends here."""
        self.close_connection = True
        self._send(code, f"{message or HTTPStatus(code).phrase}\n".encode(), "text/plain")

    def _refuse_method(self) -> None:
        if self._may_ask_here():
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are answered.")

    def _may_ask_here(self) -> bool:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) == 1 and self.server.is_own_host(hosts[0].strip()):
            return True
        self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "The Host header names another server.")
        return False

    def _has_token(self, query: dict[str, list[str]]) -> bool:
        shown = query.get("token", [])
        kind, _, text = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            shown = [*shown, text.strip()]
        return any(self.server.is_token(text) for text in shown[:2])

    def _respond(self) -> None:
        if not self._may_ask_here():
            return
        try:
            address = urlsplit(self.path)
            query = parse_qs(address.query, keep_blank_values=True, max_num_fields=16)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "The address cannot be read.")
            return
        if address.path == "/healthz":
            self._tell_health()
            return
        if not self._has_token(query):
            self.send_error(
                HTTPStatus.FORBIDDEN,
                "The token is missing or wrong. Open the address that shmtensor dashboard printed.",
            )
            return
        self.server.trust(self.connection)
        try:
            content, kind = self._content(address.path, query)
        except LookupError:
            self.send_error(HTTPStatus.NOT_FOUND, "Try /, /state.json, /metrics or /healthz.")
        except (OSError, RuntimeError, ValueError, MemoryError) as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, ascii(str(error))[1:-1])
        else:
            self._send(HTTPStatus.OK, content, kind)

    def _tell_health(self) -> None:
        if self.server.observer.is_well():
            self._send(HTTPStatus.OK, b"ok\n", "text/plain")
        else:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "The manager does not answer.")

    def _content(self, path: str, query: dict[str, list[str]]) -> tuple[bytes, str]:
        """Return an answer and its media type. Raises LookupError for an unknown path."""
        if path == "/":
            return self.server.page, "text/html; charset=utf-8"
        if path == "/state.json":
            name = query.get("session", [None])[0]
            state = self.server.observer.state(name)
            return json.dumps(state, allow_nan=False).encode(), "application/json"
        if path == "/metrics":
            return self.server.observer.metrics().encode("utf-8", "replace"), _PROMETHEUS
        raise LookupError(path)

    def _send(self, code: int, content: bytes, kind: str) -> None:
        self.connection.settimeout(ANSWER_S)
        self.send_response(code)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": self.server.policy,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "Connection": "close",
        }
        if code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "GET, HEAD"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

"""A store over TCP: a thread of rank 0 keeps the table, and everybody connects to it.

A connection begins with `HELLO` from both sides; then requests and replies of `_table` follow, one
reply for each request. The server trusts no byte: lengths are bounded and no object is unpickled. A
silent, slow or wrong connection costs a descriptor and a little memory until it is closed; the
server serves the others in the meantime.
"""

from __future__ import annotations

import errno
import math
import os
import selectors
import socket
import threading
import time
import weakref
from contextlib import suppress
from datetime import timedelta

from shmtensor._core._fork_locks import free_in_child, module_lock
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor._core._waits import LONGEST_S
from shmtensor.distributed._errors import DistNetworkError, QueueEmptyError
from shmtensor.distributed._stores import Store
from shmtensor.distributed._table import (
    MAX_MESSAGE,
    Op,
    Status,
    Table,
    WaitForKeys,
    number_field,
    number_of,
    pack,
    timed_out,
    unpack,
)
from shmtensor.distributed._timeouts import Limit

__all__ = ["HELLO", "TCPStore"]

HELLO = b"shmstor1"
_MAX_SILENT = 64  # connections that have not said hello
_MAX_FIELDS = 1 << 16  # of a request; what waits for many keys is looked at again and again
_SILENT_S = 30.0
_ANSWER_GRACE_S = 10.0
_LOCAL = ("localhost", "127.0.0.1", "::1")


class TCPStore(Store):
    """A store over TCP.

    There are no passwords: anyone who reaches the port can read and write the keys. With a host
    name of this machine (``localhost``, ``127.0.0.1``) only processes of this machine reach it.

    Args:
        host_name: Where the server is.
        port: Its port; 0 on the server: any free one, see `port`.
        world_size: Number of processes, including the server's.
        is_master: Be the server.
        timeout: How long connecting, `get` and `wait` wait.
        wait_for_workers: On the server: return when *world_size* processes have connected.
        multi_tenant: Use this process's server at the port, if it has one.
        master_listen_fd: A listening socket for the server.
        use_libuv: Ignored.

    Raises:
        DistNetworkError: The port is in use, or nobody answers.
        DistStoreError: The workers have not come in time.

    Source:
        torch.distributed.TCPStore.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        limit = Limit(timeout)
        self._timeout = timeout
        self.host = host_name
        self._server: _Server | None = None
        if is_master:
            self._server = _server_at(host_name, port, multi_tenant, master_listen_fd)
            port = self._server.port
        self.port = port
        self._lock = free_in_child(threading.Lock())
        self._socket: socket.socket | None = None
        self._pid = os.getpid()
        try:
            self._connect(limit)
            n_wanted = world_size if is_master and wait_for_workers and world_size else 0
            self._meet(n_wanted, limit)
        except BaseException:
            self._drop()
            if self._server is not None:
                self._server.leave()
            raise
        if self._server is not None:
            weakref.finalize(self, _Server.leave, self._server)

    def __repr__(self) -> str:
        kind = "server" if self._server is not None else "client"
        return f"TCPStore({kind} at {self.host}:{self.port})"

    def _meet(self, n_wanted: int, limit: Limit) -> None:
        """Be counted, and wait until as many have been."""
        n_new = 1
        while True:
            reply = self._request(Op.ADD, b"init/", number_field(n_new), limit=limit)
            if number_of(reply[0]) >= n_wanted:
                return
            if limit.is_over():
                raise timed_out(Op.WAIT, [b"init/"], limit.seconds)
            time.sleep(0.005)
            n_new = 0

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket = None
            self._closing()

    def _connect(self, limit: Limit) -> socket.socket:
        host = self.host
        if self._server is not None and self._server.is_local:
            host = self._server.address
        reason: OSError | None = None
        while True:
            left = limit.left()
            if left <= 0:
                raise DistNetworkError(
                    f"The client socket has timed out after {limit.seconds * 1000:.0f}ms while "
                    f"trying to connect to ({self.host}, {self.port})."
                    + (f" ({reason})" if reason else "")
                )
            try:
                made = socket.create_connection((host, self.port), timeout=left)
            except OSError as error:
                raise_of_handler(error)
                reason = error
                time.sleep(min(0.05, limit.left()))
                continue
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                made.sendall(HELLO)
                answer = _receive(made, len(HELLO), time.monotonic() + limit.left())
            except OSError as error:
                made.close()
                raise_of_handler(error)
                reason = error
                time.sleep(min(0.05, limit.left()))
                continue
            except BaseException:
                made.close()
                raise
            if answer != HELLO:
                made.close()
                raise DistNetworkError(
                    f"({self.host}, {self.port}) is in use by something that is not a store: "
                    f"it says {answer!r}"
                )
            self._socket = made
            # No __del__: of a store in a cycle, the collector may end the open socket before it.
            self._closing = weakref.finalize(self, made.close)
            return made

    def _ask(self, op: Op, fields: list[bytes], limit: Limit) -> list[bytes]:
        with self._lock:
            if self._pid != os.getpid():  # a fork: the connection is the parent's
                self._pid = os.getpid()
                self._server = None
                self._drop()
            connection = self._socket or self._connect(limit)
            left = limit.left()
            message = pack(op, [number_field(math.ceil(left * 1000)), *fields])
            answered_by = time.monotonic() + left + _ANSWER_GRACE_S
            try:
                connection.settimeout(left + _ANSWER_GRACE_S)
                connection.sendall(message)
                size = int.from_bytes(_receive(connection, 4, answered_by), "little")
                if size > MAX_MESSAGE:
                    raise DistNetworkError(f"a store sends a message of {size} bytes")
                status, reply = unpack(_receive(connection, size, answered_by))
            except TimeoutError as error:
                self._drop()
                raise_of_handler(error)
                raise DistNetworkError(
                    f"The store at ({self.host}, {self.port}) does not answer."
                ) from None
            except (OSError, ValueError) as error:
                self._drop()
                raise_of_handler(error)
                raise DistNetworkError(
                    f"The connection to the store at ({self.host}, {self.port}) was lost: {error}. "
                    "Has rank 0 ended?"
                ) from None
            except BaseException:  # an interrupt: the reply would be taken for the next one's
                self._drop()
                raise
        if status == Status.DONE:
            return reply
        if status == Status.TIMED_OUT:
            raise timed_out(op, fields, limit.seconds)
        if status == Status.QUEUE_EMPTY:
            raise QueueEmptyError("queue is empty")
        raise ValueError(b"".join(reply).decode("utf-8", "replace") or "a bad request")


def _receive(connection: socket.socket, n: int, deadline: float) -> bytes:
    """Return exactly n bytes.

    Raises:
        ConnectionError: The connection ended before.
        TimeoutError: They have not come by then.
    """
    parts = []
    while n > 0:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the other side is too slow")
        connection.settimeout(left)
        part = connection.recv(min(n, 1 << 20))
        if not part:
            raise ConnectionError("the other side has closed it")
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


# --- the server ----------------------------------------------------------------------------------


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    try:
        if host in _LOCAL:
            family = socket.AF_INET6 if host == "::1" else socket.AF_INET
            address = ("::1" if host == "::1" else "127.0.0.1", port)
        else:
            family, address = socket.AF_INET, ("", port)
            if socket.has_dualstack_ipv6():
                try:
                    return socket.create_server(
                        address, family=socket.AF_INET6, backlog=512, dualstack_ipv6=True
                    )
                except OSError as error:
                    if error.errno == errno.EADDRINUSE:
                        raise
        return socket.create_server(address, family=family, backlog=512)
    except (OSError, OverflowError) as error:
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        raise DistNetworkError(
            "The server socket has failed to listen on any local network address. "
            f"port: {port}, useIpv6: false, code: -{number}, "
            f"name: {errno.errorcode.get(number, '?')}, message: {os.strerror(number).lower()}"
        ) from None


class _Connection:
    """One client, as the server sees it."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.since = time.monotonic()
        self.has_said_hello = False
        self.received = bytearray()
        self.to_send = bytearray()
        # A request that waits: operation, fields, deadline.
        self.waiting: tuple[int, list[bytes], float] | None = None


class _Server:
    """Serves a table to all connections, in one thread."""

    def __init__(self, host: str, port: int, listen_fd: int | None) -> None:
        self._listener = (
            _listen(host, port) if listen_fd is None else socket.socket(fileno=listen_fd)
        )
        self._listener.setblocking(False)
        self.address, self.port = self._listener.getsockname()[:2]
        self.is_local = host in _LOCAL
        self.n_users = 1
        self._table = Table()
        self._selector = selectors.DefaultSelector()
        self._connections: set[_Connection] = set()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="shmtensor-store", daemon=True)

    def start(self) -> None:
        """Serve. The new thread may run finalizers first, so the caller must not hold the lock."""
        try:
            self._thread.start()
        except BaseException:
            if self._thread.ident is not None:  # it runs, and this was an interrupt
                self.leave()
                raise
            with _servers_lock:
                _servers.discard(self)
            self.close_descriptors()
            raise

    def leave(self) -> None:
        """One store less uses it; the last one ends it."""
        if self._pid != os.getpid():
            return
        with _servers_lock:
            self.n_users -= 1
            if self.n_users > 0:
                return
            _servers.discard(self)
        with suppress(OSError):  # it has ended
            self._wake_writer.send(b"x")
        if self._thread is not threading.current_thread():
            self._thread.join(5)

    def close_descriptors(self) -> None:
        """Give up the port where no thread serves it: after a fork, or if none can be started."""
        with suppress(Exception):
            for connection in self._connections:
                connection.socket.close()
            self._listener.close()
            self._selector.close()
            self._wake_reader.close()
            self._wake_writer.close()

    # --- the thread ---------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while self._serve_once():
                pass
        finally:
            for connection in list(self._connections):
                self._close(connection)
            self._selector.close()
            self._listener.close()
            self._wake_reader.close()
            self._wake_writer.close()

    def _serve_once(self) -> bool:
        for key, events in self._selector.select(self._next_deadline()):
            if key.fileobj is self._wake_reader:
                return False
            if key.fileobj is self._listener:
                self._accept()
                continue
            connection: _Connection = key.data
            try:
                if events & selectors.EVENT_WRITE:
                    self._flush(connection)
                if events & selectors.EVENT_READ:
                    self._read(connection)
            except Exception:  # a fault costs the connection that has asked, and nobody else
                self._close(connection)
        self._end_waits()
        return True

    def _next_deadline(self) -> float | None:
        now = time.monotonic()
        times = [c.waiting[2] for c in self._connections if c.waiting is not None]
        times += [c.since + _SILENT_S for c in self._connections if not c.has_said_hello]
        return min(max(0.0, min(times) - now), LONGEST_S) if times else None

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._close_silent(0)
                time.sleep(0.01)
            return
        connection = _Connection(accepted)
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(accepted, selectors.EVENT_READ, connection)
        except OSError:
            accepted.close()
            return
        self._connections.add(connection)
        self._close_silent(_MAX_SILENT)

    def _close_silent(self, keep: int) -> None:
        """Close the oldest connections that have not said hello, beyond *keep*."""
        silent = sorted(
            (c for c in self._connections if not c.has_said_hello), key=lambda c: c.since
        )
        for connection in silent[: max(0, len(silent) - keep)]:
            self._close(connection)

    def _close(self, connection: _Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            with suppress(KeyError, ValueError, OSError):
                self._selector.unregister(connection.socket)
            connection.socket.close()

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._close(connection)
            return
        connection.received += data
        if not connection.has_said_hello:
            if len(connection.received) < len(HELLO):
                if not HELLO.startswith(bytes(connection.received)):
                    raise ValueError("not a client of a store")
                return
            if connection.received[: len(HELLO)] != HELLO:
                raise ValueError("not a client of a store")
            del connection.received[: len(HELLO)]
            connection.has_said_hello = True
            self._send(connection, HELLO)
        self._handle_received(connection)

    def _handle_received(self, connection: _Connection) -> None:
        received = connection.received
        while connection.waiting is None and len(received) >= 4:
            size = int.from_bytes(received[:4], "little")
            if size > MAX_MESSAGE:
                raise ValueError("a message is too long")
            if len(received) < 4 + size:
                return
            message = bytes(received[4 : 4 + size])
            del received[: 4 + size]
            op, fields = unpack(message, _MAX_FIELDS)
            if not fields or len(fields[0]) != 8:
                raise ValueError("a request without its timeout")
            seconds = min(int.from_bytes(fields[0], "little") / 1000, LONGEST_S)
            self._do(connection, op, fields[1:], time.monotonic() + seconds)
        if connection.waiting is not None and len(received) > MAX_MESSAGE:
            raise ValueError("requests without waiting for replies")

    def _do(self, connection: _Connection, op: int, fields: list[bytes], deadline: float) -> None:
        try:
            reply = pack(Status.DONE, self._table.apply(op, fields))
        except WaitForKeys:
            connection.waiting = (op, fields, deadline)
            return
        except QueueEmptyError:
            reply = pack(Status.QUEUE_EMPTY, [])
        except ValueError as error:
            reply = pack(Status.BAD_REQUEST, [str(error).encode()])
        self._send(connection, reply)

    def _end_waits(self) -> None:
        """Do the requests that waited for what is there now; end silent connections."""
        now = time.monotonic()
        progress = True
        while progress:
            progress = False
            for connection in list(self._connections):
                if connection.waiting is None:
                    if not connection.has_said_hello and now > connection.since + _SILENT_S:
                        self._close(connection)
                    continue
                op, fields, deadline = connection.waiting
                connection.waiting = None
                try:
                    self._do(connection, op, fields, deadline)
                    if connection.waiting is not None and now >= deadline:
                        connection.waiting = None
                        self._send(connection, pack(Status.TIMED_OUT, []))
                    if connection.waiting is None:
                        progress = True  # it may have set what another waits for
                        self._handle_received(connection)
                except Exception:
                    self._close(connection)

    def _send(self, connection: _Connection, data: bytes) -> None:
        if len(connection.to_send) > MAX_MESSAGE:
            raise ValueError("a client does not read its replies")
        connection.to_send += data
        self._flush(connection)

    def _flush(self, connection: _Connection) -> None:
        while connection.to_send:
            try:
                n = connection.socket.send(connection.to_send)
            except BlockingIOError:
                break
            del connection.to_send[:n]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.to_send else 0)
        self._selector.modify(connection.socket, events, connection)


_servers: set[_Server] = set()
_servers_lock = module_lock()


def _server_at(host: str, port: int, multi_tenant: bool, listen_fd: int | None) -> _Server:
    with _servers_lock:
        if multi_tenant and port != 0:
            for server in list(_servers):
                if server.port == port:
                    server.n_users += 1
                    return server
        made = _Server(host, port, listen_fd)
        _servers.add(made)
    made.start()
    return made


def _close_servers_in_child() -> None:
    global _servers
    for server in _servers:
        server.close_descriptors()
    _servers = set()


os.register_at_fork(after_in_child=_close_servers_in_child)

"""Finds sessions, this user's or those that another user opened to it, and takes snapshots.

The socket of a session's manager is in /proc/net/unix. If the manager was killed and no client has
needed another one yet, a member's open control file leads to the session.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from shmtensor._boundary.inspect import Inspector
from shmtensor._boundary.sharing import session_name
from shmtensor.errors import ManagerError
from shmtensor.inspect.processes import command_of, is_running, printable
from shmtensor.inspect.topics import OVERFLOWS, Event, Server, Topic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Block",
    "Client",
    "Published",
    "Queue",
    "Session",
    "Snapshot",
    "Unreadable",
    "current",
    "find_sessions",
    "live_addresses",
    "open_sessions",
    "orphan_numbers",
    "select",
    "set_bits",
]

_CONTROL = re.compile(r"/memfd:shmtensor-control-([0-9a-f]{16})(?: \(deleted\))?")
_LISTENING = 0x10000  # the kernel's __SO_ACCEPTCON


@dataclass(frozen=True)
class Client:
    """A process in a session.

    Attributes:
        client: Its client number in the session.
        pid: Process id; 0: it cannot be seen from this pid namespace.
        start: When it started, in clock ticks after boot.
        is_forking: Whether the number is reserved for a child that is being forked.
        n_slabs: Number of slabs that it owns; `slab_bytes`: their bytes.
        n_held: Number of blocks that it uses; `held_bytes`: their bytes.
        n_alone: Of these, blocks that no other process uses; `alone_bytes`: their bytes.
        n_made: Blocks in use, by any process, that it made; `made_bytes`: their bytes.
        label: The name of a child process and the function it runs. The process writes the label
            itself, so a hostile one may write anything.
    """

    client: int
    pid: int
    start: int
    is_forking: bool
    n_slabs: int
    slab_bytes: int
    n_held: int
    held_bytes: int
    n_alone: int
    alone_bytes: int
    n_made: int
    made_bytes: int
    label: str = ""

    @property
    def who(self) -> str:
        """Its process id; if it cannot be seen from here, "#" and its client number."""
        return str(self.pid) if self.pid else f"#{self.client}"

    @property
    def what(self) -> str:
        """Its label, or its command line; printable."""
        return printable(self.label) or self.command

    @property
    def command(self) -> str:
        """Its command line; printable. "?": it has ended."""
        if not self.pid:
            return "in another pid namespace"
        # Its number may be another process's by now.
        return command_of(self.pid) if is_running(self.pid, self.start) else "?"


@dataclass(frozen=True)
class Block:
    """A block in use, which holds one storage.

    Attributes:
        block: Its number.
        owner: Client number of the process that made it; 0: it has ended.
        is_file: Whether it is a separate memory file.
        nbytes: Bytes of the storage.
        n_leases: Unopened messages in pipes and sockets that keep it.
        n_queued: Messages in queues that keep it.
        is_queue: Whether it contains a queue.
        sent_ms: Milliseconds since the last lease was taken; 0: there is no lease.
        holders: Client numbers of the processes that use it.
        site: The end of "path:line" where it was made, if its program runs with
            ``SHMTENSOR_TRACE_ALLOC=1``; else empty.
    """

    block: int
    slab: int
    owner: int
    is_file: bool
    generation: int
    nbytes: int
    capacity_bytes: int
    n_leases: int
    n_holders: int
    n_queued: int
    is_queue: bool
    sent_ms: int
    holders: tuple[int, ...]
    site: str

    @property
    def is_stranded(self) -> bool:
        """Whether only messages in pipes and sockets keep it."""
        return self.n_leases > 0 and not self.holders and not self.n_queued


@dataclass(frozen=True)
class Queue:
    """A queue of `shmtensor.multiprocessing`.

    Attributes:
        block: The block that contains it.
        owner: Client number of the process that made it; 0: that has ended.
        n_messages: Messages in it.
        max_messages: Most messages; 0: no bound.
        n_put: Messages ever put, modulo 2**32.
        n_pending: Messages that wait in processes for room.
        n_unacknowledged: Messages that were taken with ``ack=True`` and not acknowledged yet.
        n_dead_letters: Messages that were dropped, as they were delivered in vain too often.
        used_bytes: Bytes of the messages; there is room for `capacity_bytes`.
        holders: Client numbers of the processes that have it open.
    """

    block: int
    owner: int
    n_messages: int
    max_messages: int
    n_put: int
    n_pending: int
    n_unacknowledged: int
    n_dead_letters: int
    used_bytes: int
    capacity_bytes: int
    holders: tuple[int, ...]

    @property
    def is_full(self) -> bool:
        """Whether whoever puts next has to wait: at its bound, or without room for what waits."""
        return self.n_pending > 0 or self.n_messages >= self.max_messages > 0


@dataclass(frozen=True)
class Published:
    """The newest version of a name of a service.

    Attributes:
        version: Number of the version; it grows with each publication.
        nbytes: Bytes of all its storages.
        block: The block that describes it.
        publisher: Client number of the process that published it; `pid`: its process id, as the
            service's manager sees it.
        persists: Whether the name outlives its publisher.
        kind: What the name stands for: ``"value"``, ``"queue"``, ``"topic"``, ``"event"`` or
            ``"server"``.
        published_ms: When it was published, in milliseconds of the time of day.
        blocks: The blocks of its storages.
    """

    version: int
    nbytes: int
    generation: int
    block: int
    publisher: int
    pid: int
    persists: bool
    kind: str
    published_ms: int
    blocks: tuple[int, ...]

    @property
    def age_s(self) -> float:
        """Seconds since it was published; 0 if the clock was set back."""
        return max(0.0, time.time() - self.published_ms / 1000)


@dataclass(frozen=True)
class Snapshot:
    """The state of a session at one moment. Bytes are sizes of storages, unless said otherwise.

    Attributes:
        session: Its number.
        at_s: When the snapshot was taken, on the clock of `time.monotonic`.
        arena_bytes: Size of the address range; `limit_bytes`: most bytes of slabs, 0: no limit.
        n_used: Blocks in use; `used_bytes`: their bytes.
        n_free: Free blocks that still have memory; `free_bytes`: their bytes.
        n_cold: Free blocks without memory.
        n_leases: Unopened messages with tensors in pipes and sockets.
        n_stranded: Blocks that only these messages keep; `stranded_bytes`: their bytes.
        n_queued: Blocks that messages in queues keep; `queued_bytes`: their bytes.
        n_orphan_slabs: Slabs whose owner has ended.
        granted_bytes: Bytes covered by slabs.
        n_reclaimed: How often blocks of the present slabs were freed.
        resident_bytes: Memory that the session occupies.
        service: The name of a service, or its socket's path; empty for other sessions.
        clients: Its processes.
    """

    session: int
    incarnation: int
    at_s: float
    arena_bytes: int
    limit_bytes: int
    n_used: int
    used_bytes: int
    n_free: int
    free_bytes: int
    n_cold: int
    n_leases: int
    n_stranded: int
    stranded_bytes: int
    n_queued: int
    queued_bytes: int
    n_slabs: int
    n_orphan_slabs: int
    granted_bytes: int
    n_reclaimed: int
    resident_bytes: int
    service: str
    clients: tuple[Client, ...]

    def client(self, number: int) -> Client | None:
        """Return the client with this number, or None."""
        return next((c for c in self.clients if c.client == number), None)

    @property
    def program(self) -> str:
        """What the oldest process of the session runs; empty: there is no process."""
        oldest = min(self.clients, key=lambda c: (c.start, c.client), default=None)
        return "" if oldest is None else oldest.command


def set_bits(words: NDArray[np.uint64]) -> list[int]:
    """Return the numbers of the bits that are set in 64-bit words."""
    return [
        64 * int(w) + bit
        for w in np.flatnonzero(words)
        for bit in range(64)
        if int(words[w]) >> bit & 1
    ]


class Session:
    """A session that is open for inspection. Close it, or use it in a ``with`` block.

    Managers may be killed and come back, which changes nothing. When the session has ended, its
    last state stays to be seen here. Another session that begins under its name is another one:
    open that anew.

    Args:
        address: The manager's socket: a path, or an abstract name without the ``@``; empty: none
            is known, and the files are opened through a process that has them.
        number: The session's number; needed without an address.
        owner: Id of the user whose session it is; None: this user. That of another user must be a
            service of a group to which this user belongs. Not without an address.

    Raises:
        ManagerError: The session has ended, is another user's, or does not admit this user.
    """

    def __init__(self, address: str = "", number: int = 0, owner: int | None = None) -> None:
        self._inspector = Inspector(address, owner, number)
        self._address = address
        fields, _ = self._inspector.count()
        #: The session's number.
        self.number: int = fields["session"]
        #: The name of a service, or its socket's path; empty for other sessions.
        self.service: str = fields["service"]

    @property
    def address(self) -> str:
        """The manager's socket without the ``@``; empty: no manager was seen yet."""
        if not self._address and self.manager_pid():
            of_user = f"shmtensor-{os.geteuid()}-{self.name}"
            self._address = self.service if self.service.startswith("/") else of_user
        return self._address

    @property
    def name(self) -> str:
        """The session's number as 16 hexadecimal digits, as in the manager's address."""
        return f"{self.number:016x}"

    def __repr__(self) -> str:
        service = f", service {self.service!r}" if self.service else ""
        return f"<Session {self.name}{service}>"

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the session's files."""
        self._inspector.close()

    def snapshot(self) -> Snapshot:
        """Take a snapshot. No process is stopped, so two figures may be of different moments."""
        session, clients = self._inspector.count()
        return Snapshot(
            **session, at_s=time.monotonic(), clients=tuple(Client(**c) for c in clients)
        )

    def blocks(self) -> Iterator[Block]:
        """Iterate over the blocks in use, by ascending number."""
        for fields, holders, site in self._inspector.blocks():
            yield Block(**fields, holders=holders, site=site)

    def block_batches(self) -> Iterator[NDArray[np.void]]:
        """Iterate over the blocks in use, many at a time, in arrays.

        A record has the fields of `Block`, with the bits of client numbers, ``holds``, for
        `Block.holders`: `set_bits` gives their numbers. The next array overwrites the last one.
        """
        return self._inspector.block_batches()

    def queues(self) -> Iterator[Queue]:
        """Iterate over the queues.

        The requests of a server are a queue. What topics and events have inside is none.
        """
        found = [
            (int(record["block"]), tuple(set_bits(record["holds"])))
            for batch in self.block_batches()
            for record in batch[batch["is_queue"] != 0]
        ]
        for number, holders in found:
            fields = self._inspector.queue(number)
            if fields is not None and not fields.pop("is_bare"):
                yield Queue(**fields, holders=holders)

    def published(self, name: str) -> Published | None:
        """Return the newest version of a name of this service; None if the name has no value."""
        found = self._inspector.name(name)
        return None if found is None else Published(**found[0], blocks=found[1])

    def names(self) -> dict[str, Published]:
        """Return the newest version of every published name; empty if this is not a service."""
        return {
            name: Published(**fields, blocks=blocks)
            for name, fields, blocks in self._inspector.names()
        }

    def topics(self) -> dict[str, Topic]:
        """Return the topics of this service by name, without those that are damaged."""
        found = {}
        for name, published in self.names().items():
            if published.kind == "topic" and len(published.blocks) == 2:
                fields = self._inspector.topic(published.blocks[1])
                if fields is not None:
                    overflow = OVERFLOWS[fields.pop("overflow")]
                    found[name] = Topic(**fields, overflow=overflow)
        return found

    def servers(self) -> dict[str, Server]:
        """Return the servers of this service by name, without those that are damaged."""
        found = {}
        for name, published in self.names().items():
            if published.kind == "server" and published.blocks:
                ring = self._inspector.queue(published.blocks[0])
                if ring is not None:
                    found[name] = Server(ring["n_messages"], ring["n_put"], ring["max_messages"])
        return found

    def events(self) -> dict[str, Event]:
        """Return the events of this service by name, without those that are damaged."""
        found = {}
        for name, published in self.names().items():
            if published.kind == "event" and published.blocks:
                ring = self._inspector.queue(published.blocks[0])
                if ring is not None:
                    found[name] = Event(ring["n_messages"] > 0)
        return found

    def names_of_queues(self) -> dict[int, str]:
        """Return the names of the queues and servers of this service, by block."""
        return {
            published.blocks[0]: name
            for name, published in self.names().items()
            if published.kind in ("queue", "server") and published.blocks
        }

    def manager_pid(self) -> int:
        """Return the process id of the manager; 0: there is none, or it does not answer."""
        try:
            return self._inspector.manager()["pid"]
        except ManagerError:
            return 0

    def trim(self) -> int:
        """Return idle memory to the kernel. Returns the bytes that are still occupied.

        Raises:
            ManagerError: There is no manager to do it.
        """
        return self._inspector.trim()

    def gc(self, age_s: float) -> int:
        """End the leases of messages older than *age_s* seconds. Returns how many were ended.

        Raises:
            ManagerError: There is no manager to do it.
        """
        return self._inspector.gc(int(min(max(age_s, 0.0) * 1000, 2**32 - 1)))


def current() -> Session:
    """Open the session in which this process shares its tensors, for inspection.

    Raises:
        ManagerError: Neither this process nor its parents have shared anything yet.
    """
    address = session_name().removeprefix("@")
    try:
        return Session(address)
    except ManagerError as error:
        with contextlib.suppress(ManagerError):  # its manager was perhaps killed
            return Session(number=int(address.rpartition("-")[2], 16))
        raise ManagerError(f"this process has shared no tensor yet: {error}") from None


def live_addresses(owner: int | None = None) -> list[str]:
    """Return the sockets of the managers of a user, without the ``@``, sorted; None: this user."""
    prefix = f"@shmtensor-{os.geteuid() if owner is None else owner}-"
    found = set()
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split(maxsplit=7)
                named = len(fields) == 8 and fields[7].startswith(prefix)
                if named and int(fields[3], 16) & _LISTENING:
                    found.add(fields[7].strip().removeprefix("@"))
    except OSError:
        return []
    return sorted(found)


def _open_control_files() -> Iterator[int]:
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            numbers = os.listdir(f"/proc/{entry}/fd")
        except OSError:  # of another user, or ended
            continue
        for number in numbers:
            try:
                target = os.readlink(f"/proc/{entry}/fd/{number}")
            except OSError:
                continue
            match = _CONTROL.fullmatch(target)
            if match is not None:
                yield int(match[1], 16)


def orphan_numbers(addresses: list[str]) -> list[int]:
    """Return the numbers of sessions that have processes, but no manager at one of *addresses*."""
    served = {address.rpartition("-")[2] for address in addresses}
    return sorted({n for n in _open_control_files() if f"{n:016x}" not in served})


@dataclass(frozen=True)
class Unreadable:
    """A manager of another version, or one that does not answer.

    Attributes:
        address: Its socket without the ``@``.
        reason: The text of the error.
    """

    address: str
    reason: str

    @property
    def name(self) -> str:
        """The session's name, like `Session.name`."""
        return self.address.rpartition("-")[2]


def find_sessions(
    wanted: str = "", owner: int | None = None
) -> tuple[list[Session], list[Unreadable]]:
    """Return all sessions of a user, sorted by socket, and the managers that do not answer.

    Sessions that end during the call are left out, and another user's that this user may not join.

    Args:
        wanted: With a slash: the path of a socket. This finds a service that listens there, even in
            another network namespace with its processes in another pid namespace.
        owner: Id of the user; None: this user. Of another user, you see only the services of a
            group to which you belong.
    """
    is_own = owner in (None, os.geteuid())
    opened: list[Session] = []
    refused: list[Unreadable] = []
    for address in live_addresses(owner):
        try:
            opened.append(Session(address, owner=owner))
        except ManagerError as error:
            if is_own and address in live_addresses():
                refused.append(Unreadable(address, str(error)))
    if is_own:
        known = [s.address for s in opened] + [s.name for s in opened]
        opened += _without_manager([*known, *(u.address for u in refused)])
    if "/" in wanted:
        with contextlib.suppress(ManagerError):  # nobody listens there
            served = Session(os.path.abspath(wanted), owner=owner)
            if any(session.number == served.number for session in opened):
                served.close()
            else:
                opened.append(served)
    return opened, refused


def _without_manager(known: list[str]) -> Iterator[Session]:
    """Open the sessions of this user that have processes, but no manager at a *known* address."""
    for number in orphan_numbers(known):
        try:
            yield _at_its_path(Session(number=number))
        except ManagerError:
            continue


def _at_its_path(found: Session) -> Session:
    """Reopen a service that was found by a member, through its socket, if that is a path."""
    if not found.service.startswith("/"):
        return found
    try:
        served = Session(found.service)
    except ManagerError:  # its manager was killed
        return found
    if served.number != found.number:
        served.close()
        return found
    found.close()
    return served


def open_sessions(wanted: str = "", owner: int | None = None) -> list[Session]:
    """Return the sessions of a user, sorted by socket, without those that cannot be read.

    Args:
        wanted: Return only the sessions that this matches: a session's name or the beginning of it,
            its address, the name or path of a service, or the id of the manager or of a process in
            it. An exact match wins over a beginning. Empty: all sessions.
        owner: Id of the user; None: this user. Of another user, only the services of a group to
            which this user belongs can be read.
    """
    opened, _ = find_sessions(wanted, owner)
    chosen = select(opened, wanted)
    for session in opened:
        if session not in chosen:
            session.close()
    return chosen


def select(sessions: list[Session], wanted: str) -> list[Session]:
    """Return the *sessions* that *wanted* matches, as in `open_sessions`."""
    if not wanted:
        return sessions
    name = wanted.removeprefix("@")
    path = os.path.abspath(name) if "/" in name else name

    def has_process(session: Session) -> bool:
        pid = int(name)
        if pid == 0:  # a process that cannot be seen has no id
            return False
        return pid == session.manager_pid() or any(c.pid == pid for c in session.snapshot().clients)

    rules: list[Callable[[Session], bool]] = [
        # A session whose manager was killed has no socket, but is known by its former address.
        lambda s: name.lower() in (s.name, s.address, f"shmtensor-{os.geteuid()}-{s.name}"),
        lambda s: s.service in (wanted, path),
    ]
    if name.isascii() and name.isdigit():
        rules.append(has_process)
    rules.append(lambda s: s.name.startswith(name.lower()))
    for rule in rules:
        chosen = [session for session in sessions if rule(session)]
        if chosen:
            return chosen
    return []

"""Finding this user's sessions, and pictures of what is in them.

A session is found by its manager's socket in /proc/net/unix, or, when its manager was killed and
no client has needed another one yet, by the control file that its members have open.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType

from shmtensor._boundary.inspect import Inspector
from shmtensor.errors import ManagerError
from shmtensor.inspect.processes import command_of, printable

__all__ = [
    "Block",
    "Client",
    "Picture",
    "Published",
    "Queue",
    "Session",
    "Unreadable",
    "find_sessions",
    "live_addresses",
    "open_sessions",
    "orphan_numbers",
    "select",
]

_CONTROL = re.compile(r"/memfd:shmtensor-control-([0-9a-f]{16})(?: \(deleted\))?")
_LISTENING = 0x10000  # the kernel's __SO_ACCEPTCON


@dataclass(frozen=True)
class Client:
    """A process in a session.

    Attributes:
        client: Its number there.
        pid: Process id.
        start: Clock ticks after boot at which it began.
        is_forking: 1 for a place kept for a child that is being forked.
        n_slabs: Slabs it owns, of `slab_bytes` bytes.
        n_held: Blocks it uses, of `held_bytes` bytes.
        n_sole: Of these, blocks that no other process uses.
        n_made: Blocks in use by anybody that it made.
        label: What it says of itself: the name of a child process and what that runs; whatever a
            hostile one may say.
    """

    client: int
    pid: int
    start: int
    is_forking: int
    n_slabs: int
    slab_bytes: int
    n_held: int
    held_bytes: int
    n_sole: int
    sole_bytes: int
    n_made: int
    made_bytes: int
    label: str = ""

    @property
    def what(self) -> str:
        """What it runs, printable: its label, or its command line."""
        return printable(self.label) or command_of(self.pid)


@dataclass(frozen=True)
class Block:
    """A block in use; it backs one storage.

    Attributes:
        block: Its number.
        owner: Number of the client it was made by; 0 when that is gone.
        is_file: 1 when it is a memory file of its own.
        nbytes: Bytes of the storage.
        n_leases: Messages under way in pipes and sockets that keep it.
        n_queued: Messages in queues that keep it.
        is_queue: 1 when it is a queue.
        sent_ms: Milliseconds since the last of these was sent; 0 without one.
        holders: Numbers of the clients that use it.
        site: The end of "path:line" where it was made, in programs run with
            ``SHMTENSOR_TRACE_ALLOC=1``; else empty.
    """

    block: int
    slab: int
    owner: int
    is_file: int
    generation: int
    nbytes: int
    capacity_bytes: int
    n_leases: int
    n_holders: int
    n_queued: int
    is_queue: int
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
        block: The block it lies in.
        owner: Number of the client that made it; 0 when that is gone.
        n_messages: Messages in it.
        max_messages: Its bound; 0 for none.
        n_put: Messages ever put, modulo 2**32.
        n_pending: Messages that wait in processes for room.
        used_bytes: Of the messages' area of `capacity_bytes` bytes.
        holders: Numbers of the clients that have it open.
    """

    block: int
    owner: int
    n_messages: int
    max_messages: int
    n_put: int
    n_pending: int
    used_bytes: int
    capacity_bytes: int
    holders: tuple[int, ...]


@dataclass(frozen=True)
class Published:
    """The newest version of a name of a service.

    Attributes:
        version: Grows with each publication.
        nbytes: Bytes of all its storages.
        block: The block that describes it.
        publisher: Number of the client that published it; pid: its process id.
        persists: 1 when the name outlives its publisher.
        blocks: The blocks of its storages.
    """

    version: int
    nbytes: int
    generation: int
    block: int
    publisher: int
    pid: int
    persists: int
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Picture:
    """A session at one moment. Byte figures are sizes of storages unless they say otherwise.

    Attributes:
        session: Its number.
        at_s: When the look was taken, on the clock of `time.monotonic`.
        arena_bytes: Addresses there are; limit_bytes: what it may cover, 0 for no bound.
        n_used: Blocks in use, of `used_bytes` bytes.
        n_free: Free blocks that kept their memory, of `free_bytes` bytes.
        n_cold: Free blocks without memory.
        n_leases: Messages with tensors under way in pipes and sockets.
        n_stranded: Blocks that only these keep, of `stranded_bytes` bytes.
        n_queued: Blocks kept by messages in queues, of `queued_bytes` bytes.
        n_orphan_slabs: Slabs whose owner is gone.
        granted_bytes: Covered by slabs.
        n_reclaimed: How often blocks of the present slabs were given back.
        resident_bytes: Memory that the session occupies.
        service: The name of a service, or its socket's path; empty for other sessions.
        clients: Its processes.
    """

    session: int
    world: int
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
        """The client of this number, or None."""
        return next((c for c in self.clients if c.client == number), None)


class Session:
    """A session that is being looked at; close it, or use it in a ``with`` block.

    Args:
        address: The manager's socket, a path or an abstract one without the ``@``; empty when there
            is no manager.
        number: The session's number; needed without an address.

    Raises:
        ManagerError: It is gone, or another user's.
    """

    def __init__(self, address: str = "", number: int = 0) -> None:
        self._inspector = Inspector(address, number)
        #: The manager's socket without the ``@``; empty when there is no manager.
        self.address = address
        fields, _ = self._inspector.count()
        #: The session's number.
        self.number: int = fields["session"]
        #: Of a service its name, or its socket's path; empty for other sessions.
        self.service: str = fields["service"]

    @property
    def name(self) -> str:
        """The number as 16 hexadecimal digits, as in the manager's address."""
        return f"{self.number:016x}"

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
        """Let go of the session's files."""
        self._inspector.close()

    def look(self) -> Picture:
        """Count everything once; nobody is stopped, so figures may be a moment apart."""
        session, clients = self._inspector.count()
        return Picture(
            **session, at_s=time.monotonic(), clients=tuple(Client(**c) for c in clients)
        )

    def blocks(self) -> Iterator[Block]:
        """Each block in use, by number."""
        for fields, holders, site in self._inspector.blocks():
            yield Block(**fields, holders=holders, site=site)

    def queues(self) -> Iterator[Queue]:
        """Each queue; none when the manager was killed, since only it gives the arena out."""
        for block in self.blocks():
            fields = self._inspector.queue(block.block) if block.is_queue else None
            if fields is not None:
                yield Queue(**fields, holders=block.holders)

    def published(self, name: str) -> Published | None:
        """What a published name of this service stands for; None when it stands for nothing."""
        found = self._inspector.name(name)
        return None if found is None else Published(**found[0], blocks=found[1])

    def manager_pid(self) -> int:
        """Process id of the manager; 0 when there is none, or it does not answer."""
        try:
            return self._inspector.manager()["pid"] if self.address else 0
        except ManagerError:
            return 0

    def trim(self) -> int:
        """Return idle memory to the kernel; gives the bytes still occupied.

        Raises:
            ManagerError: There is no manager to do it.
        """
        return self._inspector.trim()

    def gc(self, age_s: float) -> int:
        """End leases of messages older than *age_s* seconds; returns how many.

        Raises:
            ManagerError: There is no manager to do it.
        """
        return self._inspector.gc(int(min(max(age_s, 0.0) * 1000, 2**32 - 1)))


def live_addresses() -> list[str]:
    """Sockets of this user's managers, without the ``@``, sorted."""
    prefix = f"@shmtensor-{os.geteuid()}-"
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
        except OSError:  # another user's, or gone
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
    """Sessions that processes are in though none of *addresses* is their manager's."""
    served = {address.rpartition("-")[2] for address in addresses}
    return sorted({n for n in _open_control_files() if f"{n:016x}" not in served})


@dataclass(frozen=True)
class Unreadable:
    """A manager that is there and cannot be asked: of another version, or it does not answer.

    Attributes:
        address: Its socket without the ``@``.
        reason: What went wrong.
    """

    address: str
    reason: str

    @property
    def name(self) -> str:
        """The session's name, as `Session.name`."""
        return self.address.rpartition("-")[2]


def find_sessions() -> tuple[list[Session], list[Unreadable]]:
    """All sessions of this user, oldest socket names first, and the managers that cannot be read.

    Sessions that end meanwhile are left out.
    """
    opened: list[Session] = []
    refused: list[Unreadable] = []
    for address in live_addresses():
        try:
            opened.append(Session(address))
        except ManagerError as error:
            if address in live_addresses():
                refused.append(Unreadable(address, str(error)))
    known = [s.address for s in opened] + [s.name for s in opened] + [u.address for u in refused]
    for number in orphan_numbers(known):
        try:
            opened.append(_at_its_path(Session(number=number)))
        except ManagerError:
            continue
    return opened, refused


def _at_its_path(found: Session) -> Session:
    """The service whose files were found at a member, through its socket when that is a path."""
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


def open_sessions(wanted: str = "") -> list[Session]:
    """This user's sessions, oldest socket names first; those that cannot be read are left out.

    Args:
        wanted: Only those that this means: a session's name or the beginning of it, its address,
            the name or path of a service, the id of its manager or of a process in it. What it says
            exactly goes before what only begins like it.
    """
    opened, _ = find_sessions()
    chosen = select(opened, wanted)
    for session in opened:
        if session not in chosen:
            session.close()
    return chosen


def select(sessions: list[Session], wanted: str) -> list[Session]:
    """Those of *sessions* that *wanted* means, as in `open_sessions`; all for an empty text."""
    if not wanted:
        return sessions
    name = wanted.removeprefix("@")
    path = os.path.abspath(name) if "/" in name else name

    def has_process(session: Session) -> bool:
        pid = int(name)
        return pid == session.manager_pid() or any(c.pid == pid for c in session.look().clients)

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

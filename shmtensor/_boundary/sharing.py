"""Sessions of shared memory: joining one, and storages in it.

The environment variable ``SHMTENSOR_MANAGER`` names the session. It is set when this module is
first imported, so that children of every start method find the same session. Nothing is started
before a storage is shared. Storages are passed by their C address, and returned as `StorageRef`.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable

from shmtensor import _C
from shmtensor._boundary.core import c_text, check, ffi, lib, pointer_to
from shmtensor._boundary.storage import StorageRef
from shmtensor.errors import HandleError

__all__ = [
    "STRATEGIES",
    "adopt_session",
    "collect",
    "decref",
    "export_fd",
    "export_filename",
    "get_strategy",
    "give_up",
    "import_fd",
    "import_filename",
    "in_mode",
    "incref",
    "is_shared",
    "join",
    "new_shared",
    "open_placement",
    "placement_refused",
    "session_name",
    "set_label",
    "set_strategy",
    "share_storage",
    "status",
    "trim",
    "try_placement",
    "use_placement",
]

#: Names of the sharing strategies; the position is the C code.
STRATEGIES = ("file_system", "file_descriptor")

_MANAGER = "SHMTENSOR_MANAGER"
_STRATEGY = "SHMTENSOR_SHARING_STRATEGY"
_LIMIT = "SHMTENSOR_MAX_SHARED_BYTES"
_ADDRESS = re.compile(r"@shmtensor-(\d+)-([0-9a-f]{16})")


def _configure() -> None:
    named = _ADDRESS.fullmatch(os.environ.get(_MANAGER, ""))
    uid = os.geteuid()
    session = int(named[2], 16) if named is not None and int(named[1]) == uid else 0
    limit = os.environ.get(_LIMIT, "0")
    # Beside the extension, not beside this file: a sanitizer build has a package tree of links.
    program = os.path.join(
        os.path.dirname(os.path.abspath(str(_C.__file__))), "bin", "shmtensor-manager"
    )
    session = lib.shmt_sharing_configure(
        os.fsencode(program), session, int(limit) if limit.isdigit() else 0
    )
    os.environ[_MANAGER] = f"@shmtensor-{uid}-{session:016x}"
    if os.environ.get(_STRATEGY) in STRATEGIES:
        lib.shmt_sharing_set_strategy(STRATEGIES.index(os.environ[_STRATEGY]))


def _pointer(address: int) -> object:
    return pointer_to("shmt_storage *", address)


def session_name() -> str:
    """Return the address of the session's manager, which names the session."""
    return os.environ[_MANAGER]


def adopt_session(name: str) -> None:
    """Use the session *name* from now on. Storages that are shared already stay where they are."""
    if os.environ.get(_MANAGER) != name:
        os.environ[_MANAGER] = name
        _configure()


def join() -> None:
    """Join the session now, and start its manager if necessary. The first share does so itself.

    Raises:
        ManagerError: The manager cannot be started or reached.
    """
    check(lib.shmt_sharing_join())


def set_label(label: str) -> None:
    """Set the label that the tools show for this process; it is cut to 35 bytes of UTF-8."""
    lib.shmt_sharing_set_label(label.encode("utf-8", "replace").replace(b"\0", b"?"))


def set_strategy(name: str) -> None:
    """Choose how new shared storages are made. Children of this process inherit the choice."""
    lib.shmt_sharing_set_strategy(STRATEGIES.index(name))
    os.environ[_STRATEGY] = name


def get_strategy() -> str:
    """Return the name of the strategy in use."""
    return STRATEGIES[lib.shmt_sharing_strategy()]


def is_shared(address: int) -> bool:
    """Whether other processes can map the storage."""
    return bool(lib.shmt_storage_is_shared(_pointer(address)))


def share_storage(address: int) -> None:
    """Move a storage's bytes into shared memory. Does nothing when they are there already.

    Raises:
        BufferError: NumPy arrays or other buffers show the private memory.
        MemoryError: There is not enough shared memory; the text names the bytes.
        NotImplementedError: The storage is a meta one.
        ManagerError: The manager cannot be started or reached.
    """
    check(lib.shmt_storage_share(_pointer(address)))


def new_shared(nbytes: int, strategy: str | None = None) -> StorageRef:
    """Make a shared storage of *nbytes* zero bytes.

    Args:
        nbytes: The size.
        strategy: One of `STRATEGIES`; None: the one in use.

    Raises:
        MemoryError: There is not enough shared memory; the text names the bytes.
        RuntimeError: *nbytes* is negative.
    """
    if not 0 <= nbytes < 1 << 63:
        raise RuntimeError(f"storage: the size must be between 0 and 2**63 - 1 bytes, got {nbytes}")
    ref = StorageRef()
    number = STRATEGIES.index(strategy or get_strategy())
    check(lib.shmt_storage_create_shared(nbytes, number, ref.place))
    return ref.filled()


def export_filename(address: int) -> tuple[bytes, bytes, int]:
    """Share the storage and return the manager's socket, a handle and the size in bytes.

    The handle keeps nothing alive. A process must hold the storage until the handle is opened.
    """
    pointer = _pointer(address)
    manager = ffi.new("char[]", 64)
    handle = ffi.new("char[]", 96)
    check(lib.shmt_storage_export_name(pointer, manager, 64, handle, 96))
    return ffi.string(manager), ffi.string(handle), int(lib.shmt_storage_nbytes(pointer))


def import_filename(manager: bytes, handle: bytes, nbytes: int) -> StorageRef:
    """Open what `export_filename` returned in any process.

    Raises:
        HandleError: The name is forged, or its block was freed.
        ValueError: One of them has a zero byte.
    """
    ref = StorageRef()
    if not 0 <= nbytes < 1 << 63:
        raise RuntimeError(f"storage: the size must be between 0 and 2**63 - 1 bytes, got {nbytes}")
    check(lib.shmt_storage_import_name(c_text(manager), c_text(handle), nbytes, ref.place))
    return ref.filled()


def give_up(messages: Iterable[bytes | memoryview]) -> None:
    """End the leases of pickled messages that nobody will read; the manager does it, soon."""
    # They are tied to a pipe that nobody can read from.
    reader, writer = os.pipe()
    try:
        for message in messages:
            _C._bind_message(writer, message)
    finally:
        os.close(reader)
        os.close(writer)


def export_fd(address: int) -> tuple[int, int]:
    """Share the storage; return a descriptor, which belongs to the storage, and the size in bytes.

    A private storage becomes a memory file of its own. A storage that is in the arena already keeps
    its memory: then the descriptor is of the arena, with the file position at the first byte.
    """
    out = ffi.new("int *")
    pointer = _pointer(address)
    check(lib.shmt_storage_export_fd(pointer, out))
    return int(out[0]), int(lib.shmt_storage_nbytes(pointer))


def import_fd(fd: int, nbytes: int) -> StorageRef:
    """Open a descriptor from `export_fd`, which stays the caller's.

    Raises:
        HandleError: It is not a sealed memory file of this user with at least *nbytes*, or is of a
            storage of another size.
    """
    ref = StorageRef()
    if not 0 <= nbytes < 1 << 63:
        raise RuntimeError(f"storage: the size must be between 0 and 2**63 - 1 bytes, got {nbytes}")
    number = operator.index(fd)
    if not 0 <= number < 1 << 31:
        raise HandleError(f"{number} is not a descriptor")
    check(lib.shmt_storage_import_fd(number, nbytes, ref.place))
    return ref.filled()


def in_mode(address: int, mode: int) -> StorageRef:
    """Return a shared storage in another mode: 1 is read-only, 2 copy-on-write.

    Raises:
        RuntimeError: The storage is not in shared memory of a session.
        ManagerError: The manager does not provide the memory in that mode.
    """
    ref = StorageRef()
    check(lib.shmt_storage_in_mode(_pointer(address), mode, ref.place))
    return ref.filled()


def incref(address: int) -> None:
    """Keep the storage's block alive beyond all its holders, until `decref` in any process.

    Raises:
        RuntimeError: The storage is not shared.
    """
    check(lib.shmt_storage_shared_incref(_pointer(address)))


def decref(address: int) -> None:
    """Undo one `incref`.

    Raises:
        RuntimeError: The storage is not shared.
    """
    check(lib.shmt_storage_shared_decref(_pointer(address)))


def open_placement(huge: bool, numa: int, nodes: int) -> int:
    """Return the number of a placement; see `shmtensor.shm.arena`.

    Args:
        huge: Request pages of 2 MiB.
        numa: 0 any node, 1 only *nodes*, 2 that node first, 3 *nodes* in turn.
        nodes: Bit n stands for node n.

    Raises:
        RuntimeError: This process has used too many different placements.
    """
    out = ffi.new("uint32_t *")
    check(lib.shmt_placement_open(huge, numa, nodes, out))
    return int(out[0])


def use_placement(placement: int) -> int:
    """Use *placement* for this thread's shared memory from now on. Returns the one before."""
    return int(lib.shmt_placement_use(placement))


def try_placement(huge: bool, numa: int, nodes: int) -> tuple[int, int]:
    """Try a placement on a little memory; return the errno for huge pages and for NUMA."""
    huge_errno, numa_errno = ffi.new("int *"), ffi.new("int *")
    check(lib.shmt_placement_try(huge, numa, nodes, huge_errno, numa_errno))
    return int(huge_errno[0]), int(numa_errno[0])


def placement_refused(placement: int) -> tuple[int, int]:
    """Return the errno of both parts when the kernel last refused it; 0: it did not."""
    huge_errno, numa_errno = ffi.new("int *"), ffi.new("int *")
    lib.shmt_placement_refused(placement, huge_errno, numa_errno)
    return int(huge_errno[0]), int(numa_errno[0])


def status() -> dict[str, int]:
    """Return the session's counters, as the manager and this process see them.

    Raises:
        ManagerError: The manager cannot be started or reached.
    """
    info = ffi.new("shmt_sharing_status_info *")
    check(lib.shmt_sharing_status(info))
    return {name: int(getattr(info, name)) for name, _ in ffi.typeof(info[0]).fields}


def trim() -> int:
    """Return idle shared memory to the kernel. Returns the bytes that are still occupied."""
    out = ffi.new("uint64_t *")
    check(lib.shmt_sharing_trim(out))
    return int(out[0])


def collect(age_s: float = 0.0) -> int:
    """End the leases of unopened messages older than *age_s* seconds. Returns how many."""
    out = ffi.new("uint64_t *")
    check(lib.shmt_sharing_gc(int(min(max(age_s, 0.0) * 1000, 2**32 - 1)), out))
    return int(out[0])


_configure()

"""What POSIX names are, the errors of ``posix_ipc`` as Python's own, and files under a name.

Note [Made before named]
``shm_open`` makes a name first and the memory after it. A process that is killed between the two
leaves a name behind, and others see memory without a size. So memory is made as a file of
``/dev/shm`` that has no name yet (``O_TMPFILE``): it gets its size and its contents, the manager of
a service learns whose it is (Note [POSIX names] in csrc/shm/manager/posix_names.h), and only then
it gets its name, by one call that fails if there is such a name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from shmtensor import service as _services
from shmtensor._boundary import storage as _c
from shmtensor._core._deadlines import deadline_of, left_until
from shmtensor.errors import NotPublishedError
from shmtensor.service import Service

try:
    import posix_ipc
except ModuleNotFoundError as error:
    if error.name != "posix_ipc":
        raise
    raise ModuleNotFoundError(
        'shmtensor.posix needs posix_ipc: pip install "shmtensor[posix]"', name="posix_ipc"
    ) from None

if TYPE_CHECKING:
    from shmtensor._boundary.storage import StorageRef

__all__ = [
    "IF_EXISTS",
    "Opened",
    "check",
    "check_service",
    "errors_of",
    "link",
    "map_shared",
    "opened_file",
    "own",
    "path_of",
    "posix_ipc",
    "unnamed_file",
    "wait",
]

#: Where Linux has the files of shared memory and semaphores.
FOLDER = "/dev/shm"
IF_EXISTS = ("fail", "open", "replace")
_NAME_MAX = 255
_SLICE_S = 1.0  # waits look as often whether another thread has closed what they wait for


def check(name: str, prefix: str = "") -> None:
    """Refuse what is no name.

    Args:
        name: The name, with its slash.
        prefix: What the system puts before it, behind the slash.

    Raises:
        TypeError: It is no str.
        ValueError: It has no slash at its begin or others in it, a NUL, or is too long.
    """
    if not isinstance(name, str):
        raise TypeError(f"a POSIX name must be a str, got {type(name).__name__}")
    rest = os.fsencode(name[1:])
    most = _NAME_MAX - 1 - len(prefix)
    if not name.startswith("/") or b"/" in rest or b"\0" in rest or rest in (b".", b".."):
        raise ValueError(
            f"a POSIX name is a slash and more bytes, none of them a slash or 0, as '/grid'; got "
            f"{name!r}"
        )
    if not 1 <= len(rest) <= most:
        raise ValueError(
            f"a POSIX name must have 1 to {most} bytes behind its slash, got {len(rest)}"
        )


def path_of(name: str) -> str:
    """Return the file of a name."""
    return FOLDER + name


@contextlib.contextmanager
def errors_of(what: str, name: str) -> Iterator[None]:
    """Raise the errors of ``posix_ipc`` as those that Python's own modules raise."""
    try:
        yield
    except posix_ipc.ExistentialError:  # nothing here asks for a name that must be new
        code = errno.ENOENT
        raise FileNotFoundError(code, f"{what}: {os.strerror(code)}", name) from None
    except posix_ipc.PermissionsError:
        raise PermissionError(errno.EACCES, f"{what}: user {os.geteuid()} may not", name) from None


class Opened:
    """A semaphore or queue of ``posix_ipc``, which is closed when nobody refers to it any more.

    So a thread that waits in it has it until it leaves, whoever closes it meanwhile: a semaphore's
    memory would be unmapped under the wait, and a queue's descriptor might be another file's.
    """

    def __init__(self, of: Any) -> None:
        self.of = of

    def __del__(self) -> None:
        self.of.close()


def wait(step: Callable[[float], Any], timeout: float | None, check: Callable[[], object]) -> Any:
    """Do a step that may have to wait; signal handlers run meanwhile.

    Args:
        step: Waits so many seconds.
        timeout: Seconds for all; None waits forever.
        check: Raises when the wait is not to go on.

    Raises:
        posix_ipc.BusyError: The time has passed.
    """
    deadline = deadline_of(timeout)
    while True:
        left = left_until(deadline)
        is_last = left is not None and left <= _SLICE_S
        try:
            return step(left if is_last else _SLICE_S)  # type: ignore[arg-type]
        except posix_ipc.BusyError:
            if is_last:
                raise
        except posix_ipc.SignalError:  # its handler has run, and raised nothing
            pass
        check()


def check_service(service: Service | None, linger: bool) -> Service | None:
    """Return the service whose manager removes a name with its last owner; None: the name stays.

    Raises:
        TypeError: *service* is no `Service`.
        ValueError: It was given for a name that stays.
    """
    if service is not None and not isinstance(service, Service):
        raise TypeError(f"service must be a Service, got {type(service).__name__}")
    if not linger:
        return _services._default if service is None else service
    if service is not None:
        raise ValueError("a name with linger=True has no owners, so it needs no service")
    return None


def own(service: Service, ref: StorageRef, fd: int, name: str, *, is_new: bool) -> None:
    """Make this process an owner of the name, as long as it has the storage.

    Raises:
        FileNotFoundError: The name was removed or replaced meanwhile.
        ValueError: The name is too long, or the service cannot remove it: it is open to a group, or
            its manager sees another ``/dev/shm``.
        ManagerError: The service cannot be reached.
    """
    try:
        service._handle.own_posix_name(ref, fd, name, is_new)
    except NotPublishedError as error:
        raise FileNotFoundError(errno.ENOENT, str(error), name) from None


@contextlib.contextmanager
def unnamed_file(nbytes: int, mode: int) -> Iterator[int]:
    """Make a file of *nbytes* zeros that has no name: Note [Made before named].

    Raises:
        MemoryError: ``/dev/shm`` has no room; the text says how much there is.
    """
    fd = os.open(FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode)
    try:
        try:
            # Its pages too: a store must not fail later, by SIGBUS.
            os.posix_fallocate(fd, 0, nbytes)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
                raise
            free = os.statvfs(FOLDER)
            raise MemoryError(
                f"unable to allocate shared memory: tried {nbytes} bytes in {FOLDER}, which has "
                f"{free.f_bavail * free.f_frsize} left"
            ) from None
        yield fd
    finally:
        os.close(fd)


def map_shared(fd: int, name: str, nbytes: int) -> StorageRef:
    """Map a file that is open, so that stores reach it."""
    flags = _c.FILE_SHARED | _c.FILE_WRITABLE | _c.FILE_IS_OPEN
    return _c.map_file(path_of(name), nbytes, flags, fd)


def link(fd: int, name: str) -> None:
    """Give a file its name.

    Raises:
        FileExistsError: There is such a name.
    """
    folder = os.open(FOLDER, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # With a folder, since link() alone would not follow the link in /proc.
        os.link(f"/proc/self/fd/{fd}", name[1:], dst_dir_fd=folder, follow_symlinks=True)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
    finally:
        os.close(folder)


@contextlib.contextmanager
def opened_file(name: str, writable: bool) -> Iterator[int]:
    """Open what a name stands for.

    Raises:
        FileNotFoundError: There is no such name.
        PermissionError: This user may not.
        ValueError: It is no shared memory but a folder, a pipe or a link.
    """
    try:
        kind = os.lstat(path_of(name)).st_mode
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None
    if not stat.S_ISREG(kind):  # looked at first: shm_open of a pipe would wait for its other end
        raise ValueError(f"{name} is no shared memory: {path_of(name)} is {stat.filemode(kind)}")
    with errors_of("open()", name):
        memory = posix_ipc.SharedMemory(name, read_only=not writable)
    try:
        yield memory.fd
    finally:
        memory.close_fd()

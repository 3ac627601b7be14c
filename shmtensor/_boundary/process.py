"""Settings of this process and its threads in the kernel."""

from __future__ import annotations

import os

from shmtensor._boundary.core import check, ffi, lib

__all__ = [
    "get_thread_name",
    "is_known_user",
    "memory_fence",
    "set_parent_death_signal",
    "set_thread_name",
]


def is_known_user(uid: int) -> bool:
    """Return whether *uid* stands for one user in this process's user namespace.

    Where a namespace does not map all users, the kernel shows the others as one number (65534).
    """
    return bool(lib.shmt_user_is_known(uid))


def set_parent_death_signal(signal: int) -> None:
    """Let the kernel send *signal* to this process when its parent ends; 0: none.

    Raises:
        RuntimeError: There is no such signal.
    """
    check(lib.shmt_set_parent_death_signal(signal))


def set_thread_name(name: str) -> None:
    """Set the name of the calling thread, which ``top`` and debuggers show.

    Args:
        name: The name; it is cut to 15 bytes.

    Raises:
        ValueError: *name* contains a zero byte.
    """
    text = os.fsencode(name)
    if b"\0" in text:
        raise ValueError(f"a thread's name must not contain a zero byte, got {name!r}")
    check(lib.shmt_set_thread_name(text))


def get_thread_name() -> str:
    """Return the name of the calling thread."""
    out = ffi.new("char[]", 16)
    check(lib.shmt_get_thread_name(out))
    return os.fsdecode(ffi.string(out))


def memory_fence() -> None:
    """Prevent reads and writes of shared memory from being reordered across this call."""
    lib.shmt_memory_fence()

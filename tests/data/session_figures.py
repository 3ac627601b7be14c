"""What is in the shared memory of this process's session."""

from __future__ import annotations

import waiting

from shmtensor import inspect
from shmtensor._boundary import sharing


def _look() -> inspect.Snapshot:
    sharing.join()
    (session,) = inspect.open_sessions(sharing.session_name())
    with session:
        return session.snapshot()


def used_bytes() -> int:
    """Bytes of all storages in use."""
    return _look().used_bytes


def granted_bytes() -> int:
    """Bytes that the session's processes were ever given and have not given back."""
    return _look().granted_bytes


def resident_bytes() -> int:
    """Memory that the session occupies."""
    return _look().resident_bytes


def wait_until_used_bytes(most: int) -> None:
    """Wait until no more than that is in use: what the killed held takes the manager a moment."""
    waiting.until(lambda: used_bytes() <= most)

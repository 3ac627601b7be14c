"""POSIX names: shared memory, semaphores and message queues of programs without this package.

A program in any language that has ``shm_open``, ``sem_open`` or ``mq_open`` can share memory and
wait with ours; it needs neither Python nor a library. What has names between programs that do
have this package is in `shmtensor.service`, which also knows dtypes, shapes and versions, and
gives back the locks of killed processes. ``docs/posix.md`` shows programs.

The package ``posix_ipc`` is needed: ``pip install "shmtensor[posix]"``.
"""

from __future__ import annotations

from shmtensor.posix._memory import Entry, create, exists, list, open, unlink
from shmtensor.posix._message_queue import Message, MessageQueue
from shmtensor.posix._semaphore import Semaphore

__all__ = [
    "Entry",
    "Message",
    "MessageQueue",
    "Semaphore",
    "create",
    "exists",
    "list",
    "open",
    "unlink",
]

"""Messages of one rank to another, beside the collectives of their group."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from shmtensor import _C
from shmtensor._boundary import group
from shmtensor._core._fork_locks import free_in_child
from shmtensor.distributed import _calls as calls
from shmtensor.distributed._errors import DistBackendError
from shmtensor.distributed._shm_steps import Steps
from shmtensor.distributed._timeouts import seconds_of

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

__all__ = ["Messages"]


class Messages:
    """What one rank sends and receives.

    Args:
        steps: Of the same group, whose memory has the messages, too.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._memory = steps.memory
        #: Messages that came before another tag was wanted, by their source and tag.
        self._stash: dict[tuple[int, int], list[tuple[int, Tensor]]] = {}
        self._receiving = [free_in_child(threading.Lock()) for _ in range(steps.size)]

    def send(self, tensor: Tensor, to: int, tag: int, timeout: timedelta) -> None:
        """See `Collectives.send`."""
        nbytes = tensor.numel() * tensor.element_size()
        deadline = time.monotonic() + seconds_of(timeout)
        try:
            self._memory.check()
            if self._memory.send(
                to, tag, calls.code_of(tensor), tensor.data_ptr(), nbytes, deadline
            ):
                return
        except group.Broken as found:
            raise self._steps.broken(found, f"send to rank {to}") from None
        except BaseException:  # an interrupt: a part of the message may be on its way
            self._memory.abort()
            raise
        self._memory.abort()
        raise DistBackendError(
            f"send to rank {to} timed out on rank {self._steps.rank} after "
            f"{seconds_of(timeout):g} s"
        )

    def recv(self, tensor: Tensor, source: int | None, tag: int, timeout: timedelta) -> int:
        """See `Collectives.recv`."""
        deadline = time.monotonic() + seconds_of(timeout)
        sources = self._steps.others if source is None else [source]
        try:
            self._memory.check()
            while True:
                for each in sources:
                    with self._receiving[each]:
                        if self._take(tensor, each, tag, len(sources) == 1, deadline):
                            return each
                if time.monotonic() > deadline:
                    break
                if len(sources) > 1:
                    self._memory.check_ranks()
                    time.sleep(50e-6)
        except group.Broken as found:
            raise self._steps.broken(found, "recv") from None
        self._memory.abort()
        raise DistBackendError(
            f"recv from {'any rank' if source is None else f'rank {source}'} with tag {tag} timed "
            f"out on rank {self._steps.rank} after {seconds_of(timeout):g} s"
        )

    def _take(self, tensor: Tensor, source: int, tag: int, may_wait: bool, deadline: float) -> bool:
        """Receive a rank's next message with the tag, if there is one now or soon."""
        stashed = self._stash.get((source, tag))
        if stashed:
            code, message = stashed.pop(0)
            self._check_message(tensor, source, code, message.numel())
            tensor.view(-1).view(_C.uint8).copy_(message)
            return True
        found = self._memory.peek(source, may_wait)
        if found is None:
            return False
        their_tag, code, nbytes = found
        if their_tag == tag:
            self._check_message(tensor, source, code, nbytes)
            self._receive(source, tensor, nbytes, deadline)
            return True
        # Of another tag: keep it for the call that wants that tag.
        kept = _C.empty(nbytes, dtype=_C.uint8)
        self._receive(source, kept, nbytes, deadline)
        self._stash.setdefault((source, their_tag), []).append((code, kept))
        return False

    def _receive(self, source: int, tensor: Tensor, nbytes: int, deadline: float) -> None:
        """Copy the message that is there into the tensor."""
        try:
            if self._memory.receive(source, tensor.data_ptr(), nbytes, deadline):
                return
        except group.Broken:
            raise
        except BaseException:
            self._memory.abort()
            raise
        self._memory.abort()
        raise DistBackendError(f"recv from rank {source} timed out in the middle of a message")

    def _check_message(self, tensor: Tensor, source: int, code: int, nbytes: int) -> None:
        """Refuse a message that is not for such a tensor."""
        difference = calls.difference(code, nbytes, tensor)
        if difference is not None:
            sent, wanted = difference
            self._memory.abort()
            raise DistBackendError(
                f"rank {source} has sent {sent}, rank {self._steps.rank} wants to receive {wanted}"
            )

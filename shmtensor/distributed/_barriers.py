"""Waiting until all ranks arrive.

Source:
    torch.distributed.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from shmtensor.distributed._arguments import member_of
from shmtensor.distributed._group import _default_store, _start
from shmtensor.distributed._stores import PrefixStore
from shmtensor.distributed._table import Op, timed_out
from shmtensor.distributed._timeouts import Limit, check_timeout
from shmtensor.distributed._work import Work

__all__ = ["barrier", "monitored_barrier"]

_PAUSE_S = 0.002


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Return when all ranks have called it.

    Args:
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.
        device_ids: Ignored.
        timeout: How long to wait; None: the group's timeout.

    Source:
        torch.distributed.barrier.
    """
    members = member_of(group, "barrier")
    if members is None:
        return None
    if timeout is not None:
        check_timeout(timeout)
    backend = members._collectives

    def call() -> None:
        usual = backend.timeout
        backend.timeout = usual if timeout is None else timeout
        try:
            backend.barrier()
        finally:
            backend.timeout = usual

    return _start(members, call, [], async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Do `barrier`; if ranks do not come, name them.

    It counts ranks in the store of the group, so it works when collectives do not.

    Args:
        group: The group; None: all ranks.
        timeout: How long to wait; None: the group's timeout.
        wait_all_ranks: Let rank 0 name all missing ranks, not only the first.

    Raises:
        RuntimeError: Ranks are missing (rank 0's message names them), or call something else.

    Source:
        torch.distributed.monitored_barrier.
    """
    members = member_of(group, "monitored_barrier")
    if members is None:
        return
    limit = Limit(members._collectives.timeout if timeout is None else timeout)
    members._n_barriers += 1
    keys = PrefixStore(f"barrier/{members.group_name}/{members._n_barriers}", _default_store())
    rank = members.rank()
    keys._request(Op.SET, str(rank).encode(), b"1", limit=limit)

    def is_missing(other: int) -> bool:
        return not keys._has(str(other), limit)

    def look() -> None:
        if members._lane.is_idle():
            members._collectives.look_for_others(is_missing)

    if rank != 0:
        deadline = time.monotonic() + limit.left() + 1  # rank 0 tells first who is missing
        while not keys._has("all", limit):
            look()
            if time.monotonic() > deadline:
                raise timed_out(Op.WAIT, [b"all"], limit.seconds)
            time.sleep(_PAUSE_S)
        return
    missing = list(range(1, members.size()))
    while missing and not limit.is_over():
        missing = [each for each in missing if is_missing(each)]
        if missing:
            look()
            time.sleep(_PAUSE_S)
    if missing:
        named = missing if wait_all_ranks else missing[:1]
        raise RuntimeError(
            f"Rank 0 timed out in monitored_barrier after {limit.seconds * 1000:.0f} ms. Ranks "
            f"{', '.join(map(str, named))} have not come."
        )
    keys._request(Op.SET, b"all", b"1", limit=limit)

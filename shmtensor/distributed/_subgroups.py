"""Several sub-groups at a time.

Source:
    torch.distributed.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from shmtensor.distributed._group import (
    ProcessGroup,
    get_process_group_ranks,
    get_world_size,
    new_group,
)

__all__ = ["new_subgroups", "new_subgroups_by_enumeration"]


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[ProcessGroup | int]]:
    """Make a group of each list of ranks.

    Returns:
        The group that this process is in (None: it is in none), and all groups.

    Raises:
        ValueError: There are no lists, or a rank is in two of them.

    Source:
        torch.distributed.new_subgroups_by_enumeration.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: dict[int, int] = {}
    for i, ranks in enumerate(ranks_per_subgroup_list):
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {i}")
            seen[rank] = i
    mine: ProcessGroup | None = None
    made: list[ProcessGroup | int] = []
    for ranks in ranks_per_subgroup_list:
        one = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        made.append(one)
        if isinstance(one, ProcessGroup):
            mine = one
    return mine, made


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[ProcessGroup | int]]:
    """Make groups of *group_size* successive ranks each.

    Returns:
        The group that this process is in, and all groups.

    Raises:
        ValueError: The size of the whole group is not a multiple of *group_size*.

    Source:
        torch.distributed.new_subgroups.
    """
    size = get_world_size(group)
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
        )
    if size % group_size != 0:
        raise ValueError(
            f"The world size ({size}) must be divisible by 'group_size' ({group_size})"
        )
    ranks = get_process_group_ranks(group)
    lists = [ranks[i : i + group_size] for i in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)

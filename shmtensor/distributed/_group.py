"""Groups of processes: the default one, sub-groups, and questions about them.

Source:
    torch.distributed.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
import warnings
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, ClassVar

from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._groups import no_group
from shmtensor.distributed._backend import Backend, Collectives, default_pg_timeout
from shmtensor.distributed._stores import PrefixStore, Store
from shmtensor.distributed._timeouts import check_timeout
from shmtensor.distributed._work import Lane, Work
from shmtensor.distributed.rendezvous import rendezvous

__all__ = [
    "GroupMember",
    "ProcessGroup",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_initialized",
    "new_group",
]


_MESSAGES_END_S = 1.0


class ProcessGroup:
    """Processes that call collectives together. `init_process_group` and `new_group` make them.

    Source:
        torch.distributed.ProcessGroup.
    """

    def __init__(
        self,
        collectives: Collectives,
        backend: Backend,
        ranks: list[int],
        name: str,
        description: str,
    ) -> None:
        self._collectives = collectives
        self._backend = backend
        self._ranks = ranks
        self.group_name = name
        self.group_desc = description
        self._lane = Lane()
        self._message_lanes: dict[tuple[str, int], Lane] = {}
        self._n_barriers = 0
        self._lock = free_in_child(threading.Lock())

    def rank(self) -> int:
        """Return this process's number in the group."""
        return self._collectives.rank

    def size(self) -> int:
        """Return the number of processes."""
        return self._collectives.size

    def name(self) -> str:
        """Return the backend's name."""
        return str(self._backend)

    def abort(self) -> None:
        """Make all calls of the group fail, on all ranks."""
        self._collectives.abort()

    def shutdown(self) -> None:
        """End the group in this process."""
        destroy_process_group(self)

    def _lane_of(self, direction: str, peer: int) -> Lane:
        """Return what runs the messages to (``"send"``) or from (``"recv"``) a peer, in order."""
        with self._lock:
            return self._message_lanes.setdefault((direction, peer), Lane())

    def _close(self) -> None:
        self._lane.join()
        # A receive that nobody answers must not keep this process; its thread uses the memory.
        ended = [lane.join(_MESSAGES_END_S) for lane in self._message_lanes.values()]
        if all(ended):
            self._collectives.close()
        else:
            self._collectives.leave()


class _WorldMeta(type):
    """Makes ``group.WORLD`` the default group of the moment."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _world.default

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        _world.default = value


class group(metaclass=_WorldMeta):
    """``group.WORLD`` is the default group; None: there is none."""


class GroupMember(metaclass=_WorldMeta):
    """``WORLD`` is the default group; ``NON_GROUP_MEMBER`` is for processes outside a group."""

    NON_GROUP_MEMBER: ClassVar[int] = -100


class _World:
    """The groups of this process."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.store: Store | None = None
        self.timeout = default_pg_timeout
        self.round = 1  # how often the store was used for a default group
        self.n_groups_made = 0
        self.n_made_of: dict[str, int] = {}


_world = _World()

#: The groups of this process, in the order they were made: backend and store of each. Programs
#: look them up, so it is one dict for the life of the process.
_pg_map: dict[ProcessGroup, tuple[str, Store]] = {}


def _forget_in_child() -> None:
    """A forked child is no member of its parent's groups."""
    global _world
    # The child must not close what its parent uses: the objects stay, unreachable by calls.
    _forgotten.append((_world, dict(_pg_map)))
    _world = _World()
    _pg_map.clear()


_forgotten: list[Any] = []
os.register_at_fork(after_in_child=_forget_in_child)


@atexit.register
def _leave_at_exit() -> None:
    for each in list(_pg_map):
        each._collectives.leave()


# --- the default group ---------------------------------------------------------------------------


def _cpu_backend(backend: str | None) -> Backend:
    """Return the backend of the CPU from ``"gloo"`` or ``"cpu:gloo,cuda:nccl"``."""
    if not backend:
        return Backend("shm")
    if not isinstance(backend, str) or ":" not in backend:
        return Backend(backend)
    parts = dict(part.split(":", 1) for part in backend.lower().split(",") if ":" in part)
    if "cpu" not in parts:
        raise ValueError(f"backend {backend!r} has no part for the CPU")
    return Backend(parts["cpu"])


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the group of all processes. Returns when all of them have called it.

    Args:
        backend: ``"shm"`` (the default): collectives in shared memory, for processes of one
            machine; ``"gloo"``: another name of it; ``"mpi"``; or a registered name. Of
            ``"cpu:gloo,cuda:nccl"`` it uses the part for the CPU.
        init_method: How the processes find each other: ``env://`` (the default: MASTER_ADDR,
            MASTER_PORT, RANK, WORLD_SIZE), ``tcp://host:port`` or ``file:///path``.
        timeout: How long calls wait for other ranks; 30 minutes unless given.
        world_size: Number of processes.
        rank: The number of this one.
        store: Where the processes find each other, instead of *init_method*.
        group_name: Ignored.
        pg_options: Ignored.
        device_id: Ignored; there is only the CPU.

    Raises:
        ValueError: There is a default group already, or an argument is missing.
        AssertionError: *store* together with *init_method*, or without rank and size; there is no
            such backend.
        DistNetworkError: The port is in use, or nobody answers.
        DistStoreError: A process has not come in time.

    Source:
        torch.distributed.init_process_group.
    """
    if _world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
    timeout = default_pg_timeout if timeout is None else timeout
    check_timeout(timeout)
    name = _cpu_backend(backend)
    if not Backend.is_registered(name):
        Backend.create(name)  # says that there is none
    creator_of_ranks = getattr(Backend._creators[name], "find_ranks", None)
    if store is None and init_method is None and rank < 0 and creator_of_ranks is not None:
        found = creator_of_ranks(timeout)  # a launcher of the backend's own has numbered us
        if found is not None:
            store, rank, world_size = found
    if store is None:
        handler = rendezvous(init_method or "env://", rank, world_size, timeout=timeout)
        store, rank, world_size = next(iter(handler))
        store.set_timeout(timeout)
    _world.store = store
    _world.timeout = timeout
    try:
        _world.round = store.add(f"rounds/{rank}", 1)
        _world.default = _make_group(
            name, list(range(world_size)), rank, "0", "default_pg", timeout
        )
    except BaseException:
        _world.store = None
        raise


def _make_group(
    backend: Backend,
    ranks: list[int],
    rank: int,
    name: str,
    description: str,
    timeout: timedelta,
) -> ProcessGroup:
    keys = PrefixStore(f"group/{name}", _default_store())
    collectives = Backend.create(backend, keys, rank, len(ranks), timeout)
    made = ProcessGroup(collectives, backend, ranks, name, description or "undefined")
    _pg_map[made] = (str(backend), keys)
    _world.n_groups_made += 1
    return made


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave a group, after its work has ended; None: the default group and all others.

    Raises:
        AssertionError: There is none.
        ValueError: It is not a group of this process, or was left before.

    Source:
        torch.distributed.destroy_process_group.
    """
    if _rank_not_in_group(group):
        return
    if group is None:
        group = _world.default
    if group is None:
        raise AssertionError("Process group cannot be None")
    if group not in _pg_map:
        raise ValueError("Invalid process group specified")
    if group is not _world.default:
        del _pg_map[group]
        group._close()
        return
    groups = list(reversed(_pg_map))
    _world.default = None
    _pg_map.clear()
    _world.store = None
    _world.n_groups_made = 0
    _world.n_made_of = {}
    for each in groups:
        each._close()


# --- sub-groups ----------------------------------------------------------------------------------


def new_group(
    ranks: Iterable[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> ProcessGroup | int:
    """Make a group of some of the processes. All processes call it, in the same order.

    Args:
        ranks: Members, by their numbers in the default group; None: all.
        timeout: How long calls wait for other ranks; the default group's unless given.
        backend: As in `init_process_group`; the default group's unless given.
        pg_options: Ignored.
        use_local_synchronization: Only the members call it.
        group_desc: A description.
        device_id: Ignored.
        sort_ranks: Number the members by their ranks; otherwise in the order of *ranks*.

    Returns:
        The group, or ``GroupMember.NON_GROUP_MEMBER`` if this process is not in it.

    Raises:
        ValueError: There is no default group; ranks are out of range or occur twice.

    Source:
        torch.distributed.new_group.
    """
    world = _default_group()
    name = world._backend if backend is None else _cpu_backend(backend)
    if not Backend.is_registered(name):
        Backend.create(name)
    timeout = _world.timeout if timeout is None else timeout
    check_timeout(timeout)
    members = _checked_ranks(world, ranks, sort_ranks)
    if use_local_synchronization:
        own = world.rank() in members
        label = hashlib.sha1(repr(members).encode()).hexdigest()[:16]
        number = _world.n_made_of.get(label, 0)
        if own:
            _world.n_made_of[label] = number + 1
        key = f"{label}/{number}"
    else:
        number = _world.n_made_of.get("", 0) + 1
        _world.n_made_of[""] = number
        key = str(number)
    made: ProcessGroup | int = GroupMember.NON_GROUP_MEMBER
    if world.rank() in members:
        rank = members.index(world.rank())
        made = _make_group(name, members, rank, key, group_desc or "", timeout)
    if not use_local_synchronization:
        # Nobody goes on, and perhaps ends with the store, while the members still need it.
        world._lane.run(world._collectives.barrier)
    return made


def _checked_ranks(world: ProcessGroup, ranks: Iterable[int] | None, sort: bool) -> list[int]:
    size = world.size()
    if ranks is None:
        return list(range(size))
    members = sorted(ranks) if sort else list(ranks)
    if len(members) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            "init_process_group"
        )
    if not members:
        raise ValueError("the new group has no ranks")
    for rank in members:
        if rank < 0 or rank >= size:
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})"
            )
    if len(set(members)) != len(members):
        raise ValueError(f"ranks list must not contain duplicate entries, got {members}")
    return members


# --- questions -----------------------------------------------------------------------------------


def _rank_not_in_group(group: Any) -> bool:
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def _default_group() -> ProcessGroup:
    if _world.default is None:
        raise no_group()
    return _world.default


def _default_store() -> Store:
    """Return the default group's part of the store by which the processes have found each other."""
    assert _world.store is not None
    return PrefixStore(str(_world.round), _world.store)


def _member_group(group: Any, what: str) -> ProcessGroup | None:
    """Return the group of a call, or None after a warning: this process is not in it."""
    if _rank_not_in_group(group):
        warnings.warn(
            f"Running {what} on global rank {get_rank()} which does not belong to the given group.",
            stacklevel=3,
        )
        return None
    if group is None:
        return _default_group()
    return _known(group)


def _known(group: Any) -> ProcessGroup:
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup, got {type(group).__name__}")
    if group not in _pg_map:
        raise ValueError("Invalid process group specified")
    return group


def is_initialized() -> bool:
    """Return whether `init_process_group` has made a group that was not destroyed."""
    return _world.default is not None


def get_rank(group: Any = None) -> int:
    """Return this process's number in the group; -1: it is not in it.

    Raises:
        ValueError: There is no default group.
    """
    if _rank_not_in_group(group):
        return -1
    world = _default_group()
    return world.rank() if group is None else _known(group).rank()


def get_world_size(group: Any = None) -> int:
    """Return the number of processes in the group; -1: this process is not in it.

    Raises:
        ValueError: There is no default group.
    """
    if _rank_not_in_group(group):
        return -1
    world = _default_group()
    return world.size() if group is None else _known(group).size()


def get_backend(group: Any = None) -> Backend:
    """Return the name of the group's backend.

    Raises:
        ValueError: There is no default group, or this process is not in the given one.
    """
    world = _default_group()
    if _rank_not_in_group(group):
        raise ValueError("Invalid process group specified")
    return world._backend if group is None else _known(group)._backend


def get_backend_config(group: Any = None) -> str:
    """Return which backend serves which device, as ``"cpu:shm"``."""
    return f"cpu:{get_backend(group)}"


def get_process_group_ranks(group: Any = None) -> list[int]:
    """Return the members' numbers in the default group."""
    return list((_default_group() if group is None else _known(group))._ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    """Turn a number in the default group into one in *group*.

    Raises:
        ValueError: It is not in the group.
    """
    members = _known(group)
    if members is _world.default:
        return global_rank
    if global_rank not in members._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return members._ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """Turn a number in *group* into one in the default group.

    Raises:
        ValueError: There is no such member.
    """
    members = _known(group)
    if members is _world.default:
        return group_rank
    if not 0 <= group_rank < members.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return members._ranks[group_rank]


def get_pg_count() -> int:
    """Return how many groups this process has made since `init_process_group`."""
    return _world.n_groups_made


def _start(group: ProcessGroup, call: Any, results: list[Any], async_op: bool) -> Work | None:
    """Run a collective, or queue it."""
    if async_op:
        return group._lane.start(call, results)
    group._lane.run(call)
    return None

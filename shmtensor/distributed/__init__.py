"""Collectives of groups of processes, with torch.distributed's names.

The backend ``shm`` (also called ``gloo``) works in memory that all ranks map, for processes of one
machine. `docs/distributed.md` explains it; `Backend.register_backend` adds others. Names of missing
features (NCCL, meshes of devices, sharded tensors) raise when you call them.

Source:
    torch.distributed.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from shmtensor._core import _groups
from shmtensor._core._absent_devices import refusals
from shmtensor._core._lazy import submodules
from shmtensor._core._not_offered import unavailable_class
from shmtensor.distributed import _mpi_backend as _mpi_backend  # registers itself
from shmtensor.distributed import _shm_backend as _shm_backend  # registers itself
from shmtensor.distributed._backend import Backend, Collectives, default_pg_timeout
from shmtensor.distributed._barriers import barrier, monitored_barrier
from shmtensor.distributed._collectives import (
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from shmtensor.distributed._errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from shmtensor.distributed._facts import (
    is_available,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
)
from shmtensor.distributed._file_store import FileStore
from shmtensor.distributed._group import (
    GroupMember,
    ProcessGroup,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    new_group,
)
from shmtensor.distributed._group import (
    _rank_not_in_group as _rank_not_in_group,
)
from shmtensor.distributed._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from shmtensor.distributed._names import ReduceOp
from shmtensor.distributed._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from shmtensor.distributed._stores import HashStore, PrefixStore, Store
from shmtensor.distributed._subgroups import new_subgroups, new_subgroups_by_enumeration
from shmtensor.distributed._tcp_store import TCPStore
from shmtensor.distributed._work import Work
from shmtensor.distributed.rendezvous import register_rendezvous_handler, rendezvous

_WHAT = "process groups have collectives of dense tensors only"
_REFUSED = ["all_gather_coalesced", "shrink_group", "split_group"]
_CLASSES = [
    "DeviceMesh",
    "ProcessGroupGloo",
    "ProcessGroupMPI",
    "ProcessGroupNCCL",
    "Reducer",
]

__all__ = [
    "Backend",
    "Collectives",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "register_rendezvous_handler",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    *_CLASSES,
    *_REFUSED,
]


def _not_offered(name: str = "") -> RuntimeError:
    return RuntimeError(f"distributed.{name}() is not offered: {_WHAT}")


__getattr__, __dir__ = refusals(__name__, _REFUSED, _not_offered)

globals().update({name: unavailable_class(name, __name__, _WHAT) for name in _CLASSES})


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the number of this process on its machine, from the variable ``LOCAL_RANK``.

    Raises:
        RuntimeError: It is not set, and *fallback_rank* is None.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment, and there is no fallback_rank")


def init_device_mesh(device_type: str, mesh_shape: tuple[int, ...], **options: Any) -> Any:
    """Arrange the processes of a group in rows and columns.

    Raises:
        RuntimeError: Meshes are not offered.
    """
    raise RuntimeError(f"init_device_mesh(): {_WHAT}")


_groups.offer(sys.modules[__name__])
submodules(
    __name__,
    "_composable _functional_collectives _tensor algorithms autograd checkpoint constants "
    "distributed_c10d elastic fsdp nn optim rpc tensor utils",
)

from shmtensor.distributed import device_mesh as device_mesh  # noqa: E402 - it imports from here

"""Groups of processes on several machines, which are not here: ``is_available()`` is False.

Names for annotations and `isinstance` are there; calls raise ValueError, as torch's do before
``init_process_group``. For processes on one machine there is `shmtensor.multiprocessing`.

Source:
    torch.distributed.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from shmtensor._absent_devices import refusals
from shmtensor._not_offered import unavailable_class
from shmtensor.distributed._names import ReduceOp as ReduceOp

_WHAT = "there are no process groups here; shmtensor.multiprocessing shares tensors on one machine"
# Work of a group, which there is none of.
_REFUSED = """
    all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_gather_single
    all_reduce all_reduce_coalesced all_to_all all_to_all_single barrier batch_isend_irecv broadcast
    broadcast_object_list gather gather_object get_backend get_backend_config get_global_rank
    get_group_rank get_process_group_ranks get_rank get_world_size irecv isend monitored_barrier
    new_group new_subgroups new_subgroups_by_enumeration recv recv_object_list reduce reduce_scatter
    reduce_scatter_single reduce_scatter_tensor scatter scatter_object_list send send_object_list
    shrink_group split_group
""".split()
_CLASSES = """
    Backend DeviceMesh FileStore HashStore P2POp PrefixStore ProcessGroup ProcessGroupGloo
    ProcessGroupMPI ProcessGroupNCCL Store TCPStore Work
""".split()

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "GroupMember",
    "ReduceOp",
    "destroy_process_group",
    "get_node_local_rank",
    "group",
    "init_device_mesh",
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    *_CLASSES,
    *_REFUSED,
]


def _no_group(name: str = "") -> ValueError:
    return ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )


__getattr__, __dir__ = refusals(__name__, _REFUSED, _no_group)

globals().update({name: unavailable_class(name, __name__, _WHAT) for name in _CLASSES})

default_pg_timeout = timedelta(minutes=30)


class DistError(RuntimeError):
    """Work of a group has failed. Nothing raises it here."""


class DistBackendError(DistError):
    """What carries a group's data has failed. Nothing raises it here."""


class DistNetworkError(DistError):
    """A network has failed. Nothing raises it here."""


class DistStoreError(DistError):
    """What a group agrees by has failed. Nothing raises it here."""


class GroupMember:
    """The group of all processes: None."""

    WORLD: Any = None
    NON_GROUP_MEMBER = -100


class group:
    """The group of all processes: None."""

    WORLD: Any = None


# --- questions -----------------------------------------------------------------------------------


def is_available() -> bool:
    """Return whether there are process groups: False."""
    return False


def is_initialized() -> bool:
    """Return whether `init_process_group` has made a group: False."""
    return False


def is_backend_available(backend: str) -> bool:
    """Return whether something can carry a group's data: False."""
    return False


def is_gloo_available() -> bool:
    """Return whether Gloo is here: False."""
    return False


def is_mpi_available() -> bool:
    """Return whether MPI is used for groups: False."""
    return False


def is_nccl_available() -> bool:
    """Return whether NCCL is here: False."""
    return False


def is_ucc_available() -> bool:
    """Return whether UCC is here: False."""
    return False


def is_xccl_available() -> bool:
    """Return whether XCCL is here: False."""
    return False


def is_torchelastic_launched() -> bool:
    """Return whether torchelastic has started this process, as its variable says."""
    return os.getenv("TORCHELASTIC_RUN_ID") is not None


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


# --- groups --------------------------------------------------------------------------------------


def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
    """Make the group of all processes.

    Raises:
        RuntimeError: There are no groups.
    """
    raise RuntimeError(f"init_process_group(): {_WHAT}")


def init_device_mesh(device_type: str, mesh_shape: tuple[int, ...], **options: Any) -> Any:
    """Arrange the processes of a group.

    Raises:
        RuntimeError: There are no groups.
    """
    raise RuntimeError(f"init_device_mesh(): {_WHAT}")


def destroy_process_group(group: Any = None) -> None:
    """End a group.

    Raises:
        AssertionError: There is none.
    """
    raise AssertionError("Process group cannot be None")

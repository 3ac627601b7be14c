"""The interface of a backend, and the table of backends.

A backend is a function that makes a `Collectives` from a store, a rank, a size and a timeout.
`Backend.register_backend` gives it a name, which `init_process_group` and `new_group` then take::

    class Wire(Collectives): ...

    Backend.register_backend("wire", Wire)

Everything above this file - argument checks, ranks of sub-groups, asynchronous work, tensors that
are not contiguous, complex numbers, objects - is the same for all backends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from shmtensor import _C
from shmtensor.distributed._names import ReduceOp

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor
    from shmtensor.distributed._stores import Store
    from shmtensor.distributed._work import Work

__all__ = ["Backend", "Collectives", "as_real", "default_pg_timeout"]


def as_real(tensor: Tensor) -> Tensor:
    """Return the memory of a tensor as real numbers: two for each complex element."""
    return _C.view_as_real(tensor) if tensor.is_complex() else tensor


#: How long a call waits for the other ranks unless a group says another time.
default_pg_timeout = timedelta(minutes=30)


class Collectives(ABC):
    """The collectives of one group, as a backend offers them.

    All ranks are numbers inside the group. All tensors are contiguous, dense, on the CPU, detached,
    and real when they are reduced, see `reduces_complex`; all ranks pass equal shapes and dtypes,
    unless a method says otherwise. Outputs are written in place. Every call blocks until this
    rank's part is done and its outputs are complete. Collectives are called by one thread at a
    time, in the same order by all ranks; `send` and `recv` may run beside a collective and beside
    each other, at most one `send` and one `recv` of each peer at a time.

    After a call has failed with DistBackendError the group is broken, and all later calls fail.

    Args:
        store: Where the ranks find each other; its keys belong to this group alone.
        rank: This process's number in the group.
        size: Number of ranks.
        timeout: How long a call waits for other ranks before it raises.

    Attributes:
        rank: As given.
        size: As given.
        timeout: As given; a call reads it when it begins.
    """

    #: The name that messages use.
    name: ClassVar[str] = "backend"
    #: Whether reductions get complex tensors as they are, and so can compare the ranks' dtypes.
    #: Otherwise they get them as real ones, with two numbers for each element.
    reduces_complex: ClassVar[bool] = False

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        self.rank = rank
        self.size = size
        self.timeout = timeout

    # --- collectives --------------------------------------------------------------------------

    @abstractmethod
    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> None:
        """Replace *tensor* by the combination of all ranks' tensors, bitwise equal on all ranks."""

    @abstractmethod
    def broadcast(self, tensor: Tensor, root: int) -> None:
        """Write *root*'s tensor into the tensor of every other rank."""

    @abstractmethod
    def reduce(self, tensor: Tensor, root: int, op: ReduceOp) -> None:
        """Replace *root*'s tensor by the combination; the others keep theirs."""

    @abstractmethod
    def all_gather(self, outputs: Sequence[Tensor], tensor: Tensor) -> None:
        """Write the tensor of rank i into ``outputs[i]``, on all ranks."""

    @abstractmethod
    def gather(self, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int) -> None:
        """Write the tensor of rank i into ``outputs[i]`` on *root*; others pass None."""

    @abstractmethod
    def scatter(self, output: Tensor, inputs: Sequence[Tensor] | None, root: int) -> None:
        """Write *root*'s ``inputs[i]`` into the output of rank i; others pass None."""

    @abstractmethod
    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: ReduceOp) -> None:
        """Write into the output of rank i the combination of all ranks' ``inputs[i]``."""

    @abstractmethod
    def all_to_all(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """Write ``inputs[j]`` of rank i into ``outputs[i]`` of rank j.

        Lengths may differ; those of a pair agree, and may be 0.
        """

    @abstractmethod
    def barrier(self) -> None:
        """Return when all ranks have called it."""

    # --- messages -----------------------------------------------------------------------------

    @abstractmethod
    def send(self, tensor: Tensor, to: int, tag: int) -> None:
        """Send *tensor* to a rank; it may be changed afterwards."""

    @abstractmethod
    def recv(self, tensor: Tensor, source: int | None, tag: int) -> int:
        """Receive into *tensor* the next message with this tag, from a rank or from any (None).

        Returns:
            The rank that sent it.
        """

    def isend(self, tensor: Tensor, to: int, tag: int) -> Work | None:
        """Begin `send`, or return None; then a thread of the group calls `send`."""
        return None

    def irecv(self, tensor: Tensor, source: int | None, tag: int) -> Work | None:
        """Begin `recv`, or return None; then a thread of the group calls `recv`."""
        return None

    def look_for_others(self, is_missing: Callable[[int], bool]) -> None:
        """Raise if a rank that is missing has begun a collective, and break the group.

        For `monitored_barrier`, which waits for the ranks by other means. No other call runs.
        """
        return

    # --- the end ------------------------------------------------------------------------------

    @abstractmethod
    def abort(self) -> None:
        """Make all calls of this group fail, on all ranks, even those that wait now.

        Any thread may call it, several times.
        """

    def leave(self) -> None:
        """Tell the other ranks that the program ends without `close`; calls may be running."""
        return

    @abstractmethod
    def close(self) -> None:
        """Leave the group and free its resources. Called once, while no other call runs."""


#: Makes the collectives of a group: (store, rank, size, timeout).
Creator = Callable[..., Collectives]


class Backend(str):
    """The name of a backend, in lower case.

    Raises:
        ValueError: *name* is not a string.

    Source:
        torch.distributed.Backend.
    """

    UNDEFINED: ClassVar[str] = "undefined"
    GLOO: ClassVar[str] = "gloo"
    NCCL: ClassVar[str] = "nccl"
    XCCL: ClassVar[str] = "xccl"
    UCC: ClassVar[str] = "ucc"
    MPI: ClassVar[str] = "mpi"
    SHM: ClassVar[str] = "shm"

    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, SHM]
    #: Type of a device -> the backend that tensors on it ask for; only the CPU's is here.
    default_device_backend_map: ClassVar[dict[str, str]] = {
        "cpu": GLOO,
        "cuda": NCCL,
        "xpu": XCCL,
        "mps": GLOO,
    }
    _creators: ClassVar[dict[str, Creator]] = {}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Creator,
        extended_api: bool = False,
        devices: str | list[str] | None = None,
    ) -> None:
        """Give a backend a name.

        Args:
            name: The name; case does not matter.
            func: Called as ``func(store, rank, size, timeout)``; returns a `Collectives`. A class
                will do.
            extended_api: Must be False.
            devices: Ignored; there is only the CPU.

        Raises:
            TypeError: *func* cannot be called.
            NotImplementedError: *extended_api* is true.
        """
        if extended_api:
            raise NotImplementedError("register_backend(): extended_api is not offered")
        if not callable(func):
            raise TypeError(f"register_backend(): func must be callable, got {func!r}")
        name = name.lower()
        cls._creators[name] = func
        if name not in cls.backend_list:
            cls.backend_list.append(name)
            setattr(cls, name.upper(), name)

    @classmethod
    def is_registered(cls, name: str) -> bool:
        """Whether the name is registered."""
        return name.lower() in cls._creators

    @classmethod
    def create(cls, name: str, *arguments: Any) -> Collectives:
        """Make the backend of this name.

        Raises:
            RuntimeError: A backend of torch that is not here.
            AssertionError: There is no such backend.
        """
        creator = cls._creators.get(name.lower())
        if creator is not None:
            return creator(*arguments)
        if name.lower() in cls.backend_list:
            raise RuntimeError(f"Distributed package doesn't have {name.upper()} built in")
        raise AssertionError(f"Unknown backend type {name.lower()}")

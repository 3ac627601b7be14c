"""The backend ``mpi``: collectives of processes on several machines, by mpi4py.

Processes that mpiexec, srun or the like has started are numbered by MPI already, so
``init_process_group("mpi")`` needs no address: the store of the groups is reached by one that rank
0 tells the others over MPI.

MPI has no time limits. So every call is started without waiting and tested until it is done, and
fails when its time is over, when another rank has aborted the group, or when rank 0 has ended.
Memory of a call that failed is kept, because MPI may still use it. Without more, mpiexec ends all
ranks when one of them is killed.

MPI has no half-precision numbers that all its libraries know: float16 and bfloat16 are summed as
float32 and rounded once. MIN and MAX are MPI's, which say nothing of NaN.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from shmtensor import _C
from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._mpi import ignore_signal_of_mpiexec, is_rank, reason_of
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor.distributed import _calls as calls
from shmtensor.distributed._backend import Backend, Collectives, as_real
from shmtensor.distributed._errors import DistBackendError, DistError
from shmtensor.distributed._names import ReduceOp
from shmtensor.distributed._stores import HashStore, Store
from shmtensor.distributed._tcp_store import TCPStore
from shmtensor.distributed._timeouts import Limit

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

__all__ = ["MpiCollectives"]

_ABORTED = "aborted"
#: Tests in a row before others are let run; after a while a waiting call sleeps between them.
_TESTS = 20
_EAGER_S, _PAUSE_S = 20e-3, 50e-6
#: Seconds between checks of a waiting call whether the group was aborted.
_ASK_S = 0.3

_OPS = {
    ReduceOp.SUM: "SUM",
    ReduceOp.AVG: "SUM",
    ReduceOp.PRODUCT: "PROD",
    ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR",
    ReduceOp.BXOR: "BXOR",
}
# Truth values are bytes of 0 or 1: "sum" is or, "product" is and.
_OPS_OF_BOOL = {**_OPS, ReduceOp.SUM: "BOR", ReduceOp.PRODUCT: "BAND"}
_TYPES = {
    _C.float32: "FLOAT",
    _C.float64: "DOUBLE",
    _C.uint8: "UINT8_T",
    _C.int8: "INT8_T",
    _C.int16: "INT16_T",
    _C.int32: "INT32_T",
    _C.int64: "INT64_T",
    _C.bool: "UINT8_T",
}
_HALVES = (_C.float16, _C.bfloat16)


class _Mpi:
    """MPI in this process: begun when first used, ended at the end of the process."""

    def __init__(self) -> None:
        import mpi4py  # optional

        ignore_signal_of_mpiexec()
        was_begun = "MPI" in vars(mpi4py)
        if not was_begun:
            mpi4py.rc.finalize = False  # `_end` does it, unless a rank is lost
        from mpi4py import MPI  # importing it begins MPI

        self.api: Any = MPI
        self.world: Any = MPI.COMM_WORLD
        self.is_broken = False
        #: Requests and memory of calls that were given up.
        self.given_up: list[Any] = []
        self._pid = os.getpid()
        has_threads = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        self.lock: Any = (
            contextlib.nullcontext() if has_threads else free_in_child(threading.Lock())
        )
        if not was_begun:
            atexit.register(self._end)
            self._show_error = sys.excepthook
            sys.excepthook = self._fail

    def _fail(self, *error: Any) -> None:
        """A program that ends by an error does not wait for the others: mpiexec ends them."""
        self.is_broken = True
        self._show_error(*error)

    def _end(self) -> None:
        if os.getpid() == self._pid and not self.is_broken and not self.api.Is_finalized():
            self.api.Finalize()


_mpi: _Mpi | None = None


def _begun() -> _Mpi:
    global _mpi
    if _mpi is None:
        try:
            _mpi = _Mpi()
        except ImportError as error:
            raise RuntimeError(
                f"the backend mpi needs mpi4py: pip install 'shmtensor[mpi]' ({error})"
            ) from None
    return _mpi


def _bytes_of(tensor: Tensor) -> Any:
    """Return the memory of a tensor as MPI's bytes."""
    assert _mpi is not None
    nbytes = tensor.numel() * tensor.element_size()
    return [_mpi.api.buffer.fromaddress(tensor.data_ptr(), nbytes), _mpi.api.BYTE]


def _joined(parts: Sequence[Tensor]) -> Tensor:
    flat: Tensor = _C.cat([part.reshape(-1) for part in parts])
    return flat


class MpiCollectives(Collectives):
    """Collectives over MPI; see the head of this file."""

    name: ClassVar[str] = "mpi"
    reduces_complex: ClassVar[bool] = True

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        self._mpi = _begun()
        self._api = self._mpi.api
        self._store = store
        self._broken: str | None = None
        self._has_store = True
        self._comm: Any = None
        members = self._members()
        group = self._mpi.world.Get_group().Incl(members)
        tag = zlib.crc32(repr(members).encode()) % 32768
        with self._mpi.lock:
            self._comm = self._mpi.world.Create_group(group, tag)
        self._comm.Set_errhandler(self._api.ERRORS_RETURN)
        self._max_tag = int(self._comm.Get_attr(self._api.TAG_UB))
        self.barrier()

    def _members(self) -> list[int]:
        """Exchange the numbers that MPI has given to the ranks of this group."""
        keys = [f"rank/{i}" for i in range(self.size)]
        limit = Limit(self.timeout)
        self._store.set(keys[self.rank], str(self._mpi.world.rank))
        members = [int(number) for number in self._store._get_all(keys, limit)]
        if len(set(members)) < self.size:
            raise DistBackendError(
                f"MPI knows {self._mpi.world.size} processes, and the group has {self.size}: "
                "start them with mpiexec"
            )
        return members

    @staticmethod
    def is_available() -> bool:
        """Return whether mpi4py is installed."""
        return importlib.util.find_spec("mpi4py") is not None

    @staticmethod
    def find_ranks(timeout: timedelta) -> tuple[Store, int, int] | None:
        """Return a store, the rank and the number of ranks; None: no launcher has numbered us."""
        if not is_rank():
            return None
        world = _begun().world
        if world.size == 1:
            return HashStore(), 0, 1
        here = world.Split_type(_begun().api.COMM_TYPE_SHARED)
        is_one_machine = here.size == world.size
        here.Free()
        store: Store | None = None
        address: Any = None
        if world.rank == 0:
            host = "127.0.0.1" if is_one_machine else socket.getfqdn()
            store = TCPStore(host, 0, is_master=True, timeout=timeout, wait_for_workers=False)
            address = host, store.port
        host, port = world.bcast(address)
        if store is None:
            store = TCPStore(host, port, timeout=timeout)
        return store, world.rank, world.size

    # --- waiting ------------------------------------------------------------------------------

    def _do(self, what: str, start: Any, *memory: Any) -> Any:
        """Start a call of MPI and wait for its end.

        Args:
            what: The call's name, for errors.
            start: Starts it; returns a request, or None: then it is called again later.
            memory: What MPI uses meanwhile.

        Returns:
            MPI's status of a message.

        Raises:
            DistBackendError: It failed, or took longer than the timeout.
        """
        began = time.monotonic()
        limit = Limit(self.timeout)
        ask_at = began + _ASK_S
        status = self._api.Status()
        request: Any = None
        try:
            self._check_unbroken(what)
            while True:
                if request is None:
                    with self._mpi.lock:
                        request = start()
                if request is not None and self._is_done(request, status):
                    break
                now = time.monotonic()
                if limit.is_over():
                    raise self._failure(what, f"it has taken longer than {limit.seconds:g} s")
                if now > ask_at:
                    ask_at = now + _ASK_S
                    self._ask(what, limit)
                if now > began + _EAGER_S:
                    time.sleep(_PAUSE_S)
                else:
                    os.sched_yield()
        except self._api.Exception as error:
            self._mpi.given_up.append((request, memory))
            raise self._failure(what, reason_of(error)) from None
        except BaseException as error:
            if request is not None:
                self._mpi.given_up.append((request, memory))
            if not isinstance(error, DistBackendError):  # an interrupt: the others must not wait
                self.abort()
            raise
        return status

    def _is_done(self, request: Any, status: Any) -> bool:
        for _ in range(_TESTS):
            with self._mpi.lock:
                if request.Test(status):
                    return True
        return False

    def _ask(self, what: str, limit: Limit) -> None:
        try:
            is_aborted = self._store._has(_ABORTED, limit)
        except (DistError, OSError) as error:
            raise_of_handler(error)
            self._has_store = False
            raise self._failure(what, "rank 0, which keeps the store, is lost") from None
        if is_aborted:
            raise self._failure(what, "a rank has aborted the group")

    def _check_unbroken(self, what: str) -> None:
        if self._broken is not None:
            raise DistBackendError(f"{what} failed on rank {self.rank}: {self._broken}")

    def _failure(self, what: str, why: str) -> DistBackendError:
        """Break the group, here and on the other ranks; returns the error to raise."""
        self.abort()
        self._broken = why
        return DistBackendError(f"{what} failed on rank {self.rank}: {why}")

    # --- comparing (Note [Ranks compare their calls] in ``_calls``) -----------------------------

    def _agree(self, kind: str, tensor: Tensor | None = None, op: int = 0, root: int = 0) -> None:
        """Return when all ranks have said what they call, and it is the same."""
        what = calls.describe(kind, tensor, op, root)
        for other, (theirs,) in enumerate(self._gathered(kind, [what])):
            if theirs != what:
                raise self._disagreement(self.rank, calls.say(what), other, calls.say(theirs))

    def _gathered(self, kind: str, numbers: list[int]) -> list[list[int]]:
        """Return the numbers of all ranks, by rank."""
        own = _C.tensor(numbers, dtype=_C.int64)
        whole: Any = _C.empty(self.size * len(numbers), dtype=_C.int64)
        given, taken = _bytes_of(own), _bytes_of(whole)
        self._do(kind, lambda: self._comm.Iallgather(given, taken), own, whole)
        table: list[list[int]] = whole.view(self.size, -1).tolist()
        return table

    def _disagreement(self, first: int, one: str, second: int, other: str) -> DistBackendError:
        text = f"ranks do not call the same: rank {first} calls {one}, rank {second} calls {other}"
        self._failure("the call", text)
        return DistBackendError(text)

    # --- reductions ---------------------------------------------------------------------------

    def _reduced(
        self, what: str, call: str, given: Tensor, op: ReduceOp, n: int, **more: Any
    ) -> Any:
        """Call a reduction of MPI; returns its result, of *n* elements, in the dtype of *given*.

        None where this rank has no result.
        """
        dtype = given.dtype
        plain = given.to(_C.float32) if dtype in _HALVES else given
        kind = getattr(self._api, _TYPES[plain.dtype])
        names = _OPS_OF_BOOL if dtype == _C.bool else _OPS
        result: Any = _C.empty(n, dtype=plain.dtype)
        ours, theirs = (
            [self._api.buffer.fromaddress(t.data_ptr(), t.numel() * t.element_size()), kind]
            for t in (plain, result)
        )
        is_receiver = more.get("root", self.rank) == self.rank
        function = getattr(self._comm, call)
        self._do(
            what,
            lambda: function(
                ours, theirs if is_receiver else None, op=getattr(self._api, names[op]), **more
            ),
            plain,
            result,
        )
        if not is_receiver:
            return None
        if op == ReduceOp.AVG:
            if result.is_floating_point():
                result.div_(self.size)
            else:
                result.div_(self.size, rounding_mode="trunc")
        return result

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> None:
        """See `Collectives.all_reduce`."""
        flat = as_real(tensor).view(-1)
        self._agree("all_reduce", tensor, op)
        flat.copy_(self._reduced("all_reduce", "Iallreduce", flat, op, flat.numel()))

    def reduce(self, tensor: Tensor, root: int, op: ReduceOp) -> None:
        """See `Collectives.reduce`."""
        flat = as_real(tensor).view(-1)
        self._agree("reduce", tensor, op, root)
        result = self._reduced("reduce", "Ireduce", flat, op, flat.numel(), root=root)
        if result is not None:
            flat.copy_(result)

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: ReduceOp) -> None:
        """See `Collectives.reduce_scatter`."""
        out = as_real(output).view(-1)
        self._agree("reduce_scatter", output, op)
        given = _joined([as_real(each) for each in inputs])
        out.copy_(self._reduced("reduce_scatter", "Ireduce_scatter_block", given, op, out.numel()))

    # --- copies -------------------------------------------------------------------------------

    def broadcast(self, tensor: Tensor, root: int) -> None:
        """See `Collectives.broadcast`."""
        self._agree("broadcast", tensor, root=root)
        data = _bytes_of(tensor)
        self._do("broadcast", lambda: self._comm.Ibcast(data, root=root), tensor)

    def all_gather(self, outputs: Sequence[Tensor], tensor: Tensor) -> None:
        """See `Collectives.all_gather`."""
        self._agree("all_gather", tensor)
        whole = _C.empty(self.size * tensor.numel(), dtype=tensor.dtype)
        given, taken = _bytes_of(tensor), _bytes_of(whole)
        self._do("all_gather", lambda: self._comm.Iallgather(given, taken), tensor, whole)
        self._share_out(whole, outputs)

    def gather(self, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int) -> None:
        """See `Collectives.gather`."""
        self._agree("gather", tensor, root=root)
        n = 0 if outputs is None else self.size * tensor.numel()
        whole = _C.empty(n, dtype=tensor.dtype)
        given = _bytes_of(tensor)
        taken = None if outputs is None else _bytes_of(whole)
        self._do("gather", lambda: self._comm.Igather(given, taken, root=root), tensor, whole)
        if outputs is not None:
            self._share_out(whole, outputs)

    def scatter(self, output: Tensor, inputs: Sequence[Tensor] | None, root: int) -> None:
        """See `Collectives.scatter`."""
        self._agree("scatter", output, root=root)
        whole = None if inputs is None else _joined(inputs)
        given = None if whole is None else _bytes_of(whole)
        taken = _bytes_of(output)
        self._do("scatter", lambda: self._comm.Iscatter(given, taken, root=root), output, whole)

    def all_to_all(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """See `Collectives.all_to_all`."""
        self._agree("all_to_all", outputs[0])
        sizes = [part.numel() for part in (*inputs, *outputs)]
        found = calls.unequal(self._gathered("all_to_all", sizes))
        if found is not None:
            raise self._disagreement(*found)
        given = _joined(inputs)
        whole = _C.empty(sum(out.numel() for out in outputs), dtype=given.dtype)
        ours, theirs = (
            [
                _bytes_of(flat)[0],
                [part.numel() * part.element_size() for part in parts],
                self._api.BYTE,
            ]
            for flat, parts in ((given, inputs), (whole, outputs))
        )
        self._do("all_to_all", lambda: self._comm.Ialltoallv(ours, theirs), given, whole)
        self._share_out(whole, outputs)

    def _share_out(self, whole: Tensor, outputs: Sequence[Tensor]) -> None:
        """Copy the parts of *whole* into tensors."""
        start = 0
        for out in outputs:
            out.view(-1).copy_(whole[start : start + out.numel()])
            start += out.numel()

    def barrier(self) -> None:
        """See `Collectives.barrier`."""
        self._agree("barrier")

    # --- messages -----------------------------------------------------------------------------

    def _tag(self, tag: int) -> int:
        if not 0 <= tag <= self._max_tag:
            raise ValueError(f"the backend mpi takes tags from 0 to {self._max_tag}, got {tag}")
        return tag

    def send(self, tensor: Tensor, to: int, tag: int) -> None:
        """See `Collectives.send`."""
        data, tag = _bytes_of(tensor), self._tag(tag)
        self._do("send", lambda: self._comm.Isend(data, dest=to, tag=tag), tensor)

    def recv(self, tensor: Tensor, source: int | None, tag: int) -> int:
        """See `Collectives.recv`."""
        data, tag = _bytes_of(tensor), self._tag(tag)

        def receive_from_any() -> Any:
            # Looked for first: MPICH over UCX loses receptions from any source.
            found = self._comm.Improbe(self._api.ANY_SOURCE, tag)
            return None if found is None else found.Irecv(data)

        def receive() -> Any:
            return self._comm.Irecv(data, source=source, tag=tag)

        status = self._do("recv", receive_from_any if source is None else receive, tensor)
        expected = tensor.numel() * tensor.element_size()
        got = int(status.Get_count(self._api.BYTE))
        found = int(status.Get_source())
        if got != expected:
            raise self._failure("recv", f"rank {found} sent {got} bytes, expected {expected}")
        return found

    # --- the end ------------------------------------------------------------------------------

    def abort(self) -> None:
        """See `Collectives.abort`."""
        if self._broken is None:
            self._broken = "the group was aborted"
        self._mpi.is_broken = True
        if self._has_store:  # else it would be looked for until the timeout
            with contextlib.suppress(DistError, OSError):
                self._store.set(_ABORTED, "1")

    def close(self) -> None:
        """See `Collectives.close`."""
        if self._broken is None:
            with self._mpi.lock:
                self._comm.Free()


Backend.register_backend("mpi", MpiCollectives)

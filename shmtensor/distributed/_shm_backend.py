"""The backend ``shm``: collectives of processes of one machine, in memory that all of them map.

Every collective is a series of steps (`_shm_steps`). In a step each rank copies a chunk into its
slot, and reads the chunks of others; operators combine them. A rank fills its slot for the next
chunk before it waits for this one, so copies and reductions of different ranks overlap, and the
chunks in progress stay in the caches.

All ranks combine the values of an element in the order of the ranks, or take the result from the
rank that did. So the results are bitwise equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from shmtensor import _C
from shmtensor._boundary.group import FILLED, MAX_RANKS, READ
from shmtensor.distributed import _calls as calls
from shmtensor.distributed._backend import Backend, Collectives, as_real
from shmtensor.distributed._calls import describe
from shmtensor.distributed._names import ReduceOp
from shmtensor.distributed._shm_meeting import meet
from shmtensor.distributed._shm_messages import Messages
from shmtensor.distributed._shm_steps import Steps
from shmtensor.distributed._stores import Store
from shmtensor.distributed._timeouts import Limit

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

__all__ = ["ShmCollectives"]

_SLOT_BYTES = 1 << 20
_COMBINE: dict[ReduceOp, Callable[..., Any]] = {
    ReduceOp.SUM: _C.add,
    ReduceOp.AVG: _C.add,
    ReduceOp.PRODUCT: _C.mul,
    ReduceOp.MIN: _C.minimum,
    ReduceOp.MAX: _C.maximum,
    ReduceOp.BAND: _C.bitwise_and,
    ReduceOp.BOR: _C.bitwise_or,
    ReduceOp.BXOR: _C.bitwise_xor,
}


class ShmCollectives(Collectives):
    """Collectives in shared memory; see the head of this file."""

    name: ClassVar[str] = "shm"
    reduces_complex: ClassVar[bool] = True

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        if not 0 <= rank < size:
            raise ValueError(f"rank {rank} of {size}")
        if size > MAX_RANKS:
            raise ValueError(f"the backend shm has at most {MAX_RANKS} ranks, got {size}")
        limit = Limit(timeout)
        self._steps = Steps(meet(store, rank, size, _SLOT_BYTES, limit), rank, size)
        self._messages = Messages(self._steps)
        try:
            # The group is there when all ranks have it.
            with self._steps.collective(describe("barrier"), timeout, limit):
                self._steps.meet()
        except BaseException:
            self._steps.close()
            raise

    def _collective(self, what: int) -> AbstractContextManager[None]:
        return self._steps.collective(what, self.timeout)

    # --- reductions ---------------------------------------------------------------------------

    def _combine(self, parts: list[Tensor], out: Tensor, op: ReduceOp) -> None:
        """Combine the ranks' parts, in their order, into *out*, which may be one of the parts."""
        combine = _COMBINE[op]
        # A part that is written before it is read would be lost: keep it.
        for i in range(2, len(parts)):
            if parts[i].data_ptr() == out.data_ptr():
                parts[i] = parts[i].clone()
        if len(parts) == 1:
            out.copy_(parts[0])
        else:
            combine(parts[0], parts[1], out=out)
            for part in parts[2:]:
                combine(out, part, out=out)
        if op == ReduceOp.AVG:
            self._divide(out)

    def _divide(self, out: Tensor) -> None:
        if out.is_floating_point():
            out.div_(self.size)
        else:
            out.div_(self.size, rounding_mode="trunc")

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> None:
        """See `Collectives.all_reduce`."""
        if self.size == 1:
            return
        real = as_real(tensor)
        with self._collective(describe("all_reduce", tensor, op)):
            self._steps.all_reduce(real, (ReduceOp.SUM if op == ReduceOp.AVG else op).name)
        if op == ReduceOp.AVG:
            self._divide(real)

    def reduce(self, tensor: Tensor, root: int, op: ReduceOp) -> None:
        """See `Collectives.reduce`."""
        flat = as_real(tensor).view(-1)
        dtype = flat.dtype
        with self._collective(describe("reduce", tensor, op, root)):
            if self.size == 1:
                return
            self._steps.reserve(flat.numel() * flat.element_size())
            is_root = self.rank == root

            def fill(step: int, start: int, stop: int) -> None:
                self._steps.fill(step, flat, start, stop)

            def use(step: int, start: int, stop: int) -> None:
                if not is_root:
                    return
                self._steps.wait(FILLED, -1, step, compare=True)
                if stop == start:
                    return
                parts = [self._steps.slot(dtype, r, step)[: stop - start] for r in range(self.size)]
                parts[root] = flat[start:stop]
                self._combine(parts, flat[start:stop], op)

            chunk = _SLOT_BYTES // flat.element_size()
            self._steps.pipeline(flat.numel(), chunk, None if is_root else fill, use)

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: ReduceOp) -> None:
        """See `Collectives.reduce_scatter`."""
        out = as_real(output).view(-1)
        flats = [as_real(each).view(-1) for each in inputs]
        dtype, size = out.dtype, out.element_size()
        with self._collective(describe("reduce_scatter", output, op)):
            if self.size == 1:
                out.copy_(flats[0])
                return
            chunk = self._part_elements(size)
            self._steps.reserve(min(out.numel(), chunk) * size * self.size)
            # The others write their outputs when they like; ours may be one of our inputs.
            own = flats[self.rank]

            def fill(step: int, start: int, stop: int) -> None:
                for r in self._steps.others:
                    self._steps.fill(step, flats[r], start, stop, r * (stop - start) * size)

            def use(step: int, start: int, stop: int) -> None:
                self._steps.wait(FILLED, -1, step, compare=True)
                n = stop - start
                if n == 0:
                    return
                at = self.rank * n
                parts = [self._steps.slot(dtype, r, step)[at : at + n] for r in range(self.size)]
                parts[self.rank] = own[start:stop]
                self._combine(parts, out[start:stop], op)

            self._steps.pipeline(out.numel(), chunk, fill, use)

    def _part_elements(self, element_size: int) -> int:
        """Return how many elements for each rank a slot has room for."""
        return max(64, _SLOT_BYTES // element_size // self.size // 64 * 64)

    # --- copies -------------------------------------------------------------------------------

    def broadcast(self, tensor: Tensor, root: int) -> None:
        """See `Collectives.broadcast`."""
        flat = tensor.view(-1)
        with self._collective(describe("broadcast", flat, root=root)):
            if self.size == 1:
                return
            is_root = self.rank == root
            if is_root:
                self._steps.reserve(flat.numel() * flat.element_size())

            def fill(step: int, start: int, stop: int) -> None:
                self._steps.fill(step, flat, start, stop)

            def use(step: int, start: int, stop: int) -> None:
                if not is_root:
                    self._steps.wait(FILLED, root, step, compare=True)
                    self._steps.copy(root, step, 0, flat, start, stop)

            # Half a slot: the readers begin sooner.
            chunk = _SLOT_BYTES // 2 // flat.element_size()
            self._steps.pipeline(flat.numel(), chunk, fill if is_root else None, use)

    def all_gather(self, outputs: Sequence[Tensor], tensor: Tensor) -> None:
        """See `Collectives.all_gather`."""
        flat = tensor.view(-1)
        outs = [each.view(-1) for each in outputs]
        with self._collective(describe("all_gather", flat)):
            self._steps.reserve(flat.numel() * flat.element_size())

            def fill(step: int, start: int, stop: int) -> None:
                self._steps.fill(step, flat, start, stop)

            def use(step: int, start: int, stop: int) -> None:
                own = outs[self.rank]
                if own.data_ptr() != flat.data_ptr() and stop > start:
                    own[start:stop].copy_(flat[start:stop])
                for r in self._steps.others:
                    self._steps.wait(FILLED, r, step, compare=True)
                    self._steps.copy(r, step, 0, outs[r], start, stop)

            self._steps.pipeline(flat.numel(), _SLOT_BYTES // 2 // flat.element_size(), fill, use)

    def gather(self, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int) -> None:
        """See `Collectives.gather`."""
        flat = tensor.view(-1)
        outs = [each.view(-1) for each in outputs or ()]
        with self._collective(describe("gather", flat, root=root)):
            if self.rank != root:
                self._steps.reserve(flat.numel() * flat.element_size())

            def fill(step: int, start: int, stop: int) -> None:
                self._steps.fill(step, flat, start, stop)

            def use(step: int, start: int, stop: int) -> None:
                if not outs:
                    return
                if stop > start:
                    outs[root][start:stop].copy_(flat[start:stop])
                for r in self._steps.others:
                    self._steps.wait(FILLED, r, step, compare=True)
                    self._steps.copy(r, step, 0, outs[r], start, stop)

            chunk = _SLOT_BYTES // 2 // flat.element_size()
            self._steps.pipeline(flat.numel(), chunk, None if self.rank == root else fill, use)

    def scatter(self, output: Tensor, inputs: Sequence[Tensor] | None, root: int) -> None:
        """See `Collectives.scatter`."""
        out = output.view(-1)
        flats = [each.view(-1) for each in inputs or ()]
        size = out.element_size()
        with self._collective(describe("scatter", out, root=root)):
            chunk = self._part_elements(size)
            if flats:
                self._steps.reserve(min(out.numel(), chunk) * size * self.size)

            def fill(step: int, start: int, stop: int) -> None:
                for r in self._steps.others:
                    self._steps.fill(step, flats[r], start, stop, r * (stop - start) * size)

            def use(step: int, start: int, stop: int) -> None:
                if flats:
                    if stop > start:
                        out[start:stop].copy_(flats[root][start:stop])
                    return
                self._steps.wait(FILLED, root, step, compare=True)
                self._steps.copy(root, step, self.rank * (stop - start) * size, out, start, stop)

            self._steps.pipeline(out.numel(), chunk, fill if flats else None, use)

    def all_to_all(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """See `Collectives.all_to_all`."""
        outs = [each.view(-1) for each in outputs]
        flats = [each.view(-1) for each in inputs]
        with self._collective(describe("all_to_all", outs[0])):
            size = outs[0].element_size()
            self._steps.reserve(_SLOT_BYTES)
            longest = self._longest([each.numel() for each in (*flats, *outs)])
            chunk = self._part_elements(size)
            part = chunk * size

            def fill(step: int, start: int, stop: int) -> None:
                for r in self._steps.others:
                    end = min(stop, flats[r].numel())
                    if end > start:
                        self._steps.fill(step, flats[r], start, end, r * part)

            def use(step: int, start: int, stop: int) -> None:
                end = min(stop, outs[self.rank].numel())
                if end > start:
                    outs[self.rank][start:end].copy_(flats[self.rank][start:end])
                for r in self._steps.others:
                    self._steps.wait(FILLED, r, step, compare=True)
                    end = min(stop, outs[r].numel())
                    if end > start:
                        self._steps.copy(r, step, self.rank * part, outs[r], start, end)

            self._steps.pipeline(longest, chunk, fill, use)

    def _longest(self, sizes: list[int]) -> int:
        """Compare how much each rank gives to each other; return the largest number. A step."""
        step = self._steps.step
        own = _C.tensor(sizes, dtype=_C.int64)
        self._steps.fill_step(lambda *_: self._steps.fill(step, own, 0, own.numel()), step, 0, 0)
        self._steps.wait(FILLED, -1, step, compare=True)
        table = [sizes] * self.size
        for r in self._steps.others:
            self._steps.copy(r, step, 0, own, 0, own.numel())
            table[r] = own.tolist()
        self._steps.memory.post(READ, step)
        self._steps.step = step + 1
        found = calls.unequal(table)
        if found is not None:
            self._steps.memory.abort()
            raise self._steps.unlike(*found)
        return max(max(theirs) for theirs in table)

    def barrier(self) -> None:
        """See `Collectives.barrier`."""
        with self._collective(describe("barrier")):
            self._steps.meet()

    def look_for_others(self, is_missing: Callable[[int], bool]) -> None:
        """See `Collectives.look_for_others`."""
        what, step = describe("monitored_barrier"), self._steps.step
        other = self._steps.differing(step, what)
        # The others may have met and gone on since we looked.
        if other is not None and is_missing(other):
            self._steps.memory.post(FILLED, step, what)
            raise self._steps.disagree(what)

    # --- messages -----------------------------------------------------------------------------

    def send(self, tensor: Tensor, to: int, tag: int) -> None:
        """See `Collectives.send`."""
        self._messages.send(tensor, to, tag, self.timeout)

    def recv(self, tensor: Tensor, source: int | None, tag: int) -> int:
        """See `Collectives.recv`."""
        return self._messages.recv(tensor, source, tag, self.timeout)

    # --- the end ------------------------------------------------------------------------------

    def abort(self) -> None:
        """See `Collectives.abort`."""
        self._steps.memory.abort()

    def leave(self) -> None:
        """See `Collectives.leave`."""
        self._steps.memory.leave()

    def close(self) -> None:
        """See `Collectives.close`."""
        self._steps.close()


Backend.register_backend("shm", ShmCollectives)
Backend.register_backend("gloo", ShmCollectives)

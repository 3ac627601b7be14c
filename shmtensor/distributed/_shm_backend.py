"""The backend ``shm``: collectives of processes of one machine, in memory that all of them map.

Every collective is a series of steps (Note [Steps] in ``csrc/ipc/group/group.h``). In a step each
rank copies a chunk into its slot, and reads the chunks of others; operators combine them. In the
first step all ranks say what they call (Note [Ranks compare their calls] in ``_calls``). A rank
fills its slot for the next chunk before it waits for this one, so copies and reductions of
different ranks overlap, and the chunks in progress stay in the caches.

All ranks combine the values of an element in the order of the ranks, or take the result from the
rank that did. So the results are bitwise equal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from shmtensor import _C
from shmtensor._boundary import group as memory
from shmtensor._boundary.group import FILLED, N_SLOTS, READ
from shmtensor._core._fork_locks import free_in_child
from shmtensor.distributed import _calls as calls
from shmtensor.distributed._backend import Backend, Collectives
from shmtensor.distributed._calls import describe
from shmtensor.distributed._errors import DistBackendError
from shmtensor.distributed._names import ReduceOp
from shmtensor.distributed._shm_meeting import meet
from shmtensor.distributed._stores import Store
from shmtensor.distributed._timeouts import seconds_of

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

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        if not 0 <= rank < size:
            raise ValueError(f"rank {rank} of {size}")
        if size > memory.MAX_RANKS:
            raise ValueError(f"the backend shm has at most {memory.MAX_RANKS} ranks, got {size}")
        self._memory = meet(store, rank, size, _SLOT_BYTES, timeout)
        self._step = 0
        self._what = 0
        self._deadline = 0.0
        self._lock = free_in_child(threading.Lock())
        self._others = [r for r in range(size) if r != rank]
        self._views: dict[Any, list[list[Tensor]]] = {}
        self._stash: dict[tuple[int, int], list[tuple[int, Tensor]]] = {}
        self._receiving = [free_in_child(threading.Lock()) for _ in range(size)]
        try:
            self.barrier()  # the group is there when all ranks have it
        except BaseException:
            self._memory.close()
            raise

    # --- steps --------------------------------------------------------------------------------

    @contextmanager
    def _collective(self, what: int) -> Iterator[None]:
        """Name what is done, and turn a broken group into an error that names the rank."""
        with self._lock:
            self._what = what
            self._deadline = time.monotonic() + seconds_of(self.timeout)
            try:
                self._memory.check()
                yield
            except memory.Broken as broken:
                raise self._broken(broken, calls.say(what)) from None
            except memory.Mismatch:
                raise self._disagree(what) from None
            except DistBackendError:
                raise
            except BaseException:  # an interrupt, or memory is out: the others must not wait
                self._memory.abort()
                raise

    def _broken(self, broken: memory.Broken, doing: str) -> DistBackendError:
        if broken.reason == "disagreed":
            return self._disagreement()
        reason = {
            "died": "its process has ended",
            "left": "it has left the group",
            "aborted": "it has aborted the group",
            "forked": "this process was forked from it and is not in the group",
        }[broken.reason]
        return DistBackendError(
            f"{doing} failed on rank {self.rank}: rank {broken.rank} is lost, {reason}"
        )

    def _said(self, rank: int, step: int) -> int | None:
        """Return what a rank has said about a step that is in progress; None: nothing yet."""
        if not self._memory.has_counted(FILLED, rank, step):
            return None
        return self._memory.what(rank, step)

    def _differing(self, step: int, what: int) -> int | None:
        """Return a rank that has said something else about a step; None: there is none yet."""
        return next((r for r in self._others if self._said(r, step) not in (None, what)), None)

    def _disagree(self, what: int) -> DistBackendError:
        """Break the group, since a rank does something else than *what* in this step."""
        other = self._differing(self._step, what)
        if other is None:
            self._memory.abort()
        else:
            self._memory.disagree(other, self._step)
        return self._disagreement()

    def _disagreement(self) -> DistBackendError:
        """Say what two ranks call; this one is the first of them if it has called, too."""
        first, second, step = self._memory.disagreement()
        own = self._said(self.rank, step)
        other = None if own is None else self._differing(step, own)
        if other is not None:
            first, second = self.rank, other
        one, two = (calls.say(self._memory.what(rank, step)) for rank in (first, second))
        return self._unlike(first, one, second, two)

    def _unlike(self, first: int, one: str, second: int, other: str) -> DistBackendError:
        return DistBackendError(
            f"ranks do not call the same: rank {first} calls {one}, rank {second} calls {other}"
        )

    def _wait(self, counter: int, rank: int, step: int, compare: bool = False) -> None:
        """Wait until a rank (-1: all others) has counted a step."""
        what = self._what if compare else 0
        if self._memory.wait(counter, rank, step, self._deadline, what):
            return
        self._raise_timeout(counter, self._others if rank < 0 else [rank], step)

    def _raise_timeout(self, counter: int, awaited: list[int], step: int) -> NoReturn:
        missing = [r for r in awaited if not self._memory.has_counted(counter, r, step)]
        self._memory.abort()
        raise DistBackendError(
            f"{calls.say(self._what)} timed out on rank {self.rank} after "
            f"{seconds_of(self.timeout):g} s: rank {', '.join(map(str, missing))} did not come"
        )

    def _open(self, step: int) -> None:
        """Wait until this rank's slot of a step is free."""
        self._wait(READ, -1, step - N_SLOTS)

    def _fill(self, step: int, tensor: Tensor, start: int, stop: int, at: int = 0) -> None:
        """Copy elements into this rank's slot of a step."""
        size = tensor.element_size()
        self._memory.put(step, at, tensor.data_ptr() + start * size, (stop - start) * size)

    def _copy(self, rank: int, step: int, at: int, tensor: Tensor, start: int, stop: int) -> None:
        """Copy elements out of a rank's slot of a step."""
        size = tensor.element_size()
        self._memory.get(rank, step, at, tensor.data_ptr() + start * size, (stop - start) * size)

    def _slot(self, dtype: Any, rank: int, step: int) -> Tensor:
        """Return a rank's slot of a step as a tensor of the dtype."""
        views = self._views.get(dtype)
        if views is None:
            views = self._views[dtype] = [
                [_C.frombuffer(self._memory.slot(r, slot), dtype=dtype) for slot in range(N_SLOTS)]
                for r in range(self.size)
            ]
        return views[rank][step % N_SLOTS]

    def _steps(self, n: int, chunk: int) -> Iterator[tuple[int, int, int]]:
        """Yield for each chunk of n elements its step, start and stop; at least one."""
        start = 0
        while True:
            step = self._step
            stop = min(start + chunk, n)
            yield step, start, stop
            self._step = step + 1
            start = stop
            if start >= n:
                return

    def _pipeline(
        self,
        n: int,
        chunk: int,
        fill: Callable[[int, int, int], None] | None,
        use: Callable[[int, int, int], None],
    ) -> None:
        """Do all chunks: ``fill(step, start, stop)`` runs one step ahead of ``use``."""
        first = self._step
        self._fill_step(fill, first, 0, min(chunk, n))
        for step, start, stop in self._steps(n, chunk):
            if fill is not None and stop < n:
                self._fill_step(fill, step + 1, stop, min(stop + chunk, n))
            if step == first:
                self._wait(FILLED, -1, first, compare=True)
            use(step, start, stop)
            self._memory.post(READ, step)

    def _fill_step(
        self, fill: Callable[[int, int, int], None] | None, step: int, start: int, stop: int
    ) -> None:
        """Fill this rank's slot of a step, if there is something to give, and say what it is."""
        self._open(step)
        if fill is not None:
            fill(step, start, stop)
        self._memory.post(FILLED, step, self._what)

    def _reserve(self, nbytes: int) -> None:
        self._memory.reserve(max(nbytes, 64))

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
        with self._collective(describe("all_reduce", tensor, op)):
            self._all_reduce(tensor, ReduceOp.SUM if op == ReduceOp.AVG else op)
        if op == ReduceOp.AVG:
            self._divide(tensor)

    def _all_reduce(self, tensor: Tensor, op: ReduceOp) -> None:
        """Do all steps. They are a loop in C (``csrc/ops/group_reduce.c``)."""
        step, missed = self._memory.all_reduce(
            op.name, tensor._cdata, self._step, self._deadline, self._what
        )
        if missed is not None:
            self._raise_timeout(missed[0], self._others, missed[1])
        self._step = step

    def reduce(self, tensor: Tensor, root: int, op: ReduceOp) -> None:
        """See `Collectives.reduce`."""
        flat = tensor.view(-1)
        dtype = flat.dtype
        with self._collective(describe("reduce", flat, op, root)):
            if self.size == 1:
                return
            self._reserve(flat.numel() * flat.element_size())
            is_root = self.rank == root

            def fill(step: int, start: int, stop: int) -> None:
                self._fill(step, flat, start, stop)

            def use(step: int, start: int, stop: int) -> None:
                if not is_root:
                    return
                self._wait(FILLED, -1, step, compare=True)
                if stop == start:
                    return
                parts = [self._slot(dtype, r, step)[: stop - start] for r in range(self.size)]
                parts[root] = flat[start:stop]
                self._combine(parts, flat[start:stop], op)

            chunk = _SLOT_BYTES // flat.element_size()
            self._pipeline(flat.numel(), chunk, None if is_root else fill, use)

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: ReduceOp) -> None:
        """See `Collectives.reduce_scatter`."""
        out = output.view(-1)
        flats = [each.view(-1) for each in inputs]
        dtype, size = out.dtype, out.element_size()
        with self._collective(describe("reduce_scatter", out, op)):
            if self.size == 1:
                out.copy_(flats[0])
                return
            chunk = self._part_elements(size)
            self._reserve(min(out.numel(), chunk) * size * self.size)
            # The others write their outputs when they like; ours may be one of our inputs.
            own = flats[self.rank]

            def fill(step: int, start: int, stop: int) -> None:
                for r in self._others:
                    self._fill(step, flats[r], start, stop, r * (stop - start) * size)

            def use(step: int, start: int, stop: int) -> None:
                self._wait(FILLED, -1, step, compare=True)
                n = stop - start
                if n == 0:
                    return
                at = self.rank * n
                parts = [self._slot(dtype, r, step)[at : at + n] for r in range(self.size)]
                parts[self.rank] = own[start:stop]
                self._combine(parts, out[start:stop], op)

            self._pipeline(out.numel(), chunk, fill, use)

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
                self._reserve(flat.numel() * flat.element_size())

            def fill(step: int, start: int, stop: int) -> None:
                self._fill(step, flat, start, stop)

            def use(step: int, start: int, stop: int) -> None:
                if not is_root:
                    self._wait(FILLED, root, step, compare=True)
                    self._copy(root, step, 0, flat, start, stop)

            # Half a slot: the readers begin sooner.
            chunk = _SLOT_BYTES // 2 // flat.element_size()
            self._pipeline(flat.numel(), chunk, fill if is_root else None, use)

    def all_gather(self, outputs: Sequence[Tensor], tensor: Tensor) -> None:
        """See `Collectives.all_gather`."""
        flat = tensor.view(-1)
        outs = [each.view(-1) for each in outputs]
        with self._collective(describe("all_gather", flat)):
            self._reserve(flat.numel() * flat.element_size())

            def fill(step: int, start: int, stop: int) -> None:
                self._fill(step, flat, start, stop)

            def use(step: int, start: int, stop: int) -> None:
                own = outs[self.rank]
                if own.data_ptr() != flat.data_ptr() and stop > start:
                    own[start:stop].copy_(flat[start:stop])
                for r in self._others:
                    self._wait(FILLED, r, step, compare=True)
                    self._copy(r, step, 0, outs[r], start, stop)

            self._pipeline(flat.numel(), _SLOT_BYTES // 2 // flat.element_size(), fill, use)

    def gather(self, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int) -> None:
        """See `Collectives.gather`."""
        flat = tensor.view(-1)
        outs = [each.view(-1) for each in outputs or ()]
        with self._collective(describe("gather", flat, root=root)):
            if self.rank != root:
                self._reserve(flat.numel() * flat.element_size())

            def fill(step: int, start: int, stop: int) -> None:
                self._fill(step, flat, start, stop)

            def use(step: int, start: int, stop: int) -> None:
                if not outs:
                    return
                if stop > start:
                    outs[root][start:stop].copy_(flat[start:stop])
                for r in self._others:
                    self._wait(FILLED, r, step, compare=True)
                    self._copy(r, step, 0, outs[r], start, stop)

            chunk = _SLOT_BYTES // 2 // flat.element_size()
            self._pipeline(flat.numel(), chunk, None if self.rank == root else fill, use)

    def scatter(self, output: Tensor, inputs: Sequence[Tensor] | None, root: int) -> None:
        """See `Collectives.scatter`."""
        out = output.view(-1)
        flats = [each.view(-1) for each in inputs or ()]
        size = out.element_size()
        with self._collective(describe("scatter", out, root=root)):
            chunk = self._part_elements(size)
            if flats:
                self._reserve(min(out.numel(), chunk) * size * self.size)

            def fill(step: int, start: int, stop: int) -> None:
                for r in self._others:
                    self._fill(step, flats[r], start, stop, r * (stop - start) * size)

            def use(step: int, start: int, stop: int) -> None:
                if flats:
                    if stop > start:
                        out[start:stop].copy_(flats[root][start:stop])
                    return
                self._wait(FILLED, root, step, compare=True)
                self._copy(root, step, self.rank * (stop - start) * size, out, start, stop)

            self._pipeline(out.numel(), chunk, fill if flats else None, use)

    def all_to_all(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """See `Collectives.all_to_all`."""
        outs = [each.view(-1) for each in outputs]
        flats = [each.view(-1) for each in inputs]
        with self._collective(describe("all_to_all", outs[0])):
            size = outs[0].element_size()
            self._reserve(_SLOT_BYTES)
            longest = self._longest([each.numel() for each in (*flats, *outs)])
            chunk = self._part_elements(size)
            part = chunk * size

            def fill(step: int, start: int, stop: int) -> None:
                for r in self._others:
                    end = min(stop, flats[r].numel())
                    if end > start:
                        self._fill(step, flats[r], start, end, r * part)

            def use(step: int, start: int, stop: int) -> None:
                end = min(stop, outs[self.rank].numel())
                if end > start:
                    outs[self.rank][start:end].copy_(flats[self.rank][start:end])
                for r in self._others:
                    self._wait(FILLED, r, step, compare=True)
                    end = min(stop, outs[r].numel())
                    if end > start:
                        self._copy(r, step, self.rank * part, outs[r], start, end)

            self._pipeline(longest, chunk, fill, use)

    def _longest(self, sizes: list[int]) -> int:
        """Compare how much each rank gives to each other; return the largest number. A step."""
        step = self._step
        own = _C.tensor(sizes, dtype=_C.int64)
        self._fill_step(lambda *_: self._fill(step, own, 0, own.numel()), step, 0, 0)
        self._wait(FILLED, -1, step, compare=True)
        table = [sizes] * self.size
        for r in self._others:
            self._copy(r, step, 0, own, 0, own.numel())
            table[r] = own.tolist()
        self._memory.post(READ, step)
        self._step = step + 1
        found = calls.unequal(table)
        if found is not None:
            self._memory.abort()
            raise self._unlike(*found)
        return max(max(theirs) for theirs in table)

    def barrier(self) -> None:
        """See `Collectives.barrier`."""
        with self._collective(describe("barrier")):
            step = self._step
            self._fill_step(None, step, 0, 0)
            self._wait(FILLED, -1, step, compare=True)
            self._memory.post(READ, step)
            self._step = step + 1

    def look_for_others(self, is_missing: Callable[[int], bool]) -> None:
        """See `Collectives.look_for_others`."""
        what, step = describe("monitored_barrier"), self._step
        other = self._differing(step, what)
        # The others may have met and gone on since we looked.
        if other is not None and is_missing(other):
            self._memory.post(FILLED, step, what)
            raise self._disagree(what)

    # --- messages -----------------------------------------------------------------------------

    def send(self, tensor: Tensor, to: int, tag: int) -> None:
        """See `Collectives.send`."""
        nbytes = tensor.numel() * tensor.element_size()
        deadline = time.monotonic() + seconds_of(self.timeout)
        try:
            self._memory.check()
            if self._memory.send(
                to, tag, calls.code_of(tensor), tensor.data_ptr(), nbytes, deadline
            ):
                return
        except memory.Broken as broken:
            raise self._broken(broken, f"send to rank {to}") from None
        except BaseException:  # an interrupt: a part of the message may be on its way
            self._memory.abort()
            raise
        self._memory.abort()
        raise DistBackendError(
            f"send to rank {to} timed out on rank {self.rank} after {seconds_of(self.timeout):g} s"
        )

    def recv(self, tensor: Tensor, source: int | None, tag: int) -> int:
        """See `Collectives.recv`."""
        deadline = time.monotonic() + seconds_of(self.timeout)
        sources = self._others if source is None else [source]
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
                    self._memory.look()
                    time.sleep(50e-6)
        except memory.Broken as broken:
            raise self._broken(broken, "recv") from None
        self._memory.abort()
        raise DistBackendError(
            f"recv from {'any rank' if source is None else f'rank {source}'} with tag {tag} timed "
            f"out on rank {self.rank} after {seconds_of(self.timeout):g} s"
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
        try:
            if self._memory.receive(source, tensor.data_ptr(), nbytes, deadline):
                return
        except memory.Broken:
            raise
        except BaseException:
            self._memory.abort()
            raise
        self._memory.abort()
        raise DistBackendError(f"recv from rank {source} timed out in the middle of a message")

    def _check_message(self, tensor: Tensor, source: int, code: int, nbytes: int) -> None:
        difference = calls.difference(code, nbytes, tensor)
        if difference is not None:
            sent, wanted = difference
            self._memory.abort()
            raise DistBackendError(
                f"rank {source} has sent {sent}, rank {self.rank} wants to receive {wanted}"
            )

    # --- the end ------------------------------------------------------------------------------

    def abort(self) -> None:
        """See `Collectives.abort`."""
        self._memory.abort()

    def leave(self) -> None:
        """See `Collectives.leave`."""
        self._memory.leave()

    def close(self) -> None:
        """See `Collectives.close`."""
        self._views.clear()
        self._memory.close()


Backend.register_backend("shm", ShmCollectives)
Backend.register_backend("gloo", ShmCollectives)

"""The store over MPI: windows over memory of our own, and no call that waits for a dead node.

Every node opens two windows: one over the vector (a node uses the part that has its home there),
one over a table with a row for each node. A row says that its node lives, how far it is and whom it
takes for lost; the node writes it into the tables of all others. A node that was taken for lost and
lives hears no more of the others, so it takes them for lost in turn.

MPI has no time limits: a call that needs a process that was killed never returns. So nothing here
waits inside MPI. Transfers are started and tested again and again, and given up when the table says
that the other node is lost. Memory of a transfer that was given up is kept, because MPI may still
use it. Only joining and leaving are collective calls.

If MPI itself ends the process when a connection breaks (as UCX over TCP does), nothing helps: the
leader dies, and its node continues without it.

Source:
    MPI: A Message-Passing Interface Standard, version 4.1, chapter 12, one-sided communications.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

import shmtensor
from shmtensor._core._mpi import reason_of
from shmtensor.hogwild._global_store import GlobalStore, NodeLostError, Values

__all__ = ["MpiStore"]

_BEAT, _ROUND, _FINISHED, _BUSY, _BARRIER = range(5)
_FIRST_LOST = 5
_TABLE, _COUNTERS, _VECTOR = range(3)  # windows
_N_COUNTERS = 64
#: Seconds between a node's signs of life.
_BEAT_S = 0.2
#: Tests of a transfer before other processes get the processor.
_TESTS = 50
#: Seconds for which `poll` serves another node that waits for this one.
_SERVE_S = 2e-3


class MpiStore(GlobalStore):
    """A store over MPI; the ranks of the world are the nodes.

    Args:
        lost_after: Seconds without a sign of life after which a node is lost.
        join_timeout: Seconds in which all nodes must call `open`.

    Raises:
        ImportError: mpi4py is not installed, or it finds no MPI.
    """

    def __init__(self, *, lost_after: float = 3.0, join_timeout: float = 120.0) -> None:
        super().__init__()
        import mpi4py  # optional

        # It would wait for lost nodes at the end of the process; `close` does it.
        mpi4py.rc.finalize = False
        from mpi4py import MPI  # importing it starts MPI

        self._mpi: Any = MPI
        self._comm: Any = MPI.COMM_WORLD.Dup()
        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        self._lost_after = lost_after
        self._join_timeout = join_timeout
        self.node, self.n_nodes = self._comm.rank, self._comm.size
        self.began_at = self._comm.bcast(time.time())
        self._table_memory: Any = shmtensor.zeros(
            self.n_nodes, _FIRST_LOST + 2 * self.n_nodes, dtype=shmtensor.int64, shared=True
        )
        self._counter_memory: Any = shmtensor.zeros(_N_COUNTERS, dtype=shmtensor.int64, shared=True)
        self._table = self._table_memory.numpy()
        self._row = self._table[self.node]
        self.rounds = self._table[:, _ROUND]
        self._given_up: list[Any] = []
        self._requests: list[Any] = [None] * self.n_nodes  # rows under way
        self._rows = np.zeros_like(self._table)  # what is sent to each node
        self._is_stale = [False] * self.n_nodes
        self._living: Any = self._comm  # for sums
        self._polled_at = self._beat_at = time.monotonic()
        self._seen_beats = self._table[:, _BEAT].copy()
        self._seen_at = [self._polled_at] * self.n_nodes
        self._windows = [
            self._window(array) for array in (self._table, self._counter_memory.numpy())
        ]

    # --- joining --------------------------------------------------------------------------------

    def _window(self, array: Values) -> Any:
        window = self._mpi.Win.Create(array, array.itemsize, comm=self._comm)
        window.Set_errhandler(self._mpi.ERRORS_RETURN)
        window.Lock_all()
        return window

    def open(self, values: Values, weight: int) -> None:
        """Make the vector; see `GlobalStore.open`.

        Raises:
            NodeLostError: Not all nodes came in time, or one of them was lost.
        """
        self._meet(self._join_timeout)
        weights = np.zeros(self.n_nodes, np.int64)
        given = np.array([weight])
        self._complete(self._comm.Iallgather(given, weights))
        self._complete(self._comm.Ibcast(values, root=int(weights.argmax())))
        self.n_elements = len(values)
        self._seen = values
        self._memory: Any = shmtensor.from_numpy(values.copy()).share_memory_()
        self._vector = self._memory.numpy()
        self._windows.append(self._window(self._vector))
        self._row[_FIRST_LOST + self.n_nodes + self.node] = 1
        self._publish()
        self.barrier()

    def _meet(self, timeout: float) -> None:
        """Wait until all nodes are here; they show that they live while they wait."""
        self._row[_BARRIER] += 1
        self._publish()
        ends_at = time.monotonic() + timeout
        while not self.lost and self._absent():
            if time.monotonic() > ends_at:
                absent = self._absent()
                raise NodeLostError(absent[0], f"it did not come within {timeout:g} s")
            self.poll()
            time.sleep(1e-3)
        self._check_none_is_lost()
        self._send_all_rows()

    def _absent(self) -> list[int]:
        """Live nodes that have not come to the barrier that this one is at."""
        mine = self._row[_BARRIER]
        return [node for node in self.live_nodes() if self._table[node, _BARRIER] < mine]

    def _check_none_is_lost(self) -> None:
        for node, why in self.lost.items():
            raise NodeLostError(node, why)

    def _complete(self, request: Any) -> None:
        """Wait for the end of a collective call of all nodes."""
        while not self._is_done(request):
            self.poll()
            if self.lost:
                self._given_up.append(request)
                self._check_none_is_lost()

    def close(self) -> None:
        """Leave together; without the others if some are lost, because MPI would wait for them."""
        if self.lost:
            return
        self.barrier()
        for request in self._requests:
            if request is not None:
                request.Wait()
        for window in self._windows:
            window.Unlock_all()
            window.Free()
        self._comm.Free()
        self._mpi.Finalize()

    # --- the vector -----------------------------------------------------------------------------

    def exchange(self, delta: Values, shard: int, out: Values) -> bool:
        """Add and fetch in one transfer; see `GlobalStore.exchange`."""
        where = self.bounds(shard)
        if where.start == where.stop:
            return True
        home = self.home(shard)
        if not self._table[home, _FIRST_LOST + self.n_nodes + shard]:
            return False
        target = [where.start, where.stop - where.start, self._type_of(self._vector)]
        delta = np.ascontiguousarray(delta)
        try:
            self._transfer(
                lambda: self._windows[_VECTOR].Rget_accumulate(
                    delta, out, home, target=target, op=self._mpi.SUM
                ),
                home,
            )
        except NodeLostError:
            return False
        out += delta
        return True

    def push(self, delta: Values, shard: int) -> bool:
        """Add without fetching; see `GlobalStore.push`."""
        where, home = self.bounds(shard), self.home(shard)
        if not self._table[home, _FIRST_LOST + self.n_nodes + shard]:
            return False
        target = [where.start, where.stop - where.start, self._type_of(self._vector)]
        delta = np.array(delta)  # MPI may read it after this call
        try:
            self._transfer(
                lambda: self._windows[_VECTOR].Raccumulate(
                    delta, home, target=target, op=self._mpi.SUM
                ),
                home,
            )
        except NodeLostError:
            return False
        return True

    def pull(self, shard: int, out: Values) -> bool:
        """Fetch; ordered after this node's pushes. See `GlobalStore.pull`."""
        where, home = self.bounds(shard), self.home(shard)
        if not self._table[home, _FIRST_LOST + self.n_nodes + shard]:
            return False
        target = [where.start, where.stop - where.start, self._type_of(self._vector)]
        unused = np.zeros(0, out.dtype)
        try:
            self._transfer(
                lambda: self._windows[_VECTOR].Rget_accumulate(
                    unused, out, home, target=target, op=self._mpi.NO_OP
                ),
                home,
            )
        except NodeLostError:
            return False
        return True

    def sum(self, values: Values) -> bool:
        """Sum by a collective call of those that live; see `GlobalStore.sum`."""
        if self._living is None and not self._join_living():
            return False
        total = np.empty_like(values)
        given = values.copy()
        n_lost = len(self.lost)
        request = self._living.Iallreduce(given, total, op=self._mpi.SUM)
        self._set_busy(True)
        try:
            while not self._is_done(request):
                self.poll()
                if len(self.lost) > n_lost:
                    self._given_up.append((request, given, total))
                    return False
        finally:
            self._set_busy(False)
        values[:] = total
        return True

    def _join_living(self) -> bool:
        """Make a communicator of those that live, when all of them know who that is."""
        living = self.live_nodes()
        mine = self._row[_FIRST_LOST : _FIRST_LOST + self.n_nodes]
        while True:
            self.poll()
            if self.live_nodes() != living:
                return False
            theirs = self._table[living, _FIRST_LOST : _FIRST_LOST + self.n_nodes]
            if (theirs == mine).all():
                break
            time.sleep(1e-3)
        group = self._comm.Get_group().Incl(living)
        self._living = self._comm.Create_group(group, tag=len(self.lost))
        self._living.Set_errhandler(self._mpi.ERRORS_RETURN)
        return True

    def _type_of(self, array: Values) -> Any:
        return self._mpi.FLOAT if array.dtype == np.float32 else self._mpi.DOUBLE

    # --- transfers ------------------------------------------------------------------------------

    def _is_done(self, request: Any) -> bool:
        for _ in range(_TESTS):
            if request.Test():
                return True
        os.sched_yield()
        return False

    def _transfer(self, start: Any, node: int) -> None:
        """Do a transfer with another node.

        Raises:
            NodeLostError: It was lost before the end.
        """
        if node in self.lost:
            raise NodeLostError(node, self.lost[node])
        self._set_busy(node != self.node)
        try:
            request = start()
            while not self._is_done(request):
                self.poll()
                if node in self.lost:
                    self._given_up.append((request, start))
                    raise NodeLostError(node, self.lost[node])
        except self._mpi.Exception as error:
            self._lose(node, reason_of(error))
            raise NodeLostError(node, self.lost[node]) from None
        finally:
            self._set_busy(False)

    def _set_busy(self, is_busy: bool) -> None:
        """Tell the others that this node waits for them, so that they serve it at once."""
        if self._row[_BUSY] != is_busy:
            self._row[_BUSY] = is_busy
            self._publish()
            self._send_rows()

    def fetch_add(self, counter: int, value: int) -> int:
        """Add to a counter of a node; see `GlobalStore.fetch_add`."""
        given, before = np.array([value]), np.zeros(1, np.int64)
        home = counter % self.n_nodes
        self._transfer(
            lambda: self._windows[_COUNTERS].Rget_accumulate(
                given, before, home, target=[counter, 1, self._mpi.INT64_T], op=self._mpi.SUM
            ),
            home,
        )
        return int(before[0])

    # --- the table ------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Have this node's row sent to all."""
        for node in self.live_nodes():
            self._is_stale[node] = node != self.node

    def _send_rows(self) -> None:
        """Send the row where it has changed and the last sending has ended."""
        for node in range(self.n_nodes):
            if node in self.lost:
                continue
            try:
                request = self._requests[node]
                if request is not None and request.Test():
                    request = self._requests[node] = None
                if request is None and self._is_stale[node]:
                    self._rows[node] = self._row
                    # Replaced by accumulation: MPI keeps the order of those, and not of puts.
                    self._requests[node] = self._windows[_TABLE].Raccumulate(
                        self._rows[node],
                        node,
                        target=[self.node * len(self._row), len(self._row), self._mpi.INT64_T],
                        op=self._mpi.REPLACE,
                    )
                    self._is_stale[node] = False
            except self._mpi.Exception as error:
                self._lose(node, reason_of(error))

    def poll(self) -> None:
        """Show that this node lives, serve the others, and see whether they live."""
        now = time.monotonic()
        if now - self._polled_at > self._lost_after / 2:
            # This process was stopped, or kept from running: the others were not looked at.
            self._seen_at = [now] * self.n_nodes
        self._polled_at = now
        if self.on_poll is not None:
            self.on_poll()
        if now - self._beat_at >= _BEAT_S:
            self._beat_at = now
            self._row[_BEAT] += 1
            self._publish()
        self._send_rows()
        self._comm.Iprobe()
        self._check_beats(now)

    def serve(self) -> None:
        """Poll, and take longer while another node waits for this one."""
        self.poll()
        ends_at = time.monotonic() + _SERVE_S
        while self._is_waited_for() and time.monotonic() < ends_at:
            for _ in range(_TESTS):
                self._comm.Iprobe()
            os.sched_yield()

    def _is_waited_for(self) -> bool:
        busy = self._table[:, _BUSY]
        return any(busy[node] for node in self.live_nodes() if node != self.node)

    def _check_beats(self, now: float) -> None:
        if len(self.lost) == self.n_nodes - 1:
            return
        self._windows[_TABLE].Sync()
        beats = self._table[:, _BEAT]
        for node in self.live_nodes():
            if node == self.node:
                continue
            said = self._table[node, _FIRST_LOST : _FIRST_LOST + self.n_nodes]
            if beats[node] != self._seen_beats[node]:
                self._seen_beats[node] = beats[node]
                self._seen_at[node] = now
            elif now - self._seen_at[node] > self._lost_after:
                self._lose(node, f"no sign of life for {now - self._seen_at[node]:.1f} s")
            for other in said.nonzero()[0].tolist():
                if other not in (self.node, *self.lost):
                    self._lose(other, f"node {node} says so")

    def _lose(self, node: int, why: str) -> None:
        """Take a node for lost, and give a home to its shards where that is this node."""
        if node in self.lost:
            return
        self.lost[node] = why
        self._living = None
        self._row[_FIRST_LOST + node] = 1
        homes = _FIRST_LOST + self.n_nodes
        for shard in range(self.n_nodes):
            is_mine = self.home(shard) == self.node and len(self._windows) > _VECTOR
            if is_mine and not self._row[homes + shard]:
                where = self.bounds(shard)
                self._vector[where] = self._seen[where]
                self._windows[_VECTOR].Sync()
                self._row[homes + shard] = 1
        self._publish()
        if self.on_lost is not None:
            self.on_lost(node, why)

    # --- how far the nodes are --------------------------------------------------------------------

    def barrier(self) -> None:
        """Wait until all living nodes have called this as many times."""
        self._row[_BARRIER] += 1
        self._publish()
        while self._absent():
            self.serve()
            time.sleep(1e-4)
        self._send_all_rows()

    def _send_all_rows(self) -> None:
        """Send what others may wait for, before this node does something else."""
        while any(self._is_stale[node] for node in self.live_nodes()):
            self.poll()

    def count_round(self) -> None:
        """Tell the others that this node has made an exchange."""
        self._row[_ROUND] += 1
        self._publish()

    def say_finished(self) -> None:
        """Tell the others that this node trains no more."""
        self._row[_FINISHED] = 1
        self._publish()

    def are_all_finished(self) -> bool:
        """Whether all nodes that live have said so."""
        return bool(self._table[self.live_nodes(), _FINISHED].all())

    def training_nodes(self) -> list[int]:
        """Living nodes that have not finished; this one if there are no others."""
        found = [node for node in self.live_nodes() if not self._table[node, _FINISHED]]
        return found or [self.node]

"""The leader: the process of a node that exchanges what was learnt with the other nodes.

The workers of a node change parameters in its shared memory and know nothing about other nodes. The
leader takes the difference to what it saw last, adds it to the vector that all nodes share, and
adds to the parameters what the others did meanwhile. It adds and does not overwrite: what workers
changed during the exchange stays.

    w     the parameters, in shared memory     read = w
    seen  the shared vector, as seen last      shared += gain * (read - seen);  seen = shared
                                               w += seen - read

With a gain of one over the number of nodes, what the nodes learnt is averaged, each at its own
time. With a gain of one it is added up, which learns faster if exchanges are frequent, and goes too
far if they are rare. Averaging at the same time is the other method: from time to time
w += mean(w of all nodes) - w.

The leader may die: MPI ends a process when its connection breaks. The parameters do not die with
it; the parent takes note and continues.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import shmtensor
from shmtensor.hogwild._board import Board
from shmtensor.hogwild._global_store import GlobalStore, NodeLostError, Values
from shmtensor.multiprocessing._lifeline import end_with_parent

__all__ = ["Link", "Task", "lead"]

#: Seconds between checks of an idle leader; others wait for it no longer than this.
_LOOK_S = 1e-3
_NUMBERS = (
    "beat_s",  # when the leader last showed that it runs
    "talks_to",  # the node that a transfer is under way with, or -1
    "rounds",
    "exchange_s",  # spent in exchanges
    "nbytes",  # sent and received
    "staleness_sum",  # exchanges of others between two of this node
    "staleness_max",
    "finish",  # order of the parent: the workers have ended
    "leave",  # order of the parent: go without the others
)


class Link:
    """What a leader and its parent tell each other, in shared memory."""

    def __init__(self) -> None:
        self._shared: Any = shmtensor.zeros(len(_NUMBERS), dtype=shmtensor.float64, shared=True)
        self._numbers = self._shared.numpy()
        self["talks_to"] = -1

    def __getitem__(self, name: str) -> float:
        return float(self._numbers[_NUMBERS.index(name)])

    def __setitem__(self, name: str, value: float) -> None:
        self._numbers[_NUMBERS.index(name)] = value


@dataclass(frozen=True)
class Task:
    """What a leader must exchange, and how.

    Attributes:
        tensors: Floating-point tensors in shared memory.
        board: Of the node's workers.
        n_steps_before: Steps that this node has done in an earlier part of the run.
        every: Seconds between exchanges.
        every_steps: Steps of the node's workers between exchanges, instead.
        method: "accumulate" or "average".
        gain: The part of a node's differences to add; None: one over the number of nodes.
        max_ahead: Exchanges that this node may be ahead of the slowest one; None: any number.
    """

    tensors: list[Any]
    board: Board
    n_steps_before: int
    every: float
    every_steps: int | None
    method: str
    gain: float | None
    max_ahead: int | None


class _Parameters:
    """Tensors seen as one vector."""

    def __init__(self, tensors: list[Any], board: Board) -> None:
        self._tensors = [tensor.detach() for tensor in tensors]
        self._board = board
        self._edges = np.cumsum([0, *(tensor.numel() for tensor in tensors)]).tolist()
        is_double = any(tensor.dtype == shmtensor.float64 for tensor in tensors)
        self.dtype = np.dtype(np.float64 if is_double else np.float32)

    def read(self) -> Values:
        """Return a copy."""
        values = np.empty(self._edges[-1], self.dtype)
        for k, tensor in enumerate(self._tensors):
            part = shmtensor.from_numpy(values[self._edges[k] : self._edges[k + 1]])
            part.copy_(tensor.reshape(-1))
        return values

    def add(self, differences: Values) -> None:
        """Add a vector; a snapshot has all of it, or nothing."""
        rank = self._board.n_workers
        self._board.begin_update(rank)
        try:
            for k, tensor in enumerate(self._tensors):
                part = shmtensor.from_numpy(differences[self._edges[k] : self._edges[k + 1]])
                tensor.add_(part.reshape(tensor.shape))
        finally:
            self._board.end_update(rank)

    def write(self, values: Values) -> None:
        """Set all."""
        for k, tensor in enumerate(self._tensors):
            part = shmtensor.from_numpy(values[self._edges[k] : self._edges[k + 1]])
            tensor.copy_(part.reshape(tensor.shape))


class _Exchange:
    """The exchanges of one run."""

    def __init__(self, store: GlobalStore, task: Task, link: Link) -> None:
        self._store = store
        self._task = task
        self._link = link
        self._parameters = _Parameters(task.tensors, task.board)
        self._n_others_rounds = 0

    def open(self) -> None:
        """Begin with the values of the node with the most steps."""
        self._seen = self._parameters.read()
        self._store.open(self._seen, self._task.n_steps_before)
        self._parameters.write(self._seen)

    def run(self) -> None:
        """Exchange until the workers of all nodes have ended."""
        steps_at = self._task.board.n_steps()
        ends_at = time.monotonic() + self._task.every
        while not self._must_leave():
            is_last = bool(self._link["finish"])
            steps = self._task.board.n_steps()
            if self._task.every_steps is None:
                is_due = time.monotonic() >= ends_at
            else:
                is_due = steps - steps_at >= self._task.every_steps
            if is_last or (is_due and not self._is_ahead()):
                steps_at = steps
                self._count_staleness()
                if self._once(is_last):
                    break
                ends_at = time.monotonic() + self._task.every
            self._store.serve()
            time.sleep(_LOOK_S)
        self._task.board.pause(False)
        if not self._must_leave():
            self._end_together()

    def _must_leave(self) -> bool:
        return bool(self._link["leave"])

    def _is_ahead(self) -> bool:
        """Whether this node has to wait for slower ones; its workers wait too, then."""
        limit = self._task.max_ahead
        if limit is None:
            return False
        is_ahead = self._store.rounds[self._store.node] - self._store.slowest_round() >= limit
        self._task.board.pause(bool(is_ahead))
        return bool(is_ahead)

    def _count_staleness(self) -> None:
        rounds = self._store.rounds
        n_others = int(rounds.sum() - rounds[self._store.node])
        if self._link["rounds"]:
            new = n_others - self._n_others_rounds
            self._link["staleness_sum"] += new
            self._link["staleness_max"] = max(self._link["staleness_max"], new)
        self._n_others_rounds = n_others

    def _once(self, is_last: bool) -> bool:
        """Do one exchange; returns whether it was the last."""
        began = time.monotonic()
        if self._task.method == "average":
            is_over = self._average(is_last)
        else:
            self._accumulate()
            is_over = is_last
        self._link["rounds"] += 1
        self._link["exchange_s"] += time.monotonic() - began
        self._store.count_round()
        return is_over

    def _accumulate(self) -> None:
        store, seen = self._store, self._seen
        read = self._parameters.read()
        gain = self._task.gain
        delta = (read - seen) * (1.0 / len(store.live_nodes()) if gain is None else gain)
        # Beginning with its own shard, each node talks to another one.
        for k in range(store.n_nodes):
            shard = (store.node + k) % store.n_nodes
            where = store.bounds(shard)
            out = np.empty_like(delta[where])
            self._link["talks_to"] = store.home(shard)
            if store.exchange(delta[where], shard, out):
                seen[where] = out
                if store.home(shard) != store.node:
                    self._link["nbytes"] += 2 * out.nbytes
            else:
                read[where] = seen[where]  # unsent; add nothing here
        self._link["talks_to"] = -1
        self._parameters.add(seen - read)

    def _average(self, is_last: bool) -> bool:
        """Average, until the last exchange of all nodes is the same one."""
        read = self._parameters.read()
        # The number of nodes that take part, and of those that train no more, go with it.
        sums = np.concatenate([read, np.array([1.0, float(is_last)], read.dtype)])
        if not self._store.sum(sums):
            return is_last and self._store.are_all_finished()
        n_nodes, n_last = sums[-2:]
        self._link["nbytes"] += 2 * read.nbytes
        self._seen[:] = sums[:-2] / n_nodes
        is_over = bool(n_last >= n_nodes)
        if is_over:  # nobody changes them any more: the same on all nodes, to the last digit
            self._parameters.write(self._seen)
        else:
            self._parameters.add(self._seen - read)
        return is_over

    def _end_together(self) -> None:
        """Wait for the others, serving them, and take what all have learnt."""
        store = self._store
        store.say_finished()
        while not store.are_all_finished():
            if self._must_leave():
                return
            self._store.serve()
            time.sleep(_LOOK_S)
        store.barrier()
        if self._task.method == "accumulate":
            # A part that had no home until now is sent by this time.
            self._accumulate()
            store.barrier()
            self._take_all()

    def _take_all(self) -> None:
        """Set the parameters to what all share, to the last digit."""
        values = self._parameters.read()
        for shard in range(self._store.n_nodes):
            where = self._store.bounds(shard)
            shared = np.empty_like(values[where])
            if self._store.pull(shard, shared):
                values[where] = shared
        self._parameters.write(values)
        self._store.barrier()


def lead(make_store: Callable[[], GlobalStore], link: Link, orders: Any, events: Any) -> None:
    """Work as a node's leader: join, take a task, exchange, leave.

    Args:
        make_store: Makes the store.
        link: To the parent.
        orders: A connection to receive the task from.
        events: A connection to tell the parent on, in tuples:
            ``("joined", node, n_nodes, began_at)``, ``("ready",)``, ``("lost", node, why)``,
            ``("ended",)``, ``("failed", text)``.
    """
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shmtensor.set_num_threads(1)
    try:
        store = make_store()
        events.send(("joined", store.node, store.n_nodes, store.began_at))
        store.on_poll = lambda: link.__setitem__("beat_s", time.monotonic())
        while not orders.poll(_LOOK_S):
            store.serve()
        task = orders.recv()
        if task is not None:
            store.on_lost = lambda node, why: events.send(("lost", node, why))
            exchange = _Exchange(store, task, link)
            exchange.open()
            events.send(("ready",))
            exchange.run()
            events.send(("ended",))
        store.close()
        if not store.lost:
            # MPICH takes leave of mpiexec in an exit handler of C; a forked process of Python's
            # multiprocessing would skip it, and mpiexec would end the other nodes.
            ctypes.CDLL(None).exit(0)
    except NodeLostError as error:
        events.send(("failed", str(error)))
    except Exception as error:
        events.send(("failed", f"{type(error).__name__}: {error}"))
    # MPI would wait in its exit handlers for nodes that may be lost.
    os._exit(0)

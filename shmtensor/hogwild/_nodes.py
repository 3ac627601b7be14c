"""Several machines: what a node's program knows of its leader and of the other nodes."""

from __future__ import annotations

import functools
import importlib.util
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shmtensor import Tensor, multiprocessing
from shmtensor._core._mpi import ignore_signal_of_mpiexec
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor._core._waits import LONGEST_S
from shmtensor.hogwild._arguments import check_word, integer, number
from shmtensor.hogwild._board import Board
from shmtensor.hogwild._global_store import GlobalStore, NodeLostError
from shmtensor.hogwild._leader import Link, Task, lead
from shmtensor.hogwild._mpi_store import MpiStore
from shmtensor.multiprocessing._children import Child, is_stopped, kill_all
from shmtensor.multiprocessing._exit_status import in_words

__all__ = ["Exchanges", "Nodes"]

log = logging.getLogger("shmtensor.hogwild")

_CALL = "hogwild.Nodes()"

METHODS = ("accumulate", "average")
POLICIES = ("continue", "stop")
#: A leader without a sign of life for this many times *lost_after* hangs inside MPI.
_HANGS = 1.4
#: Leaders close MPI together; one that hangs there is ended after this many seconds.
_CLOSE_S = 5.0
#: Seconds between checks of the parent whether its leader lives, while the nodes meet.
_LOOK_S = 0.1


@dataclass(frozen=True)
class Exchanges:
    """What a node exchanged with others.

    Attributes:
        node: Its number.
        n_nodes: How many began.
        rounds: Exchanges.
        seconds: Spent in them.
        nbytes: Sent and received.
        staleness: Exchanges of other nodes between two of this one, on average.
        max_staleness: The same, at most.
        lost: The numbers of lost nodes, and why each was lost.
    """

    node: int
    n_nodes: int
    rounds: int
    seconds: float
    nbytes: int
    staleness: float
    max_staleness: int
    lost: dict[int, str] = field(default_factory=dict)


class Nodes:
    """The nodes of a job, for `shmtensor.hogwild.run`.

    Use it in a ``with`` block, and enter the block before this process uses MPI: it starts the
    leader, a process that joins the other nodes. `node` and `n_nodes` are known then. From then on
    the program ignores SIGUSR1, which MPICH's mpiexec sends when a rank has died.

    Args:
        every: Seconds between exchanges.
        every_steps: Steps of the node's workers between exchanges, instead of seconds.
        method: "accumulate": each node adds its differences to a vector that all share, at its own
            time. "average": all nodes average their parameters at the same time.
        gain: The part of its differences that a node adds; None: one over the number of nodes,
            which averages them. 1 adds up what all have learnt; that needs frequent exchanges.
        max_ahead: Exchanges that a node may be ahead of the slowest one before its workers wait;
            None: any number.
        on_lost: "continue" without a lost node, or "stop": write a checkpoint and raise
            `NodeLostError`.
        lost_after: Seconds without a sign of life after which a node is lost.
        join_timeout: Seconds in which all nodes must join.
        make_store: Makes the `GlobalStore`, in the leader; `MpiStore` if None.

    Raises:
        ValueError: An argument is out of its range.
        ModuleNotFoundError: mpi4py is not installed.
        RuntimeError: The leader could not join.
    """

    def __init__(
        self,
        *,
        every: float = 0.05,
        every_steps: int | None = None,
        method: str = "accumulate",
        gain: float | None = None,
        max_ahead: int | None = None,
        on_lost: str = "continue",
        lost_after: float = 3.0,
        join_timeout: float = 120.0,
        make_store: Callable[[], GlobalStore] | None = None,
    ) -> None:
        check_word(_CALL, "method", method, METHODS)
        check_word(_CALL, "on_lost", on_lost, POLICIES)
        every = number(_CALL, "every", every)
        lost_after = number(_CALL, "lost_after", lost_after)
        join_timeout = number(_CALL, "join_timeout", join_timeout)
        if gain is not None:
            gain = number(_CALL, "gain", gain)
        if every_steps is not None:
            every_steps = integer(_CALL, "every_steps", every_steps, above=0)
        if max_ahead is not None:
            max_ahead = integer(_CALL, "max_ahead", max_ahead, above=0)
        if make_store is None and importlib.util.find_spec("mpi4py") is None:
            raise ModuleNotFoundError(
                f"{_CALL}: mpi4py is not installed: pip install 'shmtensor[mpi]'",
                name="mpi4py",
            )
        self._make_store: Callable[[], GlobalStore] = make_store or functools.partial(
            MpiStore, lost_after=lost_after, join_timeout=join_timeout
        )
        self._every = every
        self._every_steps = every_steps
        self._method = method
        self._gain = gain
        self._max_ahead = max_ahead
        self._hangs_after = _HANGS * lost_after
        self._join_timeout = join_timeout
        self.on_lost = on_lost
        self.node, self.n_nodes = 0, 1
        self.began_at = 0.0  # Unix time at which the nodes met, the same on all
        self.lost: dict[int, str] = {}
        self.has_ended = False
        self._is_told: set[int] = set()

    # --- the leader -----------------------------------------------------------------------------

    def __enter__(self) -> Nodes:
        ignore_signal_of_mpiexec()
        # Forked: the descriptor and the variables by which mpiexec knows a rank are inherited.
        context = multiprocessing.get_context("fork")
        self._link = Link()
        orders, self._orders = context.Pipe(duplex=False)
        self._events, events = context.Pipe(duplex=False)
        self._leader = Child(
            context.Process(
                target=lead,
                args=(self._make_store, self._link, orders, events),
                name="hogwild-leader",
                daemon=True,
            )
        )
        self._leader.start()
        orders.close()
        events.close()
        try:
            event = self._next_event(self._join_timeout)
            if event is None:
                event = ("failed", f"not all nodes came within {self._join_timeout:g} s")
            if event[0] != "joined":
                raise RuntimeError(f"{_CALL}: the leader could not join: {event[-1]}")
        except BaseException:
            self.__exit__()
            raise
        self.node, self.n_nodes, self.began_at = event[1:]
        return self

    def __exit__(self, *_: object) -> None:
        if self.has_ended and not self.lost:
            self._leader.wait(_CLOSE_S)
        kill_all([self._leader])
        self._orders.close()
        self._events.close()

    def _next_event(self, timeout: float) -> Any:
        """Wait for what the leader says next; None if it says nothing in time."""
        try:
            return self._events.recv() if self._events.poll(min(timeout, LONGEST_S)) else None
        except (EOFError, OSError) as error:
            raise_of_handler(error)
            self._leader.wait()
            return ("failed", self._how_it_ended())

    def _how_it_ended(self) -> str:
        status = self._leader.status()
        how = in_words(status, killed=f"ended with status {status}, killed by")
        return f"the leader of node {self.node} {how}"

    def _hangs(self) -> bool:
        """Whether the leader hangs inside MPI, presumably because of a dead node."""
        if time.monotonic() - self._link["beat_s"] <= self._hangs_after:
            return False
        if not is_stopped(self._leader.pid):
            return True
        self._link["beat_s"] = time.monotonic()
        return False

    @property
    def leader_pid(self) -> int:
        """The leader's process id."""
        return self._leader.pid

    def leads(self) -> bool:
        """Whether the leader runs."""
        return not self._leader.has_ended()

    # --- a run ----------------------------------------------------------------------------------

    def begin(self, tensors: list[Tensor], board: Board) -> None:
        """Have all nodes begin with the same values.

        Raises:
            RuntimeError: They could not.
        """
        task = Task(
            tensors=tensors,
            board=board,
            n_steps_before=board.n_steps(),
            every=self._every,
            every_steps=self._every_steps,
            method=self._method,
            gain=self._gain,
            max_ahead=self._max_ahead,
        )
        self._link["beat_s"] = time.monotonic()
        self._orders.send(task)
        event = self._next_event(_LOOK_S)
        while event is None or event[0] == "lost":  # what fails then says so itself
            if self._hangs():
                event = ("failed", "the leader waits inside MPI")
                break
            event = self._next_event(_LOOK_S)
        if event[0] != "ready":
            raise RuntimeError(f"hogwild.run(): the nodes could not begin: {event[-1]}")

    def poll(self) -> None:
        """See what the leader says, and whether it runs.

        Raises:
            NodeLostError: A node was lost, and all are to stop then.
        """
        if self.has_ended:
            return
        event = self._next_event(0)
        while event is not None and not self.has_ended:
            self._take(event)
            event = None if self.has_ended else self._next_event(0)
        if not self.has_ended and self._hangs():
            kill_all([self._leader])
            self._lose_leader(
                f"the leader of node {self.node} was waiting inside MPI for "
                f"{self._hangs_after:.1f} s"
            )
        new = [node for node in self.lost if node not in self._is_told]
        for node in new:
            self._is_told.add(node)
            if self.on_lost == "stop":
                raise NodeLostError(node, self.lost[node])
            log.warning(
                "hogwild: node %d is lost: %s; node %d continues", node, self.lost[node], self.node
            )

    def _take(self, event: Any) -> None:
        if event[0] == "lost":
            self.lost[event[1]] = event[2]
        elif event[0] == "ended":
            self.has_ended = True
        else:
            self._lose_leader(event[-1])

    def _lose_leader(self, why: str) -> None:
        """Without a leader the other nodes are out of reach."""
        self.has_ended = True
        talks_to = int(self._link["talks_to"])
        if talks_to >= 0:
            why = f"{why}, in an exchange with node {talks_to}"
        for node in range(self.n_nodes):
            if node != self.node:
                self.lost.setdefault(node, why)

    def say_finished(self) -> None:
        """Tell the leader that the workers have ended, so that it ends with the others."""
        self._link["finish"] = 1

    def leave(self) -> None:
        """Have the leader end without the others."""
        self._link["leave"] = 1

    def exchanges(self) -> Exchanges:
        """What was exchanged until now."""
        link = self._link
        return Exchanges(
            node=self.node,
            n_nodes=self.n_nodes,
            rounds=int(link["rounds"]),
            seconds=link["exchange_s"],
            nbytes=int(link["nbytes"]),
            staleness=link["staleness_sum"] / max(1.0, link["rounds"] - 1),
            max_staleness=int(link["staleness_max"]),
            lost=dict(self.lost),
        )

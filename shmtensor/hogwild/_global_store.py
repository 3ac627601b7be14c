"""Numbers that several nodes share: the interface of an engine that joins machines.

A store has one long vector. It is cut into shards, one for each node, and each shard has its
home in the memory of one node. A node pushes differences, which are added element by element, and
pulls values. It never writes values, so nobody's work is overwritten.

Every operation ends in bounded time. If a node gives no sign of life for a while, it is lost:
operations that wait for it give up, and its shard gets a new home on the next living node, with the
values that this node saw last.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shmtensor.errors import ShmTensorError

__all__ = ["GlobalStore", "NodeLostError"]

Values: TypeAlias = NDArray[np.float32 | np.float64]


class NodeLostError(ShmTensorError, RuntimeError):
    """A node gave no sign of life, or the link to it broke.

    Attributes:
        node: Its number.
    """

    def __init__(self, node: int, why: str) -> None:
        super().__init__(f"node {node} is lost: {why}")
        self.node = node
        self.why = why


class GlobalStore(abc.ABC):
    """A vector that several nodes share.

    One process of a node, its leader, uses it, in one thread. While the leader does nothing else
    with the store, it must call `poll` often: that shows that it lives, and serves the others.

    Attributes:
        node: This node's number.
        n_nodes: How many there were at the beginning.
        began_at: Unix time at which they met, the same on all.
        lost: The numbers of lost nodes, and why each was lost.
        on_lost: Called with the node and the reason when one is lost.
        on_poll: Called whenever the store is at work, even while it waits.
        rounds: Exchanges that each node has made, as far as this one knows.
    """

    node: int
    n_nodes: int
    began_at: float
    rounds: NDArray[np.int64]

    def __init__(self) -> None:
        self.lost: dict[int, str] = {}
        self.on_lost: Callable[[int, str], None] | None = None
        self.on_poll: Callable[[], None] | None = None
        self.n_elements = 0

    # --- the vector -----------------------------------------------------------------------------

    @abc.abstractmethod
    def open(self, values: Values, weight: int) -> None:
        """Make the vector; all nodes call this together.

        Args:
            values: ``(n_elements,)``, float32 or float64. Gets the values of the node with the
                largest weight. The store keeps the array and reads it when it gives a home to a
                lost node's shard, so keep the values pulled last in it.
            weight: The weight of this node's values, for example its steps.
        """

    @abc.abstractmethod
    def exchange(self, delta: Values, shard: int, out: Values) -> bool:
        """Add *delta* to a shard, and set *out* to its value after that.

        Args:
            delta: One number for each element of the shard.
            shard: Number of the shard, which is that of its first home.
            out: Of the same size.

        Returns:
            False if the shard has no home at this moment, because its node was lost. Nothing was
            added; try again later.
        """

    def push(self, delta: Values, shard: int) -> bool:
        """Add *delta* to a shard; see `exchange`."""
        return self.exchange(delta, shard, np.empty_like(delta))

    def pull(self, shard: int, out: Values) -> bool:
        """Set *out* to the value of a shard; see `exchange`."""
        return self.exchange(np.zeros_like(out), shard, out)

    @abc.abstractmethod
    def sum(self, values: Values) -> bool:
        """Set *values* to the sum over all living nodes; they all call this together.

        Returns:
            False if a node was lost during the call; *values* are as they were.
        """

    def bounds(self, shard: int) -> slice:
        """Which elements of the vector a shard has."""
        edges = [self.n_elements * k // self.n_nodes for k in (shard, shard + 1)]
        return slice(*edges)

    # --- the nodes ------------------------------------------------------------------------------

    @abc.abstractmethod
    def fetch_add(self, counter: int, value: int) -> int:
        """Add to one of 64 counters that all nodes share; returns what it was before.

        Raises:
            NodeLostError: The node that keeps it, ``counter % n_nodes``, is lost.
        """

    @abc.abstractmethod
    def barrier(self) -> None:
        """Wait until all living nodes have called this as many times."""

    @abc.abstractmethod
    def poll(self) -> None:
        """Show that this node lives, serve the others, and see whether they live."""

    def serve(self) -> None:
        """Poll, and take longer while another node waits for this one."""
        self.poll()

    @abc.abstractmethod
    def count_round(self) -> None:
        """Tell the others that this node has made an exchange."""

    @abc.abstractmethod
    def say_finished(self) -> None:
        """Tell the others that this node trains no more."""

    @abc.abstractmethod
    def are_all_finished(self) -> bool:
        """Whether all nodes that live have said so."""

    @abc.abstractmethod
    def close(self) -> None:
        """Leave; all nodes that live call this together."""

    def live_nodes(self) -> list[int]:
        """Numbers of the nodes that are not lost, this one included."""
        return [node for node in range(self.n_nodes) if node not in self.lost]

    def home(self, shard: int) -> int:
        """The node that has a shard: its first home, or the next one that lives."""
        for k in range(self.n_nodes):
            node = (shard + k) % self.n_nodes
            if node not in self.lost:
                return node
        return self.node

    def slowest_round(self) -> int:
        """Exchanges of the slowest node that lives and still trains."""
        return int(min(self.rounds[node] for node in self.training_nodes()))

    @abc.abstractmethod
    def training_nodes(self) -> list[int]:
        """Living nodes that have not finished; this one if there are no others."""

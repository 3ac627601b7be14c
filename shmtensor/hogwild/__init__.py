"""Hogwild training: several processes train one model in shared memory, without locks.

Give `run` a function that makes the model, one that returns the loss of a batch, and the data. It
starts the workers, evaluates and saves consistent snapshots, replaces workers that die if you want
that, and shows the progress. `Nodes` lets several machines train together, over a `GlobalStore`.
"""

from __future__ import annotations

from shmtensor.hogwild._global_store import GlobalStore, NodeLostError
from shmtensor.hogwild._mpi_store import MpiStore
from shmtensor.hogwild._nodes import Exchanges, Nodes
from shmtensor.hogwild._result import Point, Result, WorkerSummary, draw
from shmtensor.hogwild._run import run
from shmtensor.hogwild._worker import Worker

__all__ = [
    "Exchanges",
    "GlobalStore",
    "MpiStore",
    "NodeLostError",
    "Nodes",
    "Point",
    "Result",
    "Worker",
    "WorkerSummary",
    "draw",
    "run",
]

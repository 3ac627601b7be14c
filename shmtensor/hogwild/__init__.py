"""Hogwild training: several processes train one model in shared memory, without locks.

`run` is the whole of it: it needs a function that makes the model, one that returns the loss of a
batch, and the data. It starts the workers, evaluates and saves consistent snapshots beside them,
looks after those that die, and shows what happens.
"""

from __future__ import annotations

from shmtensor.hogwild._result import Point, Result, WorkerSummary, draw
from shmtensor.hogwild._run import run
from shmtensor.hogwild._worker import Worker

__all__ = ["Point", "Result", "Worker", "WorkerSummary", "draw", "run"]

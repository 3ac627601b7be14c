"""Tables of which a step changes few rows; importable in workers of every start method."""

from __future__ import annotations

import time
from typing import Any

import shmtensor as st
from shmtensor import nn, optim

N_ROWS, WIDTH = 40, 4


def target() -> Any:
    """What each row is to be."""
    return st.arange(N_ROWS * WIDTH).view(N_ROWS, WIDTH).sin()


def data() -> tuple[Any, Any]:
    """Numbers of rows, each several times, and what they are to be. The last row is in no batch."""
    rows = st.arange(N_ROWS - 1).repeat(5)
    return rows, target()[rows]


def make_table() -> Any:
    """A table of zeros with sparse gradients."""
    table = nn.Embedding(N_ROWS, WIDTH, sparse=True)
    nn.init.zeros_(table.weight)
    return table


def squared_error(worker: Any, batch: Any) -> Any:
    """The loss of a batch."""
    rows, values = batch
    return ((worker.model(rows) - values) ** 2).sum(1).mean()


def slow_squared_error(worker: Any, batch: Any) -> Any:
    """The same in a millisecond."""
    time.sleep(1e-3)
    return squared_error(worker, batch)


def distance(model: Any) -> dict[str, float]:
    """How far the rows that are in batches are from the target, and whether the other is zero."""
    weight = model.weight
    return {
        "distance": (weight - target())[:-1].abs().max().item(),
        "untouched": float((weight[-1] == 0).all()),
    }


def sgd(parameters: Any) -> Any:
    """Row-sparse steps without a state."""
    return optim.SGD(parameters, lr=1.0)


def sparse_adam(parameters: Any) -> Any:
    """Row-sparse steps with two rows of state for each row."""
    return optim.SparseAdam(parameters, lr=0.05)


def adagrad(parameters: Any) -> Any:
    """Row-sparse steps with a row of state for each row."""
    return optim.Adagrad(parameters, lr=0.5)


class Tables(nn.Module):
    """Two tables that every step changes alike."""

    def __init__(self) -> None:
        super().__init__()
        self.a = make_table()
        self.b = make_table()


def both_alike(worker: Any, batch: Any) -> Any:
    """A loss whose gradient is 1 for all used rows of both tables; each worker uses its own."""
    rows = st.arange(worker.rank, N_ROWS, worker.n_workers)
    return -(worker.model.a(rows).sum() + worker.model.b(rows).sum())


def are_alike(model: Any) -> dict[str, float]:
    """Whether both tables are the same, as they are between two steps."""
    a, b = model.a.weight, model.b.weight
    return {"alike": float(st.equal(a, b)), "count": a.max().item()}

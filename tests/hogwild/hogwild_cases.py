"""Models, steps and data of the tests; importable in workers of every start method."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import shmtensor as st
from shmtensor import nn, optim

#: What the models are to find.
SLOPES = (2.0, -3.0, 0.5)


def data(n: int = 300) -> tuple[Any, Any]:
    """Points of a plane."""
    generator = st.Generator().manual_seed(0)
    x = st.randn(n, len(SLOPES), generator=generator)
    return x, x @ st.tensor(SLOPES)


def make_model() -> Any:
    """A plane that is not known yet."""
    st.manual_seed(1)
    return nn.Linear(len(SLOPES), 1, bias=False)


def squared_error(worker: Any, batch: Any) -> Any:
    """The loss of a batch."""
    x, y = batch
    return ((worker.model(x).squeeze(1) - y) ** 2).mean()


def distance(model: Any) -> dict[str, float]:
    """How far the slopes are from what they are to be."""
    return {"distance": (model.weight[0] - st.tensor(SLOPES)).abs().max().item()}


def slow(worker: Any, batch: Any) -> Any:
    """A step that takes a millisecond."""
    time.sleep(1e-3)
    return squared_error(worker, batch)


def killed_at_10(worker: Any, batch: Any) -> Any:
    """Worker 0 dies before its 11th step, once: the next process of it goes on."""
    if worker.rank == 0 and worker.step == 10 and worker.model.weight.grad is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return squared_error(worker, batch)


def killed_at_10_before_the_other_is_at_20(dying: Any, worker: Any, batch: Any) -> Any:
    """The same; a gradient of worker 0 that is late would move a model that is nearly done."""
    if worker.rank == 0 and worker.step == 10:
        dying.set()
    if worker.rank == 1 and worker.step == 20:
        assert dying.wait(60)
    return killed_at_10(worker, batch)


def always_killed(worker: Any, batch: Any) -> Any:
    """No worker comes far."""
    os.kill(os.getpid(), signal.SIGKILL)


def killed_inside_an_update(worker: Any, batch: Any) -> Any:
    """Worker 0 dies where its turn is odd."""
    if worker.rank == 0 and worker.step == 10:
        with worker.update():
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1e-3)
    return squared_error(worker, batch)


def raises(worker: Any, batch: Any) -> Any:
    """Worker 1 fails."""
    if worker.rank == 1 and worker.step == 3:
        raise LookupError("no such thing")
    return squared_error(worker, batch)


class Pair(nn.Module):
    """Two parameters that every update changes alike."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(st.zeros(20_000))
        self.b = nn.Parameter(st.zeros(20_000))
        self.owners = nn.Parameter(st.zeros(2))


def count_up(worker: Any, batch: Any) -> float:
    """Make one number larger in all elements of the worker's half of both parameters."""
    half = slice(10_000 * worker.rank, 10_000 * (worker.rank + 1))
    with worker.update(), st.no_grad():
        worker.model.a[half] += 1
        worker.model.b[half] += 1
    return 0.0


def count_up_with_a_step(worker: Any, batch: Any) -> float:
    """The same, with a step of the optimizer between the two changes."""
    half = slice(10_000 * worker.rank, 10_000 * (worker.rank + 1))
    with worker.update(), st.no_grad():
        worker.model.a[half] += 1
        worker.model.owners.grad = st.zeros(2)
        worker.optimizer.step()
        worker.model.b[half] += 1
    return 0.0


def is_whole(model: Any) -> dict[str, float]:
    """1 if every half of both parameters has one number, the same in both."""
    halves = (slice(0, 10_000), slice(10_000, 20_000))
    whole = all(
        (model.a[half] == model.a[half][0]).all() and (model.b[half] == model.a[half][0]).all()
        for half in halves
    )
    return {"whole": float(whole), "count": model.a.max().item()}


def fails(model: Any) -> float:
    """An evaluation that fails."""
    raise LookupError("no score")


def batches(worker: Any) -> Any:
    """Batches without an end; a worker has points of its own."""
    generator = st.Generator().manual_seed(worker.rank)
    while True:
        x = st.randn(8, len(SLOPES), generator=generator)
        yield x, x @ st.tensor(SLOPES)


def adam(parameters: Any) -> Any:
    """An optimizer with more state."""
    return optim.Adam(parameters, lr=0.05)


def norm_after_a_while(model: Any) -> dict[str, float]:
    """A figure that changes with the model, and takes longer than some points of the curve."""
    time.sleep(0.03)
    return {"norm": model.weight.norm().item()}


def five(worker: Any, batch: Any) -> float:
    """A loss that does not change, in a millisecond."""
    time.sleep(1e-3)
    return 5.0


class Counter(nn.Module):
    """Counts steps in a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.count = nn.Parameter(st.zeros(1))


def plain(parameters: Any) -> Any:
    return optim.SGD(parameters, lr=1.0)


def with_scheduler(worker: Any, batch: Any) -> Any:
    if not hasattr(worker, "scheduler"):
        worker.scheduler = optim.lr_scheduler.StepLR(worker.optimizer, 1)
    loss = squared_error(worker, batch)
    worker.optimizer.zero_grad()
    loss.backward()
    worker.optimizer.step()
    worker.scheduler.step()
    return loss.item()


class RaisesOnce(optim.SGD):
    """An optimizer whose second step raises."""

    n_calls = 0

    def step(self, closure: Any = None) -> Any:
        self.n_calls += 1
        if self.n_calls == 2:
            raise LookupError("no step")
        return super().step(closure)


def raises_once(parameters: Any) -> Any:
    return RaisesOnce(parameters, lr=1.0)


class CountsAndWaits:
    """A step that counts itself, and works on until a checkpoint has what it counted."""

    def __init__(self, folder: Any, kind: str) -> None:
        self.path = folder / "checkpoint.pt"
        self.kind = kind

    def __call__(self, worker: Any, batch: Any) -> float:
        if self.kind == "update":
            with worker.update(), st.no_grad():
                worker.model.count += 1
        else:
            worker.model.count.grad = -st.ones(1)
            worker.optimizer.step()
        while True:
            time.sleep(1e-3)
            saved = st.load(self.path) if self.path.exists() else None
            if saved is not None and saved["model"]["count"].item() == worker.step + 1:
                break
        assert saved["steps"] == [worker.step + 1], saved["steps"]
        return 0.0


class CatchesAndWaits:
    """A step that catches what the optimizer raises, and works on until there is a checkpoint."""

    def __init__(self, folder: Any) -> None:
        self.path = folder / "checkpoint.pt"

    def __call__(self, worker: Any, batch: Any) -> float:
        worker.model.count.grad = st.ones(1)
        try:
            worker.optimizer.step()
        except LookupError:
            self.path.unlink(missing_ok=True)
            while not self.path.exists():
                time.sleep(1e-3)
        return 0.0


def stops(worker: Any) -> Any:
    raise StopIteration("no data")


class StopsAtSample:
    """A dataset that raises StopIteration."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Any:
        raise StopIteration("no sample")


class WaitsForTheCurve:
    """Steps whose first waits until the curve has a row; its loss is 1 if there is a checkpoint."""

    def __init__(self, folder: Any) -> None:
        self.folder = folder

    def __call__(self, worker: Any, batch: Any) -> float:
        """Change nothing."""
        curve = self.folder / "curve.csv"
        while worker.step == 0 and not (curve.exists() and curve.read_text().count("\n") > 1):
            time.sleep(1e-3)
        return float((self.folder / "checkpoint.pt").exists())


class Counts(nn.Module):
    """Counts the steps of each of two workers in a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = nn.Parameter(st.zeros(2))


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DiesInItsChange:
    """Steps that count themselves; the first one of worker 0 is killed as it has changed."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, worker: Any, batch: Any) -> float:
        """Change the worker's count; the optimizer changes both."""
        dies = worker.rank == worker.step == 0
        if self.kind == "optimizer":
            worker.model.counts.grad = -st.ones(2)
            if dies:
                worker.optimizer.register_step_post_hook(die)
            worker.optimizer.step()
        else:
            with worker.update(), st.no_grad():
                worker.model.counts[worker.rank] += 1
                if dies:
                    die()
        return 5.0


class RaisesInItsChange(optim.SGD):
    """An optimizer whose step raises, after its change or before."""

    def __init__(self, has_changed: bool, parameters: Any) -> None:
        super().__init__(parameters, lr=1.0)
        self.has_changed = has_changed

    def step(self, closure: Any = None) -> Any:
        if self.has_changed:
            super().step(closure)
        raise LookupError("no step")


def change_and_raise(kind: str, has_changed: bool, worker: Any, batch: Any) -> float:
    """A step whose update raises, after its change or before."""
    if kind == "optimizer":
        worker.model.counts.grad = st.ones(2)
        worker.optimizer.step()
    with worker.update(), st.no_grad():
        if has_changed:
            worker.model.counts += 1
        raise LookupError("no update")

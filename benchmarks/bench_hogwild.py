"""Two processes train one model in shared memory without locks: steps, compared with torch's.

Run ``python benchmarks/bench_hogwild.py [--workers N]`` where torch is installed. Each side
starts its workers once; they train the shared parameters with SGD and momentum, one thread each. A
sample is the wall time from the word "go" until all workers have done their steps. Samples of both
sides alternate, together with those of a single worker of ours. A second table compares the steps
of all workers with those of the single one.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from measure import Result, print_table

#: Seconds that a sample lasts, about.
SAMPLE_S = 0.3


def perceptron(lib: Any, width: int) -> Any:
    """Two hidden layers over the 64 numbers of a digit."""
    nn = lib.nn
    return nn.Sequential(
        *(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, 10),
    )


def convolutions(lib: Any) -> Any:
    """Two convolutions over a digit of 8 x 8."""
    nn = lib.nn
    return nn.Sequential(
        *(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        nn.Linear(32 * 16, 10),
    )


def recurrent(lib: Any) -> Any:
    """A recurrent layer over the eight rows of a digit."""

    class Model(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.rows = lib.nn.LSTM(8, 32, batch_first=True)
            self.out = lib.nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            return self.out(self.rows(x.unflatten(1, (8, 8)))[0][:, -1])

    return Model()


MODELS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "perceptron of 32, batch 16": (lambda lib: perceptron(lib, 32), 16),
    "perceptron of 128, batch 32": (lambda lib: perceptron(lib, 128), 32),
    "perceptron of 512, batch 64": (lambda lib: perceptron(lib, 512), 64),
    "convolutions, batch 32": (convolutions, 32),
    "LSTM, batch 32": (recurrent, 32),
}


def prepare(lib: Any, name: str, shared: Any, seed: int) -> tuple[Any, Any, Any, Any]:
    """What a worker trains: the shared model, a batch, its labels, and the optimizer."""
    lib.set_num_threads(1)
    lib.manual_seed(seed)
    make, batch = MODELS[name]
    net = make(lib)
    net.load_state_dict(shared, assign=True)
    x, y = lib.randn(batch, 64), lib.randint(0, 10, (batch,))
    return net, x, y, lib.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)


def _work(library: str, name: str, shared: Any, seed: int, orders: Any, answers: Any) -> None:
    """Do as many steps as each message says; the function of a worker."""
    lib = importlib.import_module(library)
    net, x, y, optimiser = prepare(lib, name, shared, seed)
    for n_steps in iter(orders.recv, None):
        for _ in range(n_steps):
            optimiser.zero_grad()
            lib.nn.functional.cross_entropy(net(x), y).backward()
            optimiser.step()
        answers.send(None)


class Side:
    """The workers of one library."""

    def __init__(self, library: str, name: str, n_workers: int) -> None:
        lib = importlib.import_module(library)
        context = importlib.import_module(f"{library}.multiprocessing").get_context("spawn")
        shared = MODELS[name][0](lib).share_memory().state_dict()
        self._orders, self._answers, self._processes = [], [], []
        for seed in range(n_workers):
            (order_in, order_out), (answer_in, answer_out) = (
                context.Pipe(False),
                context.Pipe(False),
            )
            arguments = (library, name, shared, seed, order_in, answer_out)
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            self._orders.append(order_out)
            self._answers.append(answer_in)
            self._processes.append(process)

    def wall_ns(self, n_steps: int) -> float:
        """Have every worker do that many steps; returns nanoseconds a step."""
        start = time.perf_counter_ns()
        for order in self._orders:
            order.send(n_steps)
        for answer in self._answers:
            answer.recv()
        return (time.perf_counter_ns() - start) / n_steps

    def end(self) -> None:
        """End the workers."""
        for order in self._orders:
            order.send(None)
        for process in self._processes:
            process.join()


@dataclass(frozen=True)
class Measured:
    """What one model gave: a step of a worker beside torch's, and beside a worker that is alone."""

    beside_torch: Result
    alone_ns: float
    n_workers: int

    @property
    def speed_up(self) -> float:
        """Steps of all workers by those of one, in the same time."""
        return self.n_workers * self.alone_ns / self.beside_torch.ours_ns


def measure(name: str, n_workers: int, samples: int) -> Measured:
    """Compare both libraries, and one worker with all, on one model."""
    sides = [
        Side("shmtensor", name, n_workers),
        Side("torch", name, n_workers),
        Side("shmtensor", name, 1),
    ]
    counts = []
    for side in sides:
        side.wall_ns(20)  # warm
        counts.append(max(1, int(SAMPLE_S * 1e9 / side.wall_ns(100))))
    taken: tuple[list[float], ...] = ([], [], [])
    for _ in range(samples):
        for side, count, times in zip(sides, counts, taken, strict=True):
            times.append(side.wall_ns(count))
    for side in sides:
        side.end()
    (a, ours, b), (c, theirs, d), (_, alone, _) = (
        statistics.quantiles(times, n=4) for times in taken
    )
    return Measured(Result(name, ours, (a, b), theirs, (c, d)), alone, n_workers)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--only", default="", help="only models whose name contains this")
    arguments = parser.parse_args()
    measured = [
        measure(name, arguments.workers, arguments.samples)
        for name in MODELS
        if arguments.only in name
    ]
    print_table([each.beside_torch for each in measured])
    print(f"\nsteps of {arguments.workers} workers by those of one:")
    for each in measured:
        print(f"{each.beside_torch.name:40} {each.speed_up:.2f}")


if __name__ == "__main__":
    main()

"""What bounds a Hogwild step: matrix products, the walk over parameters, cache lines that move.

Run ``python benchmarks/bench_steps.py [--workers N]``. The models, batches and optimizer are those
of ``bench_hogwild.py``; each worker has one thread and times the parts of its own steps, alone and
beside others. ``products`` is the time of the step's matrix products and convolutions alone, each
repeated on private copies of its arguments, so their lines stay in the processor's cache; each call
from Python takes some microseconds, which small products do not. ``peak``
compares the products' arithmetic with the fastest large product of float32 on this machine:
``of products`` while they run, ``of a step`` over the whole step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

from bench_hogwild import MODELS, prepare

import shmtensor
import shmtensor.multiprocessing as mp
from shmtensor import nn
from shmtensor.utils._python_dispatch import TorchDispatchMode
from shmtensor.utils.flop_counter import FlopCounterMode, flop_registry

#: Seconds that a sample lasts, about.
SAMPLE_S = 0.2
#: The side of the square matrices whose product tells the machine's peak.
PEAK_SIDE = 1024


@dataclass(frozen=True)
class Parts:
    """Nanoseconds of one step."""

    forward: float
    backward: float
    optimizer: float

    @property
    def step(self) -> float:
        """The whole step."""
        return self.forward + self.backward + self.optimizer


class _Products(TorchDispatchMode):
    """Keeps the calls of products, with copies of their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[..., object], Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket._name in flop_registry:
            self.calls.append((func, _copied(args), _copied(kwargs)))
        return func(*args, **kwargs)


def _copied(value: Any) -> Any:
    """The value with copies of its tensors, which need no gradients."""
    if isinstance(value, shmtensor.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(item) for item in value)
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return value


def _median_ns(call: Callable[[], object], samples: int) -> float:
    """The median over samples of a call's time."""
    call()
    start = time.perf_counter_ns()
    call()
    count = max(1, int(SAMPLE_S * 1e9 / (time.perf_counter_ns() - start)))
    times = []
    for _ in range(samples):
        start = time.perf_counter_ns()
        for _ in range(count):
            call()
        times.append((time.perf_counter_ns() - start) / count)
    return statistics.median(times)


def peak_flops(samples: int) -> float:
    """Operations in a nanosecond of the fastest large product, with one thread."""
    a, b = shmtensor.randn(PEAK_SIDE, PEAK_SIDE), shmtensor.randn(PEAK_SIDE, PEAK_SIDE)
    out = shmtensor.empty(PEAK_SIDE, PEAK_SIDE)
    return 2 * PEAK_SIDE**3 / _median_ns(lambda: shmtensor.mm(a, b, out=out), samples)


def products(name: str, samples: int) -> tuple[int, float]:
    """Operations of a step's products, and nanoseconds that these products take alone."""
    make, batch = MODELS[name]
    net = make(shmtensor)
    x, y = shmtensor.randn(batch, 64), shmtensor.randint(0, 10, (batch,))
    counter, kept = FlopCounterMode(display=False), _Products()
    for mode in (counter, kept):
        with mode:
            nn.functional.cross_entropy(net(x), y).backward()

    def replay() -> None:
        with shmtensor.no_grad():
            for func, args, kwargs in kept.calls:
                func(*args, **kwargs)

    return counter.get_total_flops(), _median_ns(replay, samples)


def _work(name: str, shared: Any, seed: int, orders: Any, answers: Any) -> None:
    """Do as many steps as each message says, and answer with the time of the parts of one."""
    net, x, y, optimizer = prepare(shmtensor, name, shared, seed)
    clock = time.perf_counter_ns
    for n_steps in iter(orders.recv, None):
        forward = backward = changed = 0
        for _ in range(n_steps):
            t0 = clock()
            loss = nn.functional.cross_entropy(net(x), y)
            t1 = clock()
            optimizer.zero_grad()
            loss.backward()
            t2 = clock()
            optimizer.step()
            t3 = clock()
            forward, backward, changed = forward + t1 - t0, backward + t2 - t1, changed + t3 - t2
        answers.send(Parts(*(ns / n_steps for ns in (forward, backward, changed))))


def parts(name: str, n_workers: int, samples: int) -> Parts:
    """The parts of a step: medians over samples and workers."""
    context = mp.get_context("spawn")
    shared = MODELS[name][0](shmtensor).share_memory().state_dict()
    workers = []
    for seed in range(n_workers):
        orders, answers = context.Pipe(False), context.Pipe(False)
        process = context.Process(
            target=_work, args=(name, shared, seed, orders[0], answers[1]), daemon=True
        )
        process.start()
        orders[0].close()
        answers[1].close()
        workers.append((process, orders[1], answers[0]))

    def sample(n_steps: int) -> list[Parts]:
        for _, orders, _ in workers:
            orders.send(n_steps)
        return [answers.recv() for _, _, answers in workers]

    sample(20)  # warm
    n_steps = max(1, int(SAMPLE_S * 1e9 / sample(100)[0].step))
    taken = [each for _ in range(samples) for each in sample(n_steps)]
    for process, orders, _ in workers:
        orders.send(None)
        process.join()
    return Parts(*(statistics.median(ns) for ns in zip(*map(astuple, taken), strict=True)))


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--only", default="", help="only models whose name contains this")
    arguments = parser.parse_args()
    shmtensor.set_num_threads(1)
    peak = peak_flops(arguments.samples)
    print(f"peak: {peak:.0f} GFLOP/s, one thread, a product of {PEAK_SIDE} x {PEAK_SIDE}\n")
    print(
        f"{'':28} {'workers':>7} {'forward':>9} {'backward':>9} {'optimizer':>9} {'step':>9}"
        f" {'products':>9}   peak: of products, of a step"
    )
    for name in (each for each in MODELS if arguments.only in each):
        flops, products_ns = products(name, arguments.samples)
        for n_workers in sorted({1, arguments.workers}):
            each = parts(name, n_workers, arguments.samples)
            times = (*astuple(each), each.step, products_ns)
            print(
                f"{name:28} {n_workers:7} "
                + " ".join(f"{ns / 1e3:6.1f} us" for ns in times)
                + f"   {flops / products_ns / peak:6.1%} {flops / each.step / peak:6.1%}"
            )


if __name__ == "__main__":
    main()

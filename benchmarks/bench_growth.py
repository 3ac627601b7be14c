"""What does it cost when there are more of them: tensors, processes, queues, names, bytes?

Run ``python benchmarks/bench_growth.py``, with ``--curve NAME`` for one curve and ``--scale 0.1``
for a tenth of everything. Each curve has a process of its own. A send is a put and a get. Times are
CPU time of the process that makes the calls, unless a curve says wall time. The exponent is the
slope of the total over the number, both as logarithms, fitted to the last three points: 0 where a
call costs the same whatever there is, 1 where each of them costs the same.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import inspect
from shmtensor.service import Service

Points = dict[int, float]

#: Of the exponent, what noise may add to the goal.
MARGIN = 0.2
_FITTED = 3
_FLOATS = 16  # of a small tensor
_PROCESS_KB = 4096  # what a forked process may take of memory


@dataclass(frozen=True)
class Curve:
    """One thing that there is more and more of."""

    title: str
    unit: str
    goal: int
    """The exponent of the total: 0 flat, 1 in proportion."""
    sizes: tuple[int, ...]
    measure: Callable[[tuple[int, ...]], Points]
    """Total seconds, by size."""


def exponent(points: Points) -> float:
    """Return the slope of the last points in logarithms, by least squares."""
    last = sorted(points.items())[-_FITTED:]
    if len(last) < 2:
        return math.nan
    xs, ys = zip(*((math.log(n), math.log(seconds)) for n, seconds in last), strict=True)
    return statistics.linear_regression(xs, ys).slope


# --- taking times ---


def _seconds(call: Callable[[], object], count: int, samples: int = 9) -> float:
    """CPU seconds of a call: the median of samples of so many calls."""
    times = []
    for _ in range(samples + 1):  # the first warms
        begin = time.process_time()
        for _ in range(count):
            call()
        times.append((time.process_time() - begin) / count)
    return statistics.median(times[1:])


def _shared(n: int) -> list[Any]:
    return [st.ones(_FLOATS, shared=True) for _ in range(n)]


# --- tensors ---


def _pass(queue: Any, value: object) -> None:
    queue.put(value)
    queue.get()


def _pass_next(queue: Any, turn: Iterator[object]) -> None:
    _pass(queue, next(turn))


def _send(sizes: tuple[int, ...]) -> Points:
    """Each of a thousand tensors in turn, which lie anywhere among the others."""
    queue = mp.SimpleQueue()
    live: list[Any] = []
    found = {}
    for n in sizes:
        live += _shared(n - len(live))
        turn = itertools.cycle(live[:: max(1, n // 1000)])
        found[n] = _seconds(functools.partial(_pass_next, queue, turn), 1000)
    return found


def _message(sizes: tuple[int, ...]) -> Points:
    queue, live = mp.SimpleQueue(), _shared(max(sizes))
    return {
        n: _seconds(functools.partial(_pass, queue, live[:n]), max(1, 2000 // n)) for n in sizes
    }


def _bytes(sizes: tuple[int, ...]) -> Points:
    queue = mp.SimpleQueue()
    return {
        n: _seconds(functools.partial(_pass, queue, bytes(n)), max(1, (1 << 22) // n))
        for n in sizes
    }


def _fork_once() -> float:
    begin = time.thread_time()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    seconds = time.thread_time() - begin
    os.waitpid(pid, 0)
    return seconds


def _fork(sizes: tuple[int, ...], shared: bool) -> Points:
    st.ones(1, shared=True)
    live: list[Any] = []
    found = {}
    for n in sizes:
        live += [st.ones(_FLOATS, shared=shared) for _ in range(n - len(live))]
        found[n] = statistics.median(_fork_once() for _ in range(9))
    return found


def _fork_shared(sizes: tuple[int, ...]) -> Points:
    return _fork(sizes, True)


def _fork_private(sizes: tuple[int, ...]) -> Points:
    return _fork(sizes, False)


def _hold(n: int, ready: Any) -> None:
    live = _shared(n)
    ready.release()
    signal.pause()
    del live


def _used_bytes() -> int:
    with inspect.current() as session:
        return int(session.snapshot().used_bytes)


def _kill(sizes: tuple[int, ...]) -> Points:
    """From the kill of a process until the memory that it held is free, wall time."""
    context, found = mp.get_context("fork"), {}
    st.ones(1, shared=True)
    ready = context.Semaphore(0)
    for n in sizes:
        before = _used_bytes()
        process = context.Process(target=_hold, args=(n, ready))
        process.start()
        ready.acquire()
        begin = time.perf_counter()
        process.kill()
        while _used_bytes() > before:
            time.sleep(0.01)
        found[n] = time.perf_counter() - begin
        process.join()
    return found


# --- processes, queues, names ---


def _sleep(ready: Any) -> None:
    ready.release()
    signal.pause()


def _processes(sizes: tuple[int, ...], call: Callable[[], object], count: int) -> Points:
    available_kb = int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0])
    context = mp.get_context("fork")
    ready, found = context.Semaphore(0), {}
    members: list[Any] = []
    kept = st.ones(1, shared=True)
    try:
        for n in sizes:
            if n * _PROCESS_KB > available_kb:
                break
            while len(members) < n:
                members.append(context.Process(target=_sleep, args=(ready,), daemon=True))
                members[-1].start()
                ready.acquire()
            found[n] = _seconds(call, count)
    finally:
        for member in members:
            member.kill()
        for member in members:
            member.join()
    del kept
    return found


def _processes_send(sizes: tuple[int, ...]) -> Points:
    """A send beside sleeping processes of the session, all of which hold the tensor."""
    tensor = st.ones(_FLOATS, shared=True)
    return _processes(sizes, functools.partial(_pass, mp.SimpleQueue(), tensor), 1000)


def _processes_make(sizes: tuple[int, ...]) -> Points:
    """A new shared tensor beside sleeping processes, which hold others."""
    return _processes(sizes, lambda: st.ones(_FLOATS, shared=True), 1000)


def _make_queue() -> None:
    _pass(mp.SimpleQueue(), 1)


def _queues(sizes: tuple[int, ...]) -> Points:
    """One more queue, with a send."""
    live: list[Any] = []
    found = {}
    for n in sizes:
        live += [mp.SimpleQueue() for _ in range(n - len(live))]
        found[n] = _seconds(_make_queue, 50)
    return found


@contextmanager
def _service() -> Iterator[Service]:
    name = f"growth-{os.getpid()}"
    server = subprocess.Popen(
        [sys.executable, "-m", "shmtensor", "serve", "--name", name], stdout=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                service = Service(name)
                service.publish("first", st.zeros(1), persist=True)
                break
            except RuntimeError:  # it is not ready yet
                assert server.poll() is None, "the service did not start"
                time.sleep(0.02)
        yield service
    finally:
        server.kill()
        server.wait()


def _wall_seconds(call: Callable[[], object], count: int) -> float:
    """Wall seconds of a call, some of which is the manager's work: the median."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def _publish(service: Service, tensor: Any) -> None:
    service.publish("more", tensor)
    service.attach("more", "ro")
    service.unpublish("more")


def _values(sizes: tuple[int, ...]) -> Points:
    """Publish one more value, attach it, unpublish it."""
    found, n_live = {}, 0
    with _service() as service:
        tensor = st.zeros(_FLOATS)
        for n in sizes:
            for i in range(n_live, n):
                service.publish(f"value {i}", tensor, persist=True)
            n_live = n
            found[n] = _wall_seconds(functools.partial(_publish, service, tensor), 200)
    return found


def _take(service: Service) -> None:
    with service.Lock("more"):
        pass


def _locks(sizes: tuple[int, ...]) -> Points:
    """Open one more named lock, take and release it."""
    live: list[Any] = []
    found = {}
    with _service() as service:
        for n in sizes:
            live += [service.Lock(f"lock {i}") for i in range(len(live), n)]
            found[n] = _wall_seconds(functools.partial(_take, service), 200)
    return found


def _publish_next(turn: Iterator[Any], tensor: Any) -> None:
    next(turn).publish(tensor)


def _topics(sizes: tuple[int, ...]) -> Points:
    """Publish in each of eight topics among the others in turn."""
    live: list[Any] = []
    found = {}
    with _service() as service:
        tensor = service.empty(_FLOATS)
        for n in sizes:
            live += [service.Topic(f"topic {i}") for i in range(len(live), n)]
            turn = itertools.cycle(live[:: max(1, n // 8)])
            found[n] = _wall_seconds(functools.partial(_publish_next, turn, tensor), 500)
    return found


CURVES = {
    "sends": Curve(
        "a send, by live tensors of the sender", "us", 0, (1000, 10_000, 100_000, 400_000), _send
    ),
    "message": Curve(
        "a message, by its tensors", "us", 1, (1, 10, 100, 1000, 10_000, 50_000), _message
    ),
    "bytes": Curve(
        "a message, by its bytes", "us", 1, (1024, 16_384, 1 << 18, 1 << 22, 1 << 26), _bytes
    ),
    "fork": Curve(
        "a fork, by shared tensors held", "us", 0, (1000, 10_000, 100_000, 400_000), _fork_shared
    ),
    "fork-private": Curve(
        "a fork, by private tensors: the kernel's part",
        "us",
        1,
        (1000, 10_000, 100_000, 400_000),
        _fork_private,
    ),
    "kill": Curve(
        "the memory of a killed process, by its tensors, wall time",
        "ms",
        1,
        (1000, 10_000, 100_000, 400_000),
        _kill,
    ),
    "processes": Curve("a send, by processes", "us", 0, (1, 10, 100, 300, 1000), _processes_send),
    "new-tensors": Curve(
        "a new shared tensor, by processes", "us", 0, (1, 10, 100, 300, 1000), _processes_make
    ),
    "queues": Curve("a new queue, by queues", "us", 0, (1, 10, 100, 1000, 4000), _queues),
    "values": Curve(
        "a value published and attached, by values, wall time",
        "us",
        0,
        (10, 100, 1000, 10_000),
        _values,
    ),
    "locks": Curve(
        "a lock opened and taken, by locks, wall time", "us", 0, (10, 100, 1000, 10_000), _locks
    ),
    "topics": Curve("a message published, by topics, wall time", "us", 0, (10, 100, 1000), _topics),
}
_FACTORS = {"us": 1e6, "ms": 1e3}


def _run(name: str, sizes: tuple[int, ...], out: Any) -> None:
    st.set_num_threads(1)
    out.put(CURVES[name].measure(sizes))


def measure(name: str, scale: float) -> Points:
    """Return a curve's points, measured in a fresh process."""
    sizes = tuple(sorted({max(1, round(n * scale)) for n in CURVES[name].sizes}))
    context = multiprocessing.get_context("spawn")
    out = context.SimpleQueue()
    process = context.Process(target=_run, args=(name, sizes, out))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise SystemExit(f"{name}: exit status {process.exitcode}")
    found: Points = out.get()
    return found


def _thousands(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def table(curve: Curve, points: Points) -> str:
    """Return the lines of a curve: caption, numbers, times."""
    factor, slope = _FACTORS[curve.unit], exponent(points)
    unit = curve.unit.replace("us", "µs")
    rows = [["there are", *map(_thousands, points)]]
    rows.append([unit, *(f"{seconds * factor:.3g}" for seconds in points.values())])
    if curve.goal == 1:
        each = (f"{seconds * 1e9 / n:.3g}" for n, seconds in points.items())
        rows.append(["ns each", *each])
    lines = ["  ".join(f"{cell:>10}" for cell in row).strip() for row in rows]
    is_missed = not slope <= curve.goal + MARGIN
    verdict = ", missed" if is_missed else ""
    return "\n".join([f"{curve.title}: exponent {slope:.2f}, goal {curve.goal}{verdict}", *lines])


def main() -> int:
    """Measure the curves; 1 when one grows faster than its goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--curve", nargs="*", choices=list(CURVES), help="default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers; default: 1")
    options = parser.parse_args()
    missed = False
    for name in options.curve or CURVES:
        curve, points = CURVES[name], measure(name, options.scale)
        print(table(curve, points), flush=True)
        missed |= not exponent(points) <= curve.goal + MARGIN
    print(f"load: {os.getloadavg()[0]:.1f}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

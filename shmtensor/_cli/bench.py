"""Measures queues, topics and calls on this machine, in a few seconds.

It starts a service of its own and some processes, and ends them. All times are wall times between
processes: other work on the machine lengthens them. It compares with nothing; the programs in
benchmarks/ do.

rows
  queue, round trip   a tuple to another process and back, through two named queues
  ... of 1 MB         the same with a tensor of 1 MB that is written each time, and summed there
  queue, 1 KB         one message of a stream of bytes to another process
  publish 1 MB        one `publish` of a tensor of 1 MB in the service's memory, to N subscribers
  call, round trip    one `Client.call` of a number, and its answer

columns
  MEDIAN, FROM, TO    median of the samples, and where the middle half of them lies
  PER SECOND          one over the median

exit status
  0    done
  1    failed: the service could not start, or a process was killed
  2    wrong usage
  130  ended by Ctrl-C
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from queue import Empty
from typing import Any

import shmtensor
from shmtensor._cli._common import add_json_argument, print_json, table
from shmtensor.service import Service

SUMMARY = "measure queues, topics and calls on this machine"

_SUBSCRIBERS = (1, 4, 16)
_MB = 1 << 20
_LIMIT_S = 60.0  # against hangs: no single step takes as long
_SMALL = tuple(range(8))


@dataclass(frozen=True)
class _Row:
    """Microseconds of one operation: the median and the quartiles of the samples."""

    name: str
    median_us: float
    low_us: float
    high_us: float


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--quick", action="store_true", help="fewer samples: about two seconds")
    add_json_argument(parser)


# --- the other processes --------------------------------------------------------------------------


def _echo(name: str) -> None:
    """Send back what comes; of a tensor its sum; of a stream only its end; until None."""
    service = Service(name)
    there, back = service.Queue("there"), service.Queue("back")
    back.put("ready")
    while (item := there.get()) is not None:
        if isinstance(item, int):
            for _ in range(item):
                there.get()
        back.put(float(item.sum()) if isinstance(item, shmtensor.Tensor) else item)


def _view(name: str) -> None:
    """Take what is published, until None."""
    service = Service(name)
    with service.Topic("frames").subscribe() as frames:
        service.Queue("back").put("ready")
        while frames.get() is not None:
            pass


def _serve(name: str) -> None:
    """Answer with what was asked, until None."""
    service = Service(name)
    with service.Server("echo") as server:
        service.Queue("back").put("ready")
        for request in server:
            request.reply(request.value)
            if request.value is None:
                return


@contextmanager
def _running(name: str, back: Any, work: Callable[[str], None], n: int = 1) -> Iterator[None]:
    """Run *n* processes, and wait until they are ready; they end with the block."""
    context = multiprocessing.get_context(
        "fork"
    )  # sixteen interpreters would take seconds to start
    processes = [context.Process(target=work, args=(name,), daemon=True) for _ in range(n)]
    try:
        for process in processes:
            process.start()
        for _ in processes:
            _answer(back)
        yield
    finally:
        for process in processes:
            if process.pid is not None:
                process.kill()
                process.join()


def _answer(back: Any) -> Any:
    try:
        return back.get(timeout=_LIMIT_S)
    except Empty:
        raise RuntimeError(
            f"a process of the measurement has not answered in {_LIMIT_S} s"
        ) from None


# --- measuring ------------------------------------------------------------------------------------


def _row(name: str, sample: Callable[[], object], n_samples: int, count: int = 1) -> _Row:
    """Time samples, each of *count* operations, after a warm-up."""
    times = []
    for i in range(n_samples + n_samples // 5 + 2):
        begin = time.perf_counter_ns()
        sample()
        if i > n_samples // 5 + 1:
            times.append((time.perf_counter_ns() - begin) / count / 1000)
    low, middle, high = statistics.quantiles(times, n=4)
    return _Row(name, middle, low, high)


def _queue_rows(service: Service, back: Any, n: int) -> Iterator[_Row]:
    there = service.Queue("there")
    data, n_stream = b"x" * 1024, 200

    def small() -> None:
        there.put(_SMALL)
        _answer(back)

    def large() -> None:
        tensor = service.empty(_MB, dtype=shmtensor.uint8)
        tensor.fill_(1)
        there.put(tensor)
        if _answer(back) != _MB:
            raise RuntimeError("the other process read something else than was written")

    def stream() -> None:
        there.put(n_stream)
        for _ in range(n_stream):
            there.put(data)
        _answer(back)

    with _running(service._name, back, _echo):
        yield _row("queue, round trip", small, n)
        yield _row("queue, round trip of 1 MB", large, n // 5)
        yield _row("queue, 1 KB messages", stream, n // 20, n_stream)


def _topic_row(service: Service, back: Any, n_subscribers: int, n: int) -> _Row:
    frame = service.empty(_MB, dtype=shmtensor.uint8)
    with (
        service.Topic("frames", depth=64) as topic,
        _running(service._name, back, _view, n_subscribers),
    ):
        subscribers = "subscriber" if n_subscribers == 1 else "subscribers"
        name = f"publish 1 MB, {n_subscribers} {subscribers}"
        return _row(name, lambda: topic.publish(frame, _LIMIT_S), n)


def _call_row(service: Service, back: Any, n: int) -> _Row:
    with service.Client("echo") as client, _running(service._name, back, _serve):
        return _row("call, round trip", lambda: client.call(5, _LIMIT_S), n)


def _rows(n: int) -> Iterator[_Row]:
    name = f"bench-{os.getpid()}-{secrets.token_hex(4)}"
    with Service(name, start=True) as service, service.Queue("back") as back:
        yield from _queue_rows(service, back, n)
        for n_subscribers in _SUBSCRIBERS:
            yield _topic_row(service, back, n_subscribers, n)
        yield _call_row(service, back, n)


def _cells(row: _Row) -> list[str]:
    times = [f"{value:.1f}" for value in (row.median_us, row.low_us, row.high_us)]
    return [row.name, *times, f"{1e6 / row.median_us:,.0f}".replace(",", " ")]


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print the table."""
    rows = list(_rows(100 if arguments.quick else 1000))
    if arguments.json:
        print_json([asdict(row) for row in rows])
    else:
        heads = ["WHAT", ">MEDIAN µs", ">FROM", ">TO", ">PER SECOND"]
        print(*table(heads, [_cells(row) for row in rows]), sep="\n")
    return 0

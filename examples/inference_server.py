"""Serve a model from many processes that attach it by name, and swap it while they answer.

    python examples/inference_server.py                     # two workers, two clients
    python examples/inference_server.py --workers 4 --clients 4 --in-flight 32
    python examples/inference_server.py --max-batch 8 --max-delay-ms 0.5
    python examples/inference_server.py --resume runs/inference-server-…

The program publishes the model once, in a service of shared memory, and starts workers and clients.
They are programs of their own that know nothing but the service's name: start more of them in other
terminals, or kill some.

    python examples/inference_server.py --seconds 60 --service digits
    python examples/inference_server.py --role worker --service digits
    python examples/inference_server.py --role client --service digits

Every worker attaches the model and computes with the published memory, read-only. It takes a batch
of waiting requests, waiting no longer than a delay, and replies with rows of one result. A thread
of each worker waits for a newer version and attaches it; a batch ends with the version it began
with.

The program publishes better versions of the model while the clients ask. They check every answer
against its version, so a lost request, or an answer by a mixture of versions, ends the program with
status 1. If a worker is killed, another starts, and the requests it had taken go to others by
themselves (``retry``); those of one that only hangs are asked again after half a second.

latencies.csv and latencies.png have the 50th, 90th and 99th percentile over time. The last version
answers at least 95 % of the digits correctly.

Source: Crankshaw et al., "Clipper: a low-latency online prediction serving system", 2017 (batches
that wait no longer than a delay).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
from common import checkpoints
from common.data import Dataset, load
from common.latency import print_summary, write_files
from common.load import Checker, Log
from common.models import library
from common.program import (
    above_zero,
    add_run_options,
    meet,
    positive,
    results_folder,
    run,
)
from common.serving import Jobs, Server

import shmtensor
from shmtensor import multiprocessing, nn, optim
from shmtensor.errors import NotPublishedError, ServerLostError, WaitTimeoutError
from shmtensor.service import Request, Service

GOAL = 0.95  # of the last version's answers are right
NAME = "digits"  # the model
SETUP = "digits/setup"  # what is asked about, and how
REQUESTS, REPORTS = "digits/requests", "digits/reports"
STOP_ASKING, STOP_SERVING = "digits/stop-asking", "digits/stop-serving"
ASK_AGAIN_S = 0.5  # a worker that has a request for so long may hang
GIVE_UP_S = 10.0
RETRIES = 20  # so many workers with one request may be killed
EPOCHS = (1, 3, 9, 27)  # after which a version of the model is kept
SECONDS, QUICK_SECONDS = 12.0, 5.0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Many processes serve one published model, in batches, and swap versions. "
        f"No request is lost, and {GOAL:.0%} of the last version's answers are right, also with "
        "--quick."
    )
    parser.add_argument("--clients", type=positive, default=2, help="processes that ask (2)")
    parser.add_argument(
        "--in-flight", type=positive, default=16, help="open requests of each client (16)"
    )
    parser.add_argument("--max-batch", type=positive, default=16, help="requests together (16)")
    parser.add_argument(
        "--max-delay-ms", type=above_zero, default=1.0, help="wait so long for a batch (1)"
    )
    parser.add_argument("--width", type=positive, default=256, help="of the hidden layers (256)")
    parser.add_argument("--service", help="name of the service (inference-<process id>)")
    parser.add_argument(
        "--role",
        choices=["all", "worker", "client"],
        default="all",
        help="be one more worker or client of a service that runs (all)",
    )
    add_run_options(parser)
    options = parser.parse_args(arguments)
    if options.role != "all" and options.service is None:
        parser.error(f"--role {options.role} needs --service, the name of a service that runs")
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    options.service = options.service or f"inference-{os.getpid()}"
    return options


def make_model(width: int, library_name: str = "shmtensor") -> Any:
    """A classifier of digits."""
    layers = library(library_name).nn
    return layers.Sequential(
        layers.Flatten(),
        *(layers.Linear(64, width), layers.ReLU()),
        *(layers.Linear(width, width), layers.ReLU()),
        layers.Linear(width, 10),
    )


def train_versions(options: argparse.Namespace, data: Dataset) -> list[dict[str, Any]]:
    """Train, and keep the parameters after some of the epochs: versions that get better."""
    shmtensor.manual_seed(options.seed)
    model = make_model(options.width)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    x, y = shmtensor.from_numpy(data.train_x), shmtensor.from_numpy(data.train_y)
    versions = []
    for epoch in range(1, max(EPOCHS) + 1):
        for chosen in shmtensor.randperm(len(y)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()
            optimizer.step()
        if epoch in EPOCHS:
            versions.append({n: t.detach().clone() for n, t in model.state_dict().items()})
    return versions


class Follower:
    """In a worker: the newest version of the published model, attached without a copy."""

    def __init__(self, service: Service, width: int) -> None:
        self._service = service
        self._width = width
        self._known = 0
        self.current: tuple[int, Any] = (0, None)
        self._attach()
        threading.Thread(target=self._follow, daemon=True).start()

    def _attach(self) -> None:
        found = self._service.wait_newer(NAME, self._known)
        model = make_model(self._width)
        model.load_state_dict(found.value["parameters"], assign=True)
        self._known = found.version
        # One assignment: a batch takes a model together with its number.
        self.current = (found.value["number"], model)

    def _follow(self) -> None:
        while True:
            self._attach()


def serve(name: str) -> None:
    """Be a worker: answer requests of a service until it is time to stop."""
    shmtensor.set_num_threads(1)  # the processes share the cores
    service = Service(name)
    setup = service.attach(SETUP)
    followed = Follower(service, setup["width"])
    server, stop = service.Server(REQUESTS), service.Event(STOP_SERVING)
    while not stop.is_set():
        with contextlib.suppress(queue.Empty):
            batch = server.take(setup["max_batch"], wait=setup["max_delay_s"], timeout=0.1)
            # Those that waited with a worker that hung have been asked again.
            answer([request for request in batch if request.is_wanted], service, followed.current)


def answer(batch: list[Request], service: Service, current: tuple[int, Any]) -> None:
    """Answer requests together, with rows of one result in the service's memory."""
    version, model = current
    with contextlib.ExitStack() as answered, shmtensor.no_grad():
        for request in batch:
            answered.enter_context(request)  # an exception becomes the answer
        if batch:
            scores = model(shmtensor.stack([request.value for request in batch]))
            shared = service.empty(*scores.shape, dtype=scores.dtype).copy_(scores)
            for request, row in zip(batch, shared, strict=True):
                request.reply((version, row))


class Client:
    """Keeps a number of requests open, and checks every answer."""

    def __init__(self, name: str, rank: int) -> None:
        service = Service(name)
        self._rank, self._setup = rank, service.attach(SETUP)
        # To write is not its business, but what may be written goes on without a copy.
        self._images = service.attach(SETUP, "rw")["images"]
        labels, expected = self._setup["labels"].numpy(), self._setup["expected"].numpy()
        self._n, self._checker = len(labels), Checker(labels, expected)
        self._random = np.random.default_rng((self._setup["seed"], rank))
        self._client = service.Client(REQUESTS, as_="numpy")
        self._reports = service.Queue(REPORTS)
        self._stop, self._end = service.Event(STOP_ASKING), service.Event(STOP_SERVING)
        self._open: dict[Future[Any], tuple[int, float]] = {}  # image, asked first
        self._answered: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()

    def run(self) -> None:
        """Ask until it is time to stop and all requests are answered."""
        while not self._stop.is_set() or (self._open and not self._end.is_set()):
            while not self._stop.is_set() and len(self._open) < self._setup["in_flight"]:
                self._ask(int(self._random.integers(self._n)), time.monotonic())
            with contextlib.suppress(queue.Empty):
                self._take(self._answered.get(timeout=0.05))
                while True:
                    self._take(self._answered.get_nowait())
            if self._checker.is_report_due():
                self._report()
        self._report()

    def _ask(self, image: int, asked_first: float) -> None:
        future = self._client.submit(self._images[image], timeout=ASK_AGAIN_S, retry=RETRIES)
        self._open[future] = image, asked_first
        future.add_done_callback(self._answered.put)

    def _take(self, future: Future[Any]) -> None:
        image, asked_first = self._open.pop(future)
        try:
            version, scores = future.result()
        except (WaitTimeoutError, ServerLostError):
            if time.monotonic() - asked_first > GIVE_UP_S:
                self._checker.counts["lost"] += 1
            else:
                self._checker.counts["asked_again"] += 1
                self._ask(image, asked_first)
            return
        self._checker.answered(image, asked_first, version, scores)

    def _report(self) -> None:
        records, counts = self._checker.take_report()
        self._reports.put((self._rank, records, counts))


def ask(name: str, rank: int) -> None:
    """Be a client of a service."""
    Client(name, rank).run()


def free_service(name: str) -> Service:
    """Start the service, if need be.

    Raises:
        ValueError: Another program publishes in it.
    """
    service = Service(name, start=True)
    entry = service.list().get(NAME)
    if entry is not None:
        raise ValueError(f"the service {name!r} is in use: process {entry.pid} publishes in it")
    return service


class Publisher:
    """Publishes one version after the other, at even distances of the run's time."""

    def __init__(self, service: Service, seconds: float, versions: list[dict[str, Any]]) -> None:
        self._service, self._seconds, self._versions = service, seconds, versions
        self._published = -1
        self.swaps: dict[float, str] = {}

    def publish_due(self, seconds: float) -> str:
        """Publish the version that is to be served now, if that is a new one; says so."""
        n = len(self._versions)
        number = min(n - 1, int(seconds / self._seconds * n))
        if number == self._published:
            return ""
        value = {"number": number, "parameters": self._versions[number]}
        self._service.publish(NAME, value)
        self._published = number
        self.swaps[seconds] = f"v{number + 1}"
        return f"{seconds:.1f} s: version {number + 1} is published"

    def close(self) -> None:
        """Take the name back; workers keep what they have."""
        self._service.unpublish(NAME)


class Office:
    """The parent's end of the names that it shares with workers and clients.

    Args:
        options: Of the command line.
        arrays: Images, labels and the versions' answers, which clients compare with.
    """

    def __init__(self, options: argparse.Namespace, arrays: tuple[Any, ...]) -> None:
        self._service = Service(options.service)
        self._reports = self._service.Queue(REPORTS, as_="numpy")
        self._orders = [self._service.Event(n) for n in (STOP_ASKING, STOP_SERVING)]
        images, labels, expected = arrays
        setup = {
            "images": images,
            "labels": labels,
            "expected": expected,
            "width": options.width,
            "in_flight": options.in_flight,
            "max_batch": options.max_batch,
            "max_delay_s": options.max_delay_ms / 1e3,
            "seed": options.seed,
        }
        self._service.publish(SETUP, setup)

    def jobs(self, name: str) -> Jobs:
        """Return what processes do in the service *name*."""
        stop_asking, stop_serving = self._orders
        return Jobs((serve, name), (ask, name), self._take, stop_asking.set, stop_serving.set)

    def _take(self, timeout: float) -> list[Any]:
        try:
            return self._reports.get_many(100, timeout)
        except queue.Empty:
            return []

    def close(self) -> None:
        """Take the name back."""
        self._service.unpublish(SETUP)


def answers_of(versions: list[dict[str, Any]], options: argparse.Namespace, images: Any) -> Any:
    """What each version answers about each image, ``(versions, N, classes)``."""
    model, all_scores = make_model(options.width), []
    for version in versions:
        model.load_state_dict(version)
        with shmtensor.no_grad():
            all_scores.append(model(shmtensor.from_numpy(images)))
    return shmtensor.stack(all_scores).numpy()


def measure(
    options: argparse.Namespace, folder: Path, data: Dataset
) -> tuple[Log, Publisher, list[dict[str, Any]], tuple[Any, ...]]:
    """Serve and ask; returns what was measured, the swaps, the versions and what is asked."""
    settings = {"width": options.width, "seed": options.seed}
    log, state = Log(), None
    if options.resume:
        state = checkpoints.read(folder, "inference_server", settings)
    service = free_service(options.service)
    if state is None:
        versions = train_versions(options, data)
    else:
        versions = state.pop("versions")
        log.load_state(state)
    publisher = Publisher(service, options.seconds, versions)
    arrays = data.test_x, data.test_y, answers_of(versions, options, data.test_x)
    saved_at = float("-inf")

    def save() -> None:
        state = {"versions": versions, **log.state()}
        checkpoints.write(folder, "inference_server", settings, state)

    def tick(seconds: float) -> str:
        nonlocal saved_at
        if seconds - saved_at > options.checkpoint_every:
            save()
            saved_at = seconds
        return publisher.publish_due(seconds)

    print(tick(log.seconds))
    nbytes = service.info(NAME).nbytes
    print(f"the model's {nbytes / 1e3:.0f} KB are in shared memory once for all workers")
    context = multiprocessing.get_context(options.start_method)
    office = Office(options, arrays)
    try:
        Server(options, "shmtensor", office.jobs(options.service), context).run(log, tick)
    finally:
        save()
    office.close()
    publisher.close()
    return log, publisher, versions, arrays


def run_program(options: argparse.Namespace, folder: Path) -> None:
    """Train, serve, write, and say what came out."""
    data = load(None, options.seed)
    log, publisher, versions, _ = measure(options, folder, data)
    if not log.windows:
        raise RuntimeError("no request was answered")
    written = write_files(folder, log, publisher.swaps)
    print_summary(log)
    right = {f"v{version + 1}": log.accuracy(version) for version in sorted(log.rights)}
    print("right answers: " + "  ".join(f"{name} {share:.4f}" for name, share in right.items()))
    print("wrote " + ", ".join(str(path) for path in written))
    if log.counts["lost"] or log.counts["mixed"]:
        raise RuntimeError(
            f"{log.counts['lost']} requests were lost, {log.counts['mixed']} answered by a mixture "
            "of versions"
        )
    meet(options, "share of right answers", log.accuracy(len(versions) - 1), at_least=GOAL)


def join(options: argparse.Namespace) -> int:
    """Be one more worker or client of a service; returns the exit status."""
    try:
        if options.role == "worker":
            serve(options.service)
        else:
            ask(options.service, os.getpid())
    except (NotPublishedError, OSError, RuntimeError) as error:
        print(f"inference_server: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parse(arguments)
    if options.role != "all":
        return join(options)
    folder = results_folder(options, "inference-server")
    return run("inference_server", options, folder, lambda: run_program(options, folder))


if __name__ == "__main__":
    sys.exit(main())

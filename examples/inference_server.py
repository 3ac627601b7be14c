"""Serve a model from many processes that attach it by name, and swap it while they answer.

    python examples/inference_server.py                     # two workers, two clients
    python examples/inference_server.py --workers 4 --clients 4 --in-flight 32
    python examples/inference_server.py --max-batch 8 --max-delay-ms 0.5
    python examples/inference_server.py --resume runs/inference-server-…

The program publishes the model once, in a service of shared memory. Every worker attaches it and
computes with the published memory, read-only. Clients put requests into one queue, as handles of
images. A worker takes a batch of waiting requests, waiting no longer than a delay, and answers with
handles of rows of one result. A thread of each worker waits for a newer version and attaches it; a
batch ends with the version it began with.

The program publishes better versions of the model while the clients ask. They check every answer
against its version, so a lost request, or an answer by a mixture of versions, ends the program with
status 1. If a worker dies, another starts, and clients repeat the requests it had taken.

latencies.csv and latencies.png have the 50th, 90th and 99th percentile over time. The last version
answers at least 95 % of the digits correctly.

Source: Crankshaw et al., "Clipper: a low-latency online prediction serving system", 2017 (batches
that wait no longer than a delay).
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any

from common import checkpoints
from common.data import Dataset, load
from common.latency import print_summary, write_files
from common.load import STOP_SERVING, Log, Traffic
from common.models import library
from common.program import (
    above_zero,
    add_run_options,
    meet,
    positive,
    results_folder,
    run,
)
from common.serving import Server, traffic_of

import shmtensor
from shmtensor import multiprocessing, nn, optim
from shmtensor.service import Service

GOAL = 0.95  # of the last version's answers are right
NAME = "digits"
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
    add_run_options(parser)
    options = parser.parse_args(arguments)
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

    def __init__(self, service: str, width: int) -> None:
        self._service = Service(service)
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


def gather(traffic: Traffic) -> list[Any]:
    """Wait for a request, and a little longer for more; at most a batch of them."""
    batch: list[Any] = []
    try:
        batch += traffic.requests.get_many(traffic.max_batch, 0.1)
        ends_at = time.monotonic() + traffic.max_delay_s
        while len(batch) < traffic.max_batch and (left := ends_at - time.monotonic()) > 0:
            batch += traffic.requests.get_many(traffic.max_batch - len(batch), left)
    except Empty:
        pass
    return batch


def serve(traffic: Traffic, open_model: Callable[[], Any], library_name: str) -> None:
    """Be a worker: answer requests until there are orders to stop."""
    core = library(library_name).core
    core.set_num_threads(1)  # the processes share the cores
    followed = open_model()
    orders = traffic.orders.numpy()
    while not orders[STOP_SERVING]:
        batch = gather(traffic)
        if not batch:
            continue
        version, model = followed.current
        with core.no_grad():
            scores = model(core.stack([image for _, _, image in batch])).share_memory_()
        answers: dict[int, list[Any]] = {}
        for (client, number, _), row in zip(batch, scores, strict=True):
            answers.setdefault(client, []).append((number, version, row))
        for client, several in answers.items():
            traffic.replies[client].put_many(several)


class Publisher:
    """Publishes one version after the other, at even distances of the run's time.

    Raises:
        ValueError: Another program publishes in this service.
    """

    def __init__(self, options: argparse.Namespace, versions: list[dict[str, Any]]) -> None:
        self._service = Service(options.service, start=True)
        entry = self._service.list().get(NAME)
        if entry is not None:
            raise ValueError(
                f"the service {options.service!r} is in use: process {entry.pid} publishes in it"
            )
        self._versions, self._seconds = versions, options.seconds
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
    log = Log()
    if options.resume:
        state = checkpoints.read(folder, "inference_server", settings)
        versions = state.pop("versions")
        log.load_state(state)
    else:
        versions = train_versions(options, data)
    publisher = Publisher(options, versions)
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
    nbytes = Service(options.service).info(NAME).nbytes
    print(f"the model's {nbytes / 1e3:.0f} KB are in shared memory once for all workers")
    context = multiprocessing.get_context(options.start_method)
    traffic = traffic_of(options, "shmtensor", context.Queue, *arrays)
    open_model = functools.partial(Follower, options.service, options.width)
    try:
        Server(options, "shmtensor", traffic, serve, open_model, context).run(log, tick)
    finally:
        save()
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


def main(arguments: list[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    options = parse(arguments)
    folder = results_folder(options, "inference-server")
    return run("inference_server", options, folder, lambda: run_program(options, folder))


if __name__ == "__main__":
    sys.exit(main())

"""The inference server on torch, which has no services: queues, and a model in shared memory."""

from __future__ import annotations

import argparse
import dataclasses
import time
from queue import Empty
from typing import Any

import numpy as np
from common import checkpoints
from common.load import Checker, Log
from common.models import library
from common.serving import Jobs, Server

__all__ = ["serve_with_torch"]

STOP_ASKING, STOP_SERVING, N_ORDERS = range(3)
_ASK_AGAIN_S, _GIVE_UP_S = 0.5, 10.0


class _Queue:
    """A queue of torch.multiprocessing that gets and puts several messages at once."""

    def __init__(self, context: Any) -> None:
        self._queue = context.Queue()

    def put(self, message: Any) -> None:
        """Put one message."""
        self._queue.put(message)

    def put_many(self, messages: list[Any]) -> None:
        """Put several messages."""
        for message in messages:
            self._queue.put(message)

    def get_many(self, max_n: int, timeout: float) -> list[Any]:
        """Wait for one message, and return it with those that are there.

        Raises:
            Empty: None came in time.
        """
        taken = [self._queue.get(timeout=timeout)]
        while len(taken) < max_n:
            try:
                taken.append(self._queue.get_nowait())
            except Empty:
                break
        return taken


@dataclasses.dataclass
class _Traffic:
    """What clients and workers share.

    Attributes:
        requests: The queue of ``(client, number, image)``, which all workers read.
        replies: A queue of ``(number, version, scores)`` for each client.
        reports: The queue of what clients have measured, for the parent.
        orders: A shared tensor: whether to stop asking, and serving.
        images: Shared tensor ``(N, 1, H, W)``, what is asked about.
        labels: Array ``(N,)``, what they are.
        expected: Array ``(versions, N, classes)``, what each version answers.
        options: Of the command line.
    """

    requests: Any
    replies: list[Any]
    reports: Any
    orders: Any
    images: Any
    labels: Any
    expected: Any
    options: argparse.Namespace


def _gather(traffic: _Traffic) -> list[Any]:
    """Wait for a request, and a little longer for more; at most a batch of them."""
    most, batch = traffic.options.max_batch, []
    try:
        batch += traffic.requests.get_many(most, 0.1)
        ends_at = time.monotonic() + traffic.options.max_delay_ms / 1e3
        while len(batch) < most and (left := ends_at - time.monotonic()) > 0:
            batch += traffic.requests.get_many(most - len(batch), left)
    except Empty:
        pass
    return batch


def _serve(traffic: _Traffic, model: Any, version: int) -> None:
    """Be a worker: answer requests until there are orders to stop."""
    core = library("torch").core
    core.set_num_threads(1)  # the processes share the cores
    orders = traffic.orders.numpy()
    while not orders[STOP_SERVING]:
        batch = _gather(traffic)
        if not batch:
            continue
        with core.no_grad():
            scores = model(core.stack([image for _, _, image in batch])).share_memory_()
        answers: dict[int, list[Any]] = {}
        for (client, number, _), row in zip(batch, scores, strict=True):
            answers.setdefault(client, []).append((number, version, row))
        for client, several in answers.items():
            traffic.replies[client].put_many(several)


class _Client:
    """Keeps requests open; asks again for those whose worker may be dead."""

    def __init__(self, traffic: _Traffic, rank: int) -> None:
        self._rank, self._traffic = rank, traffic
        self._random = np.random.default_rng((traffic.options.seed, rank))
        self._checker = Checker(traffic.labels, traffic.expected)
        self._open: dict[int, list[Any]] = {}  # image, asked first, asked last
        self._number = 0

    def run(self) -> None:
        """Ask until there are orders to stop and all requests are answered."""
        traffic = self._traffic
        orders, inbox = traffic.orders.numpy(), traffic.replies[self._rank]
        while not orders[STOP_ASKING] or self._open:
            if not orders[STOP_ASKING]:
                self._fill()
            try:
                for answer in inbox.get_many(traffic.options.in_flight, 0.05):
                    self._take(*answer)
            except Empty:
                pass
            if self._checker.is_report_due():
                self._look_for_late()
                traffic.reports.put((self._rank, *self._checker.take_report()))
        traffic.reports.put((self._rank, *self._checker.take_report()))

    def _fill(self) -> None:
        new = []
        for _ in range(self._traffic.options.in_flight - len(self._open)):
            image = int(self._random.integers(len(self._traffic.labels)))
            now = time.monotonic()
            self._open[self._number] = [image, now, now]
            new.append((self._rank, self._number, self._traffic.images[image]))
            self._number += 1
        self._traffic.requests.put_many(new)

    def _take(self, number: int, version: int, scores: Any) -> None:
        request = self._open.pop(number, None)
        if request is not None:  # else it was asked again, and answered twice
            self._checker.answered(request[0], request[1], version, scores.numpy())

    def _look_for_late(self) -> None:
        now = time.monotonic()
        for number, (image, first, last) in list(self._open.items()):
            if now - first > _GIVE_UP_S:
                del self._open[number]
                self._checker.counts["lost"] += 1
            elif now - last > _ASK_AGAIN_S:
                self._open[number][2] = now
                self._checker.counts["asked_again"] += 1
                again = (self._rank, number, self._traffic.images[image])
                self._traffic.requests.put_many([again])


def _ask(traffic: _Traffic, rank: int) -> None:
    _Client(traffic, rank).run()


def serve_with_torch(
    options: argparse.Namespace, model: Any, versions: list[dict[str, Any]], arrays: tuple[Any, ...]
) -> Log:
    """Do the same on torch, with one version of the model.

    Args:
        options: Of the command line.
        model: The model, of torch.
        versions: Parameters of all versions; the last ones are taken.
        arrays: Images, labels and the versions' answers.
    """
    core = library("torch").core
    model.load_state_dict(checkpoints.of_library(versions[-1], core))
    context = library("torch").multiprocessing.get_context(options.start_method)
    images, labels, expected = arrays
    traffic = _Traffic(
        requests=_Queue(context),
        replies=[_Queue(context) for _ in range(options.clients)],
        reports=_Queue(context),
        orders=core.zeros(N_ORDERS, dtype=core.int64).share_memory_(),
        images=core.from_numpy(images).share_memory_(),
        labels=labels,
        expected=expected,
        options=options,
    )

    def take_reports(timeout: float) -> list[Any]:
        try:
            return traffic.reports.get_many(100, timeout)  # type: ignore[no-any-return]
        except Empty:
            return []

    orders = traffic.orders.numpy()
    jobs = Jobs(
        worker=(_serve, traffic, model.share_memory(), len(versions) - 1),
        client=(_ask, traffic),
        take_reports=take_reports,
        stop_asking=lambda: orders.__setitem__(STOP_ASKING, 1),
        stop_serving=lambda: orders.__setitem__(STOP_SERVING, 1),
    )
    log = Log()
    Server(options, "torch", jobs, context).run(log, lambda _: "")
    return log

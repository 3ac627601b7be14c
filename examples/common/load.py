"""Clients that keep an inference server busy, and check every answer.

A client keeps a number of requests open. It asks again for one that is not answered in time, since
the process that had it may be dead, and it drops a second answer. Each answer says which version
of the model it is of; the client compares it with what that version gives, so an answer by a
mixture of versions is found.
"""

from __future__ import annotations

import dataclasses
import time
from queue import Empty
from typing import Any

import numpy as np

import shmtensor

__all__ = ["Log", "Traffic", "ask"]

STOP_ASKING, STOP_SERVING, N_ORDERS = range(3)
# Answers of one version differ in the last digits, as batches have different sizes.
_TOLERANCE = 1e-4
_REPORT_EVERY_S = 0.1
_COUNTS = ("asked_again", "answered_twice", "mixed", "lost")
# Columns of a client's records.
_LATENCY, _VERSION, _IS_RIGHT = range(3)


@dataclasses.dataclass
class Traffic:
    """What the clients and the server share.

    Attributes:
        requests: The queue of ``(client, number, image)``, which all workers read.
        replies: A queue of ``(number, version, scores)`` for each client.
        reports: The queue of what clients have measured, for the parent.
        orders: A shared tensor: whether to stop asking, and serving.
        images: Shared tensor ``(N, 1, H, W)``, what is asked about.
        labels: Array ``(N,)``, what they are.
        expected: Array ``(versions, N, classes)``, what each version answers.
        in_flight: Open requests of each client.
        max_batch: Requests that a worker answers together at most.
        max_delay_s: How long a worker waits for a batch to fill.
        ask_again_s: Seconds after which a request is repeated.
        give_up_s: Seconds after which it counts as lost.
        seed: Decides what is asked.
    """

    requests: Any
    replies: list[Any]
    reports: Any
    orders: Any
    images: Any
    labels: Any
    expected: Any
    in_flight: int
    max_batch: int
    max_delay_s: float
    ask_again_s: float
    give_up_s: float
    seed: int


@dataclasses.dataclass
class _Open:
    """A request without an answer."""

    image: int
    asked_first: float
    asked_last: float


class _Client:
    def __init__(self, rank: int, traffic: Traffic) -> None:
        self._rank, self._traffic = rank, traffic
        self._random = np.random.default_rng((traffic.seed, rank))
        self._open: dict[int, _Open] = {}
        self._number = 0
        self._records: list[tuple[float, float, float]] = []
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._reported_at = time.monotonic()

    def run(self) -> None:
        traffic = self._traffic
        orders, inbox = traffic.orders.numpy(), traffic.replies[self._rank]
        while True:
            if not orders[STOP_ASKING]:
                self._fill()
            elif not self._open:
                break
            try:
                for answer in inbox.get_many(traffic.in_flight, 0.05):
                    self._take(*answer)
            except Empty:
                pass
            now = time.monotonic()
            if now - self._reported_at > _REPORT_EVERY_S:
                self._look_for_late(now)
                self._report(now)
        self._report(time.monotonic())

    def _fill(self) -> None:
        new = []
        for _ in range(self._traffic.in_flight - len(self._open)):
            image = int(self._random.integers(len(self._traffic.labels)))
            now = time.monotonic()
            self._open[self._number] = _Open(image, now, now)
            new.append((self._rank, self._number, self._traffic.images[image]))
            self._number += 1
        self._traffic.requests.put_many(new)

    def _take(self, number: int, version: int, scores: Any) -> None:
        request = self._open.pop(number, None)
        if request is None:
            self._counts["answered_twice"] += 1
            return
        got, expected = scores.numpy(), self._traffic.expected[version][request.image]
        scale = max(1.0, float(np.abs(expected).max()))
        self._counts["mixed"] += bool(np.abs(got - expected).max() > _TOLERANCE * scale)
        is_right = got.argmax() == self._traffic.labels[request.image]
        self._records.append((time.monotonic() - request.asked_first, version, float(is_right)))

    def _look_for_late(self, now: float) -> None:
        for number, request in list(self._open.items()):
            if now - request.asked_first > self._traffic.give_up_s:
                del self._open[number]
                self._counts["lost"] += 1
            elif now - request.asked_last > self._traffic.ask_again_s:
                request.asked_last = now
                self._counts["asked_again"] += 1
                image = self._traffic.images[request.image]
                self._traffic.requests.put_many([(self._rank, number, image)])

    def _report(self, now: float) -> None:
        records = np.array(self._records, dtype=np.float32).reshape(-1, 3)
        self._traffic.reports.put((self._rank, records, self._counts))
        self._records, self._counts = [], dict.fromkeys(_COUNTS, 0)
        self._reported_at = now


def ask(rank: int, traffic: Traffic) -> None:
    """Be client *rank* until there are orders to stop and all requests are answered."""
    _Client(rank, traffic).run()


class Log:
    """What all clients have measured.

    Attributes:
        windows: A row for each tenth of a second; see `COLUMNS`.
        latencies: Seconds from the first asking to the answer, of all requests.
        counts: Requests asked again, answered twice, answered by a mixture of versions, lost.
        by_client: Answers that each client has got.
        rights: For each version its answers and the right ones among them.
    """

    COLUMNS = ("seconds", "answers", "p50_ms", "p90_ms", "p99_ms", "accuracy", "version")

    def __init__(self) -> None:
        self.windows: list[list[float]] = []
        self.latencies: list[Any] = []
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.by_client: dict[int, int] = {}
        self.rights: dict[int, list[int]] = {}
        self.seconds = 0.0
        self._new: list[Any] = []

    def add(self, client: int, records: Any, counts: dict[str, int]) -> None:
        """Take a report."""
        for name, n in counts.items():
            self.counts[name] += n
        self.by_client[client] = self.by_client.get(client, 0) + len(records)
        self.latencies.append(records[:, _LATENCY])
        self._new.append(records)
        for version in np.unique(records[:, _VERSION]).astype(int).tolist():
            of_it = records[records[:, _VERSION] == version]
            answers = self.rights.setdefault(version, [0, 0])
            answers[0] += len(of_it)
            answers[1] += int(of_it[:, _IS_RIGHT].sum())

    def end_window(self, seconds: float) -> None:
        """Add a row of what came since the last one; *seconds* is the time now."""
        self.seconds = seconds
        records = np.concatenate(self._new) if self._new else np.empty((0, 3))
        if not len(records):
            return
        self._new = []
        percentiles = np.percentile(records[:, _LATENCY] * 1e3, [50, 90, 99]).tolist()
        accuracy = float(records[:, _IS_RIGHT].mean())
        version = float(records[:, _VERSION].max())
        self.windows.append([seconds, len(records), *percentiles, accuracy, version])

    @property
    def n_answers(self) -> int:
        """Of all clients and versions."""
        return sum(answers for answers, _ in self.rights.values())

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.n_answers / self.seconds if self.seconds else 0.0

    def percentiles_ms(self) -> list[float]:
        """Latencies that 50, 90 and 99 % of the requests stay below."""
        if not self.n_answers:
            return [float("nan")] * 3
        return [float(p) for p in np.percentile(np.concatenate(self.latencies) * 1e3, [50, 90, 99])]

    def accuracy(self, version: int) -> float:
        """Share of a version's answers that are right."""
        answers, right = self.rights.get(version, (0, 0))
        return right / answers if answers else float("nan")

    def state(self) -> dict[str, Any]:
        """Everything, as a checkpoint takes it."""
        return {
            "windows": self.windows,
            "latencies": shmtensor.from_numpy(
                np.concatenate(self.latencies or [np.empty(0, np.float32)])
            ),
            "counts": self.counts,
            "rights": [[version, *counts] for version, counts in self.rights.items()],
            "seconds": self.seconds,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` has returned."""
        self.windows, self.seconds = state["windows"], state["seconds"]
        self.latencies = [state["latencies"].numpy()]
        self.counts = state["counts"]
        self.rights = {version: [n, right] for version, n, right in state["rights"]}

"""What the clients of an inference server measure, and how they check every answer.

Each answer says which version of the model it is of. The client compares it with what that version
gives, so an answer by a mixture of versions is found.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import shmtensor

__all__ = ["Checker", "Log"]

# Answers of one version differ in the last digits, as batches have different sizes.
_TOLERANCE = 1e-4
_REPORT_EVERY_S = 0.1
_COUNTS = ("asked_again", "mixed", "lost")
# Columns of a client's records.
_LATENCY, _VERSION, _IS_RIGHT = range(3)


class Checker:
    """In a client: checks answers, and measures.

    Args:
        labels: Array ``(N,)``, what the images are.
        expected: Array ``(versions, N, classes)``, what each version answers.

    Attributes:
        counts: Requests asked again, answered by a mixture of versions, lost.
    """

    def __init__(self, labels: Any, expected: Any) -> None:
        self._labels, self._expected = labels, expected
        self._records: list[tuple[float, float, float]] = []
        self.counts = dict.fromkeys(_COUNTS, 0)
        self._reported_at = time.monotonic()

    def answered(self, image: int, asked_at: float, version: int, scores: Any) -> None:
        """Check an answer about an image: *scores* is an array ``(classes,)``."""
        expected = self._expected[version][image]
        scale = max(1.0, float(np.abs(expected).max()))
        self.counts["mixed"] += bool(np.abs(scores - expected).max() > _TOLERANCE * scale)
        is_right = scores.argmax() == self._labels[image]
        self._records.append((time.monotonic() - asked_at, version, float(is_right)))

    def is_report_due(self) -> bool:
        """Whether the last report was a while ago."""
        return time.monotonic() - self._reported_at > _REPORT_EVERY_S

    def take_report(self) -> tuple[Any, dict[str, int]]:
        """Return what `Log.add` takes: all since the last report."""
        records = np.array(self._records, dtype=np.float32).reshape(-1, 3)
        counts, self.counts = self.counts, dict.fromkeys(_COUNTS, 0)
        self._records = []
        self._reported_at = time.monotonic()
        return records, counts


class Log:
    """What all clients have measured.

    Attributes:
        windows: A row for each tenth of a second; see `COLUMNS`.
        latencies: Seconds from the first asking to the answer, of all requests.
        counts: Requests asked again, answered by a mixture of versions, lost.
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

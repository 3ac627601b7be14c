"""The curve of a run as it grows: its points, and the metrics that belong to them."""

from __future__ import annotations

import bisect
import dataclasses
import operator
from collections.abc import Iterable
from typing import Any

from shmtensor.hogwild._result import Point
from shmtensor.hogwild._types import Metrics

__all__ = ["Curve"]

_POINTS_PER_RUN = 500


class Curve:
    """Points in the order of their times.

    Args:
        shortest_pause: Seconds between two points at least; more in a long run.

    Attributes:
        points: As `Result.points` has them.
        metrics: The latest ones.
    """

    def __init__(self, shortest_pause: float) -> None:
        self._shortest_pause = shortest_pause
        self.points: list[Point] = []
        self.metrics: Metrics = {}

    def restore(self, rows: Iterable[Any]) -> None:
        """Go on from the points that `rows` returned."""
        self.points = [Point(*row) for row in rows]
        if self.points:
            self.metrics = self.points[-1].metrics

    def rows(self) -> list[list[Any]]:
        """All points, as lists of their fields."""
        return [[p.seconds, p.steps, p.loss, p.metrics] for p in self.points]

    def pause(self, seconds: float) -> float:
        """Seconds between two points, at this time of the run."""
        return max(self._shortest_pause, seconds / _POINTS_PER_RUN)

    def add(self, point: Point) -> None:
        """Add a point, unless the last one is of nearly the same time."""
        is_due = not self.points or (
            point.seconds >= self.points[-1].seconds + self.pause(point.seconds)
        )
        if is_due:
            self.points.append(point)

    def end(self, point: Point) -> None:
        """Add the last point, in place of any that is not before it."""
        while self.points and self.points[-1].seconds >= point.seconds:
            self.points.pop()
        self.points.append(point)

    def add_metrics(self, point: Point, metrics: Metrics) -> None:
        """The model was measured as it was at *point*: it and all later points have *metrics*."""
        self.metrics = metrics
        measured = dataclasses.replace(point, metrics=metrics)
        # The curve went on while the snapshot was measured: the point itself, if it was added, and
        # those since had older metrics.
        key = operator.attrgetter("seconds")
        begin = bisect.bisect_left(self.points, point.seconds, key=key)
        end = bisect.bisect_right(self.points, point.seconds, key=key)
        since = [dataclasses.replace(p, metrics=metrics) for p in self.points[end:]]
        self.points[begin:] = [measured, *since]

"""Measuring snapshots of the model while the workers train: the process that does it, and when."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, SupportsFloat

import shmtensor
from shmtensor import Tensor
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor._core._waits import LONGEST_S
from shmtensor.hogwild._curve import Curve
from shmtensor.hogwild._result import Point
from shmtensor.hogwild._types import Evaluate, Metrics, ModelT
from shmtensor.multiprocessing._children import Child, kill_all
from shmtensor.multiprocessing._exit_status import in_words
from shmtensor.multiprocessing._lifeline import end_with_parent
from shmtensor.multiprocessing.context import BaseContext

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["Evaluations", "Evaluator"]

#: The pause between two evaluations, in times of how long one takes.
_PAUSE_OF_EVALUATION = 4.0


def _metrics_of(found: SupportsFloat | Mapping[str, SupportsFloat]) -> Metrics:
    if isinstance(found, Mapping):
        return {str(name): float(value) for name, value in found.items()}
    return {"score": float(found)}


def _evaluate(
    make_model: Callable[[], ModelT],
    evaluate: Evaluate[ModelT],
    state: dict[str, Tensor],
    requests: Connection[None, bool],
    answers: Connection[Metrics, None],
) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shmtensor.set_num_threads(1)
    model = make_model()
    model.load_state_dict(state, assign=True)
    while requests.recv() is not None:
        with shmtensor.no_grad():
            answers.send(_metrics_of(evaluate(model.eval())))


class Evaluator(Generic[ModelT]):
    """A process that calls ``evaluate(model)`` on a copy of the model.

    The copy is in shared memory. The parent writes it while the process waits, and the process
    reads it while it works, so the parent sends only the word to begin.

    Args:
        context: Of the package's multiprocessing.
        make_model: Makes a model like the trained one.
        evaluate: Returns a number, or a dictionary of them.
        model: The trained model.
    """

    def __init__(
        self,
        context: BaseContext,
        make_model: Callable[[], ModelT],
        evaluate: Evaluate[ModelT],
        model: ModelT,
    ) -> None:
        self.state: dict[str, Tensor] = {
            name: shmtensor.empty_like(tensor, shared=True)
            for name, tensor in model.state_dict().items()
        }
        requests, self._requests = context.Pipe(duplex=False)
        self._answers, answers = context.Pipe(duplex=False)
        self._child = Child(
            context.Process(
                target=_evaluate,
                args=(make_model, evaluate, self.state, requests, answers),
                name="hogwild-evaluation",
                daemon=True,
            )
        )
        self.is_busy = False
        self._child.start()
        # So that a pipe breaks when the process ends.
        requests.close()
        answers.close()

    def begin(self) -> None:
        """Let it measure the present contents of `state`."""
        try:
            self._requests.send(True)
            self.is_busy = True
        except OSError as error:  # it has ended; `result` says so
            raise_of_handler(error)
            self.is_busy = True

    def result(self, timeout: float) -> Metrics | None:
        """Wait for its result; None if that takes longer.

        Raises:
            RuntimeError: The process has ended.
        """
        try:
            if not self._answers.poll(min(timeout, LONGEST_S)):
                return None
            metrics: Metrics = self._answers.recv()
        except (EOFError, OSError) as error:
            raise_of_handler(error)
            self._child.wait()
            how = in_words(self._child.status())
            raise RuntimeError(f"hogwild.run(): the evaluation {how}") from None
        self.is_busy = False
        return metrics

    def end(self) -> None:
        """End the process, whatever it does."""
        kill_all([self._child])
        self._requests.close()
        self._answers.close()


class Evaluations(Generic[ModelT]):
    """When snapshots are taken and measured, and where the metrics go.

    Args:
        evaluator: Measures them; the caller ends it.
        every: Seconds between two at least; more where one takes long.
        curve: Gets the metrics.
        snapshot: Copies the model's state into tensors, by their names.
    """

    def __init__(
        self,
        evaluator: Evaluator[ModelT],
        every: float,
        curve: Curve,
        snapshot: Callable[[dict[str, Tensor]], None],
    ) -> None:
        self._evaluator = evaluator
        self._every = every
        self._curve = curve
        self._snapshot = snapshot
        self._point: Point | None = None  # of the snapshot that is measured
        self._began = self._ended = 0.0
        self._took = 0.0  # seconds, for the latest one

    def look_after(self, point: Point) -> None:
        """Take the metrics that are ready, or begin an evaluation, at *point*, when it is due."""
        pause = max(self._every, _PAUSE_OF_EVALUATION * self._took)
        if self._evaluator.is_busy:
            self._take(0.0)
        elif time.monotonic() - self._ended >= pause:
            self._begin(point)

    def measure(self, point: Point) -> None:
        """Measure the model as it is now, at *point*, and wait for the result."""
        self._begin(point)
        self.finish()

    def finish(self) -> None:
        """Wait for the metrics of a snapshot that is being measured, if there is one."""
        while self._evaluator.is_busy:
            self._take(1.0)

    def _begin(self, point: Point) -> None:
        self._snapshot(self._evaluator.state)
        self._began = time.monotonic()
        self._point = point
        self._evaluator.begin()

    def _take(self, timeout: float) -> None:
        metrics = self._evaluator.result(timeout)
        if metrics is None:
            return
        assert self._point is not None
        self._ended = time.monotonic()
        self._took = self._ended - self._began
        self._curve.add_metrics(self._point, metrics)

"""The process that measures snapshots of the model while the workers train."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import shmtensor
from shmtensor import nn
from shmtensor._core._waits import LONGEST_S
from shmtensor.multiprocessing._children import Child, kill_all
from shmtensor.multiprocessing._exit_status import in_words
from shmtensor.multiprocessing._lifeline import end_with_parent

__all__ = ["Evaluator"]

Metrics = dict[str, float]


def _metrics_of(found: SupportsFloat | Mapping[str, SupportsFloat]) -> Metrics:
    if isinstance(found, Mapping):
        return {str(name): float(value) for name, value in found.items()}
    return {"score": float(found)}


def _evaluate(
    make_model: Callable[[], nn.Module],
    evaluate: Callable[[Any], SupportsFloat | Mapping[str, SupportsFloat]],
    state: dict[str, Any],
    requests: Any,
    answers: Any,
) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shmtensor.set_num_threads(1)
    model = make_model()
    model.load_state_dict(state, assign=True)
    while requests.recv() is not None:
        with shmtensor.no_grad():
            answers.send(_metrics_of(evaluate(model.eval())))


class Evaluator:
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
        context: Any,
        make_model: Callable[[], nn.Module],
        evaluate: Callable[[Any], SupportsFloat | Mapping[str, SupportsFloat]],
        model: nn.Module,
    ) -> None:
        self.state: dict[str, Any] = {
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
        except OSError:  # it has ended; `result` says so
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
        except (EOFError, OSError):
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

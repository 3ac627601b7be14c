"""The inference server on torch: its queues, and a model in its shared memory."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from queue import Empty
from typing import Any

from common import checkpoints
from common.load import Log
from common.models import library
from common.serving import Server, traffic_of

__all__ = ["serve_with_torch"]


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


class _SharedModel:
    """The one version that torch's workers serve: its parameters lie in shared memory."""

    def __init__(self, model: Any, version: int) -> None:
        self.current = (version, model.share_memory())

    def open(self) -> _SharedModel:
        """In a worker: nothing is to be opened."""
        return self


def serve_with_torch(
    options: argparse.Namespace,
    serve: Callable[..., None],
    model: Any,
    versions: list[dict[str, Any]],
    arrays: tuple[Any, ...],
) -> Log:
    """Do the same on torch, with one version of the model.

    Args:
        options: Of the command line.
        serve: What a worker does.
        model: The model, of torch.
        versions: Parameters of all versions; the last ones are taken.
        arrays: Images, labels and the versions' answers.
    """
    state = checkpoints.of_library(versions[-1], library("torch").core)
    model.load_state_dict(state)
    context = library("torch").multiprocessing.get_context(options.start_method)
    traffic = traffic_of(options, "torch", functools.partial(_Queue, context), *arrays)
    log = Log()
    shared = _SharedModel(model, len(versions) - 1)
    Server(options, "torch", traffic, serve, shared.open, context).run(log, lambda _: "")
    return log

"""Hogwild: several processes train one model in shared memory, without locks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import SupportsFloat, TypeVar

from shmtensor import Tensor, multiprocessing, nn, optim
from shmtensor.errors import ShmTensorWarning
from shmtensor.hogwild._arguments import check_word, integer, number
from shmtensor.hogwild._data import MapDataset, Shards
from shmtensor.hogwild._evaluation import Evaluator
from shmtensor.hogwild._global_store import NodeLostError
from shmtensor.hogwild._nodes import Nodes
from shmtensor.hogwild._parent import Parent
from shmtensor.hogwild._result import Result
from shmtensor.hogwild._types import Evaluate, ModelT
from shmtensor.hogwild._view import VIEWS, make_view
from shmtensor.hogwild._worker import Worker
from shmtensor.hogwild._workers import POLICIES

__all__ = ["run"]

_CALL = "hogwild.run()"
_NO_LIMIT = 2**62

_Batch = TypeVar("_Batch")


def _sgd(parameters: Iterator[nn.Parameter]) -> optim.Optimizer:
    return optim.SGD(parameters, lr=0.05, momentum=0.9)


def run(
    make_model: Callable[[], ModelT],
    train_step: Callable[[Worker[ModelT], _Batch], SupportsFloat],
    data: Tensor | tuple[Tensor, ...] | MapDataset | Callable[[Worker[ModelT]], Iterable[_Batch]],
    workers: int = 2,
    *,
    make_optimizer: Callable[[Iterator[nn.Parameter]], optim.Optimizer] = _sgd,
    shared_optimizer: bool = False,
    batch_size: int = 32,
    epochs: float | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    evaluate: Evaluate[ModelT] | None = None,
    evaluate_every: float = 0.0,
    folder: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
    resume: bool = True,
    on_failure: str = "continue",
    max_restarts: int = 3,
    seed: int = 0,
    start_method: str | None = None,
    threads: int = 1,
    view: str = "auto",
    title: str = "hogwild",
    nodes: Nodes | None = None,
) -> Result[ModelT]:
    """Train one model with several processes that change its parameters without locks.

    The parameters are in shared memory. Every worker reads them, takes a gradient on its own batch
    and changes them in place, while the others do the same. The calling process watches the
    workers, saves checkpoints and shows the progress; it returns when all workers have ended.

    Args:
        make_model: Makes the model; called here, and in the process that evaluates.
        train_step: ``train_step(worker, batch)`` returns the loss of a batch. If the loss has a
            graph, `run` computes its gradients and ``worker.optimizer`` makes a step. Otherwise the
            function has done that itself, and made all changes that are not the optimizer's inside
            ``with worker.update():``.
        data: A tensor or a tuple of tensors with the same first dimension, which go into shared
            memory; a map-style dataset; or ``data(worker)`` that returns an iterable of batches
            from ``worker.step`` on. The workers share each epoch's samples.
        workers: Processes.
        make_optimizer: Makes an optimizer for the model's parameters; SGD with ``lr=0.05`` and
            ``momentum=0.9`` by default.
        shared_optimizer: One optimizer with one state for all workers, instead of one for each.
        batch_size: Samples in a batch.
        epochs: Passes over the data, of all workers together; ``inf``: until *seconds* are over, or
            Ctrl-C.
        steps: Steps of each worker, instead of epochs.
        seconds: End after this time, between two steps; alone, or as a further limit.
        evaluate: ``evaluate(model)`` returns a number or a dictionary of numbers. It runs in its
            own process, on snapshots of the model.
        evaluate_every: Seconds from one evaluation to the next, at least; together they take at
            most a fifth of the time. ``inf`` measures only the final model.
        folder: Where to write checkpoints and the curve (``curve.csv``); None: nowhere.
        checkpoint_every: Seconds between checkpoints; ``inf`` writes only the last one.
        resume: Continue from the checkpoint in *folder* if there is one.
        on_failure: What to do when a worker dies: "continue" without it, "restart" it where it was,
            or "stop" all and raise RuntimeError.
        max_restarts: How often to start each worker again.
        seed: Decides the order of the data and the workers' generators. (Steps of different workers
            meet as they happen to, so two runs are not equal to the last digit.)
        start_method: "fork", "spawn" or "forkserver"; None: the default one.
        threads: Threads of each worker.
        view: "table" (with rich), "plain", "none", or "auto".
        title: Of the table.
        nodes: The machines that train together; each has its own workers and *folder*, and takes
            its share of each epoch's samples. They exchange floating-point parameters and buffers;
            at the end all nodes have the same ones. None: this machine alone.

    Returns:
        The curve, the workers and the model.

    Raises:
        ValueError: An argument is out of its range, or the checkpoint is of another run.
        TypeError: *data* is none of the above, *make_model* is a module, or a number is none.
        KeyboardInterrupt: Ctrl-C; a checkpoint is in *folder* then, and the text says so.
        RuntimeError: All workers died, or one with ``on_failure="stop"``; the evaluation died; the
            nodes could not begin.
        NodeLostError: A node is lost, and *nodes* have ``on_lost="stop"``.

    Source:
        Niu, Recht, Re, Wright, "Hogwild!: a lock-free approach to parallelizing stochastic gradient
        descent", 2011.
    """
    workers = integer(_CALL, "workers", workers, least=1)
    batch_size = integer(_CALL, "batch_size", batch_size, least=1)
    threads = integer(_CALL, "threads", threads, least=1)
    max_restarts = integer(_CALL, "max_restarts", max_restarts, least=0)
    seed = integer(_CALL, "seed", seed)
    if epochs is not None:
        epochs = number(_CALL, "epochs", epochs)
    if steps is not None:
        steps = integer(_CALL, "steps", steps, above=0)
    if seconds is not None:
        seconds = number(_CALL, "seconds", seconds)
    evaluate_every = number(_CALL, "evaluate_every", evaluate_every, may_be_0=True)
    checkpoint_every = number(_CALL, "checkpoint_every", checkpoint_every, may_be_0=True)
    check_word(_CALL, "on_failure", on_failure, POLICIES)
    check_word(_CALL, "view", view, VIEWS)
    if epochs is not None and steps is not None:
        raise ValueError(f"{_CALL}: give epochs or steps, not both")
    if epochs is None and steps is None and seconds is None:
        raise ValueError(f"{_CALL}: give one of epochs, steps and seconds")
    _warn_of_many(workers)
    if isinstance(make_model, nn.Module):
        raise TypeError(
            f"{_CALL}: make_model must be a function that returns a module, got a "
            f"{type(make_model).__name__} itself"
        )
    if nodes is None:
        shards = Shards(data, batch_size, workers, seed)
    else:
        shards = Shards(data, batch_size, workers, seed, nodes.node, nodes.n_nodes)
    context = multiprocessing.get_context(start_method)
    parent = Parent(
        context=context,
        model=make_model().share_memory(),
        shards=shards,
        n_steps=_steps_of(shards, epochs, steps),
        on_failure=on_failure,
        max_restarts=max_restarts,
        folder=None if folder is None else Path(folder),
        checkpoint_every=checkpoint_every,
        nodes=nodes,
    )
    parent.prepare(train_step, make_optimizer, shared_optimizer, seconds, threads)
    if resume:
        parent.resume()
    try:
        if nodes is not None:
            nodes.begin(_exchanged(parent.model), parent.board)
        parent.start()
        if evaluate is not None:
            evaluator = Evaluator(context, make_model, evaluate, parent.model)
            parent.evaluate_with(evaluator, evaluate_every)
        shown = make_view(view, title, parent.n_steps if parent.n_steps < _NO_LIMIT else None)
        try:
            parent.watch(shown)
            result = parent.finish()
            shown.show(result.workers, result.points[-1], now=True)
        except (KeyboardInterrupt, NodeLostError) as error:
            parent.break_off(error)
            raise
        finally:
            shown.end()
        return result
    finally:
        parent.end()


def _warn_of_many(workers: int) -> None:
    n_cores = len(os.sched_getaffinity(0))
    if workers > n_cores:
        warnings.warn(
            f"{_CALL}: {workers} workers for {n_cores} processors will wait for each other",
            ShmTensorWarning,
            stacklevel=3,
        )


def _steps_of(shards: Shards, epochs: float | None, steps: int | None) -> int:
    if steps is not None:
        return min(steps, _NO_LIMIT)
    if epochs is None:
        return _NO_LIMIT
    per_epoch = shards.steps_per_epoch
    if per_epoch is None:
        raise ValueError(f"{_CALL}: data(worker) has no epochs; give steps or seconds")
    n_steps = per_epoch * epochs
    return max(1, round(n_steps)) if n_steps < _NO_LIMIT else _NO_LIMIT


def _exchanged(model: nn.Module) -> list[Tensor]:
    """What nodes exchange of a model: its integers, as counts of batches, stay with each."""
    return [tensor for tensor in model.state_dict().values() if tensor.is_floating_point()]

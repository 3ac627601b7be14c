"""The same training with torch: its shared memory, its processes, the same steps."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

from common.data import Dataset
from common.models import build, library
from shmtensor.hogwild import Point

# Columns of the board, on which each worker has a row.
STEPS, LOSS, READY, N_COLUMNS = 0, 1, 2, 3


@dataclass(frozen=True)
class Result:
    """What a run gave."""

    points: list[Point]
    steps: int
    seconds: float


def _work(
    rank: int, options: argparse.Namespace, n_steps: int, model: Any, data: Any, board: Any
) -> None:
    lib = library("torch")
    images, labels = data
    generator = lib.core.Generator()
    optimizer = lib.optim.SGD(model.parameters(), lr=options.lr, momentum=options.momentum)
    at, order, average = len(labels), None, 0.0
    board[rank, READY] = 1
    while board[:, READY].sum() < options.workers:
        time.sleep(1e-4)
    for step in range(1, n_steps + 1):
        if at >= len(labels):
            generator.manual_seed(options.seed * 1_000_003 + step)
            order = lib.core.randperm(len(labels), generator=generator)[rank :: options.workers]
            at = 0
        chosen = order[at : at + options.batch]
        at += options.batch
        optimizer.zero_grad()
        loss = lib.nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        average += (0.05 if step > 1 else 1.0) * (loss.item() - average)
        board[rank, LOSS] = average
        board[rank, STEPS] = step


def _measured(lib: Any, model: Any, images: Any, labels: Any) -> dict[str, float]:
    with lib.core.no_grad():
        scores = model(images)
        loss = lib.nn.functional.cross_entropy(scores, labels).item()
    return {
        "accuracy": (scores.argmax(1) == labels).sum().item() / len(labels),
        "held-out loss": loss,
    }


def train(options: argparse.Namespace, data: Dataset) -> Result:
    """Train for as many steps as shmtensor's workers take."""
    lib = library("torch")
    lib.core.manual_seed(options.seed)
    model = build(lib.name, options.model, data.image_shape, data.n_classes).share_memory()
    tensors = [lib.core.from_numpy(a).share_memory_() for a in (data.train_x, data.train_y)]
    held_out = lib.core.from_numpy(data.test_x), lib.core.from_numpy(data.test_y)
    board = lib.core.zeros(options.workers, N_COLUMNS, dtype=lib.core.float64).share_memory_()
    per_worker = -(-len(data.train_y) // options.workers)
    n_steps = max(1, round(-(-per_worker // options.batch) * options.epochs))
    context = lib.multiprocessing.get_context(options.start_method)
    processes = [
        context.Process(
            target=_work, args=(rank, options, n_steps, model, tensors, board), daemon=True
        )
        for rank in range(options.workers)
    ]
    for process in processes:
        process.start()
    points: list[Point] = []
    while board[:, READY].sum() < options.workers and all(p.is_alive() for p in processes):
        time.sleep(1e-4)
    began = ended = time.monotonic()
    while any(process.is_alive() for process in processes):
        if options.seconds is not None and time.monotonic() - began > options.seconds:
            break
        points.append(_point(lib, model, held_out, board, began))
        processes[0].join(max(0.02, points[-1].seconds / 100))
        ended = time.monotonic()
    for process in processes:
        process.kill()
        process.join()
    points.append(_point(lib, model, held_out, board, began))
    return Result(points, int(board[:, STEPS].sum()), ended - began)


def _point(lib: Any, model: Any, held_out: Any, board: Any, began: float) -> Point:
    metrics = _measured(lib, model, *held_out)
    return Point(
        time.monotonic() - began, int(board[:, STEPS].sum()), board[:, LOSS].mean().item(), metrics
    )
